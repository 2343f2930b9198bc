"""Servers that keep objects by name: the only importer of opendal, and of what its errors mean.

opendal has threads of its own, which don't survive a fork, so nothing but the helper and commands imports this.

What a server sends is read piece by piece, and no longer than who asks can wait nor farther than an object of nbcache
can be long: whoever can write to it may have put anything there, and a body may have no end.
"""

from __future__ import annotations

import errno
import os
import re
import time
import urllib.request
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from nbcache.environ import inherited
from nbcache.errors import RemoteError
from nbcache.file_trust import OPEN_FLAGS
from nbcache.one_line import one_line
from nbcache.remote.objects import HEAD_BYTES, MAX_OBJECT
from nbcache.store import atomic

if TYPE_CHECKING:
    from collections.abc import Callable

    from opendal import Operator

    from nbcache.secret import Secret

    Service = Callable[[str, dict[str, str]], tuple[str, dict[str, str]]]

GET_SECONDS: Final = 0.5
"""How long an answer may take that a function waits for [s]."""
PUT_SECONDS: Final = 5.0
"""How long an upload may take, and an answer that no function waits for [s]."""
UNREACHABLE: Final = "unreachable"
DENIED: Final = "denied"
LIMITED: Final = "limited"
FULL: Final = "full"
LARGE: Final = "large"
_PIECE: Final = 1 << 18
"""How much is read at once [bytes]."""
_MUCH: Final = 1 << 20
"""A server that sent so much answers; what it has is only too large for the time that there is [bytes]."""
_PORTS: Final = {"http": 80, "https": 443, "redis": 6379, "rediss": 6379}
_NO_PARTS: Final = re.compile(r"RangeNotSatisfied|status: 416|too (?:much|little) data")
"""Said of a server that was asked for a part and sent everything, or that has less than that."""
_UNSENT: Final = "error sending request"
"""Said where a line ended before there was an answer, or none could be had."""
_AT_ONCE: Final = 0.2
"""What ends later ended while something was waited for [s]."""
_STATUS: Final = re.compile(r"\bstatus: (\d{3})")
_FULL: Final = re.compile(r"\bOOM\b|[Nn]o space left|[Qq]uota")
_NO_RIGHT: Final = "NoPerm: "
"""What the library calls it when a user of Redis may not run a command."""
_NOT_TAKEN: Final = "create cache entry returns non-ok"
"""What it says where GitHub's cache takes no object: it has one of this name, and replaces none."""
_CAUSES: Final = re.compile(
    r"Connection refused|Connection reset[^\n]*|No route to host|Network is unreachable|dns error[^\n]*|timed out"
    r"|timeout reached|connection closed[^\n]*|unexpected EOF|\bOOM\b[^\n:]*|[Nn]o space left[^\n]*|[Qq]uota[^\n]*"
    r"|certificate[^\n]*"
)
_KINDS: Final = {401: DENIED, 403: DENIED, 429: LIMITED, 503: LIMITED, 413: FULL, 507: FULL}
_ABSENT: Final = "absent"
_NAMES: Final = {"NotFound": _ABSENT, "PermissionDenied": DENIED, "RateLimited": LIMITED}
"""What the library's texts begin with, whichever exception they are of."""
_NO_FILE: Final = frozenset({errno.ENOENT, errno.ELOOP, errno.ENXIO})
"""What opening is answered with where nothing is, a link, or a socket."""
_NO_PERMISSION: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_WORDS: Final = {
    401: "it wants other credentials (401)",
    403: "these credentials may not do that (403)",
    429: "it is asked too often (429)",
    503: "it is overloaded (503)",
    507: "it is full (507)",
    413: "it takes nothing so large (413)",
}
_MAX_WORDS: Final = 120
_CODE: Final = re.compile(r"(?:<Code>|\bcode: \"?)([A-Z][A-Za-z]{2,60})\b")
"""What S3 and its like call an error."""


class StorageError(Exception):
    """A server didn't do what it was asked for. ``kind`` is one of the words above, ``why`` one line."""

    def __init__(self, kind: str, why: str) -> None:
        """Keep both."""
        super().__init__(kind, why)
        self.kind = kind
        self.why = why


