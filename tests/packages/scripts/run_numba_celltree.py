"""Points, boxes and edges in a mesh: a tree as a named tuple of arrays."""

import numpy as np
from _digest import show
from numba_celltree import CellTree2d

x, y = np.meshgrid(np.linspace(0.0, 10.0, 12), np.linspace(0.0, 5.0, 8))
vertices = np.column_stack([x.ravel(), y.ravel()])
first = (np.arange(7)[:, None] * 12 + np.arange(11)[None, :]).ravel()
faces = np.column_stack([first, first + 1, first + 13, first + 12])
tree = CellTree2d(vertices, faces, fill_value=-1)
rng = np.random.RandomState(0)
points = rng.uniform((0.0, 0.0), (10.0, 5.0), size=(50, 2))
show("points", tree.locate_points(points))
low = rng.uniform(0.0, 4.0, size=(8, 2))
show("boxes", tree.locate_boxes(np.column_stack([low[:, 0], low[:, 0] + 1.5, low[:, 1], low[:, 1] + 0.7])))
edges = np.stack([points[:20], points[20:40]], axis=1)
show("edges", tree.intersect_edges(edges))
show("weights", tree.compute_barycentric_weights(points))
