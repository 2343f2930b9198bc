"""linear algebra: decompositions, also of complex matrices."""

import numpy as np
from numba import njit
from shown import raised, show


@njit
def decomposed(a):
    q, r = np.linalg.qr(a)
    u, s, v = np.linalg.svd(a)
    return np.round(np.abs(q @ r), 6), np.round(s, 6), np.linalg.matrix_rank(a)


@njit
def eigen(a):
    return np.round(np.linalg.eigvalsh(a), 6), np.round(np.linalg.cholesky(a), 6)


a = np.array([[4.0, 1.0], [1.0, 3.0]])
show("decomposed", decomposed(a))
show("eigen", eigen(a))
show("complex", eigen(a.astype(np.complex128))[0])
raised("singular", njit(lambda a: np.linalg.inv(a)), np.zeros((2, 2)))
