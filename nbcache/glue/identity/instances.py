"""What an instance of any class consists of, whatever its class says about that.

An instance is its class, its ``__dict__``, its slots, and what a builtin base such as `dict` holds.  All four are read
through descriptors and methods of ``object`` and of those bases, never through what a class overrides.  What a native
class holds beyond that only its own pickle reduction tells; a class written in Python isn't asked, for its
``__reduce__`` or ``__getstate__`` may leave things out.  Python's own classes are asked, because what they leave out
they can make again.  What nobody tells is unidentifiable, but for locks: who holds one means nothing in another
process.
"""

from __future__ import annotations

import copyreg
import ctypes
import threading
import typing
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    GenericAlias,
    MemberDescriptorType,
    MethodDescriptorType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, cast
from weakref import WeakKeyDictionary

from llvmlite import ir

from nbcache.glue import own_attributes
from nbcache.glue.identity.node import Node, Unidentifiable
from nbcache.glue.identity.ownership import HEAP_TYPE, is_toolchain_module
from nbcache.glue.identity.watched import MISSING
from nbcache.passing_exceptions import let_pass, suppressed

_LOCAL = threading.local
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_REDUCERS = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")

_CONTENTS: dict[type, Callable[[Any], Any]] = {
    OrderedDict: lambda obj: {key: dict.__getitem__(obj, key) for key in OrderedDict.__iter__(obj)},
    defaultdict: lambda obj: dict(dict.items(obj)),
    dict: lambda obj: dict(dict.items(obj)),
    deque: lambda obj: list(deque.__iter__(obj)),
    list: lambda obj: list(list.__iter__(obj)),
    tuple: lambda obj: tuple(tuple.__iter__(obj)),
    set: lambda obj: set(set.__iter__(obj)),
    frozenset: lambda obj: frozenset(frozenset.__iter__(obj)),
    str: str.__str__,
    bytes: lambda obj: bytes(memoryview(obj)),
    bytearray: lambda obj: bytes(memoryview(obj)),
    int: int.__int__,
    float: float.__float__,
    complex: lambda obj: complex(*(vars(complex)[part].__get__(obj) for part in ("real", "imag"))),
}
"""How to read what the bases hold that are known; the first along the MRO."""
_FIXED = frozenset({tuple, frozenset, str, bytes, int, float, complex})
_LIMITED: dict[type, Any] = {defaultdict: vars(defaultdict)["default_factory"], deque: vars(deque)["maxlen"]}
"""What some of them have besides."""


def describe_instance(node: Node, obj: Any) -> None:
    """Describe *obj* by its class and its state.  Raises Unidentifiable."""
    cls = type(obj)
    if cls in _PROXIES:
        raise Unidentifiable("a weak proxy")
    if str(cls.__module__).startswith("nbcache.glue."):  # one of which has an array over all that there is of memory
        raise Unidentifiable(f"an object of type {cls.__qualname__}, which is nbcache's own")
    node.title = f"instance of {cls.__module__}.{cls.__qualname__}"
    node.edge("class", cls)
    add_state(node, obj)


def add_state(node: Node, obj: Any, *, beyond: type = object) -> None:
    """Add what *obj* holds; *beyond* is a base whose part is described already.  Raises Unidentifiable."""
    cls = type(obj)
    _let_remember(obj, cls)
    native = next(base for base in cls.__mro__ if is_native(base))
    if beyond is not object:
        if native is not beyond and issubclass(native, beyond) and not is_toolchain_module(native.__module__):
            msg = f"an object of type {cls.__module__}.{cls.__qualname__}, a native kind of {beyond.__qualname__}"
            raise Unidentifiable(msg)
        native = beyond
    known = next((base for base in cls.__mro__ if base in _CONTENTS), None) if beyond is object else None
    pythonic = [base for base in cls.__mro__ if not is_native(base)]
    if known is not None:
        _add_content(node, obj, known)
    asked = known is None and beyond is object and _told_by_python_itself(cls)
    if asked or (known is not native and native is not beyond):
        _add_reduction(node, obj, native)
        pythonic = [base for base in pythonic if not is_toolchain_module(base.__module__)]
    if issubclass(cls, BaseException):  # whose pickles say what they were made with, and not what was set later
        pythonic += (base for base in cls.__mro__ if is_native(base))
        causes = [vars(BaseException)[name].__get__(obj) for name in ("__cause__", "__context__")]
        node.value("raised from", tuple(causes))
    _add_slots(node, obj, pythonic)
    _add_dictionary(node, obj)


