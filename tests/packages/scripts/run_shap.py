"""Explanations of a model: masking and clustering of features in compiled code."""

import numpy as np
import shap
from _digest import show

rng = np.random.RandomState(0)
data = rng.normal(size=(40, 5))


def model(rows):
    return rows[:, 0] * 2 + rows[:, 1] * rows[:, 2] - np.abs(rows[:, 3])


exact = shap.explainers.Exact(model, shap.maskers.Independent(data, max_samples=20))
show("exact", exact(data[:4], silent=True).values)
partition = shap.explainers.Partition(model, shap.maskers.Partition(data, max_samples=20, clustering="correlation"))
show("partition", partition(data[:3], silent=True).values)
