"""What a host is, as far as machine code built elsewhere can tell: the facts of this one, and whether they will do.

Looking takes some 0.1 ms and loads nothing: one read of ``/proc/cpuinfo``, and NumPy's own account of its ABI.

Among the facts is which results the C library's mathematical functions have, and how this thread computes with floats.
LLVM computes with these functions what is constant, while it compiles. They differ in the last bit between releases of
the C library, and within one by whether the processor fuses multiplication and addition. So code that was made
elsewhere, even where it is the same for every processor, may hold other constants than code that is made here.

So it may where a thread computes otherwise than usual: each library that was linked with ``-ffast-math`` has the
processor take subnormal numbers for zero, in the thread that loads it. That can change at any time, so it is asked for
each key, by a few operations whose results tell. They are the processor's own on all hosts, and need no C extension.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import struct
import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from nbcache.passing_exceptions import suppressed
from nbcache.store.content import blake2b

if TYPE_CHECKING:
    from collections.abc import Callable

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
    if host.libm != libm():
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


_PROBES: Final[tuple[tuple[Callable[..., float], tuple[tuple[float, ...], ...]], ...]] = (
    (math.sin, ((21.549,), (7.889,), (15.976,), (18.727,))),
    (math.cos, ((34.789,), (7.615,), (44.94,), (32.562,))),
    (math.tan, ((7.889,), (21.549,), (0.7,), (1.3,))),
    (math.exp, ((8.911,), (-3.543,), (1.767,), (0.663,))),
    (math.log, ((12.299,), (28.653,), (0.7,), (3.3,))),
    (math.log2, ((12.299,), (28.653,), (0.7,), (3.3,))),
    (math.log10, ((28.653,), (12.299,), (0.7,), (3.3,))),
    (math.asin, ((0.273,), (-0.273,), (0.7,), (-0.9,))),
    (math.acos, ((0.956,), (0.273,), (0.7,), (-0.9,))),
    (math.atan, ((-14.755,), (12.757,), (2.851,), (0.7,))),
    (math.sinh, ((1.769,), (-1.545,), (-0.099,), (1.026,))),
    (math.cosh, ((-1.767,), (3.625,), (-4.342,), (1.789,))),
    (math.tanh, ((0.7,), (1.3,), (-0.297,), (2.1,))),
    (math.expm1, ((0.92,), (1.867,), (1.769,), (0.991,))),
    (math.log1p, ((-0.297,), (1.881,), (0.7,), (3.3,))),
    (math.pow, ((3.75, -0.35), (1.05, -3.46), (3.71, 4.43), (2.28, 3.36))),
    (math.atan2, ((9.07, 2.74), (4.78, 3.87), (-0.82, 4.48), (0.53, 4.94))),
    (math.fmod, ((21.549, 7.889), (-14.755, 0.7))),
)
"""Arguments whose results lie so near the middle between two numbers that ways to compute them differ there."""


@functools.cache
def libm() -> str:
    """Return these functions' results as a digest, of 16 hexadecimal digits: equal ones are equal in all that is asked
    here.
    """
    results = [function(*at) for function, points in _PROBES for at in points]
    return blake2b(struct.pack(f"<{len(results)}d", *results), digest_size=8).hexdigest()


_LEAST, _NORMAL = struct.unpack("<2d", struct.pack("<2Q", 1, 1 << 52))
"""The smallest number, and the smallest that isn't subnormal. Reading them as text would compute with such numbers."""
_NUMBERS: Final = [_LEAST, _NORMAL, 2.0**100, 0.5, 1.0, 2.0**-54, 3 * 2.0**-54]
"""A list: an operation on constants may be done once, when its code is compiled."""


def floating_point() -> str:
    """Return how this thread computes with floats, in words; "" for what is usual: nothing is flushed, all is rounded.

    To the nearest number, that is, and to the even one of two that are equally near.
    """
    least, normal, large, half, one, quarter, most = _NUMBERS
    if (
        least * large == _SUBNORMAL
        and normal * half * large == _HALVED
        and one + quarter == one
        and one + most == _ABOVE
        and -one - quarter == -one
    ):
        return ""
    found = []
    if least * large != _SUBNORMAL:
        found.append("subnormal arguments are zero")
    if not any(struct.pack("<d", normal * half)):
        found.append("subnormal results are zero")
    if one + quarter != one:
        found.append("rounds up")
    elif one + most != _ABOVE:
        found.append("rounds down" if -one - quarter != -one else "rounds towards zero")
    return ", ".join(found)


_SUBNORMAL: Final = 2.0**-974
_HALVED: Final = 2.0**-923
_ABOVE: Final = 1.0 + 2.0**-52
