"""What Numba does before its first look at an argument, done without the modules that it takes."""

from __future__ import annotations

import sys
from typing import Any


class NumPy:
    """Stands in for the module ``numpy`` where Numba looks at arrays: ``numpy.ma`` isn't imported for it.

    As long as nobody has imported that, no array is a masked one.
    """

    class _NoMaskedArrays:
        class MaskedArray:
            pass

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        if name == "ma" and "numpy.ma" not in sys.modules:
            return self._NoMaskedArrays
        return getattr(self._numpy, name)
