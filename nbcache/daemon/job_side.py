"""A job's side of what it may do: ask the daemon to judge a file, hand it an entry, say how it ended.

A job can't write the store, and where it has a namespace of users, it can't even tell whose a file is. So it *asks*,
over the channel that is its own, and waits for the answer::

    {"judge": "writers" | "owner", "sticky": bool} + what it opened    ->  {"problem": text | null}
    {"entry": true} + a sealed file                                     ->  {"ok": bool, "reason": text}
    {"claim": key}                                                      ->  {"ok": bool | null, "stop": bool}

and it *says*, and gets no answer::

    {"started": true}    {"result": JSON} | {"error": text} | {"crash": text}
    {"usage": true} + a sealed file    {"release": key}    {"done": true}

An interpreter has such a channel too, while nothing that a job brings runs in it.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from nbcache import environ
from nbcache.daemon import channel
from nbcache.errors import EntryError
from nbcache.file_trust import Trust, overflow_id
from nbcache.keyring import Keyring
from nbcache.store import entry
from nbcache.store.directory import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbcache.glue.keys.key_maker import KeyMaker
    from nbcache.protocol.profiles import Profile
    from nbcache.store.entry import Header
    from nbcache.store.locks import Lease
    from nbcache.store.slots import Published

KERNELS_VARIABLE: Final = "NBCACHE_JOB_KERNELS"
"""Set where jobs build kernels, for which their interpreter is made ready."""
LANDLOCK_VARIABLE: Final = "NBCACHE_JOB_LANDLOCK"
"""Set by an interpreter that writes nothing but its scratch directory, though it has no namespaces."""
store: HandingStore
"""The daemon's, as this process and those that it forks see it, once its interpreter has opened it."""
maker: KeyMaker | None = None
"""What makes keys in this process and in those that it forks, once its interpreter has prepared it."""
share: Callable[[Profile], None] | None = None
"""Has this process divide with others what it compiles from now on, once its interpreter has switched the cache on."""
_GONE: Final = "the daemon is gone"


class Link:
    """One process's channel to the daemon. Threads may share it; the children of that process may not."""

    def __init__(self, end: channel.Channel) -> None:
        """Take over a channel that blocks."""
        self._channel = end
        self._lock = threading.Lock()
        # Not the pid, which is 1 in an interpreter as well as in its jobs.
        self._owner = _process()

    def say(self, message: dict[str, Any], *fds: int) -> None:
        """Send something that has no answer. Raises OSError."""
        self._insist()
        with self._lock:
            self._channel.send(message, *fds)

    def ask(self, message: dict[str, Any], *fds: int) -> dict[str, Any]:
        """Send something and return the answer. Raises OSError."""
        self._insist()
        with self._lock:
            self._channel.send(message, *fds)
            try:
                received = self._channel.receive()
            except channel.BadMessageError as error:
                raise OSError(str(error)) from error
        if received is None:
            raise OSError(_GONE)
        channel.close_all(received[1])
        return received[0]

    def close(self) -> None:
        """Close this process's end."""
        self._channel.close()

    def _insist(self) -> None:
        if self._owner != _process():
            raise PermissionError("only the job itself may do that, and not what it started")


_forks = 0


def _forked() -> None:
    global _forks  # noqa: PLW0603  one process, one count
    _forks += 1


os.register_at_fork(after_in_child=_forked)


def _process() -> tuple[int, int]:
    return os.getpid(), _forks


class _Current:
    link: Link | None = None
    held: list[bytes] | None = None
    """Entries that aren't handed in yet; None where each is handed in at once."""
    claims: set[str] | None = None
    """The keys that this job has claimed; None for a job that claims nothing."""
    stopped = False
    """Whether it is to end soon."""
    refused = False
    """Whether something that it handed in was not taken."""


_current = _Current()


def hold_back() -> None:
    """Keep what is compiled from now on until :func:`hand_in`."""
    _current.held = []


def hand_in() -> None:
    """Hand the daemon what was held back. Nothing is held back any more."""
    held, _current.held = _current.held or [], None
    for data in held:
        _handed_in(data)


def begin_to_claim() -> None:
    """Have each key claimed from now on that this job compiles something under."""
    _current.claims = set()


def may_go_on() -> bool:
    """Whether there is any use in compiling more: nobody waits for this worker, and what was handed in was taken."""
    return not (_current.stopped or _current.refused)


def was_refused() -> bool:
    """Whether something that was handed in was not taken."""
    return _current.refused


class _Claim:
    """A lease that the daemon holds for this job."""

    held = True

    def __init__(self, key: str) -> None:
        self.key = key

    def release(self) -> None:
        """Let others have it."""
        if _current.claims is not None and _current.link is not None and self.key in _current.claims:
            _current.claims.discard(self.key)
            with suppress(OSError):
                _current.link.say({"release": self.key})


def _claimed(key: str) -> Lease | None:
    from nbcache.store.locks import Lease

    assert _current.claims is not None
    assert _current.link is not None
    if key in _current.claims:
        return Lease(key, None)
    try:
        said = _current.link.ask({"claim": key})
    except OSError:
        return Lease(key, None)
    _current.stopped |= bool(said.get("stop"))
    if said.get("ok") is None:
        return Lease(key, None)
    if not said["ok"]:
        return None
    _current.claims.add(key)
    return cast("Lease", _Claim(key))


