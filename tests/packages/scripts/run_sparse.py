"""Sparse arrays: construction, reductions, products, slicing."""

import numpy as np
import sparse
from _digest import show

array = sparse.random((60, 70, 8), density=0.05, random_state=np.random.default_rng(0))
matrix = sparse.random((70, 40), density=0.1, random_state=np.random.default_rng(1))
show("sum", array.sum(axis=1).todense())
show("product", sparse.dot(matrix.T, matrix).todense())
show("tensordot", sparse.tensordot(array, matrix, axes=([1], [0]), return_type=np.ndarray))
show("slice", array[3:40:2, :, 1].todense())
show("gcxs", sparse.GCXS.from_coo(array, compressed_axes=(0,))[:5, 1:30].todense())
show("add", (array + array.transpose((0, 1, 2)) * 2).todense())
