"""In which order Numba reads what was registered, where a hit has put off most of Numba's own.

In plain Numba the first call has all of it registered. What others register after that comes later, and Numba asks
templates in this order. So where Numba reads its registries at last, what is late is held back until the rest is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba.core import imputils
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.typing import templates

from nbcache.glue.identity.registered import undecorated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nbcache.glue.identity.registrations import ExtensionIndex


class _LateLast:
    """In the place of what hands a context the news of one of Numba's registries."""

    def __init__(self, loader: Any, late: Mapping[int, object]) -> None:
        self._loader = loader
        self._late = late
        self._held: dict[str, list[Any]] = {}
        self.holds_back = True

    def new_registrations(self, name: str) -> Iterator[Any]:
        """As Numba's loader: what was registered in one of the registry's lists and wasn't handed out yet."""
        news = [*self._loader.new_registrations(name)]
        held = self._held.pop(name, [])
        if self.holds_back:
            held += [item for item in news if self._is_late(name, item)]
            news = [item for item in news if not self._is_late(name, item)]
            self._held[name] = held
            held = []
        # Installing one has the registries read once more, so nothing may be left to be handed out twice.
        yield from [*news, *held]

    def _is_late(self, name: str, item: Any) -> bool:
        if name == "globals":
            registered = getattr(item[1], "templates", ())
        else:
            registered = (item[0], undecorated(item[0])) if isinstance(item, tuple) else (item,)
        return not self._late.keys().isdisjoint(map(id, registered))


def keep(extensions: ExtensionIndex) -> None:
    """Have Numba read all that is registered, and what is late after all else, unless it has read its own."""
    typing, lowering = cpu_target.typing_context._registries, cpu_target.target_context._registries
    if not extensions.settled or imputils.builtin_registry in lowering:
        return
    extensions.refresh()
    late = extensions.late
    if not late:
        return
    loaders = []
    for registries, registry, kind in (
        (typing, templates.builtin_registry, templates.RegistryLoader),
        (lowering, imputils.builtin_registry, imputils.RegistryLoader),
    ):
        loader = registries[registry] = _LateLast(registries.get(registry) or kind(registry), late)
        loaders.append(loader)
    try:
        cpu_target.target_context.refresh()
    finally:
        for loader in loaders:
            loader.holds_back = False
    for classes in rewrite_registry.rewrites.values():
        classes.sort(key=lambda each: id(each) in late)
    cpu_target.target_context.refresh()