def _let_remember(obj: Any, cls: type) -> None:
    """Make llvmlite's types and constants spell themselves: they keep that in their state, and it says nothing new.

    In one process they have been asked for it by then, in another they haven't.
    """
    if (issubclass(cls, ir.Type) or issubclass(cls, ir.Constant)) and is_toolchain_module(cls.__module__):
        with suppressed(Exception):
            str(obj)
    if issubclass(cls, ir.Constant) and is_toolchain_module(cls.__module__):
        with suppressed(Exception):
            obj.get_reference()


def is_native(cls: type) -> bool:
    """Whether *cls* was made by native code, and may hold what Python doesn't see."""
    known = _native.get(cls)
    if known is None:
        known = _native[cls] = not cls.__flags__ & HEAP_TYPE or any(
            getattr(member, "__objclass__", None) is cls
            if type(member) in {MethodDescriptorType, WrapperDescriptorType}
            else type(member) is BuiltinFunctionType and getattr(member, "__self__", None) is cls
            for member in vars(cls).values()
        )
    return known


_native: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _told_by_python_itself(cls: type) -> bool:
    """Whether somebody says how to pickle instances, and only classes of the toolchain do."""
    tellers = _tellers(cls)
    return bool(tellers) and all(is_toolchain_module(base.__module__) for base in tellers)


def _tellers(cls: type) -> set[type]:
    """The classes that say how to pickle instances of *cls*, but for ``object``."""
    found = (next((base for base in cls.__mro__ if name in vars(base)), object) for name in _REDUCERS)
    return {base for base in found if base is not object}


# -- the parts -----------------------------------------------------------------------------------


def _add_content(node: Node, obj: Any, base: type) -> None:
    read = _CONTENTS[base]
    if base not in _FIXED:
        node.snapshot(lambda obj: _flat(read(obj)), obj)
    node.value(base.__name__, read(obj), owned=True)
    if base in _LIMITED:
        limit = _LIMITED[base]
        node.snapshot(lambda obj: [limit.__get__(obj)], obj)
        node.value("limit", limit.__get__(obj))


def _flat(content: Any) -> list[object]:
    return [*content, *content.values()] if type(content) is dict else list(content)


def _add_slots(node: Node, obj: Any, classes: list[type]) -> None:
    slots = _slots_of(classes)
    _watch_slots(node, obj, slots)
    for label, member in slots:
        value = _slot(member, obj)
        if value is not MISSING:
            node.value(label, value)


def _watch_slots(node: Node, obj: object, slots: list[tuple[str, MemberDescriptorType]]) -> None:
    if slots:
        node.snapshot(lambda obj: [_slot(member, obj) for _label, member in slots], obj)


def _slots_of(classes: list[type]) -> list[tuple[str, MemberDescriptorType]]:
    """What they are called, and what reads them."""
    return [
        (f"slot {base.__qualname__}.{name}", member)
        for base in classes
        for name, member in sorted(vars(base).items())
        if type(member) is MemberDescriptorType and member.__objclass__ is base
    ]


def _slot(member: MemberDescriptorType, obj: object) -> object:
    try:
        return member.__get__(obj)
    except AttributeError:
        return MISSING


def _add_dictionary(node: Node, obj: object) -> None:
    state = dictionary_of(obj)
    if state is None:
        return
    # Another one may be put in its place, which what is known of the items of this one doesn't tell.
    node.snapshot(lambda obj: [dictionary_of(obj)], obj)
    others = _without_our_own(state)
    if len(others) < len(state):
        node.volatile = True
        state = others  # a copy, of which nobody could tell that the state has changed
    node.value("state", state, owned=True)


