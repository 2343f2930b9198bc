"""Settings that are plain text, and first of all paths: many a process has no other than where its store is.

:mod:`nbcache.setting_syntax` reads all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nbcache import process
from nbcache.process import os

if TYPE_CHECKING:
    from collections.abc import Callable

PATHS: Final = ("dir", "record", "count", "stats_log", "log_file")
"""The settings that are paths."""
A_PATH: Final = "a path"
HOST: Final = "host"
"""As a processor: whatever the process runs on, with all that it can do."""


def text(value: object) -> str:
    """Read text. Raises ValueError for what is none."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(value)
    return value.strip()


def path(value: object) -> str:
    """Read a path, and make it absolute now: a later ``chdir`` must not move the store. Raises ValueError, OSError."""
    found = text(value)
    if not found:
        raise ValueError(value)
    return os.path.abspath(_expand_user(found))


def _expand_user(text: str) -> str:
    if process.heeds_environment() or text.partition("/")[0] != "~":
        return os.path.expanduser(text)
    import pwd  # HOME is of the environment, too

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir + text[1:]
    except KeyError as error:
        raise ValueError(text) from error


def read_path(value: object) -> Any:
    """Read the value of a setting that is a path. Raises as :func:`read_by`."""
    return read_by(path, A_PATH, value)


def read_by(reader: Callable[[object], object], accepted: str, value: object, *, is_secret: bool = False) -> Any:
    """Read a value. Raises ValueError(given, accepted), two texts that may be shown, for what the reader rejects."""
    try:
        return reader(value)
    except (ValueError, TypeError, OverflowError, LookupError, OSError):
        given = "…" if is_secret else f"{value!r:.100}"
    # Not in the handler: what the reader raised holds the value.
    raise ValueError(given, accepted)
