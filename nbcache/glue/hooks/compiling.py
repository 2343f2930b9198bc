"""Hooks where Numba compiles: the session is asked first.

From the look-up to the loaded function the thread has Numba's compiler lock, which Numba itself takes later for
ufuncs. Whoever has another lock of Numba's may not wait for that one. So the target's context, which is made under a
lock of its own, is there before the compiler's lock is taken.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from numba.core import compiler_lock, dispatcher, event, sigutils, types
from numba.core.caching import CacheImpl, NullCache, _Cache
from numba.core.dispatcher import Dispatcher
from numba.core.errors import ForceLiteralArg, TypingError
from numba.core.registry import cpu_target
from numba.core.typing.typeof import typeof
from numba.np import numpy_support

from nbcache.glue.entries import meta
from nbcache.glue.hooks import observing
from nbcache.glue.identity.dispatcher_past import past_of
from nbcache.glue.identity.ownership import has_toolchain_globals, is_toolchain_definition
from nbcache.glue.overloads import effects
from nbcache.passing_exceptions import let_pass
from nbcache.process import collected_seldom, time

if TYPE_CHECKING:
    from nbcache.glue.hooks.policy import Session


class SessionCache(_Cache):
    """Numba's own cache protocol, answered by the session.  One per Dispatcher."""

    def __init__(self, owner: Any, session: Session) -> None:
        self._owner = weakref.ref(owner)
        self.session = session
        self.is_asked = False
        """Whether the session was asked for what is looked up next, and had nothing."""

    @property
    def cache_path(self) -> str | None:
        return self.session.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any | None:
        if self.is_asked:
            self.is_asked = False
            return None
        return _found(self._owner(), self.session, sig, target_context)

    def save_overload(self, _sig: Any, data: Any) -> None:
        self.session.save(data)

    def enable(self) -> None:
        """Nothing to do: the environment decides."""

    def disable(self) -> None:
        """Nothing to do: the environment decides."""

    def flush(self) -> None:
        """A recompilation asks the store again, as Numba's own cache does after a flush."""


