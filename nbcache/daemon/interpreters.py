"""Whose interpreters a daemon starts, with what environment, and whether they may be started.

The last is found out beside the daemon's loop. A request names its interpreter, which may lie on a file server that is
gone, or on one that its user has made for the purpose. To look at it then waits for ever, and a daemon that did so
would serve nobody, be ended by its watchdog, and meet the same request again. So a thread looks, and the request waits,
taking no worker, for :data:`SECONDS` at most.
"""

from __future__ import annotations

import glob
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from nbcache import environ
from nbcache.config import Settings
from nbcache.daemon import interpreter_boot, job_side
from nbcache.file_trust import Trust
from nbcache.importing import Paths
from nbcache.secret import Secret, revealed

_EARLY: Final = ("encodings", "collections", "ctypes", "importlib", "json", "logging", "re", "lib-dynload")
"""The packages of Python's library that are imported before its files are judged one by one."""
_PACKAGES: Final = ("site-packages", "dist-packages")
_MAX_SETTINGS: Final = 1 << 16
_PASSED_ON: Final = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "HOME", "TZ",
    "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX",  # where there may be a CUDA toolkit
)  # fmt: skip


def problem(interpreter: str, trust: Trust) -> str | None:
    """Say why an interpreter isn't started; None if it may be.

    The rule of trust, for the file and the path by which it was found (a link to Python in somebody's virtual
    environment makes that environment's packages the ones that are imported), and for all that Python itself reads
    before the finder is there that judges the rest (:mod:`nbcache.daemon.interpreter_boot`): what says where its
    library is, as much of the library as it may import until then, and the ``.pth`` files beside the packages, whose
    lines are executed.
    """
    if not os.path.isabs(interpreter):
        return "is no absolute path"
    paths = Paths(trust)
    try:
        real = _open(paths, interpreter)
        prefixes = [os.path.dirname(os.path.dirname(each)) for each in (interpreter, real)]
        # Python looks in both places.
        for settings in (f"{os.path.dirname(interpreter)}/pyvenv.cfg", f"{prefixes[0]}/pyvenv.cfg"):
            if os.path.lexists(settings):
                prefixes += [os.path.dirname(_home(paths, settings)), os.path.dirname(settings)]
        for prefix in prefixes:
            # As Python will go there, links included.
            _insist("", paths.problem(prefix))
        for prefix in dict.fromkeys(map(os.path.realpath, prefixes)):
            _judge_library(paths, prefix)
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"can't be used: {error.strerror or error}"
    return None


def _open(paths: Paths, path: str) -> str:
    fd, real = paths.open(path)
    os.close(fd)
    return real


def _home(paths: Paths, settings: str) -> str:
    """Where a virtual environment's Python has its library from. Raises OSError, ValueError."""
    try:
        fd, _real = paths.open(settings)
    except ValueError as error:
        raise ValueError(f"has a pyvenv.cfg that {error}") from error
    with open(fd, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.partition("=") for line in file.read(_MAX_SETTINGS).splitlines()]
    home = next((value.strip() for name, _, value in lines if name.strip().lower() == "home"), "")
    # "" would be the current directory, relative paths are somebody's mistake.
    if not os.path.isabs(home):
        raise ValueError("has a pyvenv.cfg without a home")
    return home


def _judge_library(paths: Paths, prefix: str) -> None:
    """Raises OSError, ValueError."""
    for library in glob.glob(f"{glob.escape(prefix)}/lib*/python3*"):
        for name in ("", *_EARLY):
            for folder in (f"{library}/{name}".rstrip("/"), f"{library}/{name}/__pycache__".replace("//", "/")):
                _judge_files(paths, folder, "")
        for name in _PACKAGES:
            _judge_files(paths, f"{library}/{name}", ".pth")
    for name in _PACKAGES:
        # Debian's, for all versions of Python 3.
        _judge_files(paths, f"{prefix}/lib/python3/{name}", ".pth")
    for shared in glob.glob(f"{glob.escape(prefix)}/lib*/libpython3*.so*"):
        _insist(f"has {shared}, which", _problem_of(paths, shared))


def _judge_files(paths: Paths, folder: str, suffix: str) -> None:
    """The folder, if there is one, and all files in it whose names end so."""
    if not os.path.isdir(folder):
        return
    problem = paths.problem(folder)
    _insist("", problem)
    with os.scandir(folder) as items:
        names = [item.name for item in items if item.name.endswith(suffix) and not item.is_dir()]
    for name in names:
        _insist(f"has {folder}/{name}, which", _problem_of(paths, f"{folder}/{name}"))


