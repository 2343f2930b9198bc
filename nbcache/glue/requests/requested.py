"""Functions as requests: how a client writes one down.

By reference, if the function is found under its own name in a module that any process can import, and what it reads is
there as well; else by value, pickled: so is what reads variables that functions of its module assign to, as where a
package builds functions with the constants of a model. A type that only a value tells (that of a closure passed as an
argument, of a default that is an array, of a class of ``__main__``) goes with the function into one pickle.
"""

from __future__ import annotations

import functools
import io
import os
import sys
import time
import uuid
import weakref
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import FunctionType
from typing import Any

from numba.core import sigutils
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import NumbaPickler
from numba.core.types import ClassInstanceType, Omitted, Type
from numba.experimental.jitclass.base import JitClassType
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.stencils.stencil import StencilFunc

from nbcache import environ, process
from nbcache.errors import NbcacheError
from nbcache.glue import own_attributes
from nbcache.glue.identity.bytecode import assigned_globals, nested_codes
from nbcache.glue.identity.ownership import resolve as loaded
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.units import Unit
from nbcache.glue.requests import type_fields
from nbcache.glue.requests import type_json as typecodec
from nbcache.glue.requests.carrying_out import BY_VALUE, compile_for, default, in_words, resolve, source_digest
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.protocol.requests import MAX_ITEMS, MAX_REQUEST, MAX_TEXT, PROFILE, Request
from nbcache.store import layout


class UnaskableError(NbcacheError):
    """A function that can't be written down. Its text says why, for the log."""


def request_for(
    unit: Unit,
    *,
    explain: bool = True,
    by_value: bool = True,
    public: Any = None,
    dump: Callable[[Any, io.BytesIO], None] | None = None,
    most: int | None = None,
) -> Request:
    """What to ask a daemon for, or to write into a warm list.  Raises UnaskableError.

    Without *explain*, the components of the key are left out; without *by_value*, what can't be
    named can't be asked for. *public*: what users know the owner as, if that isn't known here; *dump* pickles it,
    into so many bytes at *most*.
    """
    _insist_on_interpreter()
    public = own_attributes.public_face(unit.owner) if public is None else public
    module, qualname = unit.name.split(":", 1)
    source = source_digest(sys.modules[module]) if is_found(public, module, qualname) else None
    if source is None and not by_value:
        raise UnaskableError("other processes can't import it")
    types, wanted = _types_of(unit, public, by_value=by_value), public
    if BY_VALUE in types:
        # In one pickle: what the function and its arguments have in common stays one object.
        # A default is the function's own there, too: NumPy doesn't pickle an array's strides.
        args = (None if _is_left_out(typ, at, public) else typ for at, typ in enumerate(unit.args))
        wanted, source = (_picklable(public), tuple(args), unit.return_type), None
    value = _by_value(wanted, dump or _dump, MAX_REQUEST if most is None else most) if source is None else None
    return Request(
        key=unit.key,
        kind=unit.kind,
        function=unit.name,
        signature=unit.signature_text[:MAX_TEXT],
        types=types,
        source=source,
        value=value,
        modules=tuple(unit.maker.extensions.modules())[:MAX_ITEMS],
        components=tuple(in_words(unit)) if explain else (),
        **_from_here(unit.maker),
    )


def profile_request(maker: KeyMaker, program: str, name: str, uid: int, package: str, lane: int) -> Request:
    """Ask for what a profile of this *name* and user lists, in this process's environment.  Raises UnaskableError."""
    _insist_on_interpreter()
    request = Request(
        key="0" * layout.KEY_SIZE,
        kind=PROFILE,
        function=f"profile:{program}"[:MAX_TEXT],
        signature="",
        types={"uid": uid, "package": package, "lane": lane},
        source=name,
        value=None,
        modules=(),
        components=(),
        **_from_here(maker),
    )
    of = f"{request.scope} {request.source} {request.toolchain}"
    return request._replace(key=layout.reserved(of))


def _insist_on_interpreter() -> None:
    if process.is_frozen() or sys.flags.optimize:
        optimized, frozen = "interpreters that build for others run without -O", "a frozen program is no interpreter"
        raise UnaskableError(frozen if process.is_frozen() else optimized)


def _from_here(maker: KeyMaker) -> dict[str, Any]:
    """What a request says of who asks."""
    return {
        "path": tuple(map(_absolute, sys.path))[:MAX_ITEMS],
        "interpreter": sys.executable or "",
        "settings": environ.numba_settings(),
        "toolchain": maker.conditions.summary(),
        "created": time.time(),
        "host": os.uname().nodename,
        "pid": process.os.getpid(),
    }


def _types_of(unit: Unit, public: Any, *, by_value: bool) -> dict[str, Any]:
    version = {"version": typecodec.TYPES_VERSION}
    try:
        return version | {
            "args": [_written(typ, at, public) for at, typ in enumerate(unit.args)],
            "returns": None if unit.return_type is None else typecodec.encode(unit.return_type),
        }
    except type_fields.Unencodable as exc:
        if by_value:
            return version | {BY_VALUE: True}
        raise UnaskableError(str(exc)) from exc


def _written(typ: Any, at: int, public: Any) -> Any:
    """A type as JSON; None for that of an argument that is left out."""
    return None if _is_left_out(typ, at, public) else typecodec.encode(typ)


def _is_left_out(typ: Any, at: int, public: Any) -> bool:
    """Whether it is the type of an argument that is left out, for the function's own default."""
    return isinstance(typ, Omitted) and typ.value is default(public, at)


def _absolute(path: str) -> str:
    """A path from wherever this process is."""
    return _normal(path) if type(path) is str and path.startswith(os.sep) else os.path.abspath(path)


