"""Where a process looks for an entry: in its store; then in the layers under that; then for lower processors' code.

The store comes first, under the unit's own key, and what is found there costs nothing more. Only the first look-up
that finds nothing there asks which layers there are: those of ``NBCACHE_LAYERS``, then those that installed packages
declare.

Code for a lower processor is only taken where it is *strict*: where it says of itself that its results are the same
bits for every processor. From the store that is done for the processors of ``NBCACHE_CPU_LADDER``, in their order; from
layers, whose makers can't know the host, for these and then for every level that the host has, the highest first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from nbcache.client.logs import once
from nbcache.glue.hooks import deferring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.config import Settings
    from nbcache.glue.entries.wrappers import RuntimeUnit, WrapperUnit
    from nbcache.glue.keys.key_maker import KeyMaker
    from nbcache.glue.keys.units import Unit
    from nbcache.store.directory import Store
    from nbcache.store.entry import Entry, Header
    from nbcache.store.layers import Place


class Places:
    """The places of one process."""

    def __init__(self, store: Store, settings: Settings, maker: KeyMaker) -> None:
        """Look at nothing yet."""
        self._store = store
        self._settings = settings
        self._maker = maker
        self._layers: list[Store] | None = None

    def find(self, unit: Unit | RuntimeUnit | WrapperUnit, reject: Callable[[str], None]) -> Iterator[Entry]:
        """Yield each entry that may be used for a unit, the best first; *reject* as of :meth:`Store.find`."""
        # What stands for an entry of this process's past asks for that one, which may be a lower processor's.
        if getattr(unit, "of_the_past", False):
            yield from self.find_key(unit.key, reject)
            return
        yield from self._store.find(unit.key, reject)
        deferring.make_room()  # nearly always, it is compiled now
        layers = self._look() if self._layers is None else self._layers
        for layer in layers:
            yield from layer.find(unit.key, reject)
        if not self._maker.lower or _is_loose(unit):
            return
        for cpu in self._maker.lower:
            key = unit.key_under(cpu)
            for place in (self._store, *layers) if cpu in self._settings.cpu_ladder else layers:
                yield from (entry for entry in place.find(key, reject) if _is_strict(entry.header))

    def find_key(self, key: str, reject: Callable[[str], None] = lambda _reason: None) -> Iterator[Entry]:
        """Yield each entry of a key that an entry named which is used here, if it is for a processor that will do."""
        for entry in self._store.find(key, reject):
            if self._admits(entry.header):
                yield entry
        for layer in self._look() if self._layers is None else self._layers:
            yield from (entry for entry in layer.find(key, reject) if self._admits(entry.header))

    def _admits(self, header: Header) -> bool:
        from nbcache.glue.keys import targets

        cpu = header.extra.get("cpu")
        # The host may have the name of a processor that others compile for; what they built says whether it is strict.
        if cpu in self._maker.lower and "strict" in header.extra:
            return _is_strict(header)
        # An entry that doesn't say so was made before any was taken for another processor.
        return cpu is None or cpu == targets.name()

    def _look(self) -> list[Store]:
        """Find the layers, once; and which lower processors' code is of use."""
        from nbcache import processors
        from nbcache.glue.identity import entry_points
        from nbcache.store.layers import Place, open_under

        self._layers = []
        if self._settings.layers is not None:
            named = [Place(path, path) for path in self._settings.layers]
            self._layers += open_under(self._store, named, _refusal(logging.WARNING))
            # A package that somebody installed for other reasons is nothing to warn of.
            brought = [Place(name, path) for name, path in entry_points.layers()]
            self._layers += open_under(self._store, brought, _refusal(logging.INFO))
        wanted = dict.fromkeys((*self._settings.cpu_ladder, *(processors.levels() if self._layers else ())))
        if wanted:
            from nbcache.glue.keys import targets

            self._maker.lower = targets.lower(wanted)
        return self._layers


def _refusal(level: int) -> Callable[[Place, str], None]:
    """What says, once, that a layer isn't used."""
    return lambda place, reason: once("the layer %s is not used: %s", place.name, reason, level=level)


def _is_strict(header: Header) -> bool:
    return header.extra.get("strict") is True


def _is_loose(unit: Any) -> bool:
    """Whether a unit's own flags let the compiler change its results: no entry of it is strict."""
    return bool(getattr(getattr(unit, "flags", None), "fastmath", False))
