"""What files contain, digested once for each state in which they are found."""

from __future__ import annotations

import functools
import hashlib

from nbcache.passing_exceptions import let_pass
from nbcache.process import opened, os

UNREADABLE = b"unreadable"


@functools.lru_cache(maxsize=4096)
def _digest_file(path: str, _mtime_ns: int, _size: int, _inode: int) -> bytes:
    with opened(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).digest()


def file_digest(path: str) -> bytes:
    """Digest of a file's content, or `UNREADABLE`; re-read when size, inode or time stamp changed."""
    try:
        status = os.stat(path)
        return _digest_file(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError as raised:
        let_pass(raised)
        return UNREADABLE
