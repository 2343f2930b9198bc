"""Shared libraries that this process has loaded: in which of them an address lies, and which build of it that is.

A build is told by the library's GNU build id, or by the digest of its file if it has none. Sources: dladdr(3),
dlinfo(3).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from types import ModuleType
from typing import Any

from nbcache.elf import build_id
from nbcache.passing_exceptions import suppressed
from nbcache.process import opened, os


class Located(ctypes.Structure):
    """What dladdr tells of an address: file and beginning of the library, the symbol before it, and where that is."""

    _fields_ = (
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("at", ctypes.c_void_p),
    )  # fmt: skip


# Prototypes of our own: the attributes of ctypes.pythonapi are everybody's.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_dladdr = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Located))(("dladdr", ctypes.pythonapi))


def locate(address: int) -> Located | None:
    """Return where an address lies; None for what is in no library."""
    found = Located()
    return found if _dladdr(address, found) and found.file and found.base else None


@functools.lru_cache(maxsize=1024)
def build_of(path: str, _base: int) -> str | None:
    """Return which build of a library was loaded from a file, to where *base* is; None if the file is gone."""
    return build_in(path)


def build_in(path: str) -> str | None:
    """Return which build of a library a file holds now; None if it can't be read."""
    with suppressed(OSError):
        found = build_id(path)
        if found is None:
            with opened(path, "rb") as file:
                found = hashlib.blake2b(file.read(), digest_size=16).hexdigest()
        return found
    return None


def exports_of(module: object) -> dict[str, Any]:
    """Return the C functions that a Cython module exports, as capsules by name."""
    # Not getattr: a module that loads itself late would.
    found = vars(module).get("__pyx_capi__") if isinstance(module, ModuleType) else None
    return {name: each for name, each in dict.items(found) if type(each).__name__ == "PyCapsule"} if found else {}


def capsule(capsule: object) -> tuple[str, int]:
    """Return the signature in C, and the address, of what a capsule holds."""
    name = _name_of(capsule)
    return name.decode("utf-8", "replace"), _pointer_in(capsule, name)


def in_words(address: int) -> str:
    """Return what lies at an address of a library, for people: its symbol if it has one, and the library's file."""
    found = locate(address)
    if found is None:
        return hex(address)
    exact = found.symbol is not None and found.at == address
    name = found.symbol.decode("utf-8", "replace") if exact else hex(address - found.base)
    return f"{name} in {os.path.basename(os.fsdecode(found.file))}"
