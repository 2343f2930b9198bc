"""Hooks where numba-cuda compiles: the session is asked first.

All of it runs under both compilers' locks, as numba-cuda's own compilation does.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from numba.core.dispatcher import Dispatcher
from numba.cuda import compiler
from numba.cuda.core import sigutils
from numba.cuda.core.caching import _Cache
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.cudadrv import nvrtc
from numba.cuda.descriptor import cuda_target
from numba.cuda.dispatcher import CUDADispatcher

from nbcache.capabilities import spelt
from nbcache.glue import own_attributes
from nbcache.glue.cuda import load
from nbcache.glue.cuda.device_past import Births, DeferredOverload
from nbcache.glue.cuda.registrations import CudaRegistrations
from nbcache.glue.cuda.toolkit import KernelConditions, capability
from nbcache.glue.cuda.units import CudaUnit
from nbcache.glue.identity.node import Unidentifiable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.capabilities import Capability
    from nbcache.glue.cuda.policy import KernelSession


class CudaCompilations:
    """What one session knows of this process's compilations for GPUs."""

    def __init__(self, session: KernelSession) -> None:
        self.session = session
        self.conditions = KernelConditions(session.maker.conditions)
        self.registrations = CudaRegistrations(session.maker.engine)
        self.births = Births(session.maker, session.frames, lambda: self.conditions.digest(capability()))
        self.cc = ""
        """The compute capability of the device that something was compiled for last; "" if nothing was yet."""
        self._depth = 0

    @property
    def is_open(self) -> bool:
        """Whether something is compiled at this moment."""
        return self._depth > 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While this is entered, a compilation goes on; frames that it leaves behind when it raises are closed.

        Subroutines that numba-cuda compiled for earlier kernels, maybe under other options, take no part in it.
        """
        frames, context = self.session.frames, cuda_target.target_context
        with global_compiler_lock._numba_lock._lock, global_compiler_lock._cuda_lock._lock:
            depth, kept = len(frames), context.cached_internal_func
            if not self._depth:
                context.cached_internal_func = {}
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                context.cached_internal_func = kept
                frames.pop_to(depth)

    def unit(
        self, kind: str, owner: Any, args: tuple[Any, ...], return_type: Any, cc: Capability,
        options: tuple[tuple[str, str], ...] = (),
    ) -> CudaUnit:  # fmt: skip
        """One thing to compile.  Raises Unidentifiable."""
        if kind != "cuda code":
            self.cc = spelt(cc)
        return CudaUnit(
            self.session.maker, self.session.frames, kind, owner, args, return_type,
            cc=cc, conditions=self.conditions, registrations=self.registrations, options=options,
        )  # fmt: skip

    def deliver(self) -> None:
        """A compilation begins, and may call what was put off."""
        with self.session.frames.apart():
            self.births.deliver()


class KernelCache(_Cache):
    """numba-cuda's own cache protocol, answered by the session.  One per dispatcher."""

    def __init__(self, owner: Any, compilations: CudaCompilations) -> None:
        self._owner = weakref.ref(owner)
        self.compilations = compilations

    @property
    def cache_path(self) -> str | None:
        return self.compilations.session.cache_path

    def load_overload(self, sig: Any, _target_context: Any) -> Any | None:
        known, owner = self.compilations, self._owner()

        def identify() -> CudaUnit:
            args = tuple(sigutils.normalize_signature(sig)[0])
            return known.unit("cuda kernel", owner, args, None, capability())

        def unpack(unit: CudaUnit, read: Any) -> Any:
            return load.kernel(unit, read, known.births)

        found = known.session.find_kernel(identify, unpack)
        if found is None:
            known.deliver()
        else:
            # As for one that was compiled: its module is loaded by now, and its carveout set.
            found.bind()
        return found

    def save_overload(self, _sig: Any, data: Any) -> None:
        from nbcache.glue.cuda import pack

        births = self.compilations.births
        self.compilations.session.keep_kernel(lambda unit, frame: pack.pack_kernel(unit, frame, data, births))

    def enable(self) -> None:
        """Nothing to do: the environment decides."""

    def disable(self) -> None:
        """Nothing to do: the environment decides."""

    def flush(self) -> None:
        """A recompilation asks the store again, as numba-cuda's own cache does after a flush."""


def kernels(original: Any, known: CudaCompilations) -> Any:
    """`CUDADispatcher.compile`: every kernel, however it comes about."""

    def compile_kernel(self: Any, sig: Any) -> Any:
        with known.alone():
            cache = self._cache
            if type(cache) is not KernelCache or cache.compilations is not known:
                self._cache = KernelCache(self, known)
            return original(self, sig)

    return compile_kernel


