"""Layers: read-only stores that a store lies over. What isn't in the store is looked for in them, in order.

A layer is a directory with the entries of a store (:mod:`nbcache.store.layout`), and nothing else is needed: it came
with an installed package, an image or a copy. The rule of trust holds for it as for a store, and is asked of what was
opened. Nothing in a layer is ever written, evicted, swept or marked: what there is to say of its entries, that programs
crashed with one, or used it well, is said in the store (:mod:`nbcache.store.quarantine`). An entry for another version
of a package or of the toolchain has another key and is never found.
"""

from __future__ import annotations

import errno
import stat
from itertools import chain
from typing import TYPE_CHECKING, Final

from nbcache.file_trust import Trust, strerror
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os
from nbcache.records import Record
from nbcache.store import layout, opened, tree
from nbcache.store.directory import Store
from nbcache.store.entry import ASKED_BY, BESIDE, Header
from nbcache.store.opened import Opened, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbcache.keyring import Keyring

KEPT: Final = ("nbcache", "cpu", "strict", BESIDE)
"""What the header of an entry in a layer says besides its fields."""


class Place(Record):
    """Where a layer is said to be, and by which name people know it: a package, or the path itself."""

    name: str
    path: str


def fill(root: str, source: Store, wanted: Callable[[Header], bool]) -> int:
    """Put the *wanted* entries of a store into the layer *root*, made if need be; return how many are in it then.

    What only concerns where they were built stays behind: who asked, on which host, and how to ask again. What is in
    the layer already stays, unless it is the same function under the same key; but nothing is put into a layer that
    holds what somebody wrote who isn't trusted, or where others could put something. Raises OSError.
    """
    os.makedirs(root, mode=layout.DIR_MODE, exist_ok=True)
    layer = _opened_to_fill(root, source.trust)
    for key in sorted({info.key for info in source.scan()}):
        for found in source.find(key):
            sections = found.sections() if wanted(found.header) else None
            if sections is None:
                continue
            sections.pop(ASKED_BY, None)
            extra = {name: found.header.extra[name] for name in KEPT if name in found.header.extra}
            done = layer.publish(found.header._replace(extra=extra), sections, recache=True)
            if not done.ok:
                raise OSError(done.reason)
    _leave_entries_alone(layer.path)
    return sum(1 for _ in layer.scan())


def _opened_to_fill(root: str, trust: Trust) -> Store:
    """Whoever installs a layer owns it: nobody can see then whose entries were in it."""
    try:
        path = opened.real_path(root, trust)
        problem = _problem_in(path, trust)
    except ValueError as error:
        problem = f"{root} {error}"
    if problem is not None:
        raise PermissionError(errno.EPERM, f"{problem}: name another directory, or remove what is there")
    return Store(path, trust, writable=True)


def _problem_in(root: str, trust: Trust) -> str | None:
    """Say what others could have written of that which is looked up in a layer. Raises OSError."""
    places = [root, *(f"{root}/{name}" for name in (layout.LAYOUT, layout.OBJECTS, layout.NAMES, layout.FILES))]
    walks = (os.walk(place) for place in places[2:])
    inside = (os.path.join(above, name) for walk in walks for above, *names in walk for name in chain(*names))
    for path in chain(filter(os.path.lexists, places), inside):
        status = os.lstat(path)
        problem = "is a symbolic link" if stat.S_ISLNK(status.st_mode) else trust.writers_problem(status, path)
        if problem is not None:
            return f"{path} {problem}"
    return None


def _leave_entries_alone(root: str) -> None:
    """Remove the directories of a store that a layer, which is only read, has no use for: they are empty."""
    for name in tree.names():
        with suppressed(OSError):
            os.rmdir(f"{root}/{name}")
    for tag in (f"{root}/{layout.TAG}", f"{root}/{layout.LAYOUT}/{layout.TAG}"):
        with suppressed(OSError):
            os.unlink(tag)


def open_layer(place: Place, trust: Trust, keyring: Keyring | None = None) -> Store | Refusal:
    """Open a layer; *keyring* says whose signed entries count in it, as in a store. Never raises."""
    try:
        path = opened.real_path(place.path, trust)
        if not os.path.isdir(path):
            return Refusal(f"{place.path} is no directory")
        problem = trust.path_problem(path) or opened.inner_problem(path, trust)
    except (OSError, ValueError) as error:
        let_pass(error)
        return Refusal(f"{place.path} can't be used: {strerror(error)}")
    if problem is not None:
        return Refusal(f"{place.path} {problem}")
    return Store(path, trust, writable=False, layer=place.name, keyring=keyring)


def open_under(store: Opened, places: Iterable[Place], refused: Callable[[Place, str], None]) -> Iterator[Store]:
    """Yield the layers that may be used under a store, which is none itself; ``refused`` is told of others, and why."""
    for place in places:
        layer = open_layer(place, store.trust, store.keyring)
        if isinstance(layer, Refusal):
            refused(place, layer.reason)
        elif layer.path != store.path:
            yield layer


def processors_of(layer: Store) -> list[str]:
    """Return the processors that the entries of a layer are for."""
    headers = (info.header for info in layer.scan())
    return sorted({str(each.extra["cpu"]) for each in headers if each is not None and "cpu" in each.extra})
