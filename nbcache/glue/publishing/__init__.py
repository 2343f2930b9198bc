"""Publications out of compiled functions: what a node without Numba has to know of them, as data."""
