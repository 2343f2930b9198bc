"""Sparse rows as a structref: constructors, products, rows and transposition, from Python and in compiled code."""

import numba
import numpy as np
import scipy.sparse as sps
from _digest import show
from csr import CSR


@numba.njit
def row_sums(matrix):
    out = np.zeros(matrix.nrows)
    for row in range(matrix.nrows):
        out[row] = matrix.row_vs(row).sum()
    return out


matrix = CSR.from_scipy(sps.random(40, 30, density=0.2, random_state=np.random.default_rng(0), format="csr"))
show("sums", row_sums(matrix))
show("times vector", matrix.mult_vec(np.arange(30.0)))
show("product", matrix.multiply(matrix.transpose()).to_scipy().toarray())
show("structure", matrix.transpose(include_values=False).colinds)
show("part", matrix.subset_rows(5, 12).to_scipy().toarray())
show("picked", matrix.pick_rows(np.array([3, 1, 30])).to_scipy().toarray())
show("counts", matrix.row_nnzs())
show("filtered", matrix.filter_nnzs(matrix.values > 0.3).to_scipy().toarray())
show("normalised", matrix.normalize_rows("unit"))
show("empty", CSR.empty(4, 5).rowptrs)
built = CSR.from_coo(np.array([0, 1, 1, 3], np.int32), np.array([2, 0, 4, 1], np.int32), np.arange(1.0, 5.0))
show("built", built.to_scipy().toarray())
