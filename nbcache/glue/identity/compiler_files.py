"""The files of a package that may take part in a compilation for the CPU, with size and time stamp.

Numba's import notes those of the compiler, and so what is known of them is what this process has imported, whatever
is installed later. Modules that Numba imports when it compiles count as well.
"""

from __future__ import annotations

import sys
from types import ModuleType

from nbcache.process import os

COMPILER = ("numba", "llvmlite", "numpy")
"""The packages that turn Python into machine code."""
_SUFFIXES = {"numba_cuda": (b".py", b".so", b".pyc", b".cu", b".cuh", b".h", b".hpp")}
"""Files that count, where it isn't `CODE` alone."""
CODE = (b".py", b".so", b".pyc")
_LEFT_OUT = {
    "numba": (b"cuda", b"pycc", b"scripts"),
    # Numba asks it for dtypes, ufuncs and limits, and has its own of all other functions.
    "numpy": (
        b"char", b"ctypeslib", b"distutils", b"doc", b"f2py", b"fft", b"lib", b"linalg", b"ma", b"matrixlib",
        b"polynomial", b"random", b"rec", b"strings", b"typing", b"_typing", b"_utils", b"_pyinstaller",
    ),
}  # fmt: skip
"""Folders of which nothing takes part in a compilation for the CPU, besides those of tests and of bytecode."""
_TESTS = (b"__pycache__", b"tests", b"testing")


def note_compiler() -> None:
    """Numba's import is over: note the files of the compiler."""
    for name in COMPILER:
        _noted[name] = _listed(sys.modules[name])


def files_of(package: ModuleType) -> list[tuple[bytes, int, int]]:
    """Each file of a package that counts: its path from where the package is, its size, when it was modified [ns].

    Of one that was noted, what was found then.
    """
    noted = _noted.pop(package.__name__, None)
    return _listed(package) if noted is None else noted


_noted: dict[str, list[tuple[bytes, int, int]]] = {}
"""By package, until somebody asks."""


def _listed(package: ModuleType) -> list[tuple[bytes, int, int]]:
    name = package.__name__
    suffixes, left_out = _SUFFIXES.get(name, CODE), (*_TESTS, *_LEFT_OUT.get(name, ()))
    found: list[tuple[bytes, int, int]] = []
    site = os.path.dirname(os.path.dirname(os.fsencode(str(package.__file__)))) + b"/"
    folders, stat = [os.fsencode(name) + b"/"], os.stat
    try:
        beginning = os.open(site, os.O_RDONLY | os.O_DIRECTORY)  # a path from here is found in less time
    except OSError:
        return found
    try:
        while folders:
            folder = folders.pop()
            for name_there in _names(site + folder):
                if name_there.endswith(suffixes):
                    path = folder + name_there
                    try:
                        status = stat(path, dir_fd=beginning)
                    except OSError:  # a link that leads nowhere
                        continue
                    found.append((path, status.st_size, status.st_mtime_ns))
                elif b"." not in name_there and name_there not in left_out:
                    folders.append(folder + name_there + b"/")
    finally:
        os.close(beginning)
    found.sort()
    return found


def _names(folder: bytes) -> list[bytes]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