class Storage:
    """One server. Raises StorageError; threads may share it."""

    def __init__(self, address: Secret[str]) -> None:
        """Connect to nobody yet. Raises RemoteError: the address can't be right, or the library is missing."""
        try:
            import opendal
            from opendal import layers

            scheme, options, server = _service(address.reveal())
            self.server = server
            """Host and port that have to be reached first; None where only the library knows."""
            made = opendal.Operator(scheme, **options)
            self._quick = made.layer(layers.TimeoutLayer(GET_SECONDS, GET_SECONDS))
            self._patient = made.layer(layers.TimeoutLayer(PUT_SECONDS, PUT_SECONDS))
        except ImportError as error:
            raise RemoteError("opendal is not installed: pip install nbcache[remote]") from error
        except Exception as error:  # whatever the library objects to
            raise RemoteError(f"{address}: {_words_of(error)}") from error

    def get(self, name: str, seconds: float = GET_SECONDS) -> bytes | None:
        """Return an object; None if there is none. Of what can be none of nbcache's, return a part.

        It may take so long [s], :data:`PUT_SECONDS` at most.
        """
        deadline = time.monotonic() + seconds

        def read() -> bytes:
            with self._asked(seconds).open(name, "rb") as file:
                return _pieces(lambda: file.read(_PIECE), deadline)

        return self._do(read)

    def head(self, name: str, seconds: float = GET_SECONDS) -> bytes | None:
        """Return the beginning of an object, :data:`HEAD_BYTES` long, or all of it; None if there is none."""
        asked = self._asked(seconds)
        try:
            # Redis has nothing to say of what isn't there, and sends none of it.
            return self._do(lambda: bytes(asked.read(name, offset=0, size=HEAD_BYTES))) or None
        except StorageError as error:
            if not _NO_PARTS.search(str(error.__cause__)):
                raise
            return self.get(name, seconds)

    def put(self, name: str, data: bytes) -> None:
        """Store an object, in place of one that is there."""
        self._do(lambda: self._patient.write(name, data))

    def _asked(self, seconds: float) -> Operator:
        return self._patient if seconds > GET_SECONDS else self._quick

    @staticmethod
    def _do(call: Callable[[], bytes | None], again: bool = True) -> bytes | None:
        began = time.monotonic()
        try:
            return call()
        except StorageError:
            raise
        except BaseException as error:
            # The library's errors have no base of their own, reading raises OSError, and what is wrong inside of the
            # library is no Exception: nobody would catch it, and a thread that uploads would be gone.
            kind = _kind_of(error)
            if kind == _ABSENT:
                return None
            at_once = time.monotonic() - began < _AT_ONCE
            if again and at_once and _UNSENT in str(error) and not _STATUS.search(str(error)):
                # A server may end a line it kept open in the moment in which we ask: that says nothing of the server,
                # and every request here can be made twice.
                return Storage._do(call, again=False)
            raise StorageError(kind, _words_of(error)) from error


class Folder:
    """A directory that stands for a server, which others may write: what is no file there is nothing."""

    server = None

    def __init__(self, address: Secret[str]) -> None:
        """Look at nothing yet."""
        self._root = unquote(urlsplit(address.reveal()).path)

    def get(self, name: str, seconds: float = GET_SECONDS, most: int = MAX_OBJECT) -> bytes | None:
        """As of :class:`Storage`; not much more than *most* bytes."""
        try:
            fd = os.open(f"{self._root}/{name}", OPEN_FLAGS)
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise _of_system(error) from error
        try:
            return _pieces(lambda: os.read(fd, min(most + 1, _PIECE)), time.monotonic() + seconds, most)
        except IsADirectoryError:
            return b""
        except OSError as error:
            raise _of_system(error) from error
        finally:
            os.close(fd)

    def head(self, name: str, seconds: float = GET_SECONDS) -> bytes | None:
        """As of :class:`Storage`."""
        found = self.get(name, seconds, HEAD_BYTES)
        return None if found is None else found[:HEAD_BYTES]

    def put(self, name: str, data: bytes) -> None:
        """As of :class:`Storage`."""
        try:
            os.makedirs(self._root, exist_ok=True)
            atomic.write_file(f"{self._root}/{name}", data, durable=False)
        except OSError as error:
            raise _of_system(error) from error


def opened(address: Secret[str]) -> Storage | Folder:
    """Return what is behind an address, connected to nobody yet. Raises RemoteError."""
    return Folder(address) if address.reveal().startswith("file:") else Storage(address)


def _pieces(read: Callable[[], bytes], deadline: float, most: int = MAX_OBJECT) -> bytes:
    """Return what *read* returns until the end, or not much more than *most* bytes of it."""
    parts, size = [], 0
    while size <= most and (part := read()):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            if size > _MUCH:
                raise StorageError(LARGE, "it has something that is too large to be fetched in time")
            raise StorageError(UNREACHABLE, "it doesn't answer in time")
    return b"".join(parts)


