"""What compiled code only names at run time: the class that a value is boxed into, say.

Such a thing is looked up where it is needed, under its name or as a token (placeholders.py), so where to find
it counts and what it consists of doesn't.  In a graph of identities a `Referred` stands for it.
"""

from __future__ import annotations

import weakref
from types import FunctionType, MethodType
from typing import Any

from numba.core.typing.typeof import typeof_impl

from nbcache.glue.identity.node import Node
from nbcache.glue.identity.ownership import has_toolchain_globals, module_name, resolve

_known: dict[tuple[int, type], tuple[weakref.ref[Any], Any]] = {}


class Referred:
    """A reference to a class, a function or a dispatcher; there is one for each."""

    __slots__ = ("__weakref__", "_target")

    def __init__(self, target: Any) -> None:
        self._target = weakref.ref(target)

    @property
    def target(self) -> Any:
        """What is referred to, or None when it is no more."""
        return self._target()


class Stub(Referred):
    """A reference to a function of Python's in code that is compiled.

    Numba compiles no such function: it takes what somebody has registered for it, and nothing of the function itself
    counts but by whoever chooses what that is. With no such thing, what names it can't be compiled.
    """

    __slots__ = ()


def reference_to(target: Any, kind: type[Referred] = Referred) -> Referred:
    """The reference to a class, a function or a dispatcher."""
    key = id(target), kind
    known = _known.get(key)
    if known is None or known[0]() is not target:
        known = _known[key] = (weakref.ref(target, lambda _ref: _known.pop(key, None)), kind(target))
    found: Referred = known[1]
    return found


def refer(node: Node, label: str, value: object) -> bool:
    """Add to *node* a reference to *value*; False if it has to be described, because it would be copied."""
    if isinstance(value, MethodType) and isinstance(value.__self__, type):
        return refer(node, f"{label} function", value.__func__) and refer(node, f"{label} class", value.__self__)
    if not isinstance(value, type | FunctionType):
        return False
    node.edge(label, reference_to(value))
    return True


def refer_to_stub(node: Node, label: str, value: object) -> bool:
    """Add to *node*, of compiled code, a reference to what `Stub` is for; False if *value* has to be described.

    What is chosen for a function of the toolchain's nobody asks again.
    """
    if type(value) is not FunctionType or has_toolchain_globals(value):
        return False
    node.watch_size(value.__dict__)
    # Where something is set on it, as its type may be, or somebody gives functions a type, Numba asks for more.
    if value.__dict__ or typeof_impl.dispatch(FunctionType) is not _typeof_function:
        return False
    node.edge(label, reference_to(value, Stub))
    return True


_typeof_function = typeof_impl.dispatch(object)


def describe_referred(node: Node, reference: Referred) -> None:
    """Where it is found: under its name, or among what is reached, where its place tells it from others."""
    target = reference.target
    name = f"{module_name(target.__module__)}:{target.__qualname__}"
    node.title = f"reference to {name}"
    node.individual, node.live = True, type(reference) is not Stub
    found = node.check(_is_found_by_name, reference)
    node.part("name", name.encode("utf-8", "surrogatepass") + found, name)


def _is_found_by_name(reference: Referred) -> bytes:
    target = reference.target
    module = getattr(target, "__module__", None)
    return b"1" if isinstance(module, str) and resolve(module, target.__qualname__) is target else b"0"
