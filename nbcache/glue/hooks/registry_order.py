"""In which order Numba reads what was registered: in each process the same, whatever asks for it first.

Numba asks templates in the order in which they were registered, its own as well, most of which it imports for the first
compilation: those that type first, or, where that one's decorator says ``cache=True``, those that lower. What a process
compiles would depend on which of its functions is missing from the store. So what types is always first.

In plain Numba the first call has all of it registered. What others register after that comes later. So where a hit has
put off most of Numba's own, what is late is held back until the rest is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import imputils
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.typing import templates

from nbcache.glue.identity import unregistered
from nbcache.glue.identity.registration import Registration, formals, is_others, parts_of
from nbcache.glue.identity.registrations import ExtensionIndex


class _LateLast:
    """In the place of what hands a context the news of one of Numba's registries."""

    def __init__(self, loader: Any, late: dict[int, object]) -> None:
        self._loader = loader
        self._late = late
        self._held: dict[str, list[Any]] = {}
        self.holds_back = True

    def new_registrations(self, name: str) -> Iterator[Any]:
        """As Numba's loader: what was registered in one of the registry's lists and wasn't handed out yet."""
        news = [*self._loader.new_registrations(name)]
        held = self._held.pop(name, [])
        if self.holds_back:
            self._held[name] = held + [item for item in news if id(item) in self._late]
            news, held = [item for item in news if id(item) not in self._late], []
        # Installing one has the registries read once more, so nothing may be left to be handed out twice.
        yield from [*news, *held]


def keep(extensions: ExtensionIndex) -> None:
    """Have Numba read all that is registered, and what is late after all else, unless it has read its own.

    Numba comes back to this while it reads.
    """
    typing, lowering = cpu_target.typing_context._registries, cpu_target.target_context._registries
    if _reading or imputils.builtin_registry in lowering:
        return
    late = {} if extensions.settled_at is None else _late(extensions, extensions.settled_at)
    _reading.append(extensions)
    try:
        _read(typing, lowering, late)
    finally:
        _reading.clear()


_reading: list[ExtensionIndex] = []
"""For whom Numba is reading, if it is."""


def _read(typing: dict[Any, Any], lowering: dict[Any, Any], late: dict[int, object]) -> None:
    loaders = []
    typed_with, lowered_with = unregistered.registries()
    for registries, found, kind in (
        (typing, typed_with, templates.RegistryLoader),
        (lowering, lowered_with, imputils.RegistryLoader),
    ):
        for registry in found if late else ():
            loader = registries[registry] = _LateLast(registries.get(registry) or kind(registry), late)
            loaders.append(loader)
    try:
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
    finally:
        for loader in loaders:
            loader.holds_back = False
    for classes in rewrite_registry.rewrites.values():
        classes.sort(key=lambda each: id(each) in late)
    cpu_target.target_context.refresh()


def _late(extensions: ExtensionIndex, settled_at: dict[tuple[int, str], int]) -> dict[int, object]:
    """The items of lists that others have registered late, by their ids."""
    typed_with, lowered_with = unregistered.registries()
    lists: list[tuple[object, str, list[Any]]] = [
        *((each, name, getattr(each, name)) for each in typed_with for name in unregistered.LISTS_OF_TYPING),
        *((each, name, getattr(each, name)) for each in lowered_with for name in unregistered.LISTS_OF_LOWERING),
        *((rewrite_registry, name, classes) for name, classes in rewrite_registry.rewrites.items()),
    ]
    news = [(name, item) for owner, name, items in lists for item in items[settled_at.get((id(owner), name), 0) :]]
    return {id(item): item for name, item in news if any(map(extensions.is_late, _registrations(name, item)))}


def _registrations(name: str, item: Any) -> Iterator[Registration]:
    """What of others' an item of a registry's list called *name* registers."""
    if name == "globals":
        value, typ = item
        found = [(template, value, ()) for template in getattr(typ, "templates", ())]
    elif isinstance(item, tuple):
        found = [parts_of(name, item)]
    else:
        found = [(item, getattr(item, "key", None), ())]
    for registered, key, signature in found:
        if is_others(registered, key, signature):
            yield Registration("", key, registered, formals(signature), "")
