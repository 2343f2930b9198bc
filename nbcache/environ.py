"""What the environment says besides settings, and what children and Numba are told by it.

Beside :mod:`nbcache.config`, which reads the settings, the only reader of ``os.environ``.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import Final

from nbcache.config import PREFIX, environment
from nbcache.process import os

_CREDENTIALS: Final = ("AWS_", "AZURE_", "AZBLOB_", "GOOGLE_", "GCS_")
_KEPT: Final = frozenset({"progress", "log", "log_file", "trusted_uids", "umask", "count", "unverified"})
"""The settings that say nothing about what is found and stored."""


def runtime_directory(longest: int) -> str:
    """Return the directory for sockets of this user alone, which may not be there yet.

    Below ``$XDG_RUNTIME_DIR`` or ``/run/user/UID``, which belong to one user; else in ``/tmp``, also where the path is
    longer than that, or is another user's: ``su`` and ``sudo`` may leave the variable as it was.
    """
    for base in (environment().get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        if os.path.isabs(base) and len(os.fsencode(base)) + len("/nbcache") <= longest and _is_ones_own(base):
            return f"{base.rstrip('/')}/nbcache"
    return f"/tmp/nbcache-{os.geteuid()}"  # noqa: S108  whose it is, is looked at


def standard_error_is_the_journal() -> bool:
    """Whether systemd's journal reads what is written to standard error: systemd.exec(5), ``$JOURNAL_STREAM``."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return environment().get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _is_ones_own(directory: str) -> bool:
    try:
        status = os.stat(directory)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022


def credentials() -> str:
    """Return a digest of the environment's credentials for clouds: who has others needs another helper."""
    import hashlib

    own = sorted((name, value) for name, value in os.environ.items() if name.startswith(_CREDENTIALS))
    return hashlib.blake2b(repr(own).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def for_children() -> dict[str, str]:
    """Return the whole environment, for a process that speaks to servers: proxies, certificates, credentials."""
    return dict(os.environ)


def inherited(names: Iterable[str]) -> dict[str, str]:
    """Return those of these variables that are set, to be passed on to another process."""
    return {name: os.environ[name] for name in names if name in os.environ}


def child_environment(root: str, record: str) -> dict[str, str]:
    """Return the environment for a program that is to use the store *root* and to write a warm list."""
    return {**os.environ, "NBCACHE_DIR": root, "NBCACHE_RECORD": record}


def exercise_environment(root: str, record: str, cpu: str) -> dict[str, str]:
    """Return the environment for a program whose compilations are to become a layer, for the processor *cpu*.

    Whatever is compiled is stored in *root*: nothing comes out of other layers or from elsewhere, and no setting says
    otherwise, nor one in a file.
    """
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) or name[len(PREFIX) :].lower() in _KEPT
    }
    settings = {"DIR": root, "RECORD": record, "CPU": cpu, "LAYERS": "none", "REMOTE": "none"}
    settings |= dict.fromkeys(("DISABLE", "READONLY", "RECACHE"), "no")
    return {**plain, **{PREFIX + name: value for name, value in settings.items()}}


def numba_settings() -> dict[str, str]:
    """Return Numba's own settings in the environment, which it reads again before each compilation."""
    # Past the mapping, which decodes every variable; each function that is compiled asks.
    raw = getattr(os.environ, "_data", None)
    if raw is None or os.name != "posix":
        return {name: os.environ[name] for name in os.environ if name.startswith("NUMBA_")}
    return {os.fsdecode(name): os.fsdecode(value) for name, value in raw.items() if name.startswith(b"NUMBA_")}


def tell_numba(cpu_name: str, cpu_features: str) -> None:
    """Set what Numba compiles for, in the environment: there it looks, and so do the daemons' interpreters."""
    os.environ.update(processor_settings(cpu_name, cpu_features))


def tell_numba_nothing() -> None:
    """Take that back."""
    for name in processor_settings(""):
        os.environ.pop(name, None)


def processor_settings(cpu_name: str, cpu_features: str = "") -> dict[str, str]:
    """Return Numba's settings that name a processor. Without the second, the host's features would be used for it."""
    return {"NUMBA_CPU_NAME": cpu_name, "NUMBA_CPU_FEATURES": cpu_features}
