"""Aggregation by group: generated loops for each function and type."""

import numpy as np
from _digest import show
from numpy_groupies import aggregate_nb

rng = np.random.RandomState(0)
groups, values = rng.randint(0, 9, size=200), rng.normal(size=200)
values[::17] = np.nan
for name in ("sum", "mean", "std", "max", "argmin", "first", "nansum", "nanvar", "nanprod", "all", "len"):
    show(name, aggregate_nb(groups, values, func=name))
show("cumulative", aggregate_nb(groups, np.arange(200.0), func="cumsum"))
show("table", aggregate_nb(np.stack([groups, groups[::-1]]), np.arange(200.0), func="sum", size=(9, 9)))
show("integers", aggregate_nb(groups, np.arange(200), func="sum"))
