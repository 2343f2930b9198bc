"""Reading the values of settings, from text or from what a file has in TOML.

Each reader raises ValueError, TypeError, OverflowError, LookupError or OSError for what it doesn't accept;
:data:`READERS` has the words for what it does, and :func:`read` shows nobody what may be secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nbcache import path_syntax

if TYPE_CHECKING:
    from nbcache.secret import Secret

MAX_WAIT_SECONDS: Final = 86400.0
_MAX_JOBS: Final = 256
_OTHERS: Final = 0o077
"""The permissions of group and others: a umask that takes the owner's away makes a store that nobody can use."""
_FLAGS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def _items(value: object, between: str = ",") -> list[object]:
    """Return the items of a list, or of text that has *between* between them."""
    return [
        item for item in (value if isinstance(value, list) else path_syntax.text(value).split(between)) if item != ""
    ]


def _is_none(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() == "none"


def _layers(value: object) -> tuple[str, ...] | None:
    return None if _is_none(value) else tuple(dict.fromkeys(map(path_syntax.path, _items(value, os.pathsep))))


def _processor(value: object) -> str:
    from nbcache import processors  # only needed where somebody asks for one

    text = path_syntax.text(value)
    return path_syntax.HOST if text.lower() == path_syntax.HOST else processors.named(text)


def _ladder(value: object) -> tuple[str, ...]:
    from nbcache import processors

    return tuple(dict.fromkeys(processors.named(path_syntax.text(item)) for item in _items(value)))


def _flag(value: object) -> bool:
    return value if isinstance(value, bool) else _FLAGS[path_syntax.text(value).lower()]


def _choice(*words: str) -> Callable[[object], str]:
    return lambda value: {word.lower(): word for word in words}[path_syntax.text(value).lower()]


def _fraction(value: object) -> float:
    if isinstance(value, str):
        value = {"all": 1.0, "none": 0.0}.get(value.strip().lower(), value)
    return _quantity(value, {"": 1.0}, 1.0)


def _name(value: object) -> str:
    text = path_syntax.text(value)
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
        raise ValueError(value)
    return text


def _number(text: str, units: Mapping[str, float]) -> float:
    """Read a decimal number and one of ``units`` after it."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(digits) :].strip().lower()
    # float() takes "1_0", "inf" and other scripts' digits as well; nobody who writes those means a size.
    if unit not in units or not digits.isascii() or not digits.replace(".", "", 1).isdigit():
        raise ValueError(text)
    return float(digits) * units[unit]


_SECONDS: Final = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_SECONDS: Final = 1e10
"""Some three hundred years: what is added to a time or taken from one is a time again."""
_BYTES: Final = {
    f"{prefix}{binary}{suffix}": float((1024 if binary else 1000) ** power)
    for power, prefix in enumerate(("", "k", "m", "g", "t"))
    for binary in ("", "i")
    for suffix in ("", "b")
    if prefix or not binary
}


def _quantity(value: object, units: Mapping[str, float], most: float) -> float:
    """Read a number, or text with one of *units* after the number: from 0 to *most*."""
    found = float(value) if type(value) in {int, float} else _number(path_syntax.text(value), units)  # type: ignore[arg-type]
    if not 0 <= found <= most:
        raise ValueError(value)
    return found


def seconds(value: object) -> float:
    """Read how long something is [s]: a number, or text such as ``90``, ``500ms``, ``15m``, ``2 h`` or ``7d``."""
    return _quantity(value, _SECONDS, LONGEST_SECONDS)


def _wait(value: object) -> float:
    return _quantity(value, _SECONDS, MAX_WAIT_SECONDS)


def _jobs(value: object) -> int:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return -1
    return _natural(value, _MAX_JOBS)


def _natural(value: object, most: int) -> int:
    found = value if type(value) is int else int(path_syntax.text(value))
    if not 0 <= found <= most:
        raise ValueError(value)
    return found


def _size(value: object) -> int:
    return _natural(value if type(value) is int else str(int(_number(path_syntax.text(value), _BYTES))), (1 << 63) - 1)


def _uids(value: object) -> frozenset[int]:
    return frozenset(map(_uid, _items(value)))


def _umask(value: object) -> int:
    # Only text: in TOML a number is decimal, and 22 would be another mask than 022.
    text = path_syntax.text(value)
    if not text.isascii() or not text.isdigit() or int(text, 8) > _OTHERS:
        raise ValueError(value)
    return int(text, 8)


def _remote(value: object) -> tuple[Secret[str], ...]:
    from nbcache import server_addresses  # most have none

    return () if _is_none(value) else tuple(map(server_addresses.read, _words(value)))


def _trusted_keys(value: object) -> tuple[Secret[str], ...]:
    from nbcache import keyring  # most have none

    return keyring.read_list(word for part in _words(value) for word in part.split(",") if word)


def _key_file(value: object) -> Secret[str]:
    from nbcache.secret import Secret

    if re.search("nbcache-secret-key|[A-Za-z0-9+/]{43}=", path_syntax.text(value)):
        raise ValueError  # the key itself, where its file was to be named
    return Secret(path_syntax.path(value), what_exists)


def what_exists(path: str) -> str:
    """Return a path as far as it leads to something: the rest may be a piece of a key that was taken for its file."""
    if os.path.lexists(path):
        return path
    above = os.path.dirname(path)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    return f"{above.rstrip('/')}/***"


def _words(value: object) -> list[str]:
    return [word for part in (value if isinstance(value, list) else [value]) for word in path_syntax.text(part).split()]


def _uid(value: object) -> int:
    if isinstance(value, str) and not (value.isascii() and value.strip().isdigit()):
        import pwd  # only needed for names

        return pwd.getpwnam(path_syntax.text(value)).pw_uid
    return _natural(value, (1 << 32) - 1)


def read(name: str, value: object) -> Any:
    """Read the value of a setting. Raises ValueError(given, accepted), two texts that may be shown."""
    reader, accepted = READERS[name]
    return path_syntax.read_by(reader, accepted, value, is_secret=name in SECRET)


SECRET: Final = frozenset({"remote", "signing_key", "trusted_keys"})
"""Settings whose values may hold secrets: what can't be read of them is shown to nobody, and what can is a
:class:`~nbcache.secret.Secret`."""
_A_PROCESSOR: Final = "x86-64-v2, x86-64-v3, x86-64-v4, neoverse-n1 or another processor that nbcache.processors lists"
_PATHS: Final = ("dir", "record", "count", "stats_log", "log_file")
_SWITCHES: Final = ("disable", "disable_all", "readonly", "recache", "unverified", "progress")
READERS: Final[Mapping[str, tuple[Callable[[object], object], str]]] = {
    **dict.fromkeys(_PATHS, (path_syntax.path, path_syntax.A_PATH)),
    **dict.fromkeys(_SWITCHES, (_flag, "1, true, yes, on or 0, false, no, off")),
    "namespace": (_name, "a name of at most 64 letters, digits and . _ -"),
    "check": (_fraction, "all, none or a fraction from 0 to 1, such as 0.01,"),
    "jobs": (_jobs, "auto or a number of workers from 0 to 256"),
    "on_miss": (_choice("auto", "wait", "compile"), "auto, wait or compile"),
    **dict.fromkeys(("wait_seconds", "wait_budget"), (_wait, "a time up to one day, such as 30, 500ms or 2m,")),
    "max_size": (_size, "a size such as 5GiB or 500M, or 0 for no limit,"),
    "trusted_uids": (_uids, "a list of uids or user names, separated by commas,"),
    "umask": (_umask, "an octal umask from 000 to 077, in a file between quotes,"),
    "cpu": (_processor, f"host or {_A_PROCESSOR}"),
    "cpu_ladder": (_ladder, f"a list, separated by commas, of {_A_PROCESSOR}"),
    "layers": (_layers, "a list of paths, or none,"),
    "remote": (
        _remote,
        (
            "a list of addresses such as redis://:PASSWORD@HOST:6379 or s3://BUCKET/PREFIX?NAME=VALUE, with spaces"
            " between, and %40 %2F %3F %26 %23 for @ / ? & # in passwords and values, or none,"
        ),
    ),
    "trusted_keys": (
        _trusted_keys,
        "a list of public keys, NAME:BASE64[:YYYY-MM-DD] as `nbcache key public` prints them, or unsigned,",
    ),
    "signing_key": (_key_file, "the path of the file that `nbcache key generate` wrote, and not the key itself,"),
    "log": (_choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "debug, info, warning, error or critical"),
}
