"""Values of which Numba has no type, to which global variables of compiled code lead: they aren't used there.

Numba gives each variable a type that the code reads as it runs, and fails where it has none. So where such a function
was compiled, it reads the value nowhere but where the value counts for nothing: in a branch that Numba has cut off, as
``if DEBUG: trace.write(...)``, or in object mode, which looks the variable up when it runs. Programs keep there what no
other process has: open files, timers, counters.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from numba.core.registry import cpu_target
from numba.core.typing.templates import builtin_registry
from numba.core.typing.typeof import typeof_impl

from nbcache.glue.identity import entry_points
from nbcache.glue.identity.instances import dictionary_of, is_native
from nbcache.glue.identity.only_named import Stub, reference_to
from nbcache.glue.identity.ownership import is_toolchain_module

if TYPE_CHECKING:
    from nbcache.glue.identity.node import Node

_COMPILERS = frozenset({"numba", "numba_cuda", "llvmlite", "numpy", "cffi", "_cffi_backend"})
_READ = frozenset({"_numba_type_", "targetoptions", "py_func"})
"""What Numba reads off any value, to know a type of it, or whether to inline it as a dispatcher."""
_ASKED = (
    *_READ, "__getattr__", "__getattribute__", "__buffer__", "__class__", "__call__", "__bool__", "__len__",
    "__cuda_array_interface__", "mutate_with_body",
)  # fmt: skip
"""What Numba reads off a value that it looks at, or what lets the class answer instead."""
_unknown = typeof_impl.dispatch(object)


class Untyped(Stub):
    """A reference to such a value, of which only passes may read more that somebody has added to Numba's."""

    __slots__ = ()


def name_untyped(node: Node, label: str, value: object) -> bool:
    """Say in *node*, of compiled code, that *value* has no type; False if it has to be described."""
    if _has_type(value) != b"0" or not type(value).__weakrefoffset__:
        return False
    node.check(_has_type, value)
    node.edge(label, reference_to(value, Untyped))
    return True


def describe_untyped(node: Node, _reference: Untyped) -> None:
    """What any of them is like."""
    node.title = "value without a type"
    node.individual = node.live = False


def _has_type(value: object) -> bytes:
    """Whether Numba, or who registered something with it, may take *value* for anything."""
    cls = type(value)
    if (
        typeof_impl.dispatch(cls) is not _unknown
        or any(_is_for_numba(base) for base in cls.__mro__[:-1])
        or value.__class__ is not cls  # a weak proxy, of which Numba sees what it stands for
        or not _READ.isdisjoint(dictionary_of(value) or ())
        or "numba.cuda.typing.typeof" in sys.modules  # where other types are registered
        or any(known is value for known, _typ in builtin_registry.globals)
        or cpu_target.typing_context._lookup_global(value) is not None
    ):
        return b"1"
    try:
        memoryview(value).release()  # type: ignore[arg-type]
    except Exception as exc:  # noqa: BLE001  of a file that is mapped no more, say
        return b"0" if type(exc) is TypeError else b"1"
    return b"1"


def _is_for_numba(cls: type) -> bool:
    """Whether Numba asks instances of *cls* for something, or gets to know of them when it loads an extension."""
    root = str(cls.__module__).partition(".")[0]
    own = is_toolchain_module(cls.__module__)
    if root in _COMPILERS or is_native(cls):
        return root in _COMPILERS or not own
    members = vars(cls)
    if any(name in members for name in _ASKED):
        return True
    return not own and ("__hash__" in members or _may_extend_numba(root, tuple(sys.path)))


@functools.lru_cache(maxsize=1024)
def _may_extend_numba(root: str, _path: tuple[str, ...]) -> bool:
    """Whether an installed package declares extensions that may have to do with the package *root*."""
    declared = entry_points.declarations()
    return declared is None or any(root in text for _path, text in declared)
