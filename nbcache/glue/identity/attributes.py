"""Attributes that anybody may have set on an object, beside what it is made of."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from numba.core.typing.typeof import typeof

from nbcache.glue import marks
from nbcache.glue.identity.node import Node, Unidentifiable
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable

IGNORED_MEMBERS = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__",
        "__firstlineno__", "__static_attributes__", "_abc_impl",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "class_type",
        "__slotnames__",  # what copyreg remembers
        # what Numba's templates remember between uses
        "_impl_cache", "_compiled_overloads", "_inline_overloads", "_overload_cache",
    }
)  # fmt: skip
"""What a class has that says nothing about it."""
USUAL_ATTRIBUTES = frozenset(
    {"__module__", "__name__", "__qualname__", "__doc__", "__wrapped__", "__annotations__", "__signature__"}
)  # what functools.update_wrapper copies, and what is described anyway


def describe_attributes(node: Node, obj: Any, *, but: frozenset[str] = USUAL_ATTRIBUTES) -> None:
    """What was set on a function or the like; code that runs while compiling may read it."""

    def found(known: weakref.ref[Any]) -> list[object]:
        attributes = vars(known())
        names = [name for name in attributes if name not in but and not name.startswith(marks.PREFIX)]
        return [*names, *(attributes[name] for name in names)]

    node.snapshot(found, weakref.ref(obj))
    attributes = found(weakref.ref(obj))
    half = len(attributes) // 2
    for name, value in zip(attributes[:half], attributes[half:], strict=True):
        node.value(f"attribute {name}", value)


def insist_on_one_type(value: object, ask: Callable[[], object], whom: str) -> None:
    """Raise Unidentifiable if whoever gave *value* gives something of another type, or nothing, when *asked* again.

    Numba asks several times, and refuses to compile that; an entry may be there all the same, for equal things that
    are given by somebody who gives the same thing each time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            again = ask()
        except Exception as raised:
            let_pass(raised)
            raise Unidentifiable(f"{whom}, where it fails when asked again ({raised!r})") from raised
        try:
            alike = again is value or typeof(again) == typeof(value)
        except Exception as raised:  # noqa: BLE001  what has no type isn't compiled, and a program's class may raise
            let_pass(raised)
            alike = type(again) is type(value)
    if not alike:
        raise Unidentifiable(f"{whom}, where it finds something of another type each time")


@functools.cache
def attributes_of_any(kind: type) -> frozenset[str]:
    """What Numba sets on every dispatcher of a kind."""
    return USUAL_ATTRIBUTES | _MEMOS_OF_OTHERS | vars(kind(lambda: None)).keys()


_MEMOS_OF_OTHERS = frozenset({"_CUDATypingContext__dispatcher"})
"""What numba-cuda keeps on a function of the CPU's that a kernel calls: the device function that it made of it."""
