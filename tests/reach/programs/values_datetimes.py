"""values: datetime64 and timedelta64."""

import numpy as np
from numba import njit
from shown import show


@njit
def days(a, b):
    return b - a, a < b, np.isnat(a)


@njit
def shifted(a, by):
    return a + by


d = np.array(["2024-01-01", "2024-03-01"], "M8[D]")
show("days", days(d[0], d[1]))
show("shifted", shifted(d, np.timedelta64(3, "D")).astype(str))
show("hours", days(np.datetime64("2024-01-01T01", "h"), np.datetime64("2024-01-02T02", "h")))
show("sum", njit(lambda a: a[0] + a[1])(np.array([1, 2], "m8[s]")))
