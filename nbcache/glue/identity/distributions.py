"""What an installed distribution consists of: one digest over the content of its files, without reading them; and whose
a file is.

An installer writes down the digest of each file (``RECORD``, which it writes last). A file that has the size that is
written there, and that nobody modified after that, is taken to have that content; any other file is read. So two hosts
that installed the same have one digest, whoever installed it and wherever, and so do those who copied it; and a file
that a distributor patched, or somebody mended on the spot, changes it. All files that may take part in a compilation
for the CPU count, loaded by now or not: Numba imports many modules only once it compiles.

Where there is no such record (Debian's packages, a checkout that is installed in place), or an executable has the
modules inside (a frozen application), contents alone count. More than a few files are read once: the store keeps their
digests for as long as size, time stamps and inode of each are what they were.

Besides Numba, llvmlite and NumPy, whose files are looked for by folder, any distribution is known by its record: it
owns the files that are listed there. What an editable installation has imported isn't, nor what somebody put beside it,
and so it is nobody's. What was installed or edited after this process began may be other than what it has imported:
then its files are nobody's here.

Not noticed: a file of the recorded size, put there with a time stamp from before the installation. Python itself, which
keeps bytecode by size and time stamp, wouldn't notice it either.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbcache.glue.identity import compiler_files
from nbcache.glue.identity.entry_points import metadata_in
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import opened, os, time
from nbcache.store.content import blake2b

VERSION = 1
UNREADABLE = b"unreadable"
"""In the place of a digest."""
MOST_BYTES = 1 << 20
"""What is read in each process [bytes]: of more, the store keeps the digests."""
_OUTSIDE = (b"..", b"/", b'"')
"""What rows begin with that name no file below the directory."""


class Distributions:
    """Those of this process's environment.

    ``recall(key)`` yields what was remembered under a key on this host; ``remember(key, variant, content, seconds)``
    keeps what took so long to find out [s].
    """

    def __init__(self) -> None:
        self.recall: Callable[[str], Iterable[bytes]] = lambda _key: ()
        self.remember: Callable[[str, str, bytes, float], None] = lambda *_what: None
        self._states: dict[str, str | None] = {}

    def identity(self, package: Any) -> str:
        """32 hex digits for what a package consists of, whose module is *package*."""
        name: str = package.__name__
        path = os.fsencode(package.__file__)
        site = os.path.dirname(os.path.dirname(path)) + b"/"
        record, since = _record(site, name, str(package.__version__))
        rows, unknown = [], []
        end = 0
        for path_there, size, modified in compiler_files.files_of(package):
            # Most records are sorted as well: then each row is found where the last one ended.
            head = b"\n%s,sha256=" % path_there
            start = record.find(head, end)
            if start < 0:
                start = record.find(head)
            end = record.find(b"\n", start + 1)
            row = record[start + 1 : end].rstrip()  # installers end lines as they like
            if start >= 0 and modified <= since and row.endswith(b",%d" % size):
                rows.append(row)
            else:
                unknown.append((path_there, site + path_there))
        archive = _archive(path)
        if archive is not None:
            unknown.append((b"archive", archive))
        return self._digest(rows, unknown)

    def metadata_of(self, path: str) -> str | None:
        """Where the installer wrote down what the distribution that owns a file consists of; None if none owns it."""
        known = owner_of(path)
        return known if known is None or self.state_of(known) is not None else None

    def state_of(self, metadata: str) -> str | None:
        """Name, version and content of the distribution whose metadata is there; None if that can't be told."""
        if metadata not in self._states:
            self._states[metadata] = self._describe(os.fsencode(metadata))
        return self._states[metadata]

    def _describe(self, metadata: bytes) -> str | None:
        record, since = _record_at(metadata)
        site, _, name = metadata.rpartition(b"/")
        rows, unknown = [], []
        try:
            if not record or os.stat(metadata + b"/RECORD").st_ctime_ns > STARTED:
                return None
            for row in map(bytes.rstrip, record.split(b"\n")):
                path, recorded, _ = row.partition(b",sha256=")
                if not recorded or not path.endswith(compiler_files.CODE) or path.startswith(_OUTSIDE):
                    continue
                status = os.stat(b"%s/%s" % (site, path))
                if status.st_mtime_ns > STARTED:
                    return None
                if status.st_mtime_ns <= since and row.endswith(b",%d" % status.st_size):
                    rows.append(row)
                else:
                    unknown.append((path, b"%s/%s" % (site, path)))
        except OSError as raised:  # it lacks a file
            let_pass(raised)
            return None
        return f"{os.fsdecode(name.removesuffix(b'.dist-info'))} {self._digest(rows, unknown)}"

    def _digest(self, rows: list[bytes], unknown: list[tuple[bytes, bytes]]) -> str:
        """32 hex digits for rows of a record, and for the content of what it doesn't know, by path and place."""
        if unknown:
            contents = self._contents([os.fsdecode(place) for _path, place in unknown])
            rows += (b"%s,%s" % (path, contents[os.fsdecode(place)].encode()) for path, place in unknown)
        return blake2b(b"\n".join(sorted(rows)), digest_size=16).hexdigest()

    def _contents(self, paths: list[str]) -> dict[str, str]:
        """Of each of these files what an installer would have recorded."""
        stamps = {path: stamp(path) for path in paths}
        if sum(each[0] for each in stamps.values() if each is not None) <= MOST_BYTES:
            return {path: _content(path) for path in stamps}
        import json

        text = json.dumps([VERSION, "contents of files", sorted(stamps)])
        key = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=32).hexdigest()
        for kept in self.recall(key):
            with suppressed(ValueError, TypeError, KeyError):
                found = json.loads(kept)
                if found["version"] == VERSION and found["stamps"] == stamps:
                    return {path: str(found["contents"][path]) for path in stamps}
        began = time.perf_counter()
        contents = {path: _content(path) for path in stamps}
        kept = json.dumps({"version": VERSION, "stamps": stamps, "contents": contents}).encode()
        variant = blake2b(kept, digest_size=16).hexdigest()
        self.remember(key, variant, kept, time.perf_counter() - began)
        return contents


