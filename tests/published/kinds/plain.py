"""What the functions use at run time: a node imports it, so it knows nothing of Numba."""

from collections import namedtuple

Point = namedtuple("Point", ["x", "y"])


class Negative(ValueError):
    """Raised by a function."""

    def __init__(self, what, value):
        super().__init__(what, value)
        self.what, self.value = what, value
