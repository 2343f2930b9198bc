"""The files of published names, by their names: which names and versions there are, and which look like one."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import suppressed
from nbcache.store import layout
from nbcache.store.folders import Folder

if TYPE_CHECKING:
    from typing import Protocol

    class Newest(Protocol):
        """The newest version of a name (:class:`nbcache.store.publication.Publication`)."""

        @property
        def version(self) -> int:
            """Its number."""

        @property
        def older(self) -> tuple[int, ...] | None:
            """Those that lay beside it when it was written; None if it doesn't say."""


NEAR: Final = 3
"""How many names that look like the one that isn't there are told."""
_LOOKED_AT: Final = 200
"""Among how many names such are looked for: with more, finding out that one isn't there would take ever longer."""
_FILE: Final = r"([a-z0-9_.!-]+?)(?:~(0|[1-9][0-9]{0,8}))?\.json"


def read_file_name(name: str) -> tuple[str, int | None] | None:
    """Return the name and version that :func:`layout.name_file` was given; None for what is no such file's name."""
    found = re.fullmatch(_FILE, name, re.ASCII)
    if found is None:
        return None
    plain = re.sub("!([a-z])", lambda small: small[1].upper(), found[1])
    if len(plain) > layout.MAX_NAME or not layout.is_name(plain):
        return None
    return plain, None if found[2] is None else int(found[2])


def listed(root: str, most: int | None = None) -> list[tuple[str, int | None]]:
    """Return the names and versions of all files, or of so many. Never raises."""
    with suppressed(OSError), Folder(root, layout.NAMES) as folder:
        items = itertools.islice(folder.json_files(), most)
        return list(filter(None, (read_file_name(item.name) for item in items)))
    return []


def near(root: str, name: str) -> tuple[str, ...]:
    """Return the names that look like this one, the nearest first; none where there are hundreds."""
    found = listed(root, _LOOKED_AT + 1)
    if len(found) > _LOOKED_AT:
        return ()
    import difflib  # most processes ask for names that are there

    there = {known.lower(): known for known, version in found if version is None}
    return tuple(there[close] for close in difflib.get_close_matches(name.lower(), there, NEAR))


def older(root: str, name: str, newest: Newest | None) -> list[int]:
    """Return which versions of a name may lie beside the newest one, sorted."""
    if newest is not None and newest.older is not None:
        return sorted(newest.older)
    # All names are listed only where the newest version is damaged, or as nbcache 0.2 wrote it.
    if newest is None and not os.path.lexists(f"{root}/{layout.NAMES}/{layout.name_file(name)}"):
        return []
    return sorted(version for found, version in listed(root) if found == name and version)


def versions(root: str, name: str, newest: Newest | None) -> list[int]:
    """Return which versions of a name there are, the newest last."""
    places = ((each, f"{root}/{layout.NAMES}/{layout.name_file(name, each)}") for each in older(root, name, newest))
    found = {version for version, place in places if os.path.lexists(place)}
    return sorted(found | ({newest.version} if newest is not None else set()))
