"""pynapple: time series and intervals, correlograms of spikes."""

import numpy as np
import pynapple as nap
from _digest import show

rng = np.random.default_rng(0)
spikes = nap.Ts(np.sort(rng.uniform(0, 100, 400)))
signal = nap.Tsd(np.arange(0, 100, 0.1), np.sin(np.arange(0, 100, 0.1)))
epochs = nap.IntervalSet(start=[0, 20, 50], end=[15, 40, 90])
group = nap.TsGroup({i: nap.Ts(np.sort(rng.uniform(0, 100, 150 + 20 * i))) for i in range(4)})
show("restricted", spikes.restrict(epochs).t)
show("counted", spikes.count(1.0, epochs).values)
show("values", spikes.value_from(signal, epochs).values)
show("means", signal.bin_average(1.0).values)
show("above", signal.threshold(0.3).time_support.values)
show("crossed", nap.compute_crosscorrelogram(group, 0.1, 2.0).to_numpy())
