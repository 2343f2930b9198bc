"""Dynamic time warping and its barycentre."""

import numpy as np
from _digest import show
from tslearn.barycenters import dtw_barycenter_averaging
from tslearn.metrics import cdist_dtw, dtw_path, lcss, soft_dtw
from tslearn.utils import to_time_series_dataset

rng = np.random.RandomState(0)
data = to_time_series_dataset(rng.normal(size=(8, 40)).cumsum(axis=1))
show("dtw", cdist_dtw(data))
show("path", np.array(dtw_path(data[0], data[1], global_constraint="sakoe_chiba", sakoe_chiba_radius=4)[0]))
show("lcss", lcss(data[0], data[1], eps=0.5))
show("soft", soft_dtw(data[0], data[1], gamma=0.5))
show("mean", dtw_barycenter_averaging(data, max_iter=3))
