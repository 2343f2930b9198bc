"""Who puts the entries of jobs into the store: a process that runs nobody else's code.

What is promised of each entry that a job hands in:

- **It is whole.** It is parsed, and every section compared with its digest, from a file in memory that nobody can
  change any more.
- **It replaces nothing.** A variant that is there and valid stays; where all slots of a key are taken, it is refused.
  Nor is a variant put beside those that another user asked for, to be found once these are evicted. So no job changes
  what somebody else uses.
- **It says where it comes from.** Who asked, as whom the job ran, on which host and for which key, is written over
  whatever the job said of it.
- **It asks for nothing but itself.** An entry says how it can be asked for again, which others do in their own name: by
  reference only, and under its own key.
- **It isn't somebody else's answer.** A job may hand in the entry that it is for, and those of functions which that one
  calls: there is no telling beforehand which. But not one that another user's request is waiting for.

What can't be promised: that an entry holds what Numba would have made of the function. The job runs the code of whoever
asked for it, so its first entry under a key that nobody has built is the word of whom the daemon trusts to ask.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nbcache.plain import one_line
from nbcache.protocol import requests
from nbcache.protocol.requests import BadRequestError
from nbcache.store import entry, layout, usage
from nbcache.store.publish import PUBLISHED, Published

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.daemon.audit import Audit
    from nbcache.store.directory import Store
    from nbcache.store.entry import Header

_log = logging.getLogger("nbcache")
MAX_ENTRY: Final = 256 << 20
"""The largest entry that is taken from a job [bytes]."""
MAX_ENTRIES: Final = 10_000
"""How many one job may hand in."""
MAX_BYTES: Final = 1 << 30
"""How large they may be together [bytes]."""
_NO_MORE: Final = "the job handed in too much"
_OTHERS: Final = "another user's request waits for that key"
_BESIDE: Final = "what is under that key was built for another user"
_NOT_WHOLE: Final = "it is no whole entry"


@dataclass(slots=True)
class Ticket:
    """What one job may hand in, and what that is marked with."""

    key: str = ""
    """What it is for; "" for whatever it makes."""
    asked: int = -1
    """The uid of whoever asked; -1 for the daemon itself."""
    built: int = -1
    """The uid that the job runs as; -1 where that is another host's business."""
    host: str = ""
    """Where it ran; "" for this host."""
    what: str = ""
    """For people."""
    count: int = 0
    size: int = 0
    told: bool = False
    """Whether it told what it used: a job does that once."""


class Publisher:
    """Publishes into one store. Threads may share it. Nothing raises."""

    def __init__(
        self,
        store: Callable[[], Store],
        audit: Audit | None = None,
        waited_for: Callable[[str], int | None] = lambda _key: None,
        published: Callable[[str], None] = lambda _key: None,
    ) -> None:
        """``waited_for`` tells whose request (a uid) waits for a key, if any does.

        ``published`` is told of each key under which there is another entry now; it may be called in any thread.
        """
        self._store = store
        self._audit = audit
        self._waited_for = waited_for
        self._published = published
        # One at a time: an entry is held in memory three times over.
        self._lock = threading.Lock()

    def take(self, ticket: Ticket, read: Callable[[int], bytes]) -> Published:
        """Publish what ``read(most)`` returns, if it may be."""
        with self._lock:
            data = read(MAX_ENTRY)
            parsed = entry.parse(data)
            if parsed is None or any(parsed.section(name) is None for name in parsed.section_sizes):
                return self._refuse(ticket, "", _NOT_WHOLE)
            header = parsed.header
            if not layout.is_key(header.key):
                return self._refuse(ticket, "", _NOT_WHOLE)
            reason = self._objection(ticket, header.key, len(data))
            if reason is not None:
                return self._refuse(ticket, header.key, reason)
            if self._is_beside(ticket, header):
                return Published(ok=False, reason=_BESIDE, path=None)
            origin = {
                "asked": ticket.asked,
                "built": ticket.built,
                "host": ticket.host or layout.host(),
                "for": ticket.key,
            }
            # Nor is it signed by anybody: it was built here.
            marked = header._replace(extra={**header.extra, **origin}, signed=None)
            sections = {name: parsed.section(name) or b"" for name in parsed.section_sizes}
            if not _asks_for_itself(header.key, sections.get(requests.SECTION)):
                del sections[requests.SECTION]
            done = self._store().publish(marked, sections, recache=False, durable=False, keep=True)
        if done.ok and done.reason == PUBLISHED:
            self._published(header.key)
        if done.ok and done.path is not None and self._audit is not None and done.reason == PUBLISHED:
            self._audit.record(
                "published", key=header.key, function=header.function, signature=header.signature, wanted=ticket.key,
                asked=ticket.asked, built=ticket.built, host=origin["host"], build=header.build, bytes=len(data),
                nbcache=str(header.extra.get("nbcache", "")),
            )  # fmt: skip
        return done

    def usage(self, ticket: Ticket, content: bytes) -> None:
        """Write down what a job says that it used: data of bounded size, as anybody may leave there."""
        if ticket.told:
            return
        ticket.told = True
        try:
            record = usage.clean({**json.loads(content), "version": usage.VERSION})
        except (ValueError, TypeError, RecursionError):
            record = None
        if record is not None:
            self._store().write_usage(record)

    def _is_beside(self, ticket: Ticket, header: Header) -> bool:
        """Whether it would be another variant of something that was built for somebody else."""
        there = [found.header for found in self._store().find(header.key)]
        if any(each.guard == header.guard for each in there):
            return False
        return any(each.extra.get("asked") != ticket.asked for each in there)

    def _objection(self, ticket: Ticket, key: str, size: int) -> str | None:
        ticket.count += 1
        ticket.size += size
        if ticket.count > MAX_ENTRIES or ticket.size > MAX_BYTES:
            return _NO_MORE
        if key != ticket.key and self._waited_for(key) not in {None, ticket.asked}:
            return _OTHERS
        return None

    def _refuse(self, ticket: Ticket, key: str, reason: str) -> Published:
        _log.warning(
            "refused an entry that a job for %s handed in: %s", ticket.key[:16] or "its user", one_line(reason)
        )
        if self._audit is not None:
            self._audit.record(
                "refused", key=key, wanted=ticket.key, asked=ticket.asked, built=ticket.built,
                host=ticket.host or os.uname().nodename, reason=reason,
            )  # fmt: skip
        return Published(ok=False, reason=reason, path=None)


def _asks_for_itself(key: str, line: bytes | None) -> bool:
    if line is None:
        return True
    try:
        request = requests.read(line)
    except BadRequestError:
        return False
    return request.key == key and request.value is None
