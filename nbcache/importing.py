"""Importing only what people wrote who are trusted.

:class:`TrustedFinder` stands before all other finders. What they find is judged **from the root down**, along the path
that will be opened: each directory, each symbolic link on the way, then the file through its open descriptor. From a
directory on that nobody else may write, and that nobody else may move, everything below has the name that it will have
tomorrow; so a path that passed leads nobody else's way later, and what is judged is what is opened. The source of a
module, and its bytecode, are read from the descriptor that was judged.

What is not judged: shared libraries that an extension module in turn is linked with.
"""

from __future__ import annotations

import stat
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, Final

from _nbcache import spec_of_others
from nbcache.file_trust import OPEN_FLAGS, Trust
from nbcache.process import os

_MOST_LINKS: Final = 40
"""How many links may lie on one path, as in the kernel."""


class UntrustedError(ImportError):
    """A module that the rule of trust keeps out."""


class Paths:
    """Paths that only trusted people decide about. What was found fine stays so, and isn't looked at again."""

    def __init__(self, trust: Trust, *, absent: bool = False) -> None:
        """*trust* judges. With *absent*, what isn't there yet is no error: it will be nobody's link."""
        self.trust = trust
        self._absent = absent
        self._real: dict[str, str] = {}
        self._strict: set[str] = set()

    def open(self, path: str) -> tuple[int, str]:
        """Return a descriptor for reading a file, and its path without links. Raises OSError, ValueError: why not."""
        return self._open(path, _MOST_LINKS)

    def open_named(self, path: str) -> int:
        """The same for a file that somebody named, who may have put it into a directory like ``/tmp``.

        There, others can't take its name; but one that has a second name may lie elsewhere by it, for other purposes.
        """
        fd, real = self._open(path, _MOST_LINKS, named=True)
        if os.path.dirname(real) not in self._strict and os.fstat(fd).st_nlink != 1:
            os.close(fd)
            raise ValueError("has a second name (a hard link)")
        return fd

    def directory(self, path: str) -> str:
        """Return the path without links of a directory that only trusted people can have given this absolute path.

        Others may write the directory itself, if it is sticky. Raises OSError, ValueError: why not.
        """
        return self._directory(path, _MOST_LINKS)

    def problem(self, path: str) -> str | None:
        """Say what is wrong with a directory that modules are in; None if nothing is. Raises OSError."""
        try:
            self._insist(self.directory(path))
        except ValueError as error:
            return str(error)
        return None

    def _open(self, path: str, links: int, *, named: bool = False) -> tuple[int, str]:
        directory, _, name = path.rpartition("/")
        home = self._directory(directory, links)
        if not named or not self._is_sticky(home):
            self._insist(home)
        real = os.path.join(home, name)
        status = os.lstat(real)
        if stat.S_ISLNK(status.st_mode):
            return self._open(self._follow(real, status, home, links), links - 1, named=named)
        fd = os.open(real, OPEN_FLAGS)
        problem = self.trust.file_problem(os.fstat(fd), fd)
        if problem is not None:
            os.close(fd)
            raise ValueError(problem)
        return fd, real

    def _directory(self, path: str, links: int) -> str:
        """Return a directory's path without links."""
        path = path.rstrip("/")
        known = self._real.get(path)
        if known is None and not path:
            known = self._real[path] = self._enter("/", "", links)
        if known is None:
            above, _, name = path.rpartition("/")
            home = self._directory(above, links)
            if name in {"", "."}:
                known = home
            elif name == "..":
                known = os.path.dirname(home)
            else:
                known = self._enter(home, name, links)
            self._real[path] = known
        return known

    def _enter(self, home: str, name: str, links: int) -> str:
        real = os.path.join(home, name)
        try:
            status = os.lstat(real)
        except FileNotFoundError:
            if self._absent:
                return real
            raise
        if stat.S_ISLNK(status.st_mode):
            return self._directory(self._follow(real, status, home, links), links - 1)
        # One above may be sticky: nobody can move or replace what is not theirs there.
        problem = self.trust.directory_problem(real, may_be_sticky=True)
        if problem is not None:
            raise ValueError(f"lies in {real}, which {problem}")
        return real

    def _follow(self, path: str, status: os.stat_result, home: str, links: int) -> str:
        if links <= 0:
            raise ValueError(f"lies behind too many links, the last of which is {path}")
        problem = self.trust.owner_problem(status, path)
        if problem is not None:
            raise ValueError(f"lies behind the link {path}, which {problem}")
        return os.path.join(home, os.readlink(path))

    def _is_sticky(self, directory: str) -> bool:
        return directory not in self._strict and os.lstat(directory).st_mode & stat.S_ISVTX != 0

    def _insist(self, directory: str) -> None:
        """Nobody else may put a file there."""
        if directory not in self._strict:
            problem = self.trust.directory_problem(directory)
            if problem is not None:
                raise ValueError(f"lies in {directory}, which {problem}")
            self._strict.add(directory)


