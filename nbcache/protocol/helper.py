"""A client and the helper of its remote tiers: where they meet, and what they say to each other.

One message each way over a ``SOCK_SEQPACKET`` socket, which is closed after that; JSON, at most :data:`MAX_MESSAGE`
bytes::

    question = {"v": 3, "ask": "fetch" | "offer" | "load" | "publish" | "status" | "stop", "key": key, "slot": slot,
                "seconds": how long the answer is waited for, "since": date}
    answer   = {"v": 3, "state": state, "why": text, "slot": slot, "seconds": average of a fetch}   ; none to offers
             | {"v": 3, "tiers": …}                                     ; to "status": `nbcache.remote.helper.Helper`

Who fetches says from which slot on, and is told which one something came from: a key's next variant is only asked for
by who can't use the first. ``load`` and ``publish`` are about a published name, which stands for the key; who loads has
one of that date in a layer, which the helper doesn't know, and wants none that is older.

A helper serves one uid and one set of settings. Its socket lies in a directory that only this uid can enter, both sides
ask the kernel who the other is, and neither has to believe the other much: all that a client does with an answer is to
look into the store again, where the rule of trust holds.

No side keeps a connection, so a client that forks shares nothing with its child.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import signal
import stat
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nbcache import __version__, config, environ, memory_files, process
from nbcache.file_trust import overflow_id
from nbcache.grammar import Malformed, choice, record
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import os, time
from nbcache.records import Record
from nbcache.secret import Secret, revealed
from nbcache.setting_syntax import SECRET, read
from nbcache.store import reasons

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from nbcache.config import Settings

T = TypeVar("T")
VERSION: Final = 3
MAX_MESSAGE: Final = 1 << 16
CAME: Final = reasons.CAME
"""Something is in the store that wasn't there."""
MISSING: Final = "missing"
"""No tier has it."""
FAILED: Final = "failed"
"""A tier that may have it couldn't be asked; ``why`` says why."""
REFUSED: Final = "refused"
"""What a tier has isn't what it ought to be; ``why`` says what is wrong with it."""
STATES: Final = frozenset({CAME, MISSING, FAILED, REFUSED})
_PASSED_ON: Final = ("dir", "remote", "trusted_keys", "signing_key", "readonly", "trusted_uids", "umask", "max_size")
_PEER: Final = struct.Struct("3i")
AGAIN_SECONDS: Final = 60.0
"""How soon a process starts another helper if one came to nothing [s]."""
_POLL_SECONDS: Final = 0.002
_PAUSE_SECONDS: Final = 0.005
"""How soon one that is about to listen is spoken to again [s]."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
"""What a helper heeds, whatever the program that starts it ignores."""
_MAX_PATH: Final = 100
"""The longest path of a socket is 107 bytes, and names have 21."""

_BOOT: Final = (
    "import os, sys\n"
    "fds = os.listdir('/proc/self/fd') if os.path.isdir('/proc/self/fd') else range(1024)\n"
    "for fd in map(int, fds): os.closerange(max(3, fd), fd + 1)\n"
    "if os.fork(): os._exit(0)\n"
    "package = sys.argv.pop(1)\n"
    "sys.path[:] = [*([] if package in sys.path else [package]), *filter(None, sys.path)]\n"
)
"""The helper belongs to nobody: no program finds it among its children, and it keeps nothing open that a program has.

