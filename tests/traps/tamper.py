"""What can happen to the files of a cache, one function a mishap. All take a path that may not exist.

The functions for one file go through `each`, which applies them to every file that holds results: nbcache's entries,
Numba's index and data files.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

_RESULTS = (".nbo", ".nbc", ".nbi")

Action = Callable[[Path], None]


def results(cache: Path) -> list[Path]:
    """Return the files of a cache that hold results, in a fixed order."""
    return sorted(path for path in cache.rglob("*") if path.suffix in _RESULTS) if cache.is_dir() else []


def each(action: Action) -> Action:
    """Return a function that applies `action` to every result in a cache."""

    def apply(cache: Path) -> None:
        for path in results(cache):
            action(path)

    return apply


def _rewrite(path: Path, content: bytes) -> None:
    """Put other bytes in place, keeping owner and permissions."""
    mode = path.stat().st_mode & 0o777
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)


def truncate(keep: float) -> Action:
    """Return a function that keeps this share of a file."""

    def apply(path: Path) -> None:
        content = path.read_bytes()
        _rewrite(path, content[: int(len(content) * keep)])

    return apply


def flip(where: float) -> Action:
    """Return a function that inverts one bit this far into a file."""

    def apply(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(len(content) * where)] ^= 0x10
        _rewrite(path, bytes(content))

    return apply


def drop_last_byte(path: Path) -> None:
    """Cut one byte."""
    _rewrite(path, path.read_bytes()[:-1])


def empty(path: Path) -> None:
    """Leave a file of no bytes."""
    _rewrite(path, b"")


def append(path: Path) -> None:
    """Add bytes that don't belong."""
    _rewrite(path, path.read_bytes() + b"\x00garbage" * 9)


def foreign(path: Path) -> None:
    """Put another program's file in place: a pickle that would run something."""
    _rewrite(path, b"cos\n_exit\n(I3\ntR." + bytes(500))


def zero_half(path: Path) -> None:
    """Zero the second half, as a crashed machine's filesystem may."""
    content = path.read_bytes()
    half = len(content) // 2
    _rewrite(path, content[:half] + bytes(len(content) - half))


def directory(path: Path) -> None:
    """Put a directory with a file in place."""
    path.unlink()
    path.mkdir()
    (path / "file").write_bytes(b"x")


def fifo(path: Path) -> None:
    """Put a pipe in place that nobody writes to: whoever opens it waits for ever."""
    path.unlink()
    os.mkfifo(path)


def dangling_link(path: Path) -> None:
    """Put a link to nothing in place."""
    path.unlink()
    path.symlink_to(path.parent / "nothing")


def unreadable(path: Path) -> None:
    """Take every permission away (which root doesn't notice)."""
    path.chmod(0)


def swap_names(cache: Path) -> None:
    """Give every result its neighbour's name."""
    paths = results(cache)
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        _rewrite(path, content)


def lose_every_other(cache: Path) -> None:
    """Delete every second result."""
    for path in results(cache)[::2]:
        path.unlink()


def keep_newest(cache: Path) -> None:
    """Delete the older half of the results."""
    paths = sorted(results(cache), key=lambda path: path.stat().st_mtime_ns)
    for path in paths[: len(paths) // 2]:
        path.unlink()


def remove(cache: Path) -> None:
    """Delete the whole cache."""
    shutil.rmtree(cache, ignore_errors=True)


def replace_by_file(cache: Path) -> None:
    """Put a file where the directory should be."""
    remove(cache)
    cache.write_bytes(b"not a directory")


def replace_by_dangling_link(cache: Path) -> None:
    """Put a link to nothing where the directory should be."""
    remove(cache)
    cache.symlink_to(cache.parent / "nowhere" / "else")


def read_only(cache: Path) -> None:
    """Take write permission away, everywhere in the cache (root notices only where it looks at the mode)."""
    for path in [*cache.rglob("*"), cache]:
        path.chmod(path.stat().st_mode & 0o555)
