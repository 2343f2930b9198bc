"""Requests carried out by a worker: how it finds a function, judges it and compiles it.

It computes the key anew, from what it found, and compiles only if that is the key that was asked for.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.targetconfig import ConfigStack
from numba.core.types import Omitted, Type
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.errors import NbcacheError
from nbcache.file_trust import Trust
from nbcache.glue import own_attributes
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker, frame_stack
from nbcache.glue.keys.units import Unit, unit_for
from nbcache.glue.requests import type_fields
from nbcache.glue.requests import type_json as typecodec
from nbcache.importing import UntrustedError, guard
from nbcache.one_line import first_line
from nbcache.process import opened
from nbcache.protocol.requests import MAX_ITEMS, Request

_MAX_SHOWN = 200
BY_VALUE = "pickled"
"""In the place of types: that these are in the request's pickle, beside the function."""
Signature = tuple[tuple[Any, ...], Any]
"""The types of arguments, and the declared one of the result."""


class RefusedError(NbcacheError):
    """A request that a worker won't or can't carry out. Its text says why, in one line."""


class EnvironmentRefusedError(RefusedError):
    """One that can't be carried out in the environment that it names; asked from another one, it may be."""


def default(public: Any, at: int) -> Any:
    """The default of a function's parameter; None if it has none, or that is not known."""
    defaults = getattr(getattr(public, "py_func", None), "__defaults__", None) or ()
    place = at - public.py_func.__code__.co_argcount + len(defaults) if defaults else -1
    return defaults[place] if 0 <= place < len(defaults) else None


def source_digest(module: ModuleType | None) -> str | None:
    """The digest of a module's source file, None if it has none."""
    path = getattr(getattr(module, "__spec__", None), "origin", None)
    if path is None or not path.endswith(tuple(importlib.machinery.SOURCE_SUFFIXES)):
        return None
    try:
        return _digest_of(path, os.stat(path).st_mtime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=1000)
