"""Classes that compiled code has values of: enumerations and named tuples.

Numba makes a type of such a class and reads of it what values consist of: members and what they stand for, fields and
their defaults, its name.  That counts where the class is compiled code's.  Methods and annotations don't: compiled code
uses none of them, and Python code that does has the class as it is by then.  Code of others that runs while compiling
may read anything of it; where such code takes part, all of the class counts besides (`Unit.unread`), or
nothing is cached (`attributes.leads_to_code`).
"""

from __future__ import annotations

import enum
import inspect
from types import CodeType, FunctionType
from typing import Any

from nbcache.glue.identity.node import Node
from nbcache.glue.identity.ownership import toolchain_name

_ASKED = frozenset(
    {"__class__", "__getattribute__", "__getitem__", "__iter__", "__len__", "__signature__", "__text_signature__"}
)
"""What Numba uses of a value or of its class that a class may define otherwise than Python does."""
_ASKED_OF_MEMBERS = _ASKED | {"_value_", "value"}
_MAKE = ("__new__", "__init__")


def is_read_for_values(cls: type) -> bool:
    """Whether nothing that *cls* defines runs when Numba reads what its values consist of."""
    asked = _asked_of(cls)
    if not all(asked.isdisjoint(vars(base)) for base in _own_bases(cls)):
        return False
    made = () if enum.Enum in cls.__mro__ else _made_by(cls)
    return all(type(each) is FunctionType and {"__wrapped__", "__signature__"}.isdisjoint(vars(each)) for each in made)


def describe_class_of_values(node: Node, cls: Any) -> None:
    """What Numba reads of a class of which `is_read_for_values` is true."""
    node.live = True  # values that are returned are of this very class
    own, asked = _own_bases(cls), _asked_of(cls)
    node.snapshot(lambda cls: [*cls.__mro__, *(name for base in own for name in asked if name in vars(base))], cls)
    node.value("kinds", tuple(f"{base.__module__}:{base.__qualname__}" for base in cls.__mro__ if base not in own))
    node.watch_attribute(cls, "__name__", cls.__name__)
    node.value("name", cls.__name__)
    if enum.Enum in cls.__mro__:
        node.snapshot(_members, cls)
        for alias, member in cls.__members__.items():
            name = member._name_
            node.value(f"member {alias}" if alias == name else f"member {alias}, which is {name}", member._value_)
        return
    node.snapshot(_fields_and_makers, cls)
    node.value("fields", tuple(_fields(cls)))
    for function in _made_by(cls):
        node.value("parameters", _parameters(function.__code__))
        node.value("defaults", function.__defaults__)
        node.value("other defaults", function.__kwdefaults__)


def _members(cls: Any) -> list[object]:
    members = cls.__members__
    return [*members, *members.values(), *(member._value_ for member in members.values())]


def _parameters(code: CodeType) -> tuple[object, ...]:
    """What a function with this code declares."""
    more = code.co_flags & inspect.CO_VARARGS, code.co_flags & inspect.CO_VARKEYWORDS
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + sum(map(bool, more))]
    return names, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, more


def _fields_and_makers(cls: type) -> list[object]:
    parts = [(each, each.__code__, each.__defaults__, each.__kwdefaults__) for each in _made_by(cls)]
    return [_fields(cls), *(part for each in parts for part in each)]


def _fields(cls: type) -> Any:
    return next(vars(base)["_fields"] for base in cls.__mro__ if "_fields" in vars(base))


def _made_by(cls: type) -> list[Any]:
    """What makes a named tuple, as far as it isn't Python's: a call of the class has its parameters."""
    found = [next((vars(base)[name] for base in _own_bases(cls) if name in vars(base)), None) for name in _MAKE]
    return [each.__func__ if isinstance(each, staticmethod) else each for each in found if each is not None]


def _asked_of(cls: type) -> frozenset[str]:
    return _ASKED_OF_MEMBERS if enum.Enum in cls.__mro__ else _ASKED


def _own_bases(cls: type) -> list[type]:
    """The class itself and those of its bases that aren't Python's."""
    return [base for base in cls.__mro__ if toolchain_name(base) is None]
