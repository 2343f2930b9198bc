"""Matrix profiles: parallel kernels of many kinds."""

import numpy as np
import stumpy
from _digest import show

rng = np.random.RandomState(0)
series = np.cumsum(rng.normal(size=600))
show("stump", stumpy.stump(series, m=20))
show("aamp", stumpy.aamp(series, m=20))
show("mstump", stumpy.mstump(np.array([series[:300], series[300:]]), m=20))
show("mass", stumpy.mass(series[:30], series))
show("motifs", stumpy.motifs(series, stumpy.stump(series, m=20)[:, 0].astype(float), max_motifs=2))
approx = stumpy.scrump(series, m=20, percentage=1.0, pre_scrump=False)
approx.update()
show("scrump", approx.P_)
stream = stumpy.stumpi(series[:200], m=20, egress=False)
for value in series[200:210]:
    stream.update(value)
show("stumpi", stream.P_)
