"""Which results the C library's mathematical functions have on this host.

LLVM computes with them what is constant, while it compiles. They differ in the last bit between releases of the C
library, and within one by whether the processor fuses multiplication and addition. So code that was made elsewhere,
even where it is the same for every processor, may hold other constants than code that is made here.
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
