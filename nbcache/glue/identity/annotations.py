"""The annotations of a function or class, as code that runs while compiling may read them.

Since Python 3.14 a function makes them when somebody reads them first, and they are kept then. To read them here would
run that function at another time than the program does, and keep what it gives. So it counts itself, and what it gives
now, unless somebody has read them already: in two processes it is the same whether somebody has or not.
"""

from __future__ import annotations

import gc
import warnings
from types import FunctionType
from typing import TYPE_CHECKING, Any

from nbcache.glue.identity.watched import MISSING
from nbcache.passing_exceptions import let_pass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbcache.glue.identity.node import Node

_VALUES = 1
"""``annotationlib.Format.VALUE``, in which every such function gives them."""


def describe_annotations(node: Node, obj: Any) -> None:
    """Add what the annotations of a function or class are."""
    annotate, made = _lazy(obj)
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # who reads them hears that
            given = annotate(_VALUES)
    except Exception as raised:  # noqa: BLE001  it is the program's
        let_pass(raised)
        return None
    return given if type(given) is dict else None


def describe_class_scope(node: Node, label: str, members: Any, wanted: Iterable[str]) -> None:
    """What annotations and type parameters find among the *members* of the class that they stand in.

    They look there for each name before they look among globals, and for nothing else.
    """
    for variable in wanted:
        value = members.get(variable, MISSING)
        node.watch_item(members, variable, value)
        if value is not MISSING:
            node.value(f"{label}: {variable}", value)