_normal = functools.lru_cache(maxsize=1024)(os.path.normpath)


def is_found(public: Any, module: str, qualname: str) -> bool:
    """Whether another process that imports the module finds *public* there under its own name.

    What is compiled where it is defined has no name yet, but will have one: the worker sees whether it does.
    """
    home = sys.modules.get(module)
    if home is None or module == "__main__" or "<" in qualname or reads_assigned(public):
        return False
    named = loaded(module, qualname)
    return named is public or (named is None and getattr(getattr(home, "__spec__", None), "_initializing", False))


def reads_assigned(public: Any) -> bool:
    """Whether a function, or one that it calls, reads variables that functions of its module assign to.

    Where another process imports the module, these are not what they are here.
    """
    pending, seen = [public], set[int]()
    while pending:
        found = pending.pop()
        function = found if type(found) is FunctionType else python_function(found)
        if function is None or id(function) in seen:
            continue
        seen.add(id(function))
        assigned = _assigned_in(function.__module__)
        for code in nested_codes(function.__code__):
            if not assigned.isdisjoint(code.co_names):
                return True
            named = (function.__globals__.get(name) for name in code.co_names)
            pending += [value for value in named if isinstance(value, Dispatcher | DUFunc | GUFunc)]
    return False


def python_function(public: Any) -> FunctionType | None:
    """What is compiled for what users know as *public*; None for what isn't made of a function."""
    if isinstance(public, GUFunc):
        found = public.gufunc_builder.py_func
    elif isinstance(public, DUFunc):
        found = public._dispatcher.py_func
    else:
        found = public._pyfunc if isinstance(public, CFunc) else getattr(public, "py_func", None)
    return found if type(found) is FunctionType else None


@functools.lru_cache(maxsize=256)
def _assigned_in(module: str) -> frozenset[str]:
    """The variables of a module that its functions assign to; none where its code isn't to be had."""
    loader = getattr(getattr(sys.modules.get(module), "__spec__", None), "loader", None)
    if type(loader) is not SourceFileLoader:
        return frozenset()
    code = None
    with suppressed(Exception):  # a file may be gone, or another one by now
        code = loader.get_code(module)
    return frozenset() if code is None else assigned_globals(code)


def _picklable(public: Any) -> Any:
    if not isinstance(public, CFunc):
        return public
    made, sig = public._compiler, (public._sig.args, public._sig.return_type)
    return _Again(CFunc, (public._pyfunc, sig, made.locals, made.targetoptions, made.pipeline_class))


class _Bounded(io.BytesIO):
    """What a pickle is written into, which may be of all that a program holds."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def write(self, data: Any) -> int:
        """Add something. Raises ValueError where it becomes too much."""
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise ValueError("it is too large")
        return super().write(data)


def _by_value(wanted: Any, dump: Callable[[Any, io.BytesIO], None], most: int) -> bytes:
    try:
        with _Bounded(most) as file:
            dump(_picklable(wanted), file)
            return file.getvalue()
    except Exception as exc:
        let_pass(exc)
        raise UnaskableError(f"it can't be pickled ({type(exc).__name__}: {exc})") from exc


def _dump(public: Any, file: io.BytesIO) -> None:
    _Pickler(file, protocol=4).dump(public)


class _Pickler(NumbaPickler):
    """Numba's pickler, naming what other processes can import: Numba can't pickle all of it."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ClassInstanceType):
            jitclass = typecodec.jitclass_of(obj)
            return _instance_type, (jitclass,)
        if type(obj) is FunctionType and reads_assigned(obj):
            return self._dynamic_function_reduce(obj)
        found = by_name(obj) if isinstance(obj, NAMED) else None
        if found is None and isinstance(obj, Dispatcher) and obj._MemoMixin__uuid is None:
            return _reduced(obj)
        return super().reducer_override(obj) if found is None else found


_identities: weakref.WeakKeyDictionary[Dispatcher, str] = weakref.WeakKeyDictionary()
"""What tells whoever unpickles several requests that they name one function."""


def _reduced(dispatcher: Dispatcher) -> Any:
    """How Numba pickles a dispatcher that it has not pickled yet, and no trace of that.

    Numba keeps the last 128 that it gave an identity: none would be collected when the program drops it. And it would
    ask `os.urandom`, in whose place the program may have something of its own.
    """
    if dispatcher not in _identities:
        _identities[dispatcher] = str(uuid.UUID(bytes=process.os.urandom(16), version=4))
    dispatcher._MemoMixin__uuid = _identities[dispatcher]
    try:
        return dispatcher.__reduce__()
    finally:
        del dispatcher._MemoMixin__uuid


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


def prepare(public: Any, sig: Any) -> None:
    """Compile, or load, what a call with arguments of the signature *sig* would.  Raises what Numba raises."""
    compile_for(public, argument_types(public, sig), None)


def listed(signatures: Any) -> list[Any] | None:
    """Several signatures as a list; None for none. One by itself counts as a list of it, as Numba's decorators have it:
    text, what calling a type returned, or a tuple of types.
    """
    if signatures is None:
        return None
    if isinstance(signatures, tuple):
        alone = bool(signatures) and all(isinstance(each, Type) for each in signatures)
    else:
        alone = sigutils.is_signature(signatures)
    return [signatures] if alone else list(signatures)


def argument_types(public: Any, sig: Any) -> tuple[Any, ...]:
    """The types of all arguments in a call with those of the signature *sig*: defaults stand for what it leaves out.

    Raises what Numba raises.
    """
    args = tuple(sigutils.normalize_signature(sig)[0])
    if isinstance(public, Dispatcher) and len(args) < len(public._compiler.pysig.parameters):
        args = public.fold_argument_types(args, {})[1]
    return args
