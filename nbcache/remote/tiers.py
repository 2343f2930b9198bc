"""The tiers behind a store, from fast to slow, under the failure policy: nobody waits long for one that doesn't answer.

A tier is asked within :data:`ANSWER_SECONDS`, or where no function waits for it :data:`UPLOAD_SECONDS`, in a thread of
its own: neither name servers nor slow bodies keep to the time limits of the library. What failed is never taken for
"not there".

After failures a tier is left alone for a while, then it is asked one question at a time. Two failures in a row open its
breaker for :data:`FIRST_SECONDS`, which doubles each time the probe that ends it fails,
up to :data:`LONGEST_SECONDS`. A server that says it is asked too often is left alone in the same way, at once and for
less. Each pause is a little longer or shorter than said, by :data:`SPREAD`: hosts that a server failed at the same
moment don't come back at the same moment.
"""

from __future__ import annotations

import math
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from nbcache import server_addresses
from nbcache.errors import RemoteError
from nbcache.one_line import log
from nbcache.remote import storage
from nbcache.remote.storage import StorageError
from nbcache.secret import Secret

CONNECT_SECONDS: Final = 0.1
ANSWER_SECONDS: Final = 0.55
"""How long an answer is waited for [s]; the library itself gives up a little earlier, and says more about it."""
ATTEMPTS: Final = 3
"""How often one look-up or upload asks at most: compiling takes longer, and what was wrong for a moment may be over."""
LONGEST_REST: Final = 1.0
"""The longest pause of a server with too much to do that a look-up waits for [s]."""
LONGEST_PATIENT_REST: Final = 6.0
"""The same for uploads, and for who pushes or pulls a whole store."""
UPLOAD_SECONDS: Final = 6.0
AGAIN_SECONDS: Final = 0.2
"""After how long an upload that failed at once is tried again [s]; up to half of it more or less, by chance."""
PROBE_SECONDS: Final = 0.05
"""How often it is looked whether a server that had too much to do answers somebody else again [s]."""
REMEMBERED_SECONDS: Final = 30.0
"""How long it is remembered that something isn't there [s]."""
MAX_REMEMBERED: Final = 100_000
DENIALS: Final = 3
"""After so many refused uploads none is tried until the credentials are read again."""
CREDENTIALS_SECONDS: Final = 300.0
"""How often they are, then [s]."""
_THREADS: Final = 8


class Got(NamedTuple):
    """What a tier said to a question for an object."""

    data: bytes | None
    """None if it has none, or can't be asked."""
    problem: str = ""
    """Why it couldn't be asked; "" if it could."""


