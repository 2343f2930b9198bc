"""Where nbcache takes part in Numba."""
