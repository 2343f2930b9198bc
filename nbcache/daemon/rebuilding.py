"""Entries on trial: approving what programs used well, and building again what they crashed with.

A process may say of its own entries that it used them well. Whoever shares a store with the one who owns them can't, so
a daemon does it for them, by what their usage records say, which tell whether a process has ended well.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Final

from nbcache.plain import one_line
from nbcache.protocol import requests, spool
from nbcache.protocol.requests import BadRequestError
from nbcache.store import quarantine, usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.store.directory import Store
    from nbcache.store.found import FoundEntry

_log = logging.getLogger("nbcache")
REMEMBERED: Final = 100_000
"""How many records are known not to be looked at again."""


class Approval:
    """Of one store, by its owner's daemon."""

    def __init__(self) -> None:
        """Know no record yet."""
        self._seen: dict[str, int] = {}
        """How much of each there was."""

    def go_on(self, store: Store, seconds: float) -> None:
        """Approve what records of trusted users say was used whose processes have ended well, for so long [s]."""
        deadline = time.monotonic() + seconds
        for path in usage.paths(store.path):
            if time.monotonic() > deadline:
                return
            try:
                size = os.lstat(path).st_size
            except OSError:
                continue
            if self._seen.get(path) == size:
                continue
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[path] = size
            found = usage.load(path, trust=store.trust)
            if found is not None and found[0]["end"]:
                for key in found[0]["hits"]:
                    _approve(store, key, found[0]["start"])


def _approve(store: Store, key: str, since: float) -> None:
    """Approve the entries of a key that were there when somebody began who used them."""
    for found in store.find(key):
        if not found.proven and found.header.created < since:
            quarantine.approve(found.path, found.digest)


def have_rebuilt(store: Store, suspected: Callable[[str], None]) -> None:
    """Remove what is quarantined, and ask for it again where it says how to: workers do the rest.

    Each key is told first, so that what is built for it is tried before anybody gets it.
    """
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