class Tier:
    """One server. Threads may share it; nothing here raises."""

    def __init__(self, address: Secret[str]) -> None:
        """Connect to nobody yet. Raises RemoteError."""
        self.label = str(address)
        self.readonly = server_addresses.READ_ONLY in urlsplit(address.reveal()).query.split("&")
        self._address = address
        self._storage = storage.opened(address)
        self._breaker = Breaker(self.label, time.monotonic)
        self._pool = ThreadPoolExecutor(_THREADS, "nbcache-tier")
        self._absent: dict[str, float] = {}
        self._bad: set[str] = set()
        self._denied = 0
        self._denied_at = 0.0
        self._refuses = False
        """Whether it took nothing when it was last asked to."""
        self.counts: dict[str, int] = {}
        self.seconds = 0.0
        """How long an answer takes, on average [s]."""
        self.problem = ""
        """What went wrong last, and hasn't gone right since."""

    @property
    def writable(self) -> bool:
        """Whether anything may be uploaded at the moment."""
        if self.readonly:
            return False
        if self._denied < DENIALS:
            return True
        if time.monotonic() - self._denied_at < CREDENTIALS_SECONDS:
            return False
        self._read_credentials()
        return True

    def get(self, name: str, seconds: float, *, patient: bool = False, again: bool = False) -> Got:
        """Return an object; within *seconds* at most. Who is *patient* gives an answer as long as an upload has; who
        asks *again* also asks for what wasn't there a moment ago.
        """
        if not again and self._absent.get(name, 0.0) > time.monotonic():
            self._count("remembered")
            return Got(None)
        return self._persist(name, seconds, self._storage.get, patient=patient)

    def head(self, name: str, seconds: float, *, patient: bool = False) -> Got:
        """Return the beginning of an object that may be of use, or all of it; also if it wasn't there a moment ago."""
        if name in self._bad:
            return Got(None)
        return self._persist(name, seconds, self._storage.head, patient=patient)

    def distrust(self, name: str) -> None:
        """Take an object for one that isn't there where it would be in the way: nobody here can use it."""
        if len(self._bad) >= MAX_REMEMBERED:
            self._bad.clear()
        self._bad.add(name)

    def put(self, name: str, data: bytes) -> str:
        """Store an object; return why it isn't there now, "" if it is."""
        if not self.writable:
            return self.problem or f"{self.label}: nothing may be uploaded"
        problem = ""
        for others in reversed(range(ATTEMPTS)):
            if not self._may_ask(time.monotonic() + UPLOAD_SECONDS, patient=True):
                return f"{self.label}: {self._breaker.why}"
            began = time.monotonic()
            try:
                self._within(UPLOAD_SECONDS, lambda: self._storage.put(name, data))
            except StorageError as error:
                at_once = error.kind == storage.UNREACHABLE and time.monotonic() - began < ANSWER_SECONDS
                if at_once and others:
                    # Servers that keep files answer 500 to some of those who are the first to upload into a folder, at
                    # the same moment. The breaker isn't told: nothing is wrong with a server like that.
                    time.sleep(AGAIN_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311
                    continue
                problem = self._refused(error)
                if error.kind != storage.LIMITED:
                    break
            else:
                self._took(name)
                return ""
        return problem

    def _took(self, name: str) -> None:
        """Note that an object was stored."""
        self._denied = 0
        self._refuses = False
        self._fine()
        self._count("stored")
        self._absent.pop(name, None)
        self._bad.discard(name)

    def _refused(self, error: StorageError) -> str:
        """Note that an upload failed; return why."""
        if error.kind == storage.DENIED:
            self._denied += 1
            self._denied_at = time.monotonic()
        # Of a server that doesn't answer, the breaker says so.
        if error.kind in {storage.DENIED, storage.FULL} and not self._refuses:
            self._refuses = True
            log.warning("the remote cache %s doesn't take what is uploaded: %s", self.label, error.why)
        return self._failed("put", error)

    def status(self) -> dict[str, Any]:
        """Return how it is doing, as JSON."""
        return {
            "address": self.label,
            "readonly": self.readonly,
            "writes": self.writable,
            "alone": self._breaker.why,
            "problem": self.problem,
            "milliseconds": round(1000 * self.seconds, 1),
            "counts": dict(self.counts),
        }

    def _persist(
        self, name: str, seconds: float, ask: Callable[[str, float], bytes | None], *, patient: bool = False
    ) -> Got:
        """Ask for something of an object until there is an answer, or no time for another question."""
        deadline = time.monotonic() + seconds
        most = UPLOAD_SECONDS if patient else ANSWER_SECONDS
        got, failure = self._get(name, deadline, ask, patient=patient)
        for _ in range(ATTEMPTS - 1):
            if failure not in {storage.UNREACHABLE, storage.LIMITED} or deadline - time.monotonic() < most:
                break
            got, failure = self._get(name, deadline, ask, patient=patient)
        return got

    def _get(
        self, name: str, deadline: float, ask: Callable[[str, float], bytes | None], *, patient: bool
    ) -> tuple[Got, str]:
        """Ask once; return also how that failed, as one of the words in :mod:`~nbcache.remote.storage`."""
        if not self._may_ask(deadline, patient=patient):
            self._count("left alone")
            return Got(None, f"{self.label}: {self._breaker.why}"), ""
        began = time.monotonic()
        probes = self._breaker.is_new
        most, answer = (storage.PUT_SECONDS, UPLOAD_SECONDS) if patient else (storage.GET_SECONDS, ANSWER_SECONDS)
        try:
            data = self._within(min(deadline - began, answer), lambda: self._asked(name, most, ask, connect=probes))
        except StorageError as error:
            return Got(None, self._failed("get", error)), error.kind
        self._fine(time.monotonic() - began)
        if data is None:
            self._count("missing")
            self._remember_absent(name)
        else:
            self._count("found")
        return Got(data), ""

    def _may_ask(self, deadline: float, *, patient: bool) -> bool:
        """Whether it may be asked now, or after a pause that ends in time; the pause is waited for.

        Who is *patient* waits for longer ones, and for what another one finds out who asks after it.
        """
        if self._breaker.allows():
            return True
        while (rest := self._breaker.rest) <= (LONGEST_PATIENT_REST if patient else LONGEST_REST):
            if time.monotonic() + rest >= deadline:
                return False
            time.sleep(max(rest, PROBE_SECONDS))
            if self._breaker.allows():
                return True
            if not patient:
                return False
        return False

    def _asked(
        self, name: str, seconds: float, ask: Callable[[str, float], bytes | None], *, connect: bool
    ) -> bytes | None:
        if connect and self._storage.server is not None:
            # Whoever isn't there is found out sooner than by the library, which tries again until its time is up.
            try:
                socket.create_connection(self._storage.server, CONNECT_SECONDS).close()
            except OSError as error:
                why = "it can't be connected to in time" if isinstance(error, TimeoutError) else error.strerror
                why = why or "it can't be connected to"
                raise StorageError(storage.UNREACHABLE, why) from error
        return ask(name, seconds)

    def _within(self, seconds: float, call: Callable[[], Any]) -> Any:
        """Return what *call* returns, in a thread of the tier's. Raises StorageError."""
        future = self._pool.submit(call)
        try:
            return future.result(seconds)
        except FutureTimeoutError as error:
            future.cancel()
            raise StorageError(storage.UNREACHABLE, "it doesn't answer in time") from error

    def _fine(self, seconds: float | None = None) -> None:
        self._breaker.succeeded()
        self.problem = ""
        if seconds is not None:
            # The first answer tells how long connecting takes.
            if self.counts.get("asked", 0):
                self.seconds += (seconds - self.seconds) * (0.2 if self.seconds else 1.0)
            self._count("asked")

    def _failed(self, doing: str, error: StorageError) -> str:
        self.problem = f"{self.label}: {error.why}"
        self._count(f"{doing}: {error.kind}")
        if error.kind == storage.LIMITED:
            self._breaker.limited(error.why)
        elif error.kind == storage.UNREACHABLE:
            self._breaker.failed(error.why)
        else:
            # It answers; and what it denies to one request it may allow to another.
            self._breaker.succeeded()
        return self.problem

    def _read_credentials(self) -> None:
        """Begin anew with the library, which reads them when it begins."""
        try:
            self._storage = storage.opened(self._address)
        except RemoteError as error:
            self.problem = str(error)
        self._denied = 0

    def _remember_absent(self, name: str) -> None:
        if len(self._absent) >= MAX_REMEMBERED:
            self._absent.clear()
        self._absent[name] = time.monotonic() + REMEMBERED_SECONDS

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


FAILURES: Final = 2
"""So many in a row open it."""
FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 300.0
FIRST_PAUSE: Final = 0.25
"""How long a server is left alone that says it has too much to do [s], the first time: a look-up can wait for that."""
LONGEST_PAUSE: Final = 60.0
SPREAD: Final = 0.2
"""By which part of it a pause may be longer or shorter."""
LOST_SECONDS: Final = 10.0
"""After so long a probe that nobody reported about is taken for lost [s]."""


class Breaker:
    """The state of one tier. Threads may share it."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic, spread: float = SPREAD) -> None:
        """Closed: everything is let through. *label* is how the log calls the tier."""
        self._label = label
        self._clock = clock
        self._spread = spread
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self._limited = False
        self._pause = 0.0
        self._probed = -LOST_SECONDS
        self.why = ""
        """Why it is open; "" while it is closed."""

    def allows(self) -> bool:
        """Whether the tier may be asked now; who is told so reports how that went."""
        with self._lock:
            if not self.why:
                return True
            now = self._clock()
            if now < self._until or now < self._probed + LOST_SECONDS:
                return False
            self._probed = now
            return True

    @property
    def is_new(self) -> bool:
        """Whether the next question finds out if anybody is there: the first one, and each probe."""
        return bool(self.why) or self._probed < 0

    @property
    def rest(self) -> float:
        """How long a server that has too much to do is left alone yet [s]; infinity if it may not be there."""
        return max(0.0, self._until - self._clock()) if self._limited else math.inf

    def succeeded(self) -> None:
        """The tier answered, whatever it said."""
        with self._lock:
            was, self.why = self.why, ""
            self._failures, self._pause, self._probed = 0, 0.0, 0.0
        if was:
            log.warning("the remote cache %s answers again", self._label)

    def failed(self, why: str) -> None:
        """The tier didn't answer, or with an error of its own."""
        self._limited = False
        self._count(why, FAILURES, FIRST_SECONDS, LONGEST_SECONDS)

    def limited(self, why: str) -> None:
        """The tier says that it is asked too much."""
        self._limited = True
        self._count(why, 1, FIRST_PAUSE, LONGEST_PAUSE)

    def _count(self, why: str, most: int, first: float, longest: float) -> None:
        with self._lock:
            self._failures += 1
            self._probed = -LOST_SECONDS
            if self._failures < most and not self.why:
                return
            opens, self.why = not self.why, why
            self._pause = min(longest, max(first, 2 * self._pause))
            self._until = self._clock() + self._pause * random.uniform(1 - self._spread, 1 + self._spread)  # noqa: S311
        if opens:
            log.warning("the remote cache %s is left alone for a while: %s", self._label, why)