def _problem_of(paths: Paths, path: str) -> str | None:
    # What isn't a link in a directory that only trusted people write stays what it is: no need to open it.
    status = os.lstat(path)
    if not stat.S_ISLNK(status.st_mode):
        return paths.trust.file_problem(status, path)
    try:
        _open(paths, path)
    except ValueError as error:
        return str(error)
    return None


def _insist(what: str, problem: str | None) -> None:
    if problem is not None:
        raise ValueError(f"{what} {problem}".strip())


def _hidden(key: Secret[str] | None) -> dict[str, str]:
    """Say which file jobs shall not see; jobs see what isn't the name of one, and may be a key itself."""
    path = key and os.path.realpath(key.reveal())
    return {interpreter_boot.HIDDEN_VARIABLE: path} if path and os.path.exists(path) else {}


def environment(
    trust: Trust, settings: Settings, numba_settings: Mapping[str, str], *, kernels: bool = False
) -> dict[str, str]:
    """Return the environment that a daemon's interpreters get: whom and which keys it trusts, and little
    else.

    *numba_settings* are the client's: Numba reads some of them once, before anything is compiled. *kernels*: whether
    those are what is to be built.
    """
    passed = environ.inherited(_PASSED_ON)
    return {
        **({interpreter_boot.PATH_VARIABLE: passed.pop("PYTHONPATH")} if "PYTHONPATH" in passed else {}),
        **passed,
        "NBCACHE_TRUSTED_UIDS": ",".join(map(str, sorted(trust.uids))),
        **_hidden(settings.signing_key),
        **({"NBCACHE_TRUSTED_KEYS": " ".join(revealed(settings.trusted_keys))} if settings.trusted_keys else {}),
        "NBCACHE_LOG": settings.log,
        **({"NBCACHE_UNVERIFIED": "1"} if settings.unverified else {}),
        **({job_side.KERNELS_VARIABLE: "1"} if kernels else {}),
        **numba_settings,
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


SECONDS: Final = 10.0
"""How long an interpreter may be looked at [s]."""
MAX_HANGING: Final = 32
"""How many of one user's interpreters may be being looked at: each takes a thread, until its filesystem answers."""
_SILENT: Final = "can't be looked at: its filesystem doesn't answer"
_ENOUGH: Final = f"is not looked at: {MAX_HANGING} others of this user are on filesystems that don't answer"


@dataclass(slots=True)
class _Look:
    uid: int
    trust: Trust
    began: float = field(default_factory=time.monotonic)
    verdict: Future[str | None] = field(default_factory=Future)


class Judging:
    """What is known of interpreters. One thread asks."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """*wake* is called, in any thread, when a look has ended."""
        self._wake = wake
        self._looks: dict[str, _Look] = {}

    def is_over(self, interpreter: str, trust: Trust, uid: int) -> bool:
        """Whether there is a verdict, or won't be one; begin to look if nobody does. Raises OSError (no thread)."""
        look = self._looks.get(interpreter)
        if look is None or (look.trust is not trust and look.verdict.done()):
            if self._hanging(uid) >= MAX_HANGING:
                return True
            look = self._looks[interpreter] = _Look(uid, trust)
            self._begin(look, interpreter)
        return look.verdict.done() or time.monotonic() - look.began > SECONDS

    def problem(self, interpreter: str) -> str | None:
        """Say why an interpreter isn't started, after :meth:`is_over`; None if it may be. A verdict holds once."""
        look = self._looks.get(interpreter)
        if look is None:
            return _ENOUGH
        if not look.verdict.done():
            return _SILENT
        return self._looks.pop(interpreter).verdict.result()

    def _hanging(self, uid: int) -> int:
        return sum(look.uid == uid and not look.verdict.done() for look in self._looks.values())

    def _begin(self, look: _Look, interpreter: str) -> None:
        def judge() -> None:
            try:
                look.verdict.set_result(problem(interpreter, look.trust))
            except Exception as error:  # noqa: BLE001  whoever asks gets it
                look.verdict.set_exception(error)
            self._wake()

        try:
            threading.Thread(target=judge, name="nbcache judges", daemon=True).start()
        except RuntimeError as error:
            look.verdict.set_exception(OSError(str(error)))
