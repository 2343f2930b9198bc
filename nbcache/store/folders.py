"""The directories inside a store, opened without following links.

What is listed or removed in bulk is listed and removed in an **open directory** that was reached from the store's root
through real directories alone. Where one of them is a symbolic link, there is nothing: neither whoever may write just
that place, nor a backup put back in a hurry, can point a sweep at somebody else's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from nbcache.passing_exceptions import suppressed
from nbcache.process import os
from nbcache.store import layout

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ASKED: Final = 200
"""How many things are looked at before somebody is asked whether to go on."""


class Folder:
    """One directory, open; a context manager. Opening raises OSError, which for a link is ENOTDIR or ELOOP."""

    __slots__ = ("_fd", "name")

    def __init__(self, root: str, name: str = "") -> None:
        """Open the directory ``name`` below ``root``, or ``root`` itself; a link in either's place isn't followed."""
        fd = os.open(root, _FLAGS)
        try:
            for part in name.split("/") if name else ():
                inner = os.open(part, _FLAGS, dir_fd=fd)
                os.close(fd)
                fd = inner
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        self.name = name
        """By which name below the root it was opened."""

    def __enter__(self) -> Folder:  # noqa: PYI034  # Self is new in Python 3.11
        """Return the folder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it. What :meth:`items` gave can't be asked for its status any more."""
        self.close()

    def close(self) -> None:
        """Close it, also without a ``with``."""
        os.close(self._fd)

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._fd

    @property
    def status(self) -> os.stat_result:
        """The directory's own. Raises OSError."""
        return os.fstat(self._fd)

    def items(self, go_on: Callable[[], bool] = lambda: True) -> Iterator[os.DirEntry[str]]:
        """Yield what lies in the directory, in no order. What is yielded may be removed meanwhile. Raises OSError.

        *go_on* is asked now and then, and its no ends it: where others may put things, there may be any number of them.
        """
        with os.scandir(self._fd) as items:
            for number, item in enumerate(items):
                if number % _ASKED == 0 and not go_on():
                    return
                yield item

    def files(self, go_on: Callable[[], bool] = lambda: True) -> Iterator[os.DirEntry[str]]:
        """Yield the regular files among :meth:`items`. Raises OSError."""
        return (item for item in self.items(go_on) if is_regular(item))

    def json_files(self, go_on: Callable[[], bool] = lambda: True) -> Iterator[os.DirEntry[str]]:
        """Yield the files of JSON, or of lines of it, among :meth:`files`, but for temporaries. Raises OSError."""
        ends = (".json", layout.GROWING)
        return (item for item in self.files(go_on) if item.name.endswith(ends) and not item.name.startswith("."))

    def open(self, name: str, flags: int) -> int:
        """Open a file in it. Raises OSError."""
        return os.open(name, flags, dir_fd=self._fd)

    def owner(self, name: str) -> int | None:
        """Return the uid of whoever owns what has that name in it; None if nothing does."""
        with suppressed(OSError):
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_uid
        return None

    def remove(self, name: str) -> bool:
        """Remove a file; return whether it went."""
        with suppressed(OSError):
            os.unlink(name, dir_fd=self._fd)
            return True
        return False

    def replace(self, source: str, target: str) -> None:
        """Give a file another one's name. Raises OSError."""
        os.replace(source, target, src_dir_fd=self._fd, dst_dir_fd=self._fd)


def is_regular(item: os.DirEntry[str]) -> bool:
    """Whether an item is a regular file, and no link to one. Never raises."""
    with suppressed(OSError):
        return item.is_file(follow_symlinks=False)
    return False


def remove(path: str) -> bool:
    """Remove one file of a store unless its directory is a link; return whether it went."""
    directory, _, name = path.rpartition("/")
    with suppressed(OSError), Folder(directory) as folder:
        return folder.remove(name)
    return False
