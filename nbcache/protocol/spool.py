"""The spool: requests as files in ``v1/requests/``, and what became of those that failed in ``v1/failed/``.

``requests/<uid>/<key>.<when>-<random>.json``: one request (:mod:`nbcache.protocol.requests`) of somebody with this
uid, there until it is answered: then the entry lies in the store, or a failure in ``failed/``, or neither, and the
request is removed. *A request that is answered, and no entry, means build it yourself.* ``when`` is in milliseconds
since 1970, as 12 hexadecimal digits, by the clock of who asks: by it the newest are told without looking into any.

The directories are their users' own (:mod:`nbcache.store.user_directories`): if all requests lay in one that everybody
may write, a trusted user's file that a stranger moved in would be that user's request. A file counts only if, looked at
through the open descriptor, it is regular, its owner is the directory's, it has one name, is not larger than a request
may be, and passes the rule of trust (:mod:`nbcache.file_trust`): a function that is to be compiled has to be imported
or unpickled. The name is compared with what is inside.

``answers/<name of a request>``: it is answered, by a daemon that can't remove it (another uid's). Who asked does.

``failed/<key>.json`` says why a function can't be built, so that nobody waits for it again for a while; what the
environment of one client is to blame for (a module that isn't found, an interpreter that doesn't start) keeps only
those from asking who would from the same one, and is called ``<key>.<scope>.json``. What is due to a lack of resources
isn't written down: the next one who asks may find it over.
``failed/rejected-<digest>.json`` is a file that was no acceptable request, for the operator::

    nbcache = "failure" · version · key · function · signature · reason · attempts · host · created [Unix s]

Nothing here raises for what a filesystem does.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Final

from nbcache.errors import PASSING
from nbcache.file_trust import OPEN_FLAGS, Trust
from nbcache.grammar import document, record
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import closing, os, time
from nbcache.protocol import requests
from nbcache.protocol.requests import BadRequestError, Request
from nbcache.records import Record
from nbcache.store import atomic, content, folders, layout, user_directories
from nbcache.store.content import read_up_to
from nbcache.store.folders import Folder

FAILURE_VERSION: Final = 1
SUFFIX: Final = ".json"
FAILURE_SECONDS: Final = 3600.0
"""How long a failure keeps others from asking again [s]: what it was due to (memory, a full disk) may be over."""
MAX_FAILURE: Final = 1 << 16
MAX_FAILURES: Final = 1000
"""How many failures are kept; the oldest go first."""
MAX_AGE: Final = 86400.0
"""From this age a request is not looked at any more [s]: whoever asked has long built it."""
MAX_SCANNED: Final = 10_000
"""How many requests are listed where nothing else is said."""
_MAX_REASON: Final = 2000
_WHEN: Final = re.compile(r"[0-9a-f]{12}", re.ASCII)


class Waiting(Record):
    """A file in the spool, not looked into yet."""

    path: str
    uid: int
    """The owner of its directory."""

    @property
    def name(self) -> str:
        """Its name there."""
        return self.path.rpartition("/")[2]

    @property
    def key(self) -> str:
        """What it asks for, by its name."""
        return self.name.partition(".")[0]

    @property
    def when(self) -> str:
        """What tells which of two is newer, by their names."""
        return self.name.partition(".")[2]

    @property
    def asked(self) -> float:
        """When it was asked for, by the clock of who did [Unix s]; 0 if its name doesn't say."""
        when = self.when.partition("-")[0]
        return int(when, 16) / 1000 if _WHEN.fullmatch(when) else 0.0


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
    when = f"{max(0, int(time.time() * 1000)):012x}"[-12:]
    # A name of its own: where a file is replaced, another mount of a network filesystem may see the new one cut off at
    # the length of the old.
    name = f"{request.key}.{when}-{os.urandom(8).hex()}{SUFFIX}"
    with suppressed(OSError, BadRequestError):
        directory = user_directories.own(root, layout.REQUESTS)
        if directory is not None:
            atomic.write_file(f"{directory}/{name}", request.line(), durable=False)
            return f"{directory}/{name}"
    return None


def waits(path: str) -> bool:
    """Whether a request still waits to be answered.

    Opens it, because a network filesystem may answer ``stat`` from what it knew seconds ago; for
    ``open`` it has to ask the server.
    """
    return _opens(path) and not _opens(_answer_to(path))


def withdraw(path: str) -> None:
    """Take a request back."""
    folders.remove(path)


def answer(path: str) -> bool:
    """Let whoever asked know that there is nothing to wait for any more; return whether they will."""
    if folders.remove(path):
        return True
    if not os.path.lexists(path) or is_answered(path):
        return True
    with suppressed(OSError):
        atomic.write_file(_answer_to(path), b"", durable=False)
        return True
    return False


def is_answered(path: str) -> bool:
    """Whether an answer lies there for a request that nobody has removed."""
    return os.path.lexists(_answer_to(path))


def sweep_answers(root: str, now: float) -> int:
    """Remove answers so old that nobody looks at their requests any more; return how many."""
    with suppressed(OSError), Folder(root, layout.ANSWERS) as folder:
        old = [item.name for item in folder.files() if item.stat(follow_symlinks=False).st_mtime < now - 2 * MAX_AGE]
        return sum(folder.remove(name) for name in old)
    return 0


