"""A k-d tree: a structref over a C++ library, from Python and in compiled code."""

import numba
import numpy as np
from _digest import show
from numba_kdtree import KDTree

data = np.random.RandomState(0).uniform(size=(300, 3))


@numba.njit
def nearest(tree, points):
    found = np.empty(len(points), np.int64)
    for i in range(len(points)):
        _distances, indices, _count = tree.query(points[i : i + 1], k=1)
        found[i] = indices[0, 0]
    return found


tree = KDTree(data, leafsize=8)
distances, indices, counts = tree.query(data[:40] + 0.01, k=4)
show("query", [distances, indices, counts])
show("nearest", nearest(tree, data[100:120] + 0.02))
show("radius", [np.sort(found) for found in tree.query_radius(data[:10], r=0.2)])
