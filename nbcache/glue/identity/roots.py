"""Which files are the toolchain's, by where they lie and by where their code says that it was compiled.

Where Python compiled a source, code has the path of its file. Bytecode without a source says what it was given:
``compileall -s`` takes the front off each path, and PyInstaller leaves ``numba/core/types.py``. So a package has two
sorts of roots, its directory and the one that its own code tells.

What is left of a path of Python's library may be a bare ``statistics.py``, which is what a module beside the program
is called as well. Then the module of that name decides, by its file. In a program that PyInstaller made, all modules
are in one place: nbcache's hook for it wrote down what came out of the library. Where they are and nobody wrote that
down, as in a program that Nuitka or cx_Freeze made, nbcache stays off.
"""

from __future__ import annotations

import functools
import itertools
import os
import stat
import sys
import sysconfig
from collections.abc import Callable
from types import FunctionType
from typing import Any

import llvmlite
import llvmlite.ir
import numba
import numpy as np
from numba.core.types.abstract import Type

from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import opened
from nbcache.process import os as genuine_os

_PACKAGES: dict[str, tuple[Any, Any]] = {
    "numba": (numba, Type.__call__),
    "llvmlite": (llvmlite, llvmlite.ir.Module.__init__),
    "numpy": (np, np.vectorize.__init__),
    "nbcache": (sys.modules["nbcache"], let_pass),
}
"""Each package, and some code of it."""
_OF_LIBRARY: Any = functools.update_wrapper
"""Some code of Python's library, and none of what is frozen into every Python, such as `os`."""


def is_below_package(path: str) -> bool:
    """Whether a file is Numba's, llvmlite's, NumPy's or nbcache's."""
    return any(path.startswith(root) and not is_test(path[len(root) :]) for root in package_roots(*_PACKAGES))


def is_test(relative: str) -> bool:
    """numba.tests and numpy.tests stand for user code: they are edited, and full of closures."""
    return "tests" in relative.split(os.sep)


def is_standard(path: str) -> bool:
    """Whether a file is of Python's library."""
    for root in _mixed_roots():
        if path.startswith(root) and not os.path.isabs(path[len(root) :]):
            return _is_of_library(_name_below(path[len(root) :]))
    for root in _standard_roots():
        if path.startswith(root):
            name = _name_below(path[len(root) :])
            # Neither site-packages nor a distributor's sitecustomize.py has a name of the library's.
            return name in sys.stdlib_module_names or name.startswith("_sysconfigdata")
    return False


def _name_below(relative: str) -> str:
    """The module at the top that a file is part of."""
    for folder in _FOLDERS:
        relative = relative.removeprefix(folder)
    first, *rest = relative.split(os.sep)
    return first if rest else first.partition(".")[0]


_FOLDERS = ("base_library.zip/", f"python{sys.version_info[0]}.{sys.version_info[1]}/", "lib-dynload/")
"""Inside the library, or in the directory of a program that PyInstaller made."""


def _is_of_library(name: str) -> bool:
    """Whether the module of that name, which lies beside the program's own, came out of the library."""
    names = _names_in_bundle()
    if names is not None:
        return name in names
    if name not in sys.stdlib_module_names:
        return False
    path = getattr(sys.modules.get(name), "__file__", None)
    return path is not None and os.path.isabs(path) and is_standard(path)


def directories(*paths: str | None) -> tuple[str, ...]:
    """Each directory as it is named and as it really is, with a separator at its end."""
    spellings = [spelling for path in paths if path for spelling in (path, real_path(path))]
    return tuple(dict.fromkeys(spelling.rstrip(os.sep) + os.sep for spelling in spellings))


@functools.cache
def real_path(path: str) -> str:
    """``os.path.realpath``, which looks at every directory on the way again for each path.

    A link the kernel follows: that function asks ``os.readlink``, in the place of which a program may have put another.
    """
    parent, name = os.path.split(path)
    if not name or name in {os.curdir, os.pardir} or not os.path.isabs(path):
        return os.path.realpath(path)
    candidate = os.path.join(real_path(parent), name)
    if not stat.S_ISLNK(_mode(candidate, genuine_os.lstat)):
        return candidate
    with suppressed(OSError):  # it leads nowhere, or there is no /proc
        return _followed(candidate)
    return os.path.realpath(candidate)


def _mode(path: str, look: Callable[[str], os.stat_result]) -> int:
    """What sort of file there is; 0 for none."""
    with suppressed(OSError):  # generated code has a path where no file is
        return look(path).st_mode
    return 0