def _without_our_own(state: dict[Any, Any]) -> dict[Any, Any]:
    """What of a *state* isn't nbcache's."""
    ours = own_attributes.PREFIX
    return {name: value for name, value in state.items() if type(name) is not str or not name.startswith(ours)}


def dictionary_of(obj: object) -> dict[str, Any] | None:
    """The ``__dict__`` of *obj* itself, or what this thread has there; None for none.

    Whatever its class calls so: proxies in C answer with that of another object, or fail where that one has none.
    """
    kind = type(obj)
    if issubclass(kind, _LOCAL):
        return cast("dict[str, Any]", _LOCAL.__getattribute__(cast("Any", obj), "__dict__"))
    if issubclass(kind, type):
        return cast("dict[str, Any]", _GET_MEMBERS(obj))
    return cast("dict[str, Any]", _GET_DICT(id(obj), None)) if kind.__dictoffset__ else None


_GET_MEMBERS = vars(type)["__dict__"].__get__
# By its address: ctypes asks an object that it is to hand on for its class, which runs what the program has there.
_GET_DICT = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyObject_GenericGetDict", ctypes.pythonapi)
)


def _add_reduction(node: Node, obj: Any, native: type) -> None:
    """Add what pickling would write down; *native* is the class of which nobody else knows what it holds."""
    cls = type(obj)
    if _is_lock(native) or native is _LOCAL:
        return
    name = f"{cls.__module__}.{cls.__qualname__}"
    own = [base for base in _tellers(cls) if not is_native(base) and not is_toolchain_module(base.__module__)]
    if own and native is not object:
        msg = f"an object of type {name} (what {native.__qualname__} holds is pickled as {own[0].__qualname__} likes)"
        raise Unidentifiable(msg)
    dictionary_of(obj)  # which is made when it is first asked for, and is part of what some reductions say
    try:
        reducer = copyreg.dispatch_table.get(cls)
        reduced = reducer(obj) if reducer is not None else obj.__reduce_ex__(4)
    except Exception as exc:
        let_pass(exc)
        raise Unidentifiable(f"an object of type {name} ({exc})") from exc
    if isinstance(reduced, str):
        node.part("global", f"{cls.__module__}:{reduced}".encode(), reduced)
        return
    function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    node.volatile |= not (_is_alias(cls) or _is_value(cls, native))
    _watch_slots(node, obj, _slots_of([*cls.__mro__]))
    node.value("constructor", function)
    node.value("arguments", arguments)
    node.value("reduced state", _without_our_own(state) if type(state) is dict else state, owned=True)
    node.value("items", list(items) if items is not None else None, owned=True)
    node.value("pairs", list(pairs) if pairs is not None else None, owned=True)


def _is_value(cls: type, native: type) -> bool:
    """Whether what the toolchain's part of instances holds never changes: it tells a hash and what is equal by it."""
    own: Any = native if native is not object else next(b for b in cls.__mro__ if is_toolchain_module(b.__module__))
    return (
        is_toolchain_module(own.__module__)
        and own.__hash__ not in {None, object.__hash__}
        and own.__eq__ is not object.__eq__
    )


def _is_alias(cls: type) -> bool:
    """Whether instances stand for types in annotations, of which pickles say nothing but what never changes, or is in
    their dictionary: half of the classes of some packages have such bases.
    """
    return cls in _ALIASES or (issubclass(cls, _ALIAS_OF_TYPING) and cls.__module__ == "typing")


_ALIASES = frozenset({GenericAlias, UnionType})
_ALIAS_OF_TYPING = type(typing.List[int])  # noqa: UP006  that is where it differs from list[int]


def _is_lock(cls: type) -> bool:
    """Whether instances of a native class are there to be acquired and released, and to be left where they are."""
    return all(hasattr(cls, name) for name in _OF_LOCKS)


_OF_LOCKS = ("acquire", "release", "__enter__", "__exit__")