def _of_system(error: OSError) -> StorageError:
    kind = DENIED if error.errno in _NO_PERMISSION else FULL if error.errno in _NO_SPACE else UNREACHABLE
    return StorageError(kind, one_line(error.strerror or str(error)))


def _kind_of(error: BaseException) -> str:
    text = str(error)
    named = _NAMES.get(text.partition(" ")[0])
    if named is not None:
        return named
    status = _STATUS.search(text)
    if _NO_RIGHT in text or _NOT_TAKEN in text:
        return DENIED
    kind = _KINDS.get(int(status[1])) if status else None
    return kind or (FULL if _FULL.search(text) else UNREACHABLE)


def _words_of(error: BaseException) -> str:
    """Return what is wrong in a few words: the library's own texts are pages with traces in them."""
    text = str(error)
    if _NOT_TAKEN in text:
        return "it takes no second one of this name"
    status, causes = _STATUS.search(text), _CAUSES.findall(text)
    if status:
        code = _CODE.search(text)
        return _WORDS.get(int(status[1]), f"it answers {status[1]}") + (f": {code[1]}" if code else "")
    if _NO_RIGHT in text:
        return "these credentials may not do that (NOPERM)"
    if causes:
        return one_line(causes[-1].replace("timeout reached", "it doesn't answer in time"))[:_MAX_WORDS]
    return one_line(text.partition("=>")[2].strip().partition("\n")[0] or type(error).__name__)[:_MAX_WORDS]


def _service(address: str) -> tuple[str, dict[str, str], tuple[str, int] | None]:
    """Return the library's name of a service, its options, and the server. Raises ValueError for an odd option."""
    # What has no value is a flag of ours, and no option of the library's.
    scheme, options = _SERVICES[urlsplit(address).scheme](address, dict(parse_qsl(urlsplit(address).query)))
    try:
        return scheme, options, _server_of(address, options)
    except ValueError:
        pass
    # Not what was raised, which quotes it.
    raise ValueError("=> its endpoint is no address")


def _server_of(address: str, options: dict[str, str]) -> tuple[str, int] | None:
    parts = urlsplit(options.get("endpoint", address))
    if parts.hostname is None or parts.scheme not in _PORTS or parts.scheme in urllib.request.getproxies():
        return None
    return parts.hostname, parts.port or _PORTS[parts.scheme]


def _redis(address: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    parts = urlsplit(address)
    db, _, root = parts.path.lstrip("/").partition("/")
    if not db.isdigit():
        db, root = "0", parts.path
    place = {"endpoint": f"{parts.scheme}://{_host(address)}", "db": db, "root": f"/{root.strip('/') or 'nbcache'}"}
    return "redis", {**place, **_login(address), **options}


def _http(address: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    parts = urlsplit(address)
    place = {"endpoint": f"{parts.scheme}://{_host(address)}", "root": parts.path or "/"}
    # Plain HTTP can't make directories, nor be asked whether they exist (apache/opendal#7177).
    return "webdav", {**place, "disable_create_dir": "true", **_login(address), **options}


def _bucket(scheme: str, name: str) -> Service:
    def service(address: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
        parts = urlsplit(address)
        known = inherited(("AWS_REGION", "AWS_DEFAULT_REGION"))
        # A server that isn't Amazon's mostly has no regions, and the library insists on one.
        region = {"region": "us-east-1"} if scheme == "s3" and "endpoint" in options and not known else {}
        return scheme, {name: parts.netloc, "root": parts.path or "/", **region, **options}

    return service


def _actions(address: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    # The library finds the service, and what it is asked with, in the environment of a job.
    parts = urlsplit(address)
    return "ghac", {"root": f"/{parts.netloc}{parts.path}", **options}


def _host(address: str) -> str:
    """Return host and port as they are written, without who logs in."""
    return urlsplit(address).netloc.rpartition("@")[2]


def _login(address: str) -> dict[str, str]:
    parts = urlsplit(address)
    given = {"username": parts.username, "password": parts.password}
    return {name: unquote(value) for name, value in given.items() if value}


_SERVICES: Final[dict[str, Service]] = {
    "redis": _redis,
    "rediss": _redis,
    "http": _http,
    "https": _http,
    "s3": _bucket("s3", "bucket"),
    "gs": _bucket("gcs", "bucket"),
    "azblob": _bucket("azblob", "container"),
    "ghac": _actions,
}
