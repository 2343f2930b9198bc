"""What few published functions expect from elsewhere: secrets of hashing, and Numba's C extensions where no Numba of
the same version is installed.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Final

from nbcache.memory_files import library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from nbcache.protocol.manifests import Extension

HASH_PREFIX: Final = "_numba_hashsecret_"
_HASH_KEYS: Final = ("siphash_k0", "siphash_k1", "djbx33a_suffix")
"""In the order in which `_Py_HashSecret` has them [64 bits each]."""


def hash_secrets(kept: list[Any]) -> Mapping[str, int]:
    """Return where copies of Python's secrets lie, which are *kept*."""
    secret = (ctypes.c_uint64 * len(_HASH_KEYS)).in_dll(ctypes.pythonapi, "_Py_HashSecret")
    cells = {HASH_PREFIX + name: ctypes.c_uint64(secret[i]) for i, name in enumerate(_HASH_KEYS)}
    kept.append(cells)
    return {name: ctypes.addressof(cell) for name, cell in cells.items()}


def is_installed(package: str) -> bool:
    """Whether there is such a package, without importing it."""
    from importlib.util import find_spec  # NumPy loads none

    return find_spec(package) is not None


def published_extension(
    extension: Extension, read: Callable[[str], bytes], load: Callable[[str, str], ModuleType]
) -> ModuleType:
    """Load an extension that a publication brought along, from memory: ``read(digest)`` has it, ``load(name, path)``
    loads a file.
    """
    name = extension.module
    theirs = sys.modules.get(name)
    with library(name, read(extension.digest)) as path:
        module = load(name, path)
    # Whoever imports another Numba in this process has to get that one's.
    if theirs is not None:
        sys.modules[name] = theirs
    else:
        sys.modules.pop(name, None)
    return module
