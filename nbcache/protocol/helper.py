"""A client and the helper of its remote tiers: where they meet, and what they say to each other.

One message each way over a ``SOCK_SEQPACKET`` socket, which is closed after that; JSON, at most :data:`MAX_MESSAGE`
bytes::

    question = {"v": 2, "ask": "fetch" | "offer" | "load" | "publish" | "status" | "stop", "key": key, "slot": slot,
                "seconds": how long the answer is waited for, "since": date}
    answer   = {"v": 2, "state": state, "why": text, "slot": slot, "seconds": average of a fetch, …}   ; none to offers

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
from typing import TYPE_CHECKING, Any, Final

from nbcache import config, process
from nbcache.passing import let_pass
from nbcache.process import os, time
from nbcache.records import Record
from nbcache.secret import revealed
from nbcache.store import reasons
from nbcache.trust import overflow_id
from nbcache.values import SECRET, read

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from nbcache.config import Settings
    from nbcache.secret import Secret

VERSION: Final = 2
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
_POLL_SECONDS: Final = 0.002
_AGAIN_SECONDS: Final = 0.005
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


class Answer(Record):
    """What a helper said."""

    state: str
    why: str
    seconds: float
    """How long a fetch takes on average [s]."""
    slot: int
    """Where it came from."""


def meeting(settings: Settings, release: str) -> Meeting:
    """Return where the helper for these settings is met; *release* is the version of nbcache."""
    folder = config.runtime_directory(_MAX_PATH - 21)
    parts = [
        VERSION, release, *(revealed(getattr(settings, name)) for name in _PASSED_ON), config.credentials(),
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
    try:
        with open("/proc/self/status", "rb") as file:
            return next((line.decode("ascii") for line in file if line.startswith(b"Umask:")), "")
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return ""


def _stamp(path: Secret[str] | None) -> list[int]:
    try:
        status = os.stat(path.reveal()) if path is not None else None
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return []
    return [status.st_dev, status.st_ino, status.st_mtime_ns] if status is not None else []


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


def _insist_on_own(folder: str) -> None:
    """Raise OSError unless a directory is there that nobody else can enter: nobody else is met in it."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise NotADirectoryError(errno.ENOTDIR, "it is not a directory of this user alone", folder)


def is_own(peer: socket.socket) -> bool:
    """Whether the other end of a socket is a process of the same user."""
    import socket as sockets

    _pid, uid, _gid = _PEER.unpack(peer.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _PEER.size))
    # The overflow uid stands for anybody (nbcache.trust).
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
        try:
            told = {"v": VERSION, "ask": question, "key": key, "slot": slot, "seconds": seconds, "since": since}
            line.send(json.dumps(told).encode())
            return decode(line.recv(MAX_MESSAGE))
        except OSError as raised:  # it ended, or takes too long
            let_pass(raised)
            return None


def answered(
    place: Meeting, question: str, key: str, seconds: float, *, begin: Callable[[float], bool], slot: int = 0,
    since: float = 0.0,
) -> Answer | None:  # fmt: skip
    """Ask a helper for so long [s] at most, and again where none was there; return what it says, None for nothing.

    *begin* is called, with the time that is left [s], to have one started; it returns whether one may be there soon.
    """
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            return read_answer(ask(place, question, key, left, slot=slot, since=since))
        except OSError as raised:  # none is there
            let_pass(raised)
        if not begin(left):
            return None
        time.sleep(_AGAIN_SECONDS)
    return None


def offer(place: Meeting, key: str) -> bool:
    """Tell a helper of an entry in the store that it may upload; nobody waits for anything. Never raises.

    Return whether one was told.
    """
    import socket as sockets

    try:
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET) as line:
            _insist_on_own(place.folder)
            line.setblocking(False)
            line.connect(place.socket)
            if is_own(line):
                line.send(json.dumps({"v": VERSION, "ask": "offer", "key": key}).encode())
                return True
    except OSError as raised:  # none is there, or it is busy: the entry is in the store
        let_pass(raised)
    return False


def start(settings: Settings, seconds: float) -> bool:
    """Start a helper for these settings; return whether that could be tried. Takes *seconds* at most; never raises."""
    try:
        # No pipe, which may be full.
        with open(os.memfd_create("nbcache-settings"), "w+b") as told:
            told.write(written(settings))
            told.seek(0)
            return detached(_REMOTE, [], seconds, told.fileno())
    except OSError as raised:
        let_pass(raised)
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
    try:
        quiet: list[Any] = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        if told is not None:
            quiet[0] = (os.POSIX_SPAWN_DUP2, told, 0)
        # Not a fork: what other threads hold at the moment stays with them.
        pid = os.posix_spawn(
            python,
            [python, *flags, "-c", _BOOT + code, package, *arguments],
            config.for_children(),
            file_actions=quiet,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
        # What was started ends as soon as it has forked, however long that takes on a crowded machine.
        deadline = time.monotonic() + seconds
        while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    except OSError as raised:
        let_pass(raised)
        return False
    return True


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


def read_answer(found: dict[str, Any] | None) -> Answer | None:
    """Read the answer to a fetch; None for what is none."""
    if found is None or found.get("state") not in STATES:
        return None
    seconds, slot = found.get("seconds"), found.get("slot")
    seconds = seconds if type(seconds) is float else 0.0
    return Answer(found["state"], str(found.get("why", "")), seconds, slot if type(slot) is int else 0)
