"""Who puts the entries of jobs into the store: a process that runs nobody else's code.

What is promised of each entry that a job hands in:

- **It is whole.** It is parsed, and every section compared with its digest, from a file in memory that nobody can
  change any more.
- **It replaces nothing.** A variant that is there and valid stays, unless it is one's own, and one's own programs
  crashed with it; where all slots of a key are taken, it is refused.
- **It is for all only under one's own keys**: those that nobody else asked for first, or waits for at the moment, or
  has a job build (:class:`Claims`). Else it goes into the room of who asked (:mod:`nbcache.store.first_askers`), and so
  does what the job hands in after it, which may refer to it. So no job changes what somebody else uses, now or once
  that is evicted.
- **It is a share.** A job hands in so much, and a user's jobs so much in an hour.
- **It says where it comes from.** Who asked, as whom the job ran, on which host and for which key, is written over
  whatever the job said of it.
- **It asks for nothing but itself.** An entry says how it can be asked for again, which others do in their own name: by
  reference only, and under its own key.

What can't be promised: that an entry holds what Numba would have made of the function. The job runs the code of whoever
asked for it, so its first entry under a key that nobody has built is the word of whom the daemon trusts to ask.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nbcache.one_line import log, one_line
from nbcache.protocol import requests
from nbcache.protocol.requests import BadRequestError
from nbcache.store import entry, first_askers, layout, quarantine, usage
from nbcache.store.slots import ALREADY_THERE, PUBLISHED, Published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.daemon.audit import Audit
    from nbcache.store.directory import Store
    from nbcache.store.entry import Entry, Header
    from nbcache.store.locks import Lease

MAX_ENTRY: Final = 256 << 20
"""The largest entry that is taken from a job [bytes]."""
MAX_ENTRIES: Final = 10_000
"""How many one job may hand in."""
MAX_BYTES: Final = 64 << 20
"""How large they may be together [bytes], unless something else is said."""
MAX_REFUSED: Final = 20
"""How many refusals of one job are logged."""
MAX_AN_HOUR: Final = 1 << 30
"""How much the jobs of one user may hand in within an hour [bytes]; those of the store's owner may more."""
_LEAST: Final = 4096
"""What the smallest entry counts as [bytes]: a block of the filesystem, and a place in a folder."""
_HOUR: Final = 3600.0
_NO_MORE: Final = "the job handed in too much"
_NO_MORE_NOW: Final = "its user's jobs handed in too much within this hour"
_OTHERS: Final = "another user asked for that key first"
_NO_KEY: Final = "its key is none that a job may name"
_NOT_WHOLE: Final = "it is no whole entry"


@dataclass(slots=True)
class Ticket:
    """What one job may hand in, and what that is marked with."""

    key: str = ""
    """What it is for; "" for whatever it makes."""
    asked: int = -1
    """The uid of whoever asked; -1 if nobody did."""
    built: int = -1
    """The uid that the job runs as; -1 where that is another host's business."""
    host: str = ""
    """Where it ran; "" for this host."""
    what: str = ""
    """For people."""
    aside: tuple[str, ...] = ()
    """The digests of entries that who asked passes over."""
    count: int = 0
    size: int = 0
    apart: bool = False
    """Whether what comes from now on is for who asked alone."""
    admitted: int = 0
    """How much of what it handed in is in the store now."""
    refused: int = 0
    """How much of what it handed in was refused."""
    told: bool = False
    """Whether it told what it used: a job does that once."""
    claims: Claims | None = None
    """What it may claim; None for a job that may claim nothing."""

    def took(self, key: str, data: bytes) -> None:
        """The store has an entry now that was handed in."""


