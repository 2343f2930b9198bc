"""Entries on trial: approving what programs used well, and building again what they crashed with.

A process may say of its own entries that it used them well. Whoever shares a store with the one who owns them can only
say so in a file of his own, and the owner's daemon does the rest.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from nbcache.plain import one_line
from nbcache.protocol import requests, spool
from nbcache.protocol.requests import BadRequestError
from nbcache.store import layout, quarantine

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.store.directory import Store
    from nbcache.store.found import FoundEntry

_log = logging.getLogger("nbcache")


class Approval:
    """Of one store, by its owner's daemon."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._seen: set[str] = set()

    def go_on(self, store: Store, seconds: float) -> None:
        """Approve what trusted users newly say that they used well, for so long [s]."""
        deadline = time.monotonic() + seconds
        good = quarantine.good(store.path, store.trust)
        self._seen &= good.keys()
        for digest in good.keys() - self._seen:
            if time.monotonic() > deadline:
                return
            self._seen.add(digest)
            if layout.is_key(good[digest]):
                for found in store.find(good[digest]):
                    if not found.proven and found.digest == digest:
                        quarantine.approve(found.path, digest)


def approve(store: Store, key: str, since: float) -> None:
    """Approve what was built for a key since then [Unix s], and called by the one who built it."""
    for found in store.find(key):
        if found.header.created >= since:
            quarantine.approve(found.path, found.digest)


def have_rebuilt(store: Store, suspected: Callable[[str], None]) -> None:
    """Remove what is quarantined, and ask for it again where it says how to: workers do the rest.

    Each key is told first, so that what is built for it is tried before anybody gets it.
    """
    quarantine.settle(store.path, store.trust)
    for suspect in quarantine.read(store.path, store.trust).values():
        if not suspect.condemned:
            continue
        for found in list(store.find(suspect.key)):
            if found.digest == suspect.digest:
                suspected(suspect.key)
                asked = _ask(store, found)
                if store.remove(found.path):
                    what = "a daemon builds it again" if asked else "the next program that needs it builds it"
                    name = one_line(found.header.function)
                    _log.warning(
                        "removed the entry of %s because %d programs crashed with it; %s", name, suspect.crashes, what
                    )


def _ask(store: Store, found: FoundEntry) -> bool:
    line = found.section(requests.SECTION)
    try:
        return line is not None and spool.submit(store.path, requests.read(line)) is not None
    except BadRequestError:
        return False
