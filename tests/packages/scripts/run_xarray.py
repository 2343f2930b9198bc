"""Labelled arrays: reductions by group and windows that flox and numbagg compile for it."""

import flox.xarray
import numpy as np
import xarray as xr
from _digest import show

rng = np.random.RandomState(0)
table = xr.DataArray(rng.normal(size=(4, 120)), dims=("site", "time"), coords={"month": ("time", np.arange(120) % 12)})
table = table.where(table > -1.5)
show("groups", flox.xarray.xarray_reduce(table, "month", func="nanmean", engine="numbagg").values)
show("by NumPy", flox.xarray.xarray_reduce(table, "month", func="max", engine="numba", fill_value=0.0).values)
show("windows", table.rolling(time=6, min_periods=2).mean().values)
show("filled", table.ffill("time").values)
