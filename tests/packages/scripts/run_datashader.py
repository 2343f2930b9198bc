"""Aggregations of points and lines to a raster: generated code throughout."""

import datashader as ds
import numpy as np
import pandas as pd
from _digest import show

rng = np.random.RandomState(0)
frame = pd.DataFrame({"x": rng.normal(size=2000), "y": rng.normal(size=2000), "v": rng.uniform(size=2000)})
canvas = ds.Canvas(plot_width=40, plot_height=30)
show("count", canvas.points(frame, "x", "y", agg=ds.count()).values)
show("mean", canvas.points(frame, "x", "y", agg=ds.mean("v")).values)
show("max", canvas.line(frame, "x", "y", agg=ds.max("v")).values)
