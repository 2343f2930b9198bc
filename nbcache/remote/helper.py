"""The helper: one process for a user and a set of settings, which speaks to the remote tiers for all others.

It is started by the first client that misses something, and ends when nobody has asked it for ten minutes. What it must
never do is keep anybody waiting: a question is answered within :data:`~nbcache.remote.reading.FETCH_SECONDS`, whatever
the tiers do, and what can't be done at all (a library that isn't installed, a key that can't be read) is the answer.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import filelock

import nbcache
from nbcache import signing_keys
from nbcache.client import logs
from nbcache.config import Settings
from nbcache.errors import NbcacheError, RemoteError
from nbcache.grammar import Malformed
from nbcache.one_line import log
from nbcache.protocol import helper as protocol
from nbcache.protocol.helper import Answer, Question
from nbcache.remote.publications import Publications
from nbcache.remote.reading import Reading
from nbcache.remote.tiers import Tier
from nbcache.remote.uploading import Uploading
from nbcache.store import layout
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal

IDLE_SECONDS: Final = 600.0
"""After so long without a question the helper ends [s]."""
QUESTION_SECONDS: Final = 1.0
"""How long a client that connected has to ask something [s]."""
MAX_MEMORY: Final = 4 << 30
"""How much memory the helper may have [bytes]: libraries hold what servers send as errors, however long that is."""
LOCK_SECONDS: Final = 1.0
"""How long the lock is tried for [s]: one that ends holds it still when nobody can reach it any more."""
_THREADS: Final = 32
_BACKLOG: Final = 1024
_MARGIN: Final = 0.9
"""The part of the time that who asked has in which tiers have to answer."""


class Helper:
    """Answers questions. Raises RemoteError if it can't do anything useful."""

    def __init__(self, settings: Settings) -> None:
        """Open the store and make ready for the tiers; nobody is connected to yet."""
        store = Store.open(settings)
        if isinstance(store, Refusal):
            raise RemoteError(store.reason)
        if not store.writable:
            raise RemoteError(f"{store.path} can't be written, and what a remote cache has would be put there")
        keyring = store.keyring
        if not keyring:
            raise RemoteError(
                "NBCACHE_TRUSTED_KEYS is not set: whose entries may be executed? (`nbcache key` makes keys; the word"
                " unsigned takes everything)"
            )
        signing_keys.insist()
        self.tiers = [Tier(address) for address in settings.remote]
        key = signing_keys.read(settings.signing_key) if settings.signing_key is not None else None
        self.uploading = Uploading(store, keyring, self.tiers, key)
        self.reading = Reading(store, keyring, self.tiers, self.uploading.copy)
        self.publications = Publications(store, keyring, self.tiers, key, self.uploading.copy)
        self._store = store
        self._key = key

    def answer(self, question: Question) -> Answer:
        """Answer a client that misses something, or who loads or publishes a name."""
        if question.ask == "fetch":
            return self.reading.fetch(question.key, question.slot)._replace(seconds=self.seconds)
        layout.check_name(question.key)
        if question.ask == "load":
            return self.publications.load(question.key, _MARGIN * question.seconds, question.since)
        return self.publications.publish(question.key)

    @property
    def seconds(self) -> float:
        """How long a fetch takes, on average [s]: all tiers are asked for what none of them has."""
        return float(sum(tier.seconds for tier in self.tiers))

    def status(self) -> dict[str, Any]:
        """Return how things are, as JSON."""
        return {
            "tiers": [tier.status() for tier in self.tiers],
            "fetches": dict(self.reading.counts),
            "refused": dict(self.reading.refused),
            "uploads": dict(self.uploading.counts),
            "waiting": self.uploading.waiting,
            "signs": None if self._key is None else self._key.name,
            "store": self._store.path,
        }


class Server:
    """The socket, and who may speak over it."""

    def __init__(
        self, place: protocol.Meeting, lock: filelock.BaseFileLock, helper: Helper | str, idle: float = IDLE_SECONDS
    ) -> None:
        """Listen; *lock* is held for it. In the place of a helper that can't work stands why. Raises OSError."""
        self._helper = helper
        self._lock = lock
        self._idle = idle
        self._asked = time.monotonic()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(_THREADS, "nbcache-helper")
        with suppress(FileNotFoundError):
            os.unlink(place.socket)
        self._place = place
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.bind(place.socket)
        self._line.listen(_BACKLOG)
        self._line.settimeout(0.5)

    def run(self) -> None:
        """Serve until nobody asks any more, or `stop`."""
        while not self._stopping.is_set() and time.monotonic() - self._asked < self._idle:
            try:
                client, _ = self._line.accept()
            except TimeoutError:
                continue
            except OSError:
                time.sleep(0.05)  # no descriptors left, say
                continue
            self._asked = time.monotonic()
            self._pool.submit(self._serve, client)
        with suppress(OSError):
            os.unlink(self._place.socket)
        self._line.close()
        # Whoever misses something from here on starts another one, which need not wait for what is still uploaded.
        self._lock.release()
        if isinstance(self._helper, Helper):
            self._helper.uploading.drain()

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, Malformed):
            client.settimeout(QUESTION_SECONDS)
            if not protocol.is_own(client):
                return
            said = protocol.decode(client.recv(protocol.MAX_MESSAGE))
            answer = self._answer(protocol.read_question(said)) if said is not None else None
            if answer is not None:
                client.send(json.dumps({"v": protocol.VERSION, **answer}).encode())

    def _answer(self, question: Question) -> dict[str, Any] | None:
        ask, helper = question.ask, self._helper
        about = {"pid": os.getpid(), "release": nbcache.__version__}
        try:
            if ask == "stop":
                self.stop()
            elif isinstance(helper, str):
                return {**Answer(protocol.FAILED, helper)._asdict(), "broken": helper, **about}
            elif ask in {"fetch", "load", "publish"}:
                return helper.answer(question)._asdict()
            elif ask == "offer":
                helper.uploading.offer(question.key)
            elif ask == "status":
                return {**helper.status(), **about}
        except Exception as error:  # noqa: BLE001  whoever asked goes on
            log.debug("traceback of a question", exc_info=True)
            return Answer(protocol.FAILED, f"an internal error of nbcache: {type(error).__name__}")._asdict()
        return None


def main() -> None:
    """Run a helper for the settings on standard input, unless one runs."""
    os.setsid()
    os.chdir("/")
    settings = protocol.read_settings(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    place = protocol.meeting(settings, nbcache.__version__)
    if protocol.folder_problem(place.folder) is not None:
        os._exit(1)
    lock = filelock.UnixFileLock(place.lock, LOCK_SECONDS, 0o600, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        os._exit(0)  # another one was faster
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = MAX_MEMORY if most == resource.RLIM_INFINITY else min(most, MAX_MEMORY)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    logs.configure(settings)
    try:
        helper: Helper | str = Helper(settings)
    except NbcacheError as error:
        helper = str(error)
    except Exception as error:  # noqa: BLE001  who asks is told, and doesn't wait for nobody
        log.debug("traceback of a helper that can't work", exc_info=True)
        helper = f"an internal error of nbcache: {type(error).__name__}"
    server = Server(place, lock, helper)
    signal.signal(signal.SIGTERM, lambda _number, _frame: server.stop())
    server.run()
    # Threads that wait for a server that never answers are not waited for.
    os._exit(0)
