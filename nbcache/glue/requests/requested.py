"""Functions as requests: how a client writes one down, and how a worker finds it, judges it and compiles it.

By reference, if the function is found under its own name in a module that any process can import; else
by value, pickled. A type that only a value tells (that of a closure passed as an argument, of a default that is an
array, of a class of ``__main__``) goes with the function into one pickle. Either way the worker computes the key
anew, from what it found, and compiles only if that is the key that was asked for.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import sigutils
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import NumbaPickler
from numba.core.targetconfig import ConfigStack
from numba.core.types import ClassInstanceType, Omitted, Type
from numba.experimental.jitclass.base import JitClassType
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher
from numba.stencils.stencil import StencilFunc

from nbcache import config, process
from nbcache.errors import NbcacheError
from nbcache.glue import marks
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.ownership import resolve as loaded
from nbcache.glue.keys.key_maker import KeyMaker, frame_stack
from nbcache.glue.keys.units import unit_for
from nbcache.glue.requests import fields
from nbcache.glue.requests import types as typecodec
from nbcache.importing import UntrustedError, guard
from nbcache.process import opened
from nbcache.protocol.requests import MAX_ITEMS, MAX_TEXT, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from nbcache.glue.keys.units import Unit
    from nbcache.trust import Trust

_MAX_SHOWN = 200
_BY_VALUE = "pickled"
"""In the place of types: that these are in the request's pickle, beside the function."""
Signature = tuple[tuple[Any, ...], Any]
"""The types of arguments, and the declared one of the result."""


class UnaskableError(NbcacheError):
    """A function that can't be written down. Its text says why, for the log."""


class RefusedError(NbcacheError):
    """A request that a worker won't or can't carry out. Its text says why, in one line."""


class EnvironmentRefusedError(RefusedError):
    """One that can't be carried out in the environment that it names; asked from another one, it may be."""


# -- the client's side -------------------------------------------------------------------------


def request_for(
    unit: Unit,
    *,
    explain: bool = True,
    by_value: bool = True,
    public: Any = None,
    dump: Callable[[Any, io.BytesIO], None] | None = None,
) -> Request:
    """What to ask a daemon for, or to write into a warm list.  Raises UnaskableError.

    Without *explain*, the components of the key are left out; without *by_value*, what can't be
    named can't be asked for. *public*: what users know the owner as, if that isn't known here; *dump* pickles it.
    """
    if process.is_frozen() or sys.flags.optimize:
        optimized, frozen = "interpreters that build for others run without -O", "a frozen program is no interpreter"
        raise UnaskableError(frozen if process.is_frozen() else optimized)
    public = marks.public_face(unit.owner) if public is None else public
    module, qualname = unit.name.split(":", 1)
    source = _source_digest(sys.modules[module]) if is_found(public, module, qualname) else None
    if source is None and not by_value:
        msg = "other processes can't import it"
        raise UnaskableError(msg)
    types: dict[str, Any] = {"version": typecodec.TYPES_VERSION}
    wanted: Any = public
    try:
        types |= {
            "args": [_written(typ, at, public) for at, typ in enumerate(unit.args)],
            "returns": None if unit.return_type is None else typecodec.encode(unit.return_type),
        }
    except fields.Unencodable as exc:
        if not by_value:
            raise UnaskableError(str(exc)) from exc
        # In one pickle: what the function and its arguments have in common stays one object.
        types[_BY_VALUE], wanted, source = True, (_picklable(public), tuple(unit.args), unit.return_type), None
    value = _by_value(wanted, dump or _dump) if source is None else None
    return Request(
        key=unit.key,
        kind=unit.kind,
        function=unit.name,
        signature=unit.signature_text[:MAX_TEXT],
        types=types,
        source=source,
        value=value,
        modules=tuple(unit.maker.extensions.modules())[:MAX_ITEMS],
        path=tuple(map(_absolute, sys.path))[:MAX_ITEMS],
        interpreter=sys.executable or "",
        settings=config.numba_settings(),
        toolchain=unit.maker.conditions.summary(),
        components=tuple(_shown(unit)) if explain else (),
        created=time.time(),
        host=os.uname().nodename,
        pid=os.getpid(),
    )