def devices(original: Any, known: CudaCompilations) -> Any:
    """`CUDADispatcher.compile_device`: device functions, on their own or for a kernel that calls them."""

    def compile_noted(self: Any, args: Any, return_type: Any) -> Any:
        birth = known.births.now(self, return_type)
        cres = original(self, args, return_type)
        known.births.note(self, args, birth, return_type)
        return cres

    def on_its_own(self: Any, args: Any, return_type: Any) -> Any:
        """A look-up, since nobody compiles a kernel around it."""

        def identify() -> CudaUnit:
            return known.unit("cuda device function", self, args, return_type, capability())

        def unpack(unit: CudaUnit, read: Any) -> Any:
            return load.device(unit, read, known.births)

        birth = known.births.now(self, return_type)
        signature = known.session.find_kernel(identify, unpack)
        if signature is not None:
            compile_now = _deferred(compile_noted, known, args, return_type)
            overload = DeferredOverload(self, args, signature, compile_now)
            self.overloads[args] = overload
            own_attributes.keep_birth(self, args, birth)
            known.births.defer(overload)
            return overload
        from nbcache.glue.cuda import pack

        known.deliver()
        cres = compile_noted(self, args, return_type)
        known.session.keep_kernel(lambda unit, frame: pack.pack_device(unit, frame, cres, known.births))
        return cres

    def compile_device(self: Any, args: Any, return_type: Any = None) -> Any:
        nested = known.is_open
        with known.alone():
            if args in self.overloads:
                cres = original(self, args, return_type)
            elif nested:
                cres = compile_noted(self, args, return_type)
            else:
                return on_its_own(self, args, return_type)
            known.births.use(self, args)
            return cres

    return compile_device


def _deferred(
    compile_noted: Callable[..., Any], known: CudaCompilations, args: Any, return_type: Any
) -> Callable[[Any], Any]:
    """What compiles an overload that was put off, when a kernel needs its code."""

    def compile_now(dispatcher: Any) -> Any:
        overloads, can_compile = dispatcher.overloads, dispatcher._can_compile
        order = list(overloads)
        with known.alone(), known.session.frames.apart():
            overloads.pop(args, None)
            # As when it was decorated, or it would be known as another one than where it was compiled at once.
            dispatcher._can_compile = True
            try:
                return compile_noted(dispatcher, args, return_type)
            finally:
                dispatcher._can_compile = can_compile
                there = {each: overloads.pop(each) for each in order if each in overloads}
                overloads.update(there)

    return compile_now


def delivered(original: Any, known: CudaCompilations) -> Any:
    """`compiler.compile_cuda`: what is compiled by who calls it himself may call what was put off."""

    def compile_cuda(*args: Any, **options: Any) -> Any:
        known.deliver()
        return original(*args, **options)

    return compile_cuda


def code(original: Any, known: CudaCompilations) -> Any:
    """`compiler._compile_pyfunc_with_fixup`: what ``cuda.compile`` and its like return."""

    def _compile_pyfunc_with_fixup(pyfunc: Any, sig: Any, **options: Any) -> Any:
        wants = "ltoir" if options.get("lto") else "ptx"
        cc = compiler._default_cc(options.get("cc"))

        def identify() -> CudaUnit:
            args, return_type = sigutils.normalize_signature(sig)
            unit = known.unit("cuda code", pyfunc, tuple(args), return_type, _capability(cc), _words(options, cc))
            if any(isinstance(obj, CUDADispatcher | Dispatcher) for obj in unit.reach().own_objects()):
                # It compiles these for the current device, whatever it is asked for itself.
                unit.extra += (("current cc", str(capability())),)
            return unit

        def unpack(unit: CudaUnit, read: Any) -> Any:
            return load.code(unit, read, known.births, wants=wants)

        with known.alone():
            found = known.session.find_kernel(identify, unpack)
            if found is not None:
                return found
            from nbcache.glue.cuda import pack

            known.deliver()
            library, return_type = original(pyfunc, sig, **options)
            # What the caller is about to ask for; the library keeps it.
            _ = library.get_ltoir(cc=cc) if wants == "ltoir" else library.get_asm_strs(cc=cc)
            births = known.births
            known.session.keep_kernel(lambda unit, frame: pack.pack_code(unit, frame, library, cc, return_type, births))
            return library, return_type

    return _compile_pyfunc_with_fixup


def _capability(cc: Any) -> Capability:
    return (int(cc[0]), int(cc[1]), str(cc[2]) if len(cc) > 2 else "")


def _words(options: dict[str, Any], cc: Any) -> tuple[tuple[str, str], ...]:
    """The options of ``cuda.compile``.  Raises Unidentifiable."""
    found = [("cc", repr(tuple(cc))), ("lowest cc", repr(nvrtc.get_lowest_supported_cc()))]
    for name, value in sorted(options.items()):
        if name == "cc":
            continue
        content = sorted((value or {}).items()) if name == "abi_info" else value
        if not _is_plain(content):
            raise Unidentifiable(f"an option {name} of cuda.compile that is a {type(value).__name__}")
        found.append((name, repr(content)))
    return tuple(found)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or type(value) in {bool, int, str}


def keep_session_cache(_original: Any, _known: CudaCompilations) -> Any:
    """Where ``cache=True`` asks for numba-cuda's own cache: the session is it already."""

    def enable_caching(_self: Any) -> None:
        """There is one cache already, and it refuses no kernel for what it links."""

    return enable_caching
