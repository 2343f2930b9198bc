"""Which results the C library's mathematical functions have on this host, and how this thread computes with floats.

LLVM computes with these functions what is constant, while it compiles. They differ in the last bit between releases of
the C library, and within one by whether the processor fuses multiplication and addition. So code that was made
elsewhere, even where it is the same for every processor, may hold other constants than code that is made here.

So it may where a thread computes otherwise than usual: each library that was linked with ``-ffast-math`` has the
processor take subnormal numbers for zero, in the thread that loads it. That can change at any time, so it is asked for
each key, by a few operations whose results tell. They are the processor's own on all hosts, and need no C extension.
"""

from __future__ import annotations

import functools
import math
import struct
from typing import TYPE_CHECKING, Final

from nbcache.store.content import blake2b

if TYPE_CHECKING:
    from collections.abc import Callable

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
def answers() -> str:
    """Return these results as a digest, of 16 hexadecimal digits: equal ones are equal in all that is asked here."""
    results = [function(*at) for function, points in _PROBES for at in points]
    return blake2b(struct.pack(f"<{len(results)}d", *results), digest_size=8).hexdigest()


_LEAST, _NORMAL = struct.unpack("<2d", struct.pack("<2Q", 1, 1 << 52))
"""The smallest number, and the smallest that isn't subnormal. Reading them as text would compute with such numbers."""
_NUMBERS: Final = [_LEAST, _NORMAL, 2.0**100, 0.5, 1.0, 2.0**-54, 3 * 2.0**-54]
"""A list: an operation on constants may be done once, when its code is compiled."""


def environment() -> str:
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
