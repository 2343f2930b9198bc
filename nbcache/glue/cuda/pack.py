"""What numba-cuda compiled, as sections of an entry."""

from __future__ import annotations

import hashlib
from typing import Any

from nbcache.capabilities import spelt
from nbcache.glue.capture import diagnostics
from nbcache.glue.capture.compilations import Frame
from nbcache.glue.cuda import linked_files
from nbcache.glue.cuda.cubin import resources
from nbcache.glue.cuda.device_past import Births
from nbcache.glue.cuda.library import packed_texts
from nbcache.glue.cuda.meta import CUDA_META_VERSION, DeviceMeta, Exceptions, KernelMeta
from nbcache.glue.cuda.toolkit import cudadevrt
from nbcache.glue.cuda.units import CudaUnit
from nbcache.glue.entries.meta import Asked, Packed
from nbcache.glue.entries.pack import definitions_in, encoded, look_again
from nbcache.glue.entries.pickling import dumps
from nbcache.glue.entries.verdicts import Unstorable
from nbcache.glue.identity.node import Unidentifiable
from nbcache.passing_exceptions import let_pass

_NOTHING_ASKED = Asked(b"", {}, b"")


def pack_kernel(unit: CudaUnit, frame: Frame, kernel: Any, births: Births) -> Packed:
    """Turn a kernel that was just compiled and bound into an entry's sections.  Raises Unstorable."""
    if getattr(kernel, "launch_config_sensitive", False):
        raise Unstorable("its code depends on the configuration that it was launched with")
    library = kernel._codelibrary
    cubin = library._cubin_cache.get(unit.cc)
    if cubin is None or len(library._cubin_cache) != 1:
        raise Unstorable("it was linked for another device than it was compiled for")
    exceptions = _exceptions_of(kernel.call_helper) if kernel.debug else ()
    meta = _meta_of(unit, frame, library, births, return_type=kernel.signature.return_type, exceptions=exceptions)
    code = bytes(cubin.code)
    needs = resources(code, meta.entry_name or "")
    extra: dict[str, object] = {"cc": spelt(unit.cc), "cubin": len(code)}
    if needs is not None:
        extra.update(registers=needs.registers, shared=needs.shared)
    sections = {"nvvm": packed_texts(library.llvm_strs)}
    ptx = library._ptx_cache.get(unit.cc)
    if ptx is not None:
        sections["ptx"] = packed_texts(ptx)
    return _packed(unit, frame, meta, code, sections, extra)


def pack_code(unit: CudaUnit, frame: Frame, library: Any, cc: Any, return_type: Any, births: Births) -> Packed:
    """The same of what ``cuda.compile`` and its like return.  Raises Unstorable."""
    if library._linking_files:
        raise Unstorable("it is passed on together with the files that it links")
    meta = _meta_of(unit, frame, library, births, return_type=return_type)._replace(cc=cc)
    sections = {"nvvm": packed_texts(library.llvm_strs)}
    if cc in library._ptx_cache:
        sections["ptx"] = packed_texts(library._ptx_cache[cc])
    if cc in library._ltoir_cache:
        sections["ltoir"] = bytes(library._ltoir_cache[cc])
    return _packed(unit, frame, meta, b"", sections, {"cc": spelt(unit.cc)})


def pack_device(unit: CudaUnit, frame: Frame, cres: Any, births: Births) -> Packed:
    """The same of a device function, of which nothing but its return type is kept.  Raises Unstorable."""
    _verify(unit, frame, births)
    meta = DeviceMeta(cres.signature.return_type, diagnostics.pack(frame))
    return _packed(unit, frame, meta, b"", {}, {"cc": spelt(unit.cc)})


def _meta_of(
    unit: CudaUnit, frame: Frame, library: Any, births: Births, *, return_type: Any, exceptions: Exceptions = ()
) -> KernelMeta:
    _verify(unit, frame, births)
    if library.referenced_objects:
        raise Unstorable("it refers to an array on the device that is a global or captured")
    if linked_files.calls_others(library):
        raise Unstorable("it links code with something that is called when it is loaded or unloaded")
    return KernelMeta(
        cc=unit.cc,
        name=library.name,
        entry_name=library._entry_name,
        return_type=return_type,
        use_cooperative=bool(library.use_cooperative),
        needs_cudadevrt=bool(library.needs_cudadevrt),
        max_registers=library._max_registers,
        lto=bool(library._lto),
        nvvm_options=tuple(library._nvvm_options.items()),
        linker_info=library._linkerinfo_cache.get(unit.cc, ""),
        exceptions=exceptions,
        headers=linked_files.headers_identity() if linked_files.verify(unit, library) else "",
        cudadevrt=cudadevrt() if library.needs_cudadevrt else "",
        caveats=diagnostics.pack(frame),
    )


def _verify(unit: CudaUnit, frame: Frame, births: Births) -> None:
    """See that what was compiled is what its key says.  Raises Unstorable."""
    if frame.consulted.conflict:
        raise Unstorable(frame.refusal)
    try:
        look_again(unit)
        if unit.surroundings_changed():
            raise Unstorable("what it depends on changed while it was compiled")
        reason = frame.taint or births.objection(unit)
        if unit.ends:  # an entry for a GPU doesn't say what ran
            reason = reason or "code of installed packages that could run while it is compiled"
    except Unidentifiable as exc:
        raise Unstorable(str(exc)) from exc
    if reason:
        raise Unstorable(reason)


def _exceptions_of(helper: Any) -> Exceptions:
    return tuple((code, *raised) for code, raised in helper.exceptions.items())


def _packed(
    unit: CudaUnit, frame: Frame, meta: KernelMeta | DeviceMeta, code: bytes, sections: dict[str, bytes],
    extra: dict[str, object],
) -> Packed:  # fmt: skip
    try:
        data = dumps((CUDA_META_VERSION, tuple(meta)), frame)
    except Exception as exc:
        let_pass(exc)
        raise Unstorable(f"it can't be written down ({type(exc).__name__}: {exc})") from exc
    if frame.taint:
        raise Unstorable(frame.taint)
    definitions = definitions_in(data, b"", unit)
    sections = {**encoded(unit, code, data, definitions, _NOTHING_ASKED), **sections}
    return Packed(sections, guard_of(definitions, meta), strict=False, extra=extra)


def guard_of(definitions: dict[str, Any], meta: KernelMeta | DeviceMeta) -> str:
    """The same for two builds that may stand in for one another wherever one of them may be used."""
    told = sorted(map(repr, definitions.values()))
    if isinstance(meta, KernelMeta):
        told += [meta.headers, meta.cudadevrt]
    if not any(told):
        return ""
    return hashlib.blake2b("\n".join(told).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
