"""skan: branches of a skeleton, which jitted functions follow through a sparse graph."""

import numpy as np
from _digest import show
from skan import Skeleton, csr, summarize

image = np.zeros((60, 60), bool)
image[10, 5:50] = image[5:55, 30] = True
for i in range(20):
    image[20 + i, 5 + i] = image[40 - i // 2, 31 + i] = True
skeleton = Skeleton(image)
table = summarize(skeleton, separator="_")
show("branches", [table[column].to_numpy() for column in ("branch_distance", "branch_type", "euclidean_distance")])
show("lengths", skeleton.path_lengths())
volume = np.zeros((20, 20, 20), bool)
volume[10, 10, 2:18] = volume[2:18, 10, 10] = True
graph, coordinates = csr.skeleton_to_csgraph(volume, spacing=[1.0, 2.0, 0.5])
show("graph", [graph.data, graph.indices, graph.indptr, *coordinates])
