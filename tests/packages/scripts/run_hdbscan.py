"""Density clustering of an embedding: the pair of packages people use together."""

import hdbscan
import umap
from _digest import show
from sklearn.datasets import make_blobs

data, _ = make_blobs(n_samples=200, n_features=8, centers=4, random_state=0)
flat = umap.UMAP(
    n_neighbors=10, n_epochs=20, random_state=1, init="random", n_jobs=1, metric="manhattan"
).fit_transform(data)
show("labels", hdbscan.HDBSCAN(min_cluster_size=10).fit_predict(flat))
