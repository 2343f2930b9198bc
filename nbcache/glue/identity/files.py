"""What files contain, digested once for each state in which they are found."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from nbcache.glue.identity.bytecode import plan_of
from nbcache.passing import let_pass
from nbcache.process import opened, os

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

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


def module_digest(module: ModuleType) -> bytes:
    """Digest of the source of a module, or of its code where there is none; `UNREADABLE` for neither."""
    path = module.__file__ or ""
    digest = UNREADABLE if is_bytecode(path) else file_digest(path)
    return code_digest(module.__spec__) if digest == UNREADABLE else digest


def is_bytecode(path: str) -> bool:
    """Whether a file holds, beside code, when its source was written and in what order it was compiled."""
    return path.endswith(".pyc")


def code_digest(spec: Any) -> bytes:
    """Digest of the code that the loader of a module has for it, in an archive or a file; or `UNREADABLE`."""
    try:
        return _digest_code(spec.loader, spec.name)
    except Exception as raised:  # noqa: BLE001  loaders are others' code, and some have none for that
        let_pass(raised)
        return UNREADABLE


@functools.lru_cache(maxsize=4096)
def _digest_code(loader: Any, name: str) -> bytes:
    return plan_of(loader.get_code(name)).digest
