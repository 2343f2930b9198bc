"""Whether an installed distribution defines something: then it counts by the distribution (following.py)."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from nbcache.glue.identity.ownership import is_toolchain_file

if TYPE_CHECKING:
    from nbcache.glue.identity.distributions import Distributions
    from nbcache.glue.identity.following import Following
    from nbcache.glue.identity.node import Node


class Installation:
    """The installed definitions of this process."""

    def __init__(self, distributions: Distributions) -> None:
        self._distributions = distributions
        self._owners: dict[object, str | None] = {}
        self._derived: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()
        self._following: Following | None = None

    @property
    def number(self) -> int:
        """Another one since anything changed that was read off installed code."""
        return 0 if self._following is None else self._following.number

    def look_again(self) -> None:
        """See whether all that was read off installed code is what it was; `number` is another one if it isn't.

        That is asked before each key, and after what others' code did; looking through a graph compares the number.
        """
        if self._following is not None:
            self._following.look_again()

    def owner(self, obj: FunctionType | type) -> str | None:
        """Which distribution defines a function or class, wherever that is to be found; None if none does."""
        if isinstance(obj, FunctionType):
            module = sys.modules.get(str(obj.__globals__.get("__name__")))
            path: Any = obj.__code__.co_filename
            if module is None or vars(module) is not obj.__globals__:
                return None
        else:
            path = getattr(sys.modules.get(str(obj.__module__)), "__file__", None)
        return self.owner_of_path(path)

    def is_definition(self, obj: FunctionType | type) -> bool:
        """Whether *obj* is found under its name in a module of an installed distribution."""
        return self.owner(obj) is not None and _found(str(obj.__module__), obj.__qualname__) is obj

    def derived(self, cls: type) -> frozenset[str]:
        """What instances of an installed class keep that they have worked out: it follows from the rest."""
        known = self._derived.get(cls)
        if known is None:
            known = frozenset()
            if self.owner(cls) is not None:
                from nbcache.glue.identity.instances import names_of_caches

                known = names_of_caches(cls)
            self._derived[cls] = known
        return known

    def describe(self, node: Node, obj: FunctionType | type) -> None:
        """Add what counts of an installed definition, or of a function that installed code made when it ran."""
        if self._following is None:
            from nbcache.glue.identity.following import Following  # few hits come to installed code

            self._following = Following(self)
        self._following.describe(node, obj)

    def owner_of_path(self, path: object) -> str | None:
        """Which distribution owns a file; None if none does, and for the toolchain's."""
        known = self._owners.get(path, self)
        if known is self:
            others = isinstance(path, str) and not is_toolchain_file(path)
            known = self._owners[path] = self._distributions.owner(str(path)) if others else None
        return known  # type: ignore[return-value]


def _found(module: str, qualname: str) -> object:
    """What a module has under a name, as it is there: nobody is asked."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        if not isinstance(found, ModuleType | type):
            return None
        found = vars(found).get(part)
        if isinstance(found, staticmethod | classmethod):
            found = found.__func__
    return found
