"""Who owns a piece of Python: the toolchain, or somebody whose code can change under us.

The toolchain is Python itself, Numba, llvmlite and NumPy.  Their versions are in every key, so
what they define is identified by its name; everything else is identified by its content.
"""

from __future__ import annotations

import builtins
import functools
import sys
from types import ModuleType

from numba.core.types.abstract import Type

from nbcache.passing import let_pass

TOOLCHAIN_ROOTS = frozenset({"numba", "llvmlite", "numpy", "nbcache"})
_BUILTINS = vars(builtins)


def is_toolchain_module(name: object) -> bool:
    """Whether the module called *name* comes with the toolchain (``__main__`` never does)."""
    return isinstance(name, str) and _is_toolchain_name(name)


@functools.lru_cache(maxsize=4096)
def _is_toolchain_name(name: str) -> bool:
    root = name.partition(".")[0]
    if root in TOOLCHAIN_ROOTS:
        # numba.tests and numpy.tests stand for user code: they are edited, and full of closures.
        return ".tests" not in name
    return root in sys.stdlib_module_names and root not in {"__main__", "this", "antigravity"}


def is_numba_type(obj: object) -> bool:
    """``isinstance(obj, numba.types.Type)``, without asking a hundred subclasses for each new class of object."""
    return Type in type(obj).__mro__


def resolve(module: str, qualname: str) -> object | None:
    """What ``module:qualname`` names in this process right now, or None."""
    found: object | None = sys.modules.get(module)
    if found is None:
        return None
    for part in qualname.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def toolchain_name(obj: object) -> str | None:
    """``module:qualname`` when *obj* is a toolchain definition reachable by that very name.

    Closures, monkeypatched functions and instances have no such name: None.
    """
    module = getattr(obj, "__module__", None)
    if module is None:
        # Builtin methods of modules such as math keep their module in __self__.
        owner = getattr(obj, "__self__", None)
        if not isinstance(owner, ModuleType):
            return None
        module = owner.__name__
    if not is_toolchain_module(module):
        return None
    qualname = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if not isinstance(qualname, str) or "<" in qualname:
        return None
    try:
        if resolve(module, qualname) is obj:
            return f"{module}:{qualname}"
    except Exception as raised:  # noqa: BLE001  a module's __getattr__ may raise anything
        let_pass(raised)
        return None
    return None


def module_name(name: object) -> str | None:
    """A module name as it counts for identity: a spawned child's ``__mp_main__`` is ``__main__``."""
    if name == "__mp_main__":
        return "__main__"
    return name if isinstance(name, str) else None


def is_toolchain_definition(obj: object) -> bool:
    """Whether *obj*, a function or class, was written by the toolchain's authors.

    Numba generates some functions with ``exec`` in namespaces without a name; those are known by
    the file their code came from.
    """
    module = getattr(obj, "__module__", None)
    if module is not None:
        return is_toolchain_module(module)
    code = getattr(obj, "__code__", None)
    return code is not None and code.co_filename.startswith(_toolchain_directories())


def _toolchain_directories() -> tuple[str, ...]:
    return tuple(
        path + "/" for root in ("numba", "numpy", "llvmlite") for path in getattr(sys.modules.get(root), "__path__", ())
    )