class Publisher:
    """Publishes into one store. Threads may share it. Nothing raises."""

    def __init__(
        self,
        store: Callable[[], Store],
        audit: Audit | None = None,
        waited_for: Callable[[str], Iterable[int]] = lambda _key: (),
        published: Callable[[str], None] = lambda _key: None,
        *,
        most: int = MAX_BYTES,
    ) -> None:
        """``waited_for`` tells whose requests or jobs (uids) wait for a key, or have claimed it.

        ``published`` is told of each key under which there is another entry for all now; it may be called in any
        thread. A job may hand in so much at ``most`` [bytes]; 0 for no limit.
        """
        self._store = store
        self._audit = audit
        self._waited_for = waited_for
        self._published = published
        self._most = most
        self._hour = 0.0
        """When the hour began that is counted, by the monotonic clock [s]."""
        self._handed_in = Counter[int]()
        """How much the jobs of each user handed in since [bytes]."""
        # One at a time: an entry is held in memory three times over.
        self._lock = threading.Lock()

    def take(self, ticket: Ticket, read: Callable[[int], bytes]) -> Published:
        """Publish what ``read(most)`` returns, if it may be."""
        with self._lock:
            data = read(MAX_ENTRY)
            parsed = entry.parse(data)
            names = () if parsed is None else tuple(parsed.section_sizes)
            if parsed is None or any(parsed.section(name) is None for name in names):
                return self._refuse(ticket, "", _NOT_WHOLE)
            header = parsed.header
            if not layout.is_key(header.key) or layout.is_reserved(header.key):
                return self._refuse(ticket, "", _NO_KEY)
            reason = self._objection(ticket, len(data))
            if reason is not None:
                return self._refuse(ticket, header.key, reason)
            same = self._same(ticket, header)
            there = next(quarantine.sound(same, self._store().path, self._store().trust, ticket.asked), None)
            if there is not None:
                ticket.took(header.key, data)
                return Published(ok=True, reason=ALREADY_THERE, path=there.path)
            apart = ticket.apart or not self._is_for_all(ticket, header.key)
            if apart and ticket.asked < 0:
                return self._refuse(ticket, header.key, _OTHERS)
            ticket.apart = apart
            marked = _marked(ticket, header)
            sections = {name: parsed.section(name) or b"" for name in names}
            if not _asks_for_itself(header.key, sections.get(requests.SECTION)):
                del sections[requests.SECTION]
            # What is the same, and of no use to who asked, is his own where it lies under the same key.
            again = any(each.header.key == marked.key for each in same)
            done = self._store().publish(marked, sections, recache=again, durable=False, keep=True)
        if done.ok:
            ticket.took(header.key, data)
        if done.ok and done.reason == PUBLISHED:
            ticket.admitted += 1
            if not apart:
                self._published(marked.key)
            self._record(
                "published", ticket, key=marked.key, function=header.function, signature=header.signature,
                build=header.build, bytes=len(data), nbcache=str(header.extra.get("nbcache", "")), replaced=again,
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

    def _same(self, ticket: Ticket, header: Header) -> list[Entry]:
        """Return the whole entries of this variant that who asked finds, whoever they were built for."""
        found = self._store().find(header.key, uid=ticket.asked)
        return [each for each in found if each.header.guard == header.guard and each.sections() is not None]

    def _is_for_all(self, ticket: Ticket, key: str) -> bool:
        """Whether a key is nobody's but whose job it is, so that everybody may have what that one makes of it."""
        store = self._store()
        waits = () if key == ticket.key else self._waited_for(key)
        there: set[int | None] = {first_askers.asker(found.header) for found in store.find(key)}
        whose = {*waits, *(there or {first_askers.first(store.path, key, store.trust)})}
        # What an interpreter hands in is nobody's, so it takes no key that is somebody's.
        return {first_askers.named(uid) for uid in whose} <= {
            None,
            *({first_askers.named(ticket.asked)} if ticket.asked >= 0 else ()),
        }

    def _objection(self, ticket: Ticket, size: int) -> str | None:
        ticket.count += 1
        ticket.size += size
        if ticket.count > MAX_ENTRIES or ticket.size > self._most > 0:
            return _NO_MORE
        if time.monotonic() - self._hour > _HOUR:
            self._hour = time.monotonic()
            self._handed_in.clear()
        self._handed_in[ticket.asked] += max(size, _LEAST)
        owners = first_askers.named(ticket.asked) == first_askers.OWNER
        return None if owners or self._handed_in[ticket.asked] <= MAX_AN_HOUR else _NO_MORE_NOW

    def _refuse(self, ticket: Ticket, key: str, reason: str) -> Published:
        ticket.refused += 1
        if ticket.refused > MAX_REFUSED:
            return Published(ok=False, reason=reason, path=None)
        log.warning("refused an entry that a job for %s handed in: %s", ticket.key[:16] or "its user", one_line(reason))
        self._record("refused", ticket, key=key, reason=reason)
        return Published(ok=False, reason=reason, path=None)

    def _record(self, event: str, ticket: Ticket, **fields: object) -> None:
        if self._audit is not None:
            whose = {"wanted": ticket.key, "asked": ticket.asked, "built": ticket.built, "host": _host(ticket)}
            self._audit.record(event, **whose, **fields)


def _marked(ticket: Ticket, header: Header) -> Header:
    """Write into an entry where it comes from, and that it isn't signed by anybody: it was built here."""
    extra = {name: value for name, value in header.extra.items() if name != first_askers.ROOM_OF}
    extra |= {first_askers.ASKED: ticket.asked, "built": ticket.built, "host": _host(ticket), "for": ticket.key}
    if not ticket.apart:
        return header._replace(extra=extra, signed=None)
    # It is of no use on other hosts, where a uid is somebody else's.
    extra |= {first_askers.ROOM_OF: header.key, "here": True}
    return header._replace(key=layout.room(header.key, ticket.asked), extra=extra, signed=None)


def _host(ticket: Ticket) -> str:
    return ticket.host or layout.host()


def _asks_for_itself(key: str, line: bytes | None) -> bool:
    if line is None:
        return True
    try:
        request = requests.read(line)
    except BadRequestError:
        return False
    return request.key == key and request.value is None


MAX_CLAIMS: Final = 16
"""How many keys one job may hold at once: one for each function inside another that is being compiled."""


class Claims:
    """Keys that a job has claimed while it goes through a profile: leases, which the daemon takes and holds for it.

    A job can't write the store, so it can't take a lease. What it compiles under a claim, nobody else begins: others go
    on with something else, and programs wait as long as it gets on (:mod:`nbcache.client.waiting_account`). A claim
    ends with its job at the latest, and a lease with its daemon. Threads may share one.
    """

    def __init__(self, store: Callable[[], Store], may: Callable[[str], bool] = lambda _key: True) -> None:
        """Hold nothing yet; *may* says of a key whether this job may claim it."""
        self._store = store
        self._may = may
        self._lock = threading.Lock()
        self._held: dict[str, Lease] = {}
        self._since: dict[str, float] = {}
        """How much processor time the job had had when a key was first seen to be claimed [s]."""
        self._over = False
        self.stop = False
        """Whether the job is to end soon, because somebody waits for its worker."""

    def working(self, worked: float) -> dict[str, float]:
        """Return how much processor time each claimed key has had [s]; *worked* is that of the job."""
        return {key: worked - self._since.setdefault(key, worked) for key in list(self._held)}

    def has(self, key: str) -> bool:
        """Whether a key is claimed."""
        return key in self._held

    def take(self, key: str) -> bool | None:
        """Claim a key; return whether that is this job's now, and was not before.

        None if the job may not claim it: it needn't wait for anybody, but what it hands in may be for who asked alone.
        """
        with self._lock:
            if self._over or key in self._held:
                return False
            # What leads to rooms are no entries' keys: helpers and requests for profiles have such ones.
            if not layout.is_key(key) or layout.is_reserved(key) or len(self._held) >= MAX_CLAIMS or not self._may(key):
                return None
            lease = self._store().lease(key)
            if lease is None:
                return False
            self._held[key] = lease
            return True

    def release(self, key: str) -> None:
        """Let others have a key."""
        with self._lock:
            lease = self._held.pop(key, None)
            self._since.pop(key, None)
        if lease is not None:
            lease.release()

    def end(self) -> None:
        """The job is over: let others have everything."""
        with self._lock:
            self._over, held = True, list(self._held.values())
            self._held.clear()
        for lease in held:
            lease.release()