def _written(typ: Any, at: int, public: Any) -> Any:
    """A type as JSON; None for that of an argument that is left out, and whose default can't be written down."""
    try:
        return typecodec.encode(typ)
    except fields.Unencodable:
        if isinstance(typ, Omitted) and typ.value is _default(public, at):
            return None
        raise


def _default(public: Any, at: int) -> Any:
    """The default of a function's parameter; None if it has none, or that is not known."""
    defaults = getattr(getattr(public, "py_func", None), "__defaults__", None) or ()
    place = at - public.py_func.__code__.co_argcount + len(defaults) if defaults else -1
    return defaults[place] if 0 <= place < len(defaults) else None


def _absolute(path: str) -> str:
    """A path from wherever this process is."""
    return _normal(path) if type(path) is str and path.startswith(os.sep) else os.path.abspath(path)


_normal = functools.lru_cache(maxsize=1024)(os.path.normpath)


def is_found(public: Any, module: str, qualname: str) -> bool:
    """Whether another process that imports the module finds *public* there under its own name.

    What is compiled where it is defined has no name yet, but will have one: the worker sees whether it does.
    """
    home = sys.modules.get(module)
    if home is None or module == "__main__" or "<" in qualname:
        return False
    named = loaded(module, qualname)
    return named is public or (named is None and getattr(getattr(home, "__spec__", None), "_initializing", False))


def _picklable(public: Any) -> Any:
    if not isinstance(public, CFunc):
        return public
    made, sig = public._compiler, (public._sig.args, public._sig.return_type)
    return _Again(CFunc, (public._pyfunc, sig, made.locals, made.targetoptions, made.pipeline_class))


def _by_value(wanted: Any, dump: Callable[[Any, io.BytesIO], None]) -> bytes:
    try:
        with io.BytesIO() as file:
            dump(_picklable(wanted), file)
            return file.getvalue()
    except Exception as exc:
        msg = f"it can't be pickled ({type(exc).__name__}: {exc})"
        raise UnaskableError(msg) from exc


def _dump(public: Any, file: io.BytesIO) -> None:
    _Pickler(file, protocol=4).dump(public)