Else the lock of ``flock FILE python …`` or the end of somebody's pipe would be held as long as the helper runs.
"""
_REMOTE: Final = "from nbcache.remote.helper import main\nmain()"


class Meeting(Record):
    """Where a helper is met, by whoever has the same settings."""

    folder: str
    socket: str
    lock: str
    """Held by the helper as long as it runs."""


class Question(Record):
    """What a helper is asked."""

    ask: str
    key: str = ""
    slot: int = 0
    """From which one on."""
    seconds: float = 0.0
    """How long the answer is waited for [s]."""
    since: float = 0.0

    def said(self) -> bytes:
        """Return it as a message."""
        return json.dumps({"v": VERSION, **self._asdict()}).encode()


class Answer(Record):
    """What a helper said."""

    state: str
    """One of :data:`STATES`."""
    why: str = ""
    slot: int = 0
    """Where it came from, or the first that was empty."""
    seconds: float = 0.0
    """How long a fetch takes on average [s]."""


def meeting(settings: Settings, release: str) -> Meeting:
    """Return where the helper for these settings is met; *release* is the version of nbcache."""
    folder = environ.runtime_directory(_MAX_PATH - 21)
    parts = [
        VERSION, release, *(revealed(getattr(settings, name)) for name in _PASSED_ON), environ.credentials(),
        # What a helper writes is for those for whom the program's own files are; and it reads its key once.
        _umask() if settings.umask is None else None, _stamp(settings.signing_key),
    ]  # fmt: skip
    name = hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
    return Meeting(folder, f"{folder}/{name}.sock", f"{folder}/{name}.lock")


def written(settings: Settings) -> bytes:
    """Return what a helper is told of settings."""
    fields = {name: revealed(getattr(settings, name)) for name in (*_PASSED_ON, "log", "log_file")}
    return json.dumps({"v": VERSION, **fields}).encode()


def read_settings(data: bytes) -> Settings:
    """Read that again. Raises ValueError."""
    fields = json.loads(data)
    if not isinstance(fields, dict) or fields.pop("v", None) != VERSION:
        raise ValueError(data)
    for name in SECRET:
        if fields[name] is not None:
            fields[name] = read(name, fields[name])
    fields["trusted_uids"] = frozenset(fields["trusted_uids"])
    return config.Settings(**fields, sources={"log": "helper"})


def _umask() -> str:
    # To ask the kernel for it by umask(2) would change it, for all threads.
    with suppressed(OSError, ValueError), open("/proc/self/status", "rb") as file:
        return next((line.decode("ascii") for line in file if line.startswith(b"Umask:")), "")
    return ""


def _stamp(path: Secret[str] | None) -> list[int]:
    if path is not None:
        with suppressed(OSError, ValueError):
            status = os.stat(path.reveal())
            return [status.st_dev, status.st_ino, status.st_mtime_ns]
    return []


def folder_problem(folder: str) -> str | None:
    """Make the directory where helpers are met, if need be; say what is wrong with it."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        let_pass(error)
        return f"{folder} can't be made: {error.strerror}"
    try:
        _insist_on_own(folder)
    except NotADirectoryError:
        return f"{folder} is not a directory of this user alone (chmod 700, or remove it)"
    except OSError as error:
        let_pass(error)
        return f"{folder} can't be looked at: {error.strerror}"
    return None


def hindrance(folder: str) -> str | None:
    """Say why a helper would end before anybody could ask it, as far as that shows from here."""
    from importlib.util import find_spec

    if find_spec("filelock") is None:
        return "filelock is not installed, which the extra `remote` brings"
    return folder_problem(folder)