class TrustedFinder:
    """Lets nothing through that somebody untrusted could have written."""

    def __init__(self, trust: Trust, only: str = "") -> None:
        """*trust* judges the files of modules, and what leads to them; *only* of those found in that directory."""
        self.paths = Paths(trust)
        self._only = only
        self._found: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return what the other finders find, if it is trusted. Raises UntrustedError."""
        spec = spec_of_others(self, name, path, target)
        if spec is not None and (not self._only or self._is_found_there(name, spec)):
            self._insist(name, spec)
        return spec

    def _is_found_there(self, name: str, spec: Any) -> bool:
        """Whether a module, or the package that it belongs to, lies in the one directory that is judged."""
        first, dot, _ = name.partition(".")
        places = (str(spec.origin), *(spec.submodule_search_locations or ()))
        if not dot and any(os.path.dirname(place) == self._only for place in places):
            self._found.add(first)
        return first in self._found

    def _insist(self, name: str, spec: Any) -> None:
        origin = spec.origin if isinstance(spec.origin, str) and os.path.isabs(spec.origin) else None
        if origin is not None:
            os.close(self.opened(f"the module {name}", origin))
        if type(spec.loader) is SourceFileLoader and origin is not None:
            spec.loader = _Judged(name, spec.loader.path, self)
        elif origin is not None and spec.cached and os.path.lexists(spec.cached):
            os.close(self.opened(f"the module {name}", spec.cached))
        for directory in spec.submodule_search_locations or ():
            try:
                problem = self.paths.problem(os.path.join(os.getcwd(), directory))
            except OSError as error:
                problem = f"can't be read: {error.strerror or error}"
            if problem is not None:
                raise UntrustedError(f"the package {name} {problem}")

    def opened(self, what: str, path: str) -> int:
        """Return a descriptor of a file that was judged. Raises UntrustedError."""
        try:
            return self.paths.open(path)[0]
        except ValueError as error:
            problem = str(error)
        except OSError as error:
            problem = f"can't be read: {error.strerror or error}"
        raise UntrustedError(f"{what} {problem}")

    def present(self, path: str) -> bool:
        """Whether something of that name lies in a directory that can be used. Raises UntrustedError."""
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            return False
        problem = self.paths.problem(directory)
        if problem is not None:
            raise UntrustedError(f"the module {problem}")
        return os.path.lexists(path)


class _Judged(SourceFileLoader):
    """Reads a module, and its bytecode, from descriptors that were judged."""

    def __init__(self, name: str, path: str, finder: TrustedFinder) -> None:
        super().__init__(name, path)
        self._finder = finder

    def get_data(self, path: str) -> bytes:
        """Return what a file holds. Raises UntrustedError, and OSError for bytecode that isn't there."""
        if path != self.path and not self._finder.present(path):
            raise FileNotFoundError(path)
        with open(self._finder.opened(f"the module {self.name}", path), "rb") as file:
            return file.read()

    def set_data(self, *_: Any, **__: Any) -> None:
        """Write no bytecode."""


def guard(trust: Trust, only: str = "") -> None:
    """Import nothing from here on that *trust* doesn't allow. Replaces what an earlier call put there.

    With *only*, the rest is whoever's it may be: just what is found in that directory is judged.
    """
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != TrustedFinder.__name__]
    sys.meta_path.insert(0, TrustedFinder(trust, only))
