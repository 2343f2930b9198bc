"""What numba-cuda would have compiled, out of the sections of an entry. No compiler and no linker takes part."""

from __future__ import annotations

from typing import Any

from numba.cuda import dispatcher as dispatchers
from numba.cuda import typing
from numba.cuda.core.callconv import CUDACallConv

from nbcache.glue.cuda.device_past import Births
from nbcache.glue.cuda.library import StoredCodeLibrary
from nbcache.glue.cuda.meta import CUDA_META_VERSION, DeviceMeta, KernelMeta
from nbcache.glue.cuda.toolkit import cudadevrt
from nbcache.glue.cuda.units import CudaUnit
from nbcache.glue.entries.load import open_entry
from nbcache.glue.entries.meta import Read
from nbcache.glue.entries.verdicts import Unloadable

Caveats = list[tuple[Any, ...]]


def kernel(unit: CudaUnit, read: Read, births: Births) -> tuple[Any, Caveats]:
    """A kernel like that of a fresh compilation, but for what its launch does, and what it was warned of.

    Raises Unloadable.
    """
    code, meta = _open(unit, read, births, KernelMeta)
    if meta.cc != unit.cc or not code or meta.entry_name is None:
        raise Unloadable("damaged")
    dispatcher = unit.owner
    options = dispatcher.targetoptions
    found = dispatchers._Kernel._rebuild(
        cooperative=meta.use_cooperative,
        name=meta.entry_name,
        signature=typing.signature(meta.return_type, *unit.args),
        codelibrary=_library(unit, meta, code, read),
        debug=options.get("debug"),
        lineinfo=options.get("lineinfo"),
        call_helper=_call_helper(dispatcher, meta),
        extensions=options.get("extensions") or [],
    )
    carveout = options.get("shared_memory_carveout")
    found.shared_memory_carveout = None if carveout is None else found._parse_carveout(carveout)
    found.objectmode = False
    found.py_func, found.argtypes = dispatcher.py_func, unit.args
    found.launch_bounds = options.get("launch_bounds")
    found.target_context = dispatcher.targetctx
    found.environment, found._referenced_environments, found.lifted = None, [], []
    return found, meta.caveats


def code(unit: CudaUnit, read: Read, births: Births, *, wants: str) -> tuple[tuple[Any, Any], Caveats]:
    """A library that has what ``cuda.compile`` makes of it, and the return type.  Raises Unloadable."""
    _code, meta = _open(unit, read, births, KernelMeta)
    library = _library(unit, meta, None, read)
    has = library.get_ltoir(meta.cc) if wants == "ltoir" and read("ltoir") is not None else None
    if has is None and (wants == "ltoir" or read("ptx") is None):
        raise Unloadable(f"it holds no {wants}")
    return (library, meta.return_type), meta.caveats


def device(unit: CudaUnit, read: Read, births: Births) -> tuple[Any, Caveats]:
    """The signature that a device function has for some types.  Raises Unloadable."""
    _code, meta = _open(unit, read, births, DeviceMeta)
    return typing.signature(meta.return_type, *unit.args), meta.caveats


def _open(unit: CudaUnit, read: Read, births: Births, kind: Any) -> tuple[bytes, Any]:
    opened = open_entry(unit, read)
    version, fields = opened.fields
    if version != CUDA_META_VERSION:
        raise Unloadable(f"metadata of version {version}")
    meta = kind._make(fields)
    reason = births.objection(unit)
    if reason is None and kind is KernelMeta and not _is_same_toolkit(meta):
        reason = "the toolkit's headers or libraries are others"
    if reason is not None:
        raise Unloadable(reason)
    return opened.code, meta


def _is_same_toolkit(meta: KernelMeta) -> bool:
    """Whether what only some kernels are made of is what it was."""
    if meta.headers:
        from nbcache.glue.cuda import linked_files

        if meta.headers != linked_files.headers_identity():
            return False
    return not meta.cudadevrt or meta.cudadevrt == cudadevrt()


def _library(unit: CudaUnit, meta: KernelMeta, cubin: bytes | None, read: Read) -> StoredCodeLibrary:
    # The dispatcher may be gone before the kernel is.
    function, options = unit.function, getattr(unit.owner, "targetoptions", {})

    def rebuild() -> Any:
        """What is looked at though the entry is gone or damaged, or though none holds it."""
        with unit.frames.apart():
            return dispatchers._Kernel(function, unit.args, **options)._codelibrary

    return StoredCodeLibrary(meta, cubin, read, rebuild)


def _call_helper(dispatcher: Any, meta: KernelMeta) -> Any:
    helper = CUDACallConv(dispatcher.targetctx)._make_call_helper(None)
    for number, *raised in meta.exceptions:
        helper.exceptions[number] = tuple(raised)
    return helper
