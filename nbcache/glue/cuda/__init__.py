"""Kernels and device functions of numba-cuda. Nothing here is imported before a program has imported `numba.cuda`."""
