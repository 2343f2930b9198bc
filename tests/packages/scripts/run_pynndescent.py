"""Approximate neighbours: index, query and several metrics."""

import numpy as np
import pynndescent
from _digest import show

rng = np.random.RandomState(0)
data = rng.normal(size=(600, 12)).astype(np.float32)
for metric in ("euclidean", "cosine", "manhattan", "correlation"):
    index = pynndescent.NNDescent(data, metric=metric, n_neighbors=10, random_state=42, n_jobs=1)
    show(f"{metric} graph", index.neighbor_graph)
index.prepare()
show("query", index.query(data[:50] + 0.01, k=5))
