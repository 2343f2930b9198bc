"""Attributes that anybody may have set on an object, beside what it is made of; and annotations.

Since Python 3.14 a function makes its annotations when somebody reads them first, and they are kept then. To read them
here would run that function at another time than the program does, and keep what it gives. So it counts itself, and
what it gives now, unless somebody has read them already: in two processes it is the same whether somebody has or not.
"""

from __future__ import annotations

import functools
import gc
import sys
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable
from types import FunctionType
from typing import Any

from numba.core import types

from nbcache.glue import own_attributes
from nbcache.glue.identity.node import ANYTHING, Node
from nbcache.glue.identity.ownership import toolchain_name
from nbcache.glue.identity.watched import MISSING
from nbcache.passing_exceptions import suppressed

IGNORED_MEMBERS = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__",
        "__firstlineno__", "__static_attributes__", "_abc_impl",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "__classdictcell__",
        "__slotnames__",  # what copyreg remembers
    }
)  # fmt: skip
"""What a class has that says nothing about it."""
_MEMOS_OF_TEMPLATES = frozenset({"_impl_cache", "_compiled_overloads", "_inline_overloads", "_overload_cache"})
"""What Numba's templates remember between uses."""
USUAL_ATTRIBUTES = frozenset(
    {
        "__module__", "__name__", "__qualname__", "__doc__", "__wrapped__", "__annotate__", "__annotations__",
        "__signature__",
    }
)  # fmt: skip  # what functools.update_wrapper copies, and what is described anyway
_SAID = frozenset({"__name__", "__qualname__", "__doc__", "__annotate__", "__annotations__"})
"""Those of them that say something themselves where they aren't what was copied."""


def is_template(cls: type) -> bool:
    """Whether Numba types calls or attributes by a class, or numba-cuda does, which has templates of its own."""
    # Not issubclass(), which asks each of the thousands of other templates when it sees a class for the first time.
    return any(base.__qualname__ in _TEMPLATES and base.__module__ in _OF_TEMPLATES for base in cls.__mro__)


_TEMPLATES = frozenset({"FunctionTemplate", "AttributeTemplate"})
_OF_TEMPLATES = frozenset({"numba.core.typing.templates", "numba.cuda.typing.templates"})


def ignored_members(cls: type) -> frozenset[str]:
    """Those of a class that say nothing about it."""
    return IGNORED_MEMBERS | _MEMOS_OF_TEMPLATES if is_template(cls) else IGNORED_MEMBERS


def describe_attributes(
    node: Node, obj: Any, *, but: frozenset[str] = USUAL_ATTRIBUTES, read: Callable[[Any], Any] = vars
) -> None:
    """What was set on a function or the like, which *read* finds; code that runs while compiling may read it."""
    if type(obj) is FunctionType and not obj.__dict__:  # nearly all, and this is compared in C
        node.watch_attribute(obj, "__dict__", obj.__dict__)
        node.watch_size(obj.__dict__)
        return

    def found(known: weakref.ref[Any]) -> list[object]:
        attributes = read(known())
        # What it has from what it wraps is described there.
        wrapped = attributes.get("__wrapped__")
        names = [
            name
            for name, value in attributes.items()
            if not name.startswith(own_attributes.PREFIX)
            and (name not in but or (name in _SAID and value is not getattr(wrapped, name, value)))
        ]
        return [*names, *(attributes[name] for name in names)]

    node.snapshot(found, weakref.ref(obj))
    attributes = found(weakref.ref(obj))
    half = len(attributes) // 2
    for name, value in zip(attributes[:half], attributes[half:], strict=True):
        node.value(f"attribute {name}", value)


def describe_what_was_set(node: Node, obj: Any) -> None:
    """What somebody set on what one of Numba's decorators made."""
    describe_attributes(node, obj, but=USUAL_ATTRIBUTES | attributes_of_methods(type(obj)))  # type: ignore[arg-type]


def leads_to_code(typ: types.Type, names: Collection[str]) -> bool:
    """Whether code that runs, and is given a type, may come by *names* to the function or class that it stands for.

    Where that is compiled, only named, or a class of values, what such code may read of it doesn't count.
    """
    if isinstance(typ, types.Dispatcher):
        return "dispatcher" in names
    if isinstance(typ, types.ExceptionClass):
        return "exc_class" in names
    return isinstance(getattr(typ, "instance_class", None), type) and not _LEADS_TO_CLASS.isdisjoint(names)


_LEADS_TO_CLASS = frozenset({ANYTHING, "instance_class", "key"})
"""By what code comes from the type of a value to the class of it."""


@functools.cache
def attributes_of_methods(kind: type) -> frozenset[str]:
    """Attributes that the toolchain's methods of a class read or set, and those that ``functools.wraps`` copies."""
    members = (member for base in kind.__mro__ if toolchain_name(base) is not None for member in vars(base).values())
    names = [member.__code__.co_names for member in members if isinstance(member, FunctionType)]
    return frozenset(functools.WRAPPER_ASSIGNMENTS).union({"__wrapped__"}, *names)


@functools.cache
def attributes_of_any(kind: type) -> frozenset[str]:
    """What Numba sets on every dispatcher of a kind."""
    return USUAL_ATTRIBUTES | _MEMOS_OF_OTHERS | vars(kind(lambda: None)).keys()


_MEMOS_OF_OTHERS = frozenset({"_CUDATypingContext__dispatcher"})
"""What numba-cuda keeps on a function of the CPU's that a kernel calls: the device function that it made of it."""


# -- annotations, as code that runs while compiling may read them ---------------------------------

_VALUES = 1
"""``annotationlib.Format.VALUE``, in which every such function gives them."""


def describe_annotations(node: Node, obj: Any) -> None:
    """Add what the annotations of a function or class are."""
    annotate, made = _lazy(obj)
    if sys.version_info >= (3, 14):
        node.snapshot(_lazy, obj)
    if annotate is not None:
        node.edge("annotations are made by", annotate)
        made = _given_by(annotate) if made is None else made
    elif isinstance(obj, FunctionType):
        made = obj.__annotations__
        node.watch_attribute(obj, "__annotations__", made)
    if made:
        node.value("annotations", made, owned=True)


def _lazy(obj: Any) -> list[Any]:
    """What makes the annotations of *obj* when they are read, if there is such a function, and those that it made."""
    if isinstance(obj, type):
        members = vars(obj)
        return [members.get("__annotate_func__"), members.get("__annotations_cache__")]
    annotate = getattr(obj, "__annotate__", None)
    if annotate is None:
        return [None, None]
    # Nothing else tells whether it was called: the annotations are the one dictionary that isn't known by a name.
    named = [id(obj.__globals__), id(obj.__builtins__), id(obj.__dict__), id(obj.__kwdefaults__)]
    made = [each for each in gc.get_referents(obj) if type(each) is dict and id(each) not in named]
    return [annotate, made[0] if made else None]


def _given_by(annotate: Any) -> dict[str, Any] | None:
    """What *annotate* gives; None where it fails, because a name is defined later, say."""
    with suppressed(Exception):  # it is the program's
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # who reads them hears that
            given = annotate(_VALUES)
        return given if type(given) is dict else None
    return None


def describe_class_scope(node: Node, label: str, members: Any, wanted: Iterable[str]) -> None:
    """What annotations and type parameters find among the *members* of the class that they stand in.

    They look there for each name before they look among globals, and for nothing else.
    """
    for variable in wanted:
        value = members.get(variable, MISSING)
        node.watch_item(members, variable, value)
        if value is not MISSING:
            node.value(f"{label}: {variable}", value)
