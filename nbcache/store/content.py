"""What files hold: the hash that some are called by, and JSON; without the packages that Python has for these.

``hashlib`` would load OpenSSL for the other functions that it offers: 1.5 ms, in processes that need none of them. And
``json`` compiles six patterns when it is imported, and half of it is for writing: 1 ms, in processes that read a file
or two. What both of them work with are modules of their own, in C.

Small JSON files that somebody else may have written are read up to a bound, and from a regular file only. What lies in
a store is read where the rule of trust allows each directory on the way there (:class:`Inside`).
"""

from __future__ import annotations

import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import suppressed
from nbcache.process import closing, os

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.file_trust import Trust

try:
    from _blake2 import blake2b
except ImportError:  # a Python that keeps it elsewhere
    from hashlib import blake2b

__all__ = [
    "MAX_SIGNATURES", "Inside", "blake2b", "digest_of", "parsed", "read_json", "read_up_to", "reading", "stamp_of",
]  # fmt: skip

MAX_SIGNATURES: Final = 64
"""How many signatures anything has: verifying one takes some 0.1 ms, and anybody may have written them."""


def digest_of(data: bytes | memoryview) -> str:
    """Return what a file with this content is called: blake2b-256, 64 hexadecimal digits."""
    return blake2b(data, digest_size=32).hexdigest()


class _Rules:
    """What the scanner in C asks a decoder for: numbers, strings, lists and dicts as Python has them."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int = float, int
    parse_constant = float
    """Of NaN and the infinities, which `json` reads as well: whoever wants finite numbers looks at them."""


def _scanner() -> Callable[[str, int], tuple[Any, int]]:
    # A Python built for debugging would end over what `parsed` takes for a bad text.
    if not hasattr(sys, "gettotalrefcount"):
        with suppressed(Exception):  # another Python may keep it elsewhere, or have it ask for more
            from _json import make_scanner

            found: Callable[[str, int], tuple[Any, int]] = make_scanner(_Rules)  # type: ignore[arg-type]  # attributes are all
            if found(_EXAMPLE, 0) == ({"a": [1, 2.5, "b", None]}, len(_EXAMPLE)):
                return found
    from json import JSONDecoder

    return JSONDecoder().raw_decode


_EXAMPLE: Final = '{"a": [1, 2.5, "b", null]}'
_scan: Final = _scanner()
_SPACE: Final = " \t\n\r"


def parsed(data: bytes) -> Any:
    """Return what JSON in UTF-8 says, as `json.loads` does.

    Raises ValueError, and RecursionError for what is nested too deeply.
    """
    text = data.decode().strip(_SPACE)
    try:
        found, end = _scan(text, 0)
    except StopIteration as exc:
        raise ValueError(f"no value at character {exc.value}") from None
    except SystemError:
        # It would say what is wrong by a class of the package, and looks for that only where it was imported.
        raise ValueError("it is no JSON") from None
    if end != len(text):
        raise ValueError(f"more than one value, at character {end}")
    return found


def read_up_to(fd: int, most: int) -> bytes:
    """Return the next ``most`` bytes, fewer at the end of the file. Raises OSError."""
    parts: list[bytes] = []
    while most > 0:
        part = os.read(fd, min(most, 1 << 20))
        if not part:
            break
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def stamp_of(path: str) -> tuple[int, int, int] | None:
    """Return what tells whether a file is another one now: one ``lstat``; None if there is none. Never raises."""
    with suppressed(OSError, ValueError):
        status = os.lstat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


@contextmanager
def reading(path: str, opener: Callable[[str, int], int] | None = None) -> Iterator[tuple[int, os.stat_result]]:
    """Open a file that others may have put there, and give its descriptor and status. Raises OSError.

    ``opener`` is what opens it, such as a folder's own.
    """
    from nbcache.file_trust import OPEN_FLAGS  # what comes as bytes is in no file

    with closing(os.open(path, OPEN_FLAGS) if opener is None else opener(path, OPEN_FLAGS)) as fd:
        yield fd, os.fstat(fd)


def read_json(
    path: str,
    limit: int,
    trust: Trust | None = None,
    opener: Callable[[str, int], int] | None = None,
    parse: Callable[[bytes], Any] = parsed,
) -> tuple[Any, os.stat_result] | None:
    """Return what a file of at most ``limit`` bytes holds, and its status; None for anything else. Never raises.

    With ``trust``, only from a file that passes the rule. What it holds is just JSON of any shape. ``opener`` as of
    :func:`reading`, ``parse`` as of :func:`read_json_from`.
    """
    with suppressed(OSError), reading(path, opener) as (fd, _):
        return read_json_from(fd, limit, trust, parse)
    return None


def read_json_from(
    fd: int,
    limit: int,
    trust: Trust | None = None,
    parse: Callable[[bytes], Any] = parsed,
    most: int | None = None,
) -> tuple[Any, os.stat_result] | None:
    """Return what :func:`read_json` does, from an open descriptor, which stays open. Never raises.

    ``parse`` says what the content means, or raises ValueError; of the content, ``most`` bytes are read, if it says so.
    """
    with suppressed(OSError, ValueError, RecursionError):
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        if trust is not None and not trust.allows(status, fd):
            return None
        return parse(read_up_to(fd, status.st_size if most is None else most)), status
    return None


class Inside:
    """Which directories inside a store are trusted. Each is judged once: nobody but a trusted owner can make one that
    passed any worse.
    """

    def __init__(self, root: str, trust: Trust) -> None:
        """``root`` is a store's, opened and judged."""
        self._root = root
        self._trust = trust
        self._fine = {""}

    def read(self, directory: str, file: str, most: int) -> bytes | str | None:
        """Return what a file holds, *most* bytes at most; what is wrong with it; or None if it isn't there.

        Raises OSError for what can't be read.
        """
        path = f"{self._root}/{directory}/{file}"
        try:
            problem = self.problem(directory)
            if problem is not None:
                os.lstat(f"{self._root}/{directory}")  # with what isn't there nothing is wrong
                return problem
            with reading(path) as (fd, status):
                return self._trust.file_problem(status, fd) or read_up_to(fd, min(status.st_size, most))
        except OSError as error:
            import errno  # most files are there

            if error.errno == errno.ELOOP:
                return "is a symbolic link: none is followed"
            if error.errno in {errno.ENOENT, errno.ESTALE, errno.ENOTDIR}:
                return None
            raise

    def problem(self, name: str) -> str | None:
        """Say what is wrong with the directory of this name, or those between it and the root. Never raises."""
        if name in self._fine:
            return None
        problem = self.problem(name.rpartition("/")[0])
        if problem is None:
            path = f"{self._root}/{name}"
            found = self._trust.directory_problem(path)
            problem = found and f"lies in {path}, which {found}"
            if problem is None:
                self._fine.add(name)
        return problem