def _insist_on_own(folder: str) -> None:
    """Raise OSError unless a directory is there that nobody else can enter: nobody else is met in it."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise NotADirectoryError(errno.ENOTDIR, "it is not a directory of this user alone", folder)


def is_own(peer: socket.socket) -> bool:
    """Whether the other end of a socket is a process of the same user."""
    import socket as sockets

    _pid, uid, _gid = _PEER.unpack(peer.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _PEER.size))
    # The overflow uid stands for anybody (nbcache.file_trust).
    return bool(uid == os.geteuid() and uid != overflow_id("uid"))


def ask(
    place: Meeting, question: str, key: str, seconds: float, *, slot: int = 0, since: float = 0.0
) -> dict[str, Any] | None:
    """Ask a helper; return its answer, None if there is none in time. Raises OSError where no helper is there."""
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET) as line:
        _insist_on_own(place.folder)
        line.settimeout(seconds)
        line.connect(place.socket)
        if not is_own(line):
            return None
        with suppressed(OSError):  # it ended, or takes too long
            line.send(Question(question, key, slot, seconds, since).said())
            return decode(line.recv(MAX_MESSAGE))
        return None


def offer(place: Meeting, key: str) -> None:
    """Tell a helper of an entry in the store that it may upload; nobody waits for anything.

    Raises OSError where none is there, or it is busy: the entry is in the store.
    """
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET) as line:
        _insist_on_own(place.folder)
        line.setblocking(False)
        line.connect(place.socket)
        if is_own(line):
            line.send(Question("offer", key).said())


class Line:
    """What a process has to do with the helper of its settings, which is started where there is none. Threads may
    share it. Nothing raises.
    """

    def __init__(self, settings: Settings) -> None:
        """Look for nobody yet."""
        self.place = meeting(settings, __version__)
        self.problem = ""
        """Why no helper could be started, when that was last tried."""
        self._settings = settings
        self._lock = threading.Lock()
        self._started = -AGAIN_SECONDS

    def ask(
        self, question: str, key: str, seconds: float, *, starting: float = 0.0, slot: int = 0, since: float = 0.0
    ) -> Answer | None:
        """Ask for so long [s] at most, or as long as *starting* a helper may take; None for no answer."""

        def say(left: float) -> Answer | None:
            found = ask(self.place, question, key, min(left, seconds), slot=slot, since=since)
            with suppressed(Malformed):
                return None if found is None else read_answer(found)
            return None

        return self._spoken(say, max(seconds, starting))

    def offer(self, key: str, starting: float = 0.0) -> None:
        """Tell of an entry that may be uploaded; one that has to be started is waited for so long [s]."""
        self._spoken(lambda _left: offer(self.place, key), starting)

    def _spoken(self, say: Callable[[float], T], seconds: float) -> T | None:
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            with suppressed(OSError):  # none is there
                return say(max(left, 0.0))
            if left <= 0 or not self._begin(left):
                return None
            time.sleep(_PAUSE_SECONDS)

    def _begin(self, left: float) -> bool:
        """Have a helper started, unless one was lately; return whether one may be there soon, in what is *left* [s]."""
        with self._lock:
            starts = time.monotonic() - self._started >= AGAIN_SECONDS
            if starts:
                self._started, self.problem = time.monotonic(), ""
        if starts:
            self.problem = hindrance(self.place.folder) or (
                "" if start(self._settings, left) else "its helper can't be started"
            )
        return not self.problem


def start(settings: Settings, seconds: float) -> bool:
    """Start a helper for these settings; return whether that could be tried. Takes *seconds* at most; never raises."""
    # No pipe, which may be full.
    with suppressed(OSError), open(memory_files.memory_file("nbcache-settings"), "w+b") as told:
        told.write(written(settings))
        told.seek(0)
        return detached(_REMOTE, [], seconds, told.fileno())
    return False


def detached(code: str, arguments: list[str], seconds: float, told: int | None = None) -> bool:
    """Have a process run *code* that belongs to nobody, with *arguments* and with what it is *told* as its input;
    return whether that could be tried. Takes *seconds* at most; never raises.
    """
    python = _python()
    if not python:
        return False
    # It may be that Python was told to heed no environment, or no packages of the user.
    flags = [flag for flag, given in (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site)) if given]
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with suppressed(OSError):
        quiet: list[Any] = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        if told is not None:
            quiet[0] = (os.POSIX_SPAWN_DUP2, told, 0)
        # Not a fork: what other threads hold at the moment stays with them.
        pid = os.posix_spawn(
            python,
            [python, *flags, "-c", _BOOT + code, package, *arguments],
            environ.for_children(),
            file_actions=quiet,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
        # What was started ends as soon as it has forked, however long that takes on a crowded machine.
        deadline = time.monotonic() + seconds
        while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return True
    return False


def _python() -> str:
    """Return the interpreter to run a helper with; "" where there is none that could be meant."""
    # A program that embeds Python finds it where whoever started it says; and to others it is that program itself.
    if process.has_rights_of_its_own() or process.is_frozen():
        return ""
    if re.search("python|pypy", os.path.basename(sys.executable or ""), re.IGNORECASE):
        return sys.executable
    beside = f"{sys.prefix}/bin/python3"
    return beside if os.access(beside, os.X_OK) else ""


def decode(data: bytes) -> dict[str, Any] | None:
    """Read a message; None for what is none of this version."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("v") == VERSION else None


read_question: Final = record(Question, others=True)
read_answer: Final = record(Answer, others=True, state=choice(*sorted(STATES)))