@functools.cache
def owner_of(path: str) -> str | None:
    """The metadata of the distribution whose record has that file, other now or not; None if there is none."""
    return next(filter(None, (_owner_below(*place) for place in _sites_of(path))), None)


def _owner_below(folder: str, below: str) -> str | None:
    """The same of a directory of ``sys.path`` and the path from there."""
    root, row = below.partition("/")[0].partition(".")[0], b"\n%s,sha256=" % os.fsencode(below)
    last = _last.get((folder, root))
    if last is not None and row in _record_at(last)[0]:
        return os.fsdecode(last)
    # Most packages are called what their distribution is called; of the others all records are looked into.
    called = _normal(root)
    names = [name for name in metadata_in(folder) if name.endswith(".dist-info")]
    for name in sorted(names, key=lambda name: _normal(name.partition("-")[0]) != called):
        metadata = os.fsencode(f"{folder}/{name}")
        if row in _record_at(metadata)[0]:
            _last[folder, root] = metadata
            return os.fsdecode(metadata)
    return None


_last: dict[tuple[str, str], bytes] = {}
"""By directory and package, whose record had a file of it last."""


@functools.cache
def _record_at(metadata: bytes) -> tuple[bytes, int]:
    return _read_record(metadata)


def stamp(path: str) -> list[int] | None:
    """What changes with a file; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    # Whoever writes a file of the same size can set the second time back, but not the third.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


@functools.lru_cache(maxsize=4096)
def _digest_file(path: str, _mtime_ns: int, _size: int, _inode: int) -> bytes:
    with opened(path, "rb") as file:
        return blake2b(file.read(), digest_size=16).digest()


def file_digest(path: str) -> bytes:
    """Digest of a file's content, or `UNREADABLE`; re-read when size, inode or time stamp changed."""
    with suppressed(OSError):
        status = os.stat(path)
        return _digest_file(path, status.st_mtime_ns, status.st_size, status.st_ino)
    return UNREADABLE


def _sites_of(path: str) -> Iterator[tuple[str, str]]:
    """The directories of ``sys.path`` that a file lies below, each with the path from there."""
    for folder in sys.path:
        if folder and path.startswith(f"{folder}/"):
            yield folder, path[len(folder) + 1 :]


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _begun() -> int:
    """When this process began [ns], to 10 ms, and never too late."""
    with suppressed(OSError, ValueError, IndexError):
        with opened("/proc/self/stat", "rb", 0) as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks / os.sysconf("SC_CLK_TCK"))
        return int((time.time() - age) * 1e9)
    return 0


STARTED = _begun()


def _record(site: bytes, name: str, version: str) -> tuple[bytes, int]:
    """What the installer wrote down, and when. To look for the place would take reading what is installed besides."""
    return _read_record(site + os.fsencode(f"{name}-{version}.dist-info"))


def _read_record(metadata: bytes) -> tuple[bytes, int]:
    try:
        with opened(metadata + b"/RECORD", "rb", 0) as file:
            since = os.fstat(file.fileno()).st_mtime_ns
            if since > time.time() * 1e9:  # who edits a file now can't be told from who did before
                return b"", -1
            return b"\n" + file.read(), since
    except OSError:
        return b"", -1


def _archive(path: bytes) -> bytes | None:
    """The file that has modules inside whose own files, such as *path*, aren't there; None if they are."""
    if os.path.exists(path):
        return None
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path if os.path.isfile(path) else os.fsencode(sys.executable)


def _content(path: str) -> str:
    """As a row of a record says it: digest and size."""
    import base64
    import hashlib

    hasher, size, part = hashlib.sha256(), 0, memoryview(bytearray(1 << 16))
    try:
        with opened(path, "rb", 0) as file:  # piece by piece: one of them may be larger than what is free
            while read := file.readinto(part):
                hasher.update(part[:read])
                size += read
    except OSError:
        return "unreadable"
    return f"sha256={base64.urlsafe_b64encode(hasher.digest()).rstrip(b'=').decode()},{size}"
