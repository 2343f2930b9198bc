"""Has PyInstaller take nbcache into a program: what a client may import, and which modules are Python's library's.

In the program all modules are in one place, so nobody could tell a ``statistics.py`` of the program's from the one of
the library, which is known by the version of Python.
"""

import os
import sys
import sysconfig
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

from PyInstaller.config import CONF
from PyInstaller.utils.hooks import collect_submodules

from nbcache.pyinstaller import LIBRARY

_NOT_FOR_CLIENTS = ("cli", "daemon", "dask", "metrics", "remote", "wheels", "pyinstaller")


def _may_be_imported(name: str) -> bool:
    return name.split(".")[1:2] not in [[each] for each in _NOT_FOR_CLIENTS]


def _names_of_library() -> list[str]:
    """The modules that the program's imports find in Python's library, and not beside the program."""
    searched = [*CONF["pathex"], *sys.path]
    roots = tuple(os.path.realpath(sysconfig.get_path(each)) + os.sep for each in ("stdlib", "platstdlib"))
    names = []
    for name in sorted(sys.stdlib_module_names):
        inside = BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name)
        found = inside or PathFinder.find_spec(name, searched)
        if inside or (found and found.origin and os.path.realpath(found.origin).startswith(roots)):
            names.append(name)
    return names


_list = os.path.join(CONF["workpath"], LIBRARY)
with open(_list, "w", encoding="ascii") as _file:
    _file.write("\n".join(_names_of_library()))

hiddenimports = ["_nbcache", "nbcache.pyinstaller", *collect_submodules("nbcache", filter=_may_be_imported)]
datas = [(_list, "nbcache")]
# What only a program that imports it anyway, or no client at all, needs of nbcache's own imports.
excludedimports = [
    "cuda", "dask", "distributed", "hatchling", "nacl", "numba_cuda", "opendal", "prometheus_client",
    "PyInstaller", "scipy",
]  # fmt: skip