def scoped(attribute: str, covers: Callable[..., bool], *, has_past: bool = False) -> Callable[[Any, Session], Any]:
    """Attach a SessionCache, and close the frames a compilation leaves behind when it raises.

    ``covers(self, *args)``: whether the compilation is one that keys describe in full. *has_past*: whether dispatchers
    compile by it, whose overloads others are built upon.
    """

    def replace(original: Any, session: Session) -> Any:
        def compile_in_scope(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not covers(self, *args, **kwargs):
                return original(self, *args, **kwargs)
            if _is_package_s(getattr(self, attribute)):
                return _left_to_package(session, lambda: original(self, *args, **kwargs))
            while True:  # once more if packages had to be loaded first
                with session.maker.installed.first(is_nested=len(session.frames) > 0), _lock():
                    depth, before, closed, compiled = len(session.frames), getattr(self, attribute), None, None
                    signature = args[0] if args else self._sig
                    arg_types, return_type = _normalized(signature)
                    if depth:
                        _include_existing(session, self, arg_types, return_type)
                    try:
                        asks = has_past and _is_numbas(original) and _may_ask(self, arg_types)
                        terms = session.history.compiling(self, arg_types, return_type) if has_past else _NO_TERMS
                        with terms:
                            compiled = _loaded(self, session, signature) if asks else None
                            if compiled is None:
                                _attach(self, attribute, session, is_asked=asks)
                                with collected_seldom():
                                    compiled = original(self, *args, **kwargs)
                    except ForceLiteralArg as exc:
                        if len(session.frames) == depth + 1:
                            session.literals_requested(self, exc.requested_args)
                        session.frames.note(*effects.remembered(self, arg_types))
                        raise
                    finally:
                        closed = session.frames.pop_to(depth)
                        observing.failed(self, arg_types, return_type, closed if compiled is None else None)
                        _give_back(self, attribute, before, signature)
                        if not depth:
                            compiled = session.loaded(self, compiled)
                    if closed is not None:
                        past_of(self).consulted[arg_types] = closed
                    if depth:
                        session.frames.note(*effects.remembered(self, arg_types), *([terms.use()] if has_past else []))
                    return compiled

        return compile_in_scope

    return replace


def _lock() -> Any:
    """The lock itself: going through its wrapper would trigger Numba's lock events twice."""
    # Made under a lock of its own, within which Numba takes the compiler's: so never the other way round.
    cpu_target.target_context  # noqa: B018
    return compiler_lock.global_compiler_lock._lock


_LOCKS = ("numba:compiler_lock", "numba:llvm_lock")
_NO_TERMS: Any = nullcontext()
"""What a compilation demands of which no others are built upon: nothing."""


def _attach(owner: Any, attribute: str, session: Session, *, is_asked: bool) -> None:
    """Have Numba look in the session for what it takes for cached."""
    cache = getattr(owner, attribute)
    if type(cache) is not SessionCache or cache.session is not session:
        cache = SessionCache(owner, session)
        setattr(owner, attribute, cache)
    cache.is_asked = is_asked


_is_numbas = functools.cache(has_toolchain_globals)
"""Whether it is Numba's own way: somebody's wrapper may change anything before it goes on, or tell what it sees."""


def _may_ask(dispatcher: Any, args: tuple[Any, ...]) -> bool:
    """Whether Numba would look for that overload in a cache, and nobody listens to when it takes its locks for it."""
    if args in vars(dispatcher)["overloads"] or not dispatcher._can_compile:
        return False
    return not any(event._registered.get(kind) for kind in _LOCKS)


def _loaded(dispatcher: Any, session: Session, sig: Any) -> Any | None:
    """Give *dispatcher* an overload of the session's, as Numba does one of a cache; None if there is none.

    What Numba does besides, for each overload, takes a twentieth of a hit: setting up timers and locks.
    """
    began = time.perf_counter()
    with dispatcher._compiling_counter:
        cres = _found(dispatcher, session, sig, dispatcher.targetctx)
        if cres is None:
            return None
        hits = dispatcher._cache_misses if type(dispatcher._cache) is NullCache else dispatcher._cache_hits
        hits[sig] += 1
        if not cres.objectmode:
            dispatcher.targetctx.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        dispatcher.add_overload(cres)
    if cres.metadata is not None:
        dispatcher._callback_add_compiler_timer(time.perf_counter() - began, cres)
        dispatcher._callback_add_llvm_timer(getattr(cres.library, "llvm_seconds", 0.0), cres)
    return cres.entry_point


def _found(owner: Any, session: Session, sig: Any, target_context: Any) -> Any | None:
    """The session's CompileResult.  Raises ForceLiteralArg where the compilation would."""
    found = session.load(owner, sig, target_context)
    if found is not None:
        observing.refreshed(session, target_context)
    if isinstance(found, meta.LiteralsRequested):
        raise found.error(owner)
    return found


def _give_back(self: Any, attribute: str, before: Any, signature: Any) -> None:
    """Have all as it is without ``cache=True``: `Dispatcher.stats` and `CFunc.cache_hits` say that there was no hit."""
    if type(before) is not NullCache or getattr(self, attribute) is before:
        return
    setattr(self, attribute, before)
    hits = getattr(self, "_cache_hits", None)
    if hits and isinstance(self, Dispatcher):
        if hits.pop(signature, 0):
            self._cache_misses[signature] += 1
    elif hits:
        self._cache_hits = 0


def in_one_frame(original: Any, _session: Session) -> Any:
    """Compile, or fail as before, in one frame of Python's stack where Numba has two.

    `compile_in_scope` is one more for each compilation inside another: a chain of functions that is as deep as Python's
    limit of recursion lets plain Numba go would fail. Raising the limit would show to whoever reads it.
    """
    cached = dispatcher._FunctionCompiler._compile_cached

    def compile(self: Any, args: Any, return_type: Any) -> Any:  # noqa: A001  Numba's name
        if type(self)._compile_cached is not cached:  # somebody's own
            return original(self, args, return_type)
        key = tuple(args), return_type
        failed = self._failed_cache.get(key)
        if failed is None:
            try:
                return self._compile_core(args, return_type)
            except TypingError as error:
                self._failed_cache[key] = failed = error
        raise failed

    compile.__code__ = compile.__code__.replace(co_stacksize=_ROOM)
    return compile


_ROOM = 1 << 14
"""How much room a compilation is given where Python keeps frames [objects].

That consists of chunks of 16 KiB. Where one ends amid calls that are made by the thousand, each call maps a new one and
gives it back, which takes several µs. A frame that fits in none has one to itself, which has room for others behind it.
"""


def _include_existing(session: Session, callee: Any, args: tuple[Any, ...], return_type: Any = None) -> None:
    """What is being compiled uses an overload that is there already, and so what was asked for when it was made.

    Or that there is none: what has failed once isn't tried again.
    """
    session.frames.settle()
    known = past_of(callee).consulted.get(args)
    is_there = args in vars(callee).get("overloads", ())
    if known is not None or is_there or observing.has_failed(callee, args, return_type):
        observing.use_kept(session, known)
    if known is not None:
        observing.list_warnings(session, known)


def used_as_it_is(original: Any, session: Session) -> Any:
    """Where code takes an overload that is there, without a compilation: that of a function with a signature, say."""

    def take(self: Any, sig: Any) -> Any:
        if len(session.frames):
            args, _return_type = _normalized(sig)
            if args in vars(self).get("overloads", ()):
                _include_existing(session, self, args)
                session.frames.note(*effects.remembered(self, args))
        return original(self, sig)

    return take


def for_cpu(self: Any, *_args: Any) -> bool:
    """Whether what is compiled is for the processor."""
    return self.targetdescr is cpu_target


def without_locals(_self: Any, _sig: Any, _flags: Any, locals: Any) -> bool:  # noqa: A002  Numba's name
    """Whether no types of local variables are given, which would not be in a key."""
    return not locals


def always(_self: Any) -> bool:
    """Whether it is compiled: it is."""
    return True


def _normalized(sig: Any) -> tuple[tuple[Any, ...], Any]:
    """The argument types of a signature, and its return type, None where it has none."""
    args, return_type = sigutils.normalize_signature(sig)
    return tuple(args), return_type


def wrapped_ufunc(kind: str) -> Callable[[Any, Session], Any]:
    """Load what wraps a kernel as a ufunc's loop, or keep what Numba builds."""

    def replace(original: Any, session: Session) -> Any:
        def build_ufunc_wrapper(
            library: Any, context: Any, fname: Any, signature: Any, *rest: Any, **named: Any
        ) -> Any:
            cres = named["cres"] if "cres" in named else rest[-1]
            return session.wrapper(
                kind, cres, signature, None, lambda: original(library, context, fname, signature, *rest, **named)
            )

        return build_ufunc_wrapper

    return replace


def wrapped_gufunc(kind: str) -> Callable[[Any, Session], Any]:
    """The same for a generalized ufunc."""

    def replace(original: Any, session: Session) -> Any:
        def build_gufunc_wrapper(py_func: Any, cres: Any, sin: Any, sout: Any, cache: Any, is_parfors: Any) -> Any:
            if is_parfors:
                # Linked into the caller, and stored as part of it.
                return original(py_func, cres, sin, sout, cache, is_parfors)
            # Numba's own cache of wrappers, which knows nothing of builds, stays out.
            return session.wrapper(
                kind, cres, cres.signature, (sin, sout), lambda: original(py_func, cres, sin, sout, False, is_parfors)
            )

        return build_gufunc_wrapper

    return replace


def lifted(original: Any, session: Session) -> Any:
    """Ask for an ``objmode`` block, which has no cache of Numba's."""

    def compile_block(self: Any, sig: Any) -> Any:
        with compiler_lock.global_compiler_lock._lock:
            args, _return_type = _normalized(sig)
            if args in self.overloads:
                return original(self, sig)
            depth = len(session.frames)
            try:
                cres = session.load_block(self, args)
                if cres is not None:
                    observing.refreshed(session, self.targetctx)
                    self.add_overload(cres)
                    return cres.entry_point
                compiled = original(self, sig)
                if len(session.frames) > depth:
                    session.save(self.overloads[args])
                return compiled
            finally:
                session.frames.pop_to(depth)

    return compile_block


def stencil_call(original: Any, session: Session) -> Any:
    """Ask for a stencil that is called from Python."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # As in the original, which compiles anew for each call.
        if self.neighborhood is not None and len(self.neighborhood) != args[0].ndim:
            return original(self, *args, **kwargs)
        out = kwargs.get("out")
        if out is None and "out" in kwargs:
            return original(self, *args, **kwargs)  # to say what is wrong
        array_types = tuple(map(typeof, args))
        arguments = args
        full_types = array_types
        if out is not None:
            arguments = (*args, out)
            layout = numpy_support.map_layout(out)
            full_types = (*array_types, types.Array(numpy_support.from_dtype(out.dtype), out.ndim, layout))

        def build() -> Any:
            self._typingctx.refresh()
            return self._stencil_wrapper(out, None, *self.get_return_type(array_types), *full_types)

        with compiler_lock.global_compiler_lock._lock:
            depth = len(session.frames)
            try:
                cres = session.stencil(self, full_types, out is not None, build)
            finally:
                session.frames.pop_to(depth)
        return cres.entry_point(*arguments)

    return call


def runtime(original: Any, session: Session) -> Any:
    """Load the library of Numba's own runtime, or keep what Numba builds."""

    def compile_nrt_functions(ctx: Any) -> Any:
        def build() -> Any:
            try:
                from nbcache.glue.entries.wrappers import build_runtime
            except Exception as raised:  # noqa: BLE001  no descriptor to import it with, say
                let_pass(raised)
                return original(ctx)
            return build_runtime(ctx)

        return session.runtime(ctx, build)

    return compile_nrt_functions


def ask_session(attribute: str) -> Callable[[Any, Session], Any]:
    """Where Numba is asked for a file cache: the session is it, and refuses no function for its file.

    But a package may say itself where Numba keeps what, and by which key: it may tell apart what leads to all of a
    program's graph, as PyTensor's functions do. It is left to that.
    """

    def replace(original: Any, session: Session) -> Any:
        def enable_caching(self: Any) -> None:
            """``cache=True``."""
            # Numba asks them in this order.
            others = takewhile(lambda locator: not is_toolchain_definition(locator), CacheImpl._locator_classes)
            from nbcache.glue.hooks.package_caches import claims

            if any(map(claims(self), others)):
                original(self)
            else:
                setattr(self, attribute, SessionCache(self, session))

        return enable_caching

    return replace


def _left_to_package(session: Session, compile_: Callable[[], Any]) -> Any:
    from nbcache.glue.hooks import package_caches  # few have such caches

    return package_caches.left_to_it(session, compile_)


def _is_package_s(cache: Any) -> bool:
    """Whether it is a file cache in which Numba keeps code where a package says."""
    locator = getattr(getattr(cache, "_impl", None), "_locator", None)
    return locator is not None and not is_toolchain_definition(type(locator))


def complete_first(original: Any, _session: Session) -> Any:
    """Let a recompilation begin with all overloads that are owed."""

    def disable_compile(self: Any, val: bool = True) -> None:
        # Whoever looks is given what hits promised; the original looks only where assertions are on.
        len(self.overloads)
        original(self, val)

    return disable_compile
