"""Entries on trial: approving what programs used well, and building again what they crashed with.

A process may say of its own entries that it used them well. Whoever shares a store with the one who owns them can only
say so in a file of his own, and the owner's daemon does the rest.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from typing import TYPE_CHECKING

from nbcache.plain import one_line
from nbcache.protocol import requests
from nbcache.protocol.requests import BadRequestError
from nbcache.store import layout, pins, quarantine, standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.daemon.audit import Audit
    from nbcache.protocol.requests import Request
    from nbcache.store.directory import Store
    from nbcache.store.found import FoundEntry
    from nbcache.store.quarantine import Suspect

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


def approve(store: Store, key: str, uid: int, since: float) -> None:
    """Approve what was built for a user's key since then [Unix s], and called by the one who built it."""
    for found in store.find(key, uid=uid):
        if found.header.created >= since:
            quarantine.approve(found.path, found.digest)


def have_rebuilt(store: Store, audit: Audit, asked: Callable[[Request], None]) -> None:
    """Remove what is quarantined for all, and have it built again where it says how to.

    Only what nobody is known to have used well, and no published name refers to. What is asked for is asked for in the
    name of whom it was built for: whatever others have waiting for that key takes no part in it.
    """
    quarantine.settle(store.path, store.trust)
    suspects = quarantine.read(store.path, store.trust)
    # Each key once, whatever is said of how many entries under it.
    for key in {each.key for each in suspects.values() if each.crashes >= quarantine.CRASHES}:
        for found in list(store.find(key)):
            suspect, whose = suspects.get(found.digest), standing.asker(found.header)
            if suspect is None or suspect.key != key or found.proven:
                continue
            if suspect.is_condemned(os.geteuid(), whose):
                with pins.held(store.lease, store.path, store.trust) as pinned:
                    if pinned.problem is None and suspect.key not in pinned.entries:
                        _have_rebuilt(store, found, suspect, audit, asked)


def _have_rebuilt(
    store: Store, found: FoundEntry, suspect: Suspect, audit: Audit, asked: Callable[[Request], None]
) -> None:
    header = found.header
    about = {"key": header.key, "function": header.function, "asked": standing.asker(header)}
    caused = {"caused": sorted(suspect.users), "reason": "programs crashed with it"}
    audit.record("quarantined", **about, **caused)
    request = _request(found)
    if not store.remove(found.path):
        return
    audit.record("removed", **about, **caused)
    if request is not None:
        audit.record("rebuilding", **about, **caused)
        asked(request)
    what = "the next program that needs it builds it" if request is None else "a daemon builds it again"
    name = one_line(header.function)
    _log.warning("removed the entry of %s because %d programs crashed with it; %s", name, suspect.crashes, what)


def _request(found: FoundEntry) -> Request | None:
    """Return what an entry can be asked for with, in the name of whom it was built for."""
    line, whose = found.section(requests.SECTION), standing.asker(found.header)
    try:
        request = None if line is None else requests.read(line)
    except BadRequestError:
        return None
    return request and dataclasses.replace(request, uid=os.geteuid() if whose == standing.OWNER else whose)