def connect(end: channel.Channel) -> Link:
    """Make this process the one at the other end of *end*."""
    _current.link = Link(end)
    return _current.link


class Judged(Trust):
    """The rule of trust where owners have no numbers: whoever stands outside is asked."""

    __slots__ = ("_answers", "_overflow")

    def __init__(self, trusted_uids: frozenset[int]) -> None:
        """Trust whom the daemon trusts, whose own uid is one of ``trusted_uids``."""
        super().__init__(trusted_uids)
        self._overflow = overflow_id("uid"), overflow_id("gid")
        self._answers: dict[tuple[object, ...], str | None] = {}

    def allows(self, status: os.stat_result, at: int | str) -> bool:
        """See Trust."""
        if not self._is_hidden(status):
            return super().allows(status, at)
        return stat.S_ISREG(status.st_mode) and self.writers_problem(status, at) is None

    def writers_problem(self, status: os.stat_result, at: int | str, *, may_be_sticky: bool = False) -> str | None:
        """See Trust."""
        if not self._is_hidden(status):
            return super().writers_problem(status, at, may_be_sticky=may_be_sticky)
        return self._ask(status, at, "writers", may_be_sticky)

    def owner_problem(self, status: os.stat_result, at: int | str) -> str | None:
        """See Trust."""
        return self._ask(status, at, "owner", False) if self._is_hidden(status) else super().owner_problem(status, at)

    def _is_hidden(self, status: os.stat_result) -> bool:
        return (status.st_uid == self._overflow[0] or status.st_gid == self._overflow[1]) and _current.link is not None

    def _ask(self, status: os.stat_result, at: int | str, what: str, sticky: bool) -> str | None:
        # Whoever changes mode, owner or list of a file changes its ctime.
        about = (status.st_dev, status.st_ino, status.st_ctime_ns, what, sticky)
        if about not in self._answers:
            self._answers[about] = self._asked(at, what, sticky)
        return self._answers[about]

    @staticmethod
    def _asked(at: int | str, what: str, sticky: bool) -> str | None:
        assert _current.link is not None
        try:
            fd = at if isinstance(at, int) else os.open(at, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                problem = _current.link.ask({"judge": what, "sticky": sticky}, fd)["problem"]
            finally:
                if fd != at:
                    os.close(fd)
        except (OSError, KeyError) as error:
            return f"can't be judged: {error}"
        return None if problem is None else str(problem)


def rule() -> Trust:
    """Return the rule of trust, for whom the daemon trusts, as it puts that into the environment."""
    return Judged(frozenset(map(int, environ.inherited(("NBCACHE_TRUSTED_UIDS",))["NBCACHE_TRUSTED_UIDS"].split(","))))


def _handed_in(data: bytes) -> Published:
    if _current.link is None:
        return _published(False, _GONE)
    try:
        with channel.sealed(data) as fd:
            said = _current.link.ask({"entry": True}, fd)
        return _published(bool(said["ok"]), str(said["reason"]))
    except (OSError, KeyError, ValueError, TypeError) as error:
        return _published(False, f"it can't be handed in: {error}")


def _published(ok: bool, reason: str) -> Published:
    from nbcache.store.slots import Published

    return Published(ok=ok, reason=reason, path=None)


def keyring() -> Keyring:
    """Return the keys that the daemon trusts, as it puts them into the environment."""
    return Keyring(environ.inherited(("NBCACHE_TRUSTED_KEYS",)).get("NBCACHE_TRUSTED_KEYS", "").split())


class HandingStore(Store):
    """A store that this process reads, and that the daemon writes."""

    journals = False

    def publish(
        self,
        header: Header,
        sections: Mapping[str, bytes],
        *,
        recache: bool | None = None,  # noqa: ARG002  a job replaces nothing
        durable: bool = True,  # noqa: ARG002
        keep: bool = True,  # noqa: ARG002
    ) -> Published:
        """Hand an entry to the daemon."""
        try:
            data = entry.encode(header, sections)
        except (EntryError, ValueError, TypeError) as error:
            return _published(False, f"it can't be handed in: {error}")
        if _current.held is not None:
            _current.held.append(data)
            return _published(True, "held back")
        done = _handed_in(data)
        _current.refused |= not done.ok
        return done

    def lease(self, key: str) -> Lease | None:
        """Hold nothing: the daemon does, for a job that claims what it compiles, and else for each job's own key."""
        if _current.claims is not None and _current.link is not None:
            return _claimed(key)
        from nbcache.store.locks import Lease

        return Lease(key, None)

    def write_usage(self, record: Mapping[str, object]) -> str | None:
        """Hand a usage record to the daemon."""
        with suppress(OSError, ValueError, TypeError):
            if _current.link is not None:
                with channel.sealed(json.dumps(dict(record)).encode()) as fd:
                    _current.link.say({"usage": True}, fd)
        return None

    def tidy(self, budget: float = 0.0) -> bool:  # noqa: ARG002
        """Leave that to the daemon."""
        return False
