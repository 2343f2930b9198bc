"""A small embedding with fixed seeds, and a transform of new points."""

import umap
from _digest import show
from sklearn.datasets import load_digits

data = load_digits().data[:300]
reducer = umap.UMAP(n_neighbors=8, n_epochs=30, random_state=42, init="random", n_jobs=1)
show("embedding", reducer.fit_transform(data))
show("transform", reducer.transform(data[:20] + 0.25))
