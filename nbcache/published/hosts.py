"""What a host is, as far as machine code built elsewhere can tell: the facts of this one, and whether they will do.

Looking takes some 0.1 ms and loads nothing: one read of ``/proc/cpuinfo``, and NumPy's own account of its ABI.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from nbcache import libm
from nbcache.passing_exceptions import suppressed

if TYPE_CHECKING:
    from nbcache.protocol.manifests import Host

# Slots of NumPy's C API, numpy/__multiarray_api.h: PyArray_GetNDArrayCVersion and PyArray_GetNDArrayCFeatureVersion.
_ABI_VERSION, _API_VERSION = 0, 211
_PARAGRAPH: Final = 1 << 12
"""About what the kernel says of one processor [bytes]."""
_MOST: Final = 1 << 14


@functools.cache
def python() -> str:
    """The interpreter's cache tag and its ABI flags."""
    return f"{sys.implementation.cache_tag}{sys.abiflags}"


@functools.cache
def libc() -> str:
    """The C library and its version, such as ``glibc 2.36``; "" for one that doesn't say."""
    with suppressed(OSError, ValueError):
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    return ""


@functools.cache
def features() -> frozenset[str]:
    """What the processor can do, by the kernel's names; nothing if that can't be known."""
    head = b""
    with suppressed(OSError), open("/proc/cpuinfo", "rb", buffering=0) as file:
        # The first processor's paragraph: the others say the same, and the kernel asks each that is read about.
        while b"\n\n" not in head and len(head) < _MOST and (more := file.read(_PARAGRAPH)):
            head += more
    for line in head.split(b"\n"):
        if line.startswith((b"flags", b"Features")):
            return frozenset(line.partition(b":")[2].decode("ascii", "replace").split())
    return frozenset()


@functools.cache
def numpy_abi() -> tuple[int, int]:
    """NumPy's ABI and API versions, as C extensions check them."""
    number = ctypes.CFUNCTYPE(ctypes.c_uint)
    return number(api_function("_ARRAY_API", _ABI_VERSION))(), number(api_function("_ARRAY_API", _API_VERSION))()


def api_function(table: str, slot: int) -> int:
    """Where a function of NumPy's C API lies, by its slot in a table (``_ARRAY_API`` or ``_UFUNC_API``)."""
    core = np._core if hasattr(np, "_core") else np.core  # noqa: SLF001  NumPy 2, NumPy 1
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(getattr(core._multiarray_umath, table), None)  # noqa: SLF001  where C extensions find it
    assert address is not None
    return ctypes.c_void_p.from_address(address + slot * ctypes.sizeof(ctypes.c_void_p)).value or 0


@functools.lru_cache(maxsize=8)  # no fact of a host changes while a process runs
def problem(host: Host) -> str | None:
    """Say in one line why code that was built for `host` can't run here; None if it can."""
    machine = os.uname().machine
    if host.machine != machine:
        return f"it was built for {host.machine}, and this is {machine}"
    if host.python != python():
        return f"it was built for {host.python}, and this is {python()}"
    abi, api = numpy_abi()
    if host.numpy[0] != abi or host.numpy[1] > api:
        here = f"this NumPy {np.__version__} has {_abi_words(abi, api)}"
        return f"it was built for NumPy's ABI {_abi_words(*host.numpy)}, and {here}"
    if not _reaches(libc(), host.libc):
        return f"it was built for {host.libc}, and this is {libc() or 'another C library'}"
    missing = sorted(set(host.features) - features())
    if missing:
        return f"it was built for a processor with {', '.join(missing)}, which this one doesn't have"
    if host.libm != libm.answers():
        return f"it was built where sin, exp or pow give other results than this host's C library ({libc()}) does"
    return None


def _abi_words(abi: int, api: int) -> str:
    return f"{abi:#x} with API {api:#x}"


def _reaches(have: str, wanted: str) -> bool:
    have_name, _, have_version = have.partition(" ")
    name, _, version = wanted.partition(" ")
    return have_name == name and _numbers(have_version) >= _numbers(version)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
