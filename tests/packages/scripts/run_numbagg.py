"""Aggregations, moving windows and groups: gufuncs that are built for each axis and type."""

import numbagg
import numpy as np
from _digest import show

rng = np.random.RandomState(0)
data = rng.normal(size=(6, 200))
data[rng.uniform(size=data.shape) < 0.1] = np.nan
for name in ("nansum", "nanmean", "nanstd", "nanmax", "nanargmin", "nancount"):
    show(name, getattr(numbagg, name)(data, axis=1))
show("nanmedian", numbagg.nanmedian(data, axis=1))
show("nanquantile", numbagg.nanquantile(data, [0.25, 0.75], axis=1))
for name in ("move_mean", "move_sum", "move_std"):
    show(name, getattr(numbagg, name)(data, window=10, min_count=3))
show("move_corr", numbagg.move_corr(data, data[::-1].copy(), window=10, min_count=3))
show("move_exp_nanmean", numbagg.move_exp_nanmean(data, alpha=np.full(200, 0.2)))
labels = np.arange(200) % 7
show("group_nanmean", numbagg.group_nanmean(data, labels, axis=1))
show("group_nansum", numbagg.group_nansum(data.astype(np.float32), labels, axis=1))
show("ffill", [numbagg.ffill(data, axis=1), numbagg.bfill(data, axis=1)])
