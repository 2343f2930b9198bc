"""The spool: requests as files in ``v1/requests/``, and what became of those that failed in ``v1/failed/``.

``requests/<key>.<uid>-<random>.json``: one request (:mod:`nbcache.protocol.requests`) of somebody with this uid, there
until it is answered: then the entry lies in the store, or a failure in ``failed/``, and the request is removed. Whoever
waits needs nothing else: *a request that is gone, and no entry, means build it yourself.*

``failed/<key>.json`` says why a function can't be built, so that nobody waits for it again for a while;
``failed/rejected-<digest>.json`` is a file in ``requests/`` that was no acceptable request, for the operator::

    nbcache = "failure" · version · key · function · signature · reason · attempts · host · created [Unix s]

``requests/`` may be writable by anybody, and sticky. So a file there is taken for a request only if, looked at through
the open descriptor, it is regular, has one name, is not larger than a request may be, and passes the rule of trust
(:mod:`nbcache.trust`): a function that is to be compiled has to be imported or unpickled. The name is compared
with what is inside.

Nothing here raises for what a filesystem does.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nbcache.passing import let_pass, suppressed
from nbcache.protocol import requests
from nbcache.protocol.requests import BadRequestError
from nbcache.store import atomic, bounded, folders, layout
from nbcache.store.folders import Folder, is_regular
from nbcache.trust import OPEN_FLAGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.protocol.requests import Request
    from nbcache.trust import Trust

FAILURE_VERSION: Final = 1
SUFFIX: Final = ".json"
FAILURE_SECONDS: Final = 3600.0
"""How long a failure keeps others from asking again [s]: what it was due to (memory, a full disk) may be over."""
MAX_FAILURE: Final = 1 << 16
MAX_FAILURES: Final = 1000
"""How many failures are kept; the oldest go first."""
_MAX_REASON: Final = 2000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file in the spool, not looked into yet; equal as long as it is the same file, unchanged."""

    path: str
    inode: int
    size: int
    mtime_ns: int

    @property
    def name(self) -> str:
        """Its name in the spool."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a file in the spool is no request to be acted on: one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something could not be built."""

    key: str
    """"" for what was no request."""
    function: str
    signature: str
    reason: str
    attempts: int
    host: str
    created: float


# -- requests ----------------------------------------------------------------------------------


def submit(root: str, request: Request) -> str | None:
    """Put a request into the spool; return its path, None if it can't be."""
    # A name of its own: where a file is replaced, another mount of a network filesystem may see the new one cut off at
    # the length of the old, and in a sticky directory somebody else's file can't be replaced.
    path = f"{root}/{layout.REQUESTS}/{request.key}.{os.geteuid()}-{os.urandom(8).hex()}{SUFFIX}"
    try:
        atomic.write_file(path, request.line(), durable=False)
    except (OSError, BadRequestError) as raised:
        let_pass(raised)
        return None
    return path


def waits(path: str) -> bool:
    """Whether a request still waits to be answered.

    Opens it, because a network filesystem may answer ``stat`` from what it knew seconds ago; for
    ``open`` it has to ask the server.
    """
    try:
        os.close(os.open(path, OPEN_FLAGS))
    except OSError as raised:
        let_pass(raised)
        return False
    return True


def withdraw(path: str) -> None:
    """Take a request back, or out."""
    folders.remove(path)


def scan(root: str, odd: Callable[[str], None] = lambda _name: None) -> list[Waiting]:
    """Return the files in the spool, the oldest first. ``odd`` is told the name of each item that is no regular file.

    Such an item (a directory, a FIFO, a link) is no request, whatever it is called, and costs no more than its listing.
    """
    found: list[Waiting] = []
    try:
        with Folder(root, layout.REQUESTS) as folder:
            for item in folder.items():
                # Temporaries of those who are writing are hidden files.
                if item.name.startswith("."):
                    continue
                if not is_regular(item):
                    odd(item.name)
                    continue
                with suppressed(OSError):
                    status = item.stat(follow_symlinks=False)
                    path = f"{root}/{layout.REQUESTS}/{item.name}"
                    found.append(Waiting(path, status.st_ino, status.st_size, status.st_mtime_ns))
    except OSError as raised:
        let_pass(raised)
        return []
    return sorted(found, key=lambda waiting: (waiting.mtime_ns, waiting.path))


