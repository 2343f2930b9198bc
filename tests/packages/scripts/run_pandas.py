"""Windows, groups and apply with engine="numba": functions that pandas makes around the user's own."""

import numpy as np
import pandas as pd
from _digest import show

rng = np.random.RandomState(0)
frame = pd.DataFrame({"key": np.arange(300) % 7, "x": rng.normal(size=300), "y": rng.uniform(size=300)})


def spread(values):
    return values.max() - values.min()


def spread_of_group(values, index):
    return values.max() - values.min() + len(index)


def centred(values, index):
    return values - values.mean()


def steps(row):
    return row * 2 - 1


show("rolling mean", frame.x.rolling(10).mean(engine="numba").to_numpy())
show("rolling sum", frame.x.rolling(10, min_periods=2).sum(engine="numba").to_numpy())
show("rolling max", frame.y.rolling(5).max(engine="numba").to_numpy())
show("rolling apply", frame.x.rolling(12).apply(spread, raw=True, engine="numba").to_numpy())
show("expanding var", frame.x.expanding().var(engine="numba").to_numpy())
show("exponential", frame.x.ewm(alpha=0.2).mean(engine="numba").to_numpy())
groups = frame.groupby("key")
show("group mean", groups.x.mean(engine="numba").to_numpy())
show("group agg", groups.x.agg(spread_of_group, engine="numba").to_numpy())
show("group transform", groups.y.transform(centred, engine="numba").to_numpy())
show("apply", frame[["x", "y"]].apply(steps, raw=True, engine="numba").to_numpy())