def _followed(link: str) -> str:
    fd = genuine_os.open(link, os.O_PATH | os.O_CLOEXEC)
    try:
        return genuine_os.readlink(f"/proc/self/fd/{fd}")
    finally:
        genuine_os.close(fd)


@functools.cache
def package_roots(*names: str) -> tuple[str, ...]:
    """Where these packages are, and where their code says that they are."""
    files = directories(*(os.path.dirname(_PACKAGES[name][0].__file__ or "") for name in names))
    told = [root for name in names if (root := _root_of(_PACKAGES[name][1]))]
    return (*files, *(root for root in dict.fromkeys(told) if root not in files))


@functools.cache
def _standard_roots() -> tuple[str, ...]:
    # A virtual environment has no library of its own; one in an archive is where os comes from. An os that is frozen
    # into Python (cx_Freeze) has no file: the library may lie among anybody's then, and only its code tells.
    beside = os.path.dirname(getattr(os, "__file__", None) or "")
    files = beside, _standard_path("stdlib"), _standard_path("platstdlib")
    told = _root_of(_OF_LIBRARY)
    return tuple(dict.fromkeys((*directories(*files), *([told] if told else []))))


@functools.cache
def _mixed_roots() -> tuple[str, ...]:
    """Where both the library's modules and others may be."""
    bundle = _bundle()
    return (*(directories(bundle) if bundle else ()), *([] if _root_of(_OF_LIBRARY) else [""]))


def _root_of(function: FunctionType) -> str:
    """The directory of the package that *function* is in, as its code tells it; "" for what has none."""
    path = function.__code__.co_filename
    for _ in range(max(1, function.__globals__["__name__"].count("."))):
        path = os.path.dirname(path)
    return path and path.rstrip(os.sep) + os.sep


def _standard_path(name: str) -> str:
    bases = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    # What isn't among these takes sysconfig the variables of Python's makefile, a module of a hundred kilobytes.
    known = {
        **bases, "installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix,
        "platlibdir": sys.platlibdir, "py_version_short": f"{sys.version_info[0]}.{sys.version_info[1]}",
    }  # fmt: skip
    try:
        return os.path.normpath(sysconfig.get_paths(expand=False)[name].format_map(known))
    except KeyError:
        return sysconfig.get_path(name, vars=bases)


# -- programs whose modules are all in one place -----------------------------------------------


def _bundle() -> str | None:
    """The directory in which such a program has all its files, this one among them; None in any other."""
    return getattr(sys, "_MEIPASS", None) if getattr(sys, "frozen", False) else None


@functools.cache
def _names_in_bundle() -> frozenset[str] | None:
    """The modules at the top of its library, as its builder found them; None where nobody says."""
    bundle = _bundle()
    if bundle is None:
        return None
    from nbcache.pyinstaller import LIBRARY

    place = os.path.join(bundle, "nbcache", LIBRARY)
    with suppressed(OSError, ValueError), opened(place, encoding="ascii") as file:
        return frozenset(file.read().split())
    return frozenset()


def _place_of_all() -> str | None:
    """Where a program has Python's library and other modules, as one that Nuitka or cx_Freeze made; None elsewhere.

    A ``wave.py`` of the program's own is there as well, if the library's isn't in the program.
    """
    folders = [os.path.dirname(root.rstrip(os.sep)) for root in package_roots("numba")]
    beside = (folder for folder in folders if folder and folder + os.sep in _standard_roots())
    files = [root.rstrip(os.sep) for root in _standard_roots()]
    archives = (each for each in files if stat.S_ISREG(_mode(each, genuine_os.stat)) and _has_others(each))
    return next(itertools.chain(beside, archives), None)


def _has_others(archive: str) -> bool:
    """Whether there is more in an *archive* with Python's library than that."""
    import zipfile

    with suppressed(OSError, zipfile.BadZipFile):
        with zipfile.ZipFile(archive) as opened_archive:
            names = {_name_below(each) for each in opened_archive.namelist()}
        return not names <= sys.stdlib_module_names
    return True


def problem() -> str | None:
    """Why nbcache stays off where nothing tells what is the toolchain's; None nearly everywhere."""
    if _bundle() is not None and not _names_in_bundle():
        return "this program was frozen without nbcache's hook, so nobody knows whose modules it has"
    if _bundle() is None and (place := _place_of_all()) is not None:
        return f"Python's library and other modules lie in one place, {place}, so nobody knows whose those are"
    nowhere = [name for name, (_package, function) in _PACKAGES.items() if not _root_of(function)]
    if nowhere:
        return f"the bytecode of {', '.join(nowhere)} doesn't say which package it is of"
    return None