def take(waiting: Waiting, trust: Trust) -> Request | Rejected | None:
    """Read a file of the spool; None if it is gone."""
    try:
        fd = os.open(waiting.path, OPEN_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        let_pass(error)
        return Rejected(f"it can't be opened: {error.strerror or error}")
    try:
        status = os.fstat(fd)
        problem = _problem(status, fd, trust)
        if problem is not None:
            return Rejected(problem)
        read = requests.read(bounded.read_up_to(fd, requests.MAX_REQUEST + 1))
        request = replace(read, uid=status.st_uid)
    except OSError as error:
        let_pass(error)
        return Rejected(f"it can't be read: {error.strerror or error}")
    except BadRequestError as error:
        return Rejected(str(error))
    finally:
        os.close(fd)
    key, _, rest = waiting.name.partition(".")
    if not rest.endswith(SUFFIX) or key != request.key:
        return Rejected("its name is not that of the request in it")
    return request


def _problem(status: os.stat_result, fd: int, trust: Trust) -> str | None:
    problem = trust.file_problem(status, fd)
    if problem is not None:
        return f"it {problem}"
    if status.st_nlink != 1:
        return f"it has {status.st_nlink} names (hard links)"
    if status.st_size > requests.MAX_REQUEST:
        return f"it is longer than {requests.MAX_REQUEST} bytes"
    return None


# -- failures ----------------------------------------------------------------------------------


def failed(root: str, request: Request, reason: str, attempts: int = 1) -> None:
    """Leave word that a request can't be satisfied."""
    failure = Failure(
        request.key, request.function, request.signature, reason[:_MAX_REASON], attempts, atomic.host(), time.time()
    )
    _write_failure(root, request.key, failure)


def rejected(root: str, waiting: Waiting, reason: str) -> None:
    """Leave word that a file in the spool was no acceptable request.

    Not under the key that it names: whoever put it there would keep others from asking for that.
    """
    failure = Failure("", waiting.name[:200], "", reason[:_MAX_REASON], 1, atomic.host(), time.time())
    _write_failure(root, f"rejected-{hashlib.blake2b(os.fsencode(waiting.name), digest_size=8).hexdigest()}", failure)


def failure(root: str, key: str) -> Failure | None:
    """Return why a key could not be built lately, None if there is no such word."""
    found = _read_failure(f"{root}/{layout.FAILED}/{key}{SUFFIX}")
    if found is None or found.key != key or not -FAILURE_SECONDS < time.time() - found.created < FAILURE_SECONDS:
        return None
    return found


def failures(root: str) -> list[Failure]:
    """Return all of them, the newest first."""
    found = [_read_failure(path) for path in _failure_paths(root)]
    return sorted((each for each in found if each is not None), key=lambda each: -each.created)


def sweep_failures(root: str) -> int:
    """Remove the oldest beyond :data:`MAX_FAILURES`; return how many."""
    dated: list[tuple[float, str]] = []
    with suppressed(OSError), Folder(root, layout.FAILED) as folder:
        for item in folder.json_files():
            with suppressed(OSError):
                dated.append((item.stat(follow_symlinks=False).st_mtime, item.name))
        surplus = sorted(dated)[: max(0, len(dated) - MAX_FAILURES)]
        return sum(folder.remove(name) for _, name in surplus)
    return 0


def forget_failure(root: str, key: str) -> None:
    """The key was built after all."""
    folders.remove(f"{root}/{layout.FAILED}/{key}{SUFFIX}")


def _failure_paths(root: str) -> list[str]:
    with suppressed(OSError), Folder(root, layout.FAILED) as folder:
        return [f"{root}/{layout.FAILED}/{item.name}" for item in folder.json_files()]
    return []


def _write_failure(root: str, name: str, failure: Failure) -> None:
    said = {"nbcache": "failure", "version": FAILURE_VERSION}
    said.update({name: getattr(failure, name) for name in Failure.__slots__})
    data = json.dumps(said).encode("ascii")
    with suppressed(OSError):
        atomic.write_file(f"{root}/{layout.FAILED}/{name}{SUFFIX}", data, durable=False)


def _read_failure(path: str) -> Failure | None:
    found = bounded.read_json(path, MAX_FAILURE)
    try:
        said = {} if found is None else found[0]
        if said["nbcache"] != "failure" or said["version"] != FAILURE_VERSION:
            return None
        text = {name: str(said[name]) for name in ("key", "function", "signature", "reason", "host")}
        return Failure(**text, attempts=int(said["attempts"]), created=float(said["created"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