class _Pickler(NumbaPickler):
    """Numba's pickler, naming what other processes can import: Numba can't pickle all of it."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ClassInstanceType):
            jitclass = typecodec.jitclass_of(obj)
            return _instance_type, (jitclass,)
        found = by_name(obj) if isinstance(obj, NAMED) else None
        return super().reducer_override(obj) if found is None else found


def _instance_type(jitclass: Any) -> Any:
    return jitclass.class_type.instance_type


def by_name(obj: Any) -> Any | None:
    """How an object is pickled that other processes find under its function's name; None where they don't."""
    inner = getattr(obj, "py_func", obj)
    module, qualname = getattr(inner, "__module__", None), getattr(inner, "__qualname__", None)
    if isinstance(module, str) and isinstance(qualname, str) and is_found(obj, module, qualname):
        return resolve, (module, qualname)
    return None


NAMED = (Dispatcher, DUFunc, GUFunc, StencilFunc, JitClassType)


class _Again:
    """Pickles as what calling something with these arguments returns."""

    def __init__(self, call: Any, args: tuple[Any, ...]) -> None:
        self._made = call, args

    def __reduce__(self) -> Any:
        return self._made


def _source_digest(module: ModuleType | None) -> str | None:
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


def _shown(unit: Unit) -> Iterator[tuple[str, str]]:
    for label, text in unit.components()[:MAX_ITEMS]:
        yield label[:_MAX_SHOWN], text[:_MAX_SHOWN]


def prepare(public: Any, sig: Any) -> None:
    """Compile, or load, what a call with arguments of the signature *sig* would.  Raises what Numba raises."""
    args, _return_type = sigutils.normalize_signature(sig)
    _compile(public, tuple(args), None)


# -- the worker's side -------------------------------------------------------------------------


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
        msg = f"it can't be cached: it depends on {exc}"
        raise RefusedError(msg) from exc
    if insist and key != request.key:
        raise EnvironmentRefusedError(_difference(request, unit))
    return key


def _insist_on_compiling(public: Any, args: tuple[Any, ...], return_type: Any) -> None:
    with complaining():
        _compile(public, args, return_type)


@contextmanager
def complaining() -> Iterator[None]:
    """What the compiler raises is why a request is refused.  Raises RefusedError."""
    try:
        yield
    except Exception as exc:
        first = (str(exc).strip().splitlines() or [""])[0]
        msg = f"it does not compile: {type(exc).__name__}: {first}"
        raise RefusedError(msg) from exc


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
            if not request.types.get(_BY_VALUE):
                return value, None
            public, args, return_type = value
            types = [*args, *filter(None, [return_type])]
        except Exception as exc:
            msg = f"it can't be unpickled: {type(exc).__name__}: {exc}"
            raise EnvironmentRefusedError(msg) from exc
        if not all(isinstance(each, Type) for each in types):
            msg = "it holds something else than types where these should be"
            raise RefusedError(msg)
        return public, (tuple(args), return_type)
    module = _import(request.module)
    if insist and _source_digest(module) != request.source:
        msg = f"the source of {request.module} is not the client's"
        raise EnvironmentRefusedError(msg)
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
        msg = f"there is no {qualname} in {module}"
        raise EnvironmentRefusedError(msg) from exc
    return found


def signature(request: Request, public: Any) -> Signature:
    """The types of *public*'s arguments, and the return type if it was declared.  Raises RefusedError."""
    said = request.types
    if said.get("version") != typecodec.TYPES_VERSION:
        msg = f"its types are written in version {said.get('version')!r:.40}; {typecodec.TYPES_VERSION} is understood"
        raise RefusedError(msg)
    args, returns = said.get("args"), said.get("returns")
    if not isinstance(args, list):
        msg = "its signature has no list of types"
        raise RefusedError(msg)
    try:
        decoded = tuple(
            Omitted(_default(public, at)) if each is None else typecodec.decode(each, resolve)
            for at, each in enumerate(args)
        )
        return decoded, None if returns is None else typecodec.decode(returns, resolve)
    except fields.Undecodable as exc:
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
    kernel, options = _kernel(public)
    if isinstance(kernel, UFuncDispatcher):
        with ConfigStack().enter(UFuncDispatcher.compile(_Asked(kernel), sig, **options)):
            return unit_for(maker, frames, kernel, sig)
    return unit_for(maker, frames, kernel, sig)


def _kernel(public: Any) -> tuple[Any, dict[str, Any]]:
    """Who compiles, and the options that it is given on top of its own."""
    if isinstance(public, DUFunc):
        return public._dispatcher, public.targetoptions
    if isinstance(public, GUFunc):
        return public.gufunc_builder.nb_func, public.gufunc_builder.targetoptions
    if isinstance(public, Dispatcher | CFunc | UFuncDispatcher):
        return public, {}
    msg = f"{type(public).__name__} is nothing that can be compiled"
    raise RefusedError(msg)


def _made(public: Any, args: tuple[Any, ...]) -> str:
    """The key of what importing the module compiled for these arguments; "" if it compiled nothing."""
    kernel, _options = _kernel(public)
    for sig, cres in getattr(kernel, "overloads", {}).items():
        if tuple(getattr(sig, "args", sig)) == args:
            unit = marks.unit_of(cres.library)
            return "" if unit is None else str(unit.key)
    return ""


def _compile(public: Any, args: tuple[Any, ...], return_type: Any) -> None:
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
    else:
        public.compile(sig)


def _difference(request: Request, unit: Unit) -> str:
    """In which components the key that was asked for differs from the one that was computed."""
    theirs, ours = dict(request.components), dict(_shown(unit))
    labels = [label for label in {**theirs, **ours} if theirs.get(label) != ours.get(label)]
    shown = [f"{label}: {theirs.get(label, 'absent')} → {ours.get(label, 'absent')}" for label in labels[:3]]
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    return f"the key differs in {'; '.join(shown)}{more}" if shown else "the key differs"
