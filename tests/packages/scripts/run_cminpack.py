"""cminpack-numba: roots and least squares by functions of a C library, which call cfuncs."""

import numpy as np
from _digest import show
from cminpack_numba import enorm, hybrd1, hybrd_sig, lmdif1, lmdif_sig
from numba import cfunc, njit


@cfunc(hybrd_sig)
def system(udata, n, x, fvec, iflag):
    for k in range(n):
        before = x[k - 1] if k else 0.0
        after = x[k + 1] if k != n - 1 else 0.0
        fvec[k] = (3.0 - 2.0 * x[k]) * x[k] - before - 2.0 * after + 1.0
    return 0


@cfunc(lmdif_sig)
def residual(udata, m, n, x, fvec, iflag):
    for i in range(m):
        t = i * 0.5
        fvec[i] = x[0] * np.exp(-x[1] * t) + x[2] - (2.5 * np.exp(-1.3 * t) + 0.5)
    return 0


@njit
def norms(address, k):
    total = 0.0
    for i in range(k):
        total += enorm(hybrd1(address, np.full(9, -1.0 - 0.01 * i), 1e-10)[0])
    return total


show("root", list(hybrd1(system.address, -np.ones(9), 1e-10)))
show("fitted", list(lmdif1(residual.address, 15, np.array([1.0, 1.0, 0.0]))))
show("norms", norms(system.address, 5))
