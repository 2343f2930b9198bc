"""Spatial statistics: local indicators and their significance by permutation, over a lattice."""

import warnings

import numpy as np
from _digest import show
from esda import G_Local, Moran, Moran_Local
from libpysal.weights import lat2W

warnings.simplefilter("ignore")
values = np.random.RandomState(0).normal(size=100).cumsum()
weights = lat2W(10, 10)
weights.transform = "r"
np.random.seed(1)
moran = Moran(values, weights, permutations=99)
show("moran", [moran.I, moran.p_sim])
local = Moran_Local(values, weights, permutations=99, n_jobs=1, seed=7)
show("local", [local.Is, local.p_sim, local.q])
hot = G_Local(values - values.min() + 1, weights, permutations=99, n_jobs=1, seed=7)
show("hot spots", [hot.Gs, hot.p_sim])
