# A notebook of test_notebooks.py: classes and stencils.

# %%
import numpy as np
from numba import float64, int64, stencil
from numba.experimental import jitclass


# %%
@jitclass([("n", int64), ("mean", float64)])
class Running:
    def __init__(self):
        self.n = 0
        self.mean = 0.0

    def add(self, x):
        self.n += 1
        self.mean += (x - self.mean) / self.n
        return self.mean


running = Running()
[running.add(x) for x in (1.0, 2.0, 6.0)], running.n


# %%
@stencil
def smoothed(a):
    return (a[-1] + a[1]) / 2


smoothed(np.arange(5.0))