def scan(root: str, trust: Trust, most: int = MAX_SCANNED) -> list[Waiting]:
    """Return the requests of trusted users, *most* at most, the oldest first."""
    found: list[Waiting] = []
    for folder in user_directories.folders(root, layout.REQUESTS, trust):
        with suppressed(OSError):
            uid = folder.status.st_uid
            names = (item.name for item in folder.json_files())
            room = max(0, most - len(found))
            found.extend(Waiting(f"{root}/{folder.name}/{each}", uid) for each in islice(names, room))
    return sorted(found, key=lambda waiting: waiting.when)


def take(waiting: Waiting, trust: Trust) -> Request | str | None:
    """Read a file of the spool; or say in one line why it is no request to be acted on.

    None if it is gone, or if there is no saying now: it stays, and is looked at again.
    """
    directory, _, name = waiting.path.rpartition("/")
    root, _, drop = directory.rpartition(f"/{layout.REQUESTS}/")
    folder = user_directories.opened(root, layout.REQUESTS, drop, trust)
    if folder is None:
        return None
    with folder:
        try:
            fd = folder.open(name, OPEN_FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            let_pass(error)
            return None if error.errno in PASSING else f"it can't be opened: {error.strerror or error}"
        with closing(fd):
            return _read(fd, waiting, folder, trust)


def _read(fd: int, waiting: Waiting, folder: Folder, trust: Trust) -> Request | str | None:
    try:
        status = os.fstat(fd)
        problem = _problem(status, fd, folder.status.st_uid, trust)
        if problem is not None:
            return problem
        read = requests.read(read_up_to(fd, requests.MAX_REQUEST + 1))
        request = read._replace(uid=status.st_uid)
    except OSError as error:
        let_pass(error)
        return None if error.errno in PASSING else f"it can't be read: {error.strerror or error}"
    except BadRequestError as error:
        return str(error)
    if not waiting.name.endswith(SUFFIX) or waiting.key != request.key:
        return "its name is not that of the request in it"
    return request


def _problem(status: os.stat_result, fd: int, uid: int, trust: Trust) -> str | None:
    problem = trust.file_problem(status, fd)
    if problem is not None:
        return f"it {problem}"
    if status.st_uid != uid:
        return f"it is owned by uid {status.st_uid} and lies in the directory of uid {uid}"
    if status.st_nlink != 1:
        return f"it has {status.st_nlink} names (hard links)"
    if status.st_size > requests.MAX_REQUEST:
        return f"it is longer than {requests.MAX_REQUEST} bytes"
    return None


def _opens(path: str) -> bool:
    with suppressed(OSError):
        os.close(os.open(path, OPEN_FLAGS))
        return True
    return False


def _answer_to(path: str) -> str:
    return f"{path.rpartition(f'/{layout.REQUESTS}/')[0]}/{layout.ANSWERS}/{path.rpartition('/')[2]}"


# -- failures ----------------------------------------------------------------------------------


def failed(root: str, request: Request, reason: str, attempts: int = 1, *, scope: str = "") -> None:
    """Leave word that a request can't be satisfied; with a ``scope``, only from the environment of that."""
    failure = Failure(
        request.key, request.function, request.call, reason[:_MAX_REASON], attempts, layout.host(), time.time()
    )
    _write_failure(root, request.key + (f".{scope}" if scope else ""), failure)


def rejected(root: str, waiting: Waiting, reason: str) -> None:
    """Leave word that a file in the spool was no acceptable request.

    Not under the key that it names: whoever put it there would keep others from asking for that.
    """
    failure = Failure("", waiting.name[:200], "", reason[:_MAX_REASON], 1, layout.host(), time.time())
    _write_failure(root, f"rejected-{hashlib.blake2b(os.fsencode(waiting.name), digest_size=8).hexdigest()}", failure)


def failure(root: str, key: str, scope: str = "") -> Failure | None:
    """Return why a key could not be built lately, for all or from this environment; None if there is no such word."""
    for name in (key, f"{key}.{scope}") if scope else (key,):
        found = _read_failure(f"{root}/{layout.FAILED}/{name}{SUFFIX}")
        if found is not None and found.key == key and -FAILURE_SECONDS < time.time() - found.created < FAILURE_SECONDS:
            return found
    return None


def failures(root: str) -> list[Failure]:
    """Return all of them, the newest first."""
    found: list[Failure | None] = []
    with suppressed(OSError), Folder(root, layout.FAILED) as folder:
        found = [_read_failure(f"{root}/{layout.FAILED}/{item.name}") for item in folder.json_files()]
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


def forget_failure(root: str, key: str, scope: str = "") -> None:
    """The key was built after all."""
    for name in (key, f"{key}.{scope}") if scope else (key,):
        folders.remove(f"{root}/{layout.FAILED}/{name}{SUFFIX}")


def forget_own_failure(root: str, key: str, scope: str) -> None:
    """What was said to those who ask from one environment isn't said any more."""
    folders.remove(f"{root}/{layout.FAILED}/{key}.{scope}{SUFFIX}")


def _write_failure(root: str, name: str, failure: Failure) -> None:
    data = json.dumps({"nbcache": "failure", "version": FAILURE_VERSION, **asdict(failure)}).encode("ascii")
    with suppressed(OSError):
        atomic.write_file(f"{root}/{layout.FAILED}/{name}{SUFFIX}", data, durable=False)


def _read_failure(path: str) -> Failure | None:
    found = content.read_json(path, MAX_FAILURE, parse=lambda data: _FAILURE(content.parsed(data)))
    return None if found is None else found[0]


_FAILURE: Final = document("failure", FAILURE_VERSION, record(Failure, others=True))
