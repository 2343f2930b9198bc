"""Entries for code that is built without a compilation of a Python function.

The loops around ufunc and gufunc kernels, and the module of Numba's runtime (NRT).

A wrapper has its kernel linked in and refers to the kernel's environment by name, so it belongs to
one build of the kernel and to no other: mixing halves of two builds crashes (numba#10128).  The
kernel's symbol, build id included, is therefore the heart of a wrapper's key.
"""

from __future__ import annotations

from typing import Any

from numba.core.runtime import nrtdynmod
from numba.np.ufunc import wrappers

from nbcache.glue import own_attributes
from nbcache.glue.identity.counterparts import Reach
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.key_parts import CONDITIONS, Part, components_of, key_of_parts

_VERSION = b"wrapper 2"
_RUNTIME_VERSION = b"runtime 2"


class WrapperUnit:
    """A wrapper of *kind* around the kernel of a CompileResult."""

    def __init__(self, maker: KeyMaker, kind: str, cres: Any, signature: Any, shape: object) -> None:
        self.kind = kind
        self.cres = cres
        self.target_context = cres.target_context
        self.name = f"{cres.fndesc.modname}:{cres.fndesc.qualname}"
        self.signature_text = str(signature)
        self._parts = [
            ("kernel", cres.fndesc.mangled_name),
            ("environment", cres.fndesc.env_name),
            ("signature", f"{signature}"),
            ("core dimensions", repr(shape)),
            ("object mode", repr(cres.objectmode)),
        ]
        self._maker = maker
        self.key = self._key(maker.conditions.digest())

    def stand_in(self, function: str, environment: str) -> None:
        """Have the key of the wrapper around another build of the kernel, whose symbols these are."""
        self._parts[:2] = [("kernel", function), ("environment", environment)]
        self.key = self._key(self._maker.conditions.digest())

    def key_under(self, cpu: str) -> str:
        """The key that it has in a process that compiles for the processor *cpu*."""
        return self._key(self._maker.conditions.under(cpu))

    def _key(self, conditions: bytes) -> str:
        return key_of_parts(self._key_parts(conditions))

    def _key_parts(self, conditions: bytes) -> list[Part]:
        words = [(label, text.encode("utf-8", "surrogatepass")) for label, text in self._parts]
        return [("key version", _VERSION), (CONDITIONS, conditions), ("kind", self.kind.encode()), *words]

    def components(self) -> list[tuple[str, str]]:
        """What the key is computed from."""
        parts = components_of(self._key_parts(self._maker.conditions.digest()))
        # The symbols of the kernel tell a reader no more than their digests, which are among these parts.
        return [("kind", self.kind), *self._parts[2:], *parts]

    def reach(self) -> Reach:
        """What the kernel reaches: its tokens are the wrapper's."""
        unit = own_attributes.unit_of(self.cres.library)
        return unit.reach() if unit is not None else Reach(())


class RuntimeUnit:
    """The functions of Numba's runtime that Numba compiles in each process."""

    kind = "runtime"
    name = "numba.core.runtime:nrt"
    signature_text = "()"

    def __init__(self, maker: KeyMaker, target_context: Any) -> None:
        self.target_context = target_context
        self._maker = maker
        self.key = self._key(maker.conditions.digest())

    def key_under(self, cpu: str) -> str:
        """The key that it has in a process that compiles for the processor *cpu*."""
        return self._key(self._maker.conditions.under(cpu))

    def _key(self, conditions: bytes) -> str:
        return key_of_parts([("key version", _RUNTIME_VERSION), (CONDITIONS, conditions)])

    def components(self) -> list[tuple[str, str]]:
        """What the key is computed from."""
        return [("kind", self.kind), *self._maker.conditions.components()]

    def reach(self) -> Reach:
        """Nothing but the toolchain."""
        return Reach(())


LibraryUnit = WrapperUnit | RuntimeUnit


def build_runtime(target_context: Any) -> Any:
    """A finished library of the runtime, whose object code can be had (`nrtdynmod.compile_nrt_functions`)."""
    module, library = nrtdynmod.create_nrt_module(target_context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    return library


def finish(library: Any) -> None:
    """Compile a wrapper's library so that its object code can be had."""
    if not library._finalized:
        library.enable_object_caching()
        library._ensure_finalized()


def wrapper_info(cres: Any, library: Any, name: str) -> Any:
    """Numba's ``_wrapper_info`` around a loaded wrapper."""
    return wrappers._wrapper_info(library=library, env=cres.environment, name=name)


def wrappable(cres: Any) -> bool:
    """Whether the kernel came from the store or went into it, so that its symbol means one build."""
    return own_attributes.unit_of(cres.library) is not None and not own_attributes.is_tainted(cres.library)