def _digest_of(path: str, _mtime_ns: int) -> str:
    with opened(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()


def in_words(unit: Unit) -> Iterator[tuple[str, str]]:
    """The components of a unit's key, as far as a request has room for them."""
    for label, text in unit.components()[:MAX_ITEMS]:
        yield label[:_MAX_SHOWN], text[:_MAX_SHOWN]


def carry_out(
    request: Request, trust: Trust, is_built: Callable[[str], bool], *, insist: bool, maker: KeyMaker | None = None
) -> str | None:
    """Compile what is asked for, in a process of its own, with the hook switched on; return its key here.

    None stands for "compiled, under keys that only its module knows".  *is_built* says whether a key is in
    the store by now.  The process has the client's settings of Numba from its start; its ``sys.path`` is
    made the client's, as far as that is trusted.  Raises RefusedError; if it *insists*, also if the key or
    the source of the module is another than the client's.

    *maker* is the one of this process, if it has one: what is registered with Numba need not be read twice.
    """
    become(request.path, trust)
    public, types = fetch(request, insist=insist)
    # Importing a module compiles everything in it that has a signature of its own.
    if insist and is_built(request.key):
        return request.key
    if not insist and isinstance(public, np.ufunc):
        return None
    args, return_type = types or signature(request, public)
    key = "" if insist else _made(public, args)
    if not key:
        key = _key(request, maker or KeyMaker(), public, args, return_type, insist=insist)
        if not is_built(key):
            _insist_on_compiling(public, args, return_type)
    return key


def key_now(request: Request, maker: KeyMaker, public: Any, args: tuple[Any, ...], return_type: Any) -> str:
    """Today's key of what a request asks for, whichever it was when that was written.  Raises RefusedError."""
    return _made(public, args) or _key(request, maker, public, args, return_type, insist=False)


def compiled_for(request: Request) -> tuple[Any, tuple[Any, ...]]:
    """What :func:`carry_out` compiled, and for which types of arguments.  Raises RefusedError."""
    public, types = fetch(request, insist=True)
    return public, (types or signature(request, public))[0]


def _key(
    request: Request, maker: KeyMaker, public: Any, args: tuple[Any, ...], return_type: Any, *, insist: bool
) -> str:
    maker.prepare()
    return key_of(request, lambda: _unit(maker, public, args, return_type), insist=insist)


def key_of(request: Request, identify: Callable[[], Unit], *, insist: bool) -> str:
    """The key of what *identify* finds for a request, which is the one that was asked for.  Raises RefusedError.

    Another one will do if nobody *insists*.
    """
    try:
        unit = identify()
        key = unit.key
    except Unidentifiable as exc:
        raise RefusedError(f"it can't be cached: it depends on {exc}") from exc
    if insist and key != request.key:
        raise EnvironmentRefusedError(_difference(request, unit))
    return key


def _insist_on_compiling(public: Any, args: tuple[Any, ...], return_type: Any) -> None:
    with complaining():
        compile_for(public, args, return_type)


@contextmanager
def complaining() -> Iterator[None]:
    """What the compiler raises is why a request is refused.  Raises RefusedError."""
    try:
        yield
    except Exception as exc:
        raise RefusedError(f"it does not compile: {type(exc).__name__}: {first_line(exc)}") from exc


def import_trusted(name: str, path: Iterable[str], trust: Trust) -> None:
    """Import a module as :func:`carry_out` imports those of a request.  Raises RefusedError."""
    become(path, trust)
    _import(name)


def become(places: Iterable[str], trust: Trust) -> None:
    """Look for modules where the client does, as far as that is trusted."""
    # Where the client looks is where this process looks, in the same order; what it finds is judged then.
    path = [entry for entry in places if os.path.isabs(entry)]
    sys.path[:] = list(dict.fromkeys([*path, *filter(None, sys.path)]))
    guard(trust)
    importlib.invalidate_caches()


def fetch(request: Request, *, insist: bool) -> tuple[Any, Signature | None]:
    """The object that is to be compiled, and for which types if these come with it.  Raises RefusedError."""
    for name in request.modules:
        _import(name)
    if request.value is not None:
        import pickle

        try:
            value: Any = pickle.loads(request.value)  # noqa: S301  the spool took it from a trusted owner only
            if not request.types.get(BY_VALUE):
                return value, None
            public, args, return_type = value
            args = tuple(Omitted(default(public, at)) if each is None else each for at, each in enumerate(args))
            types = [*args, *filter(None, [return_type])]
        except Exception as exc:
            raise EnvironmentRefusedError(f"it can't be unpickled: {type(exc).__name__}: {exc}") from exc
        if not all(isinstance(each, Type) for each in types):
            raise RefusedError("it holds something else than types where these should be")
        return public, (tuple(args), return_type)
    module = _import(request.module)
    if insist and source_digest(module) != request.source:
        raise EnvironmentRefusedError(f"the source of {request.module} is not the client's")
    return resolve(request.module, request.qualname), None


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as exc:
        msg = f"{exc}" if isinstance(exc, UntrustedError) else f"importing {name} fails: {type(exc).__name__}: {exc}"
        closed = [*filter(_is_closed, sys.path)] if isinstance(exc, ModuleNotFoundError) else []
        if closed:
            msg += f" (uid {os.geteuid()}, as which this is built, may not read {closed[0]})"
        raise EnvironmentRefusedError(msg) from exc


def _is_closed(folder: str) -> bool:
    try:
        os.scandir(folder).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def resolve(module: str, qualname: str) -> object:
    """What a request refers to.  Raises RefusedError."""
    found: Any = _import(module)
    try:
        for name in qualname.split("."):
            found = getattr(found, name)
    except AttributeError as exc:
        raise EnvironmentRefusedError(f"there is no {qualname} in {module}") from exc
    return found


def signature(request: Request, public: Any) -> Signature:
    """The types of *public*'s arguments, and the return type if it was declared.  Raises RefusedError."""
    said = request.types
    if said.get("version") != typecodec.TYPES_VERSION:
        msg = f"its types are written in version {said.get('version')!r:.40}; {typecodec.TYPES_VERSION} is understood"
        raise RefusedError(msg)
    args, returns = said.get("args"), said.get("returns")
    if not isinstance(args, list):
        raise RefusedError("its signature has no list of types")
    try:
        decoded = tuple(
            Omitted(default(public, at)) if each is None else typecodec.decode(each, resolve)
            for at, each in enumerate(args)
        )
        return decoded, None if returns is None else typecodec.decode(returns, resolve)
    except type_fields.Undecodable as exc:
        raise RefusedError(str(exc)) from exc


class _Asked:
    """Stands in for a ufunc's dispatcher, to be told the flags that it would compile with."""

    def __init__(self, kernel: UFuncDispatcher) -> None:
        self.locals, self.targetoptions, self.targetdescr = kernel.locals, kernel.targetoptions, kernel.targetdescr

    def _compile_core(self, _sig: Any, flags: Any, _locals: Any) -> Any:
        return flags


def _unit(maker: KeyMaker, public: Any, args: tuple[Any, ...], return_type: Any) -> Unit:
    sig = args if return_type is None else return_type(*args)
    frames = frame_stack(maker)
    kernel, options = kernel_of(public)
    if isinstance(kernel, UFuncDispatcher):
        with ConfigStack().enter(UFuncDispatcher.compile(_Asked(kernel), sig, **options)):
            return unit_for(maker, frames, kernel, sig)
    return unit_for(maker, frames, kernel, sig)


def kernel_of(public: Any) -> tuple[Any, dict[str, Any]]:
    """Who compiles, and the options that it is given on top of its own."""
    if isinstance(public, DUFunc):
        return public._dispatcher, public.targetoptions
    if isinstance(public, GUFunc):
        return public.gufunc_builder.nb_func, public.gufunc_builder.targetoptions
    if isinstance(public, Dispatcher | CFunc | UFuncDispatcher):
        return public, {}
    raise RefusedError(f"{type(public).__name__} is nothing that can be compiled")


def _made(public: Any, args: tuple[Any, ...]) -> str:
    """The key of what importing the module compiled for these arguments; "" if it compiled nothing."""
    kernel, _options = kernel_of(public)
    for sig, cres in getattr(kernel, "overloads", {}).items():
        if tuple(getattr(sig, "args", sig)) == args:
            unit = own_attributes.unit_of(cres.library)
            return "" if unit is None else str(unit.key)
    return ""


def compile_for(public: Any, args: tuple[Any, ...], return_type: Any) -> None:
    """Compile what users know as *public*, unless it has been for these types.  Raises what Numba raises."""
    sig = args if return_type is None else return_type(*args)
    if isinstance(public, DUFunc):
        known = any(tuple(made.args) == args for made in public._dispatcher.overloads)
        if not known:
            public._compile_for_argtys(args, return_type)
    elif isinstance(public, GUFunc):
        public.add(sig)
        public.build_ufunc()
    elif isinstance(public, CFunc):
        if getattr(public, "_library", None) is None:  # else it was compiled where it is defined
            public.compile()
    elif args not in public.overloads:  # one that has all its signatures from its decorator refuses even these
        public.compile(sig)


def _difference(request: Request, unit: Unit) -> str:
    """In which components the key that was asked for differs from the one that was computed."""
    theirs, ours = dict(request.components), dict(in_words(unit))
    labels = [label for label in {**theirs, **ours} if theirs.get(label) != ours.get(label)]
    shown = [f"{label}: {theirs.get(label, 'absent')} → {ours.get(label, 'absent')}" for label in labels[:3]]
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    return f"the key differs in {'; '.join(shown)}{more}" if shown else "the key differs"
