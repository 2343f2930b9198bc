"""Distributions compiled through overloads and parallel ufuncs."""

import numpy as np
from _digest import show
from numba_stats import bernstein, expon, norm, poisson, t, truncnorm, voigt

x = np.linspace(-3, 3, 200)
show("norm", [norm.pdf(x, 0.1, 1.2), norm.cdf(x, 0.1, 1.2), norm.ppf(np.linspace(0.01, 0.99, 50), 0.0, 1.0)])
show("expon", expon.cdf(np.abs(x), 0.0, 2.0))
show("t", t.cdf(x, 3.0, 0.0, 1.0))
show("poisson", poisson.pmf(np.arange(20), 4.0))
show("truncnorm", truncnorm.pdf(x, -1.0, 1.0, 0.0, 1.0))
show("voigt", voigt.pdf(x, 0.5, 0.0, 1.0))
show("bernstein", bernstein.density(np.linspace(0, 1, 30), np.array([1.0, 2.0, 3.0]), 0.0, 1.0))
