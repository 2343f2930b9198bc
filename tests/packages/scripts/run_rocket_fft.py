"""Fourier transforms in compiled code: NumPy's and SciPy's, lowered to a C++ library through ctypes."""

import numba
import numpy as np
import scipy.fft
from _digest import show


@numba.njit
def spectra(x):
    return np.fft.fft(x), np.fft.rfft(x), np.fft.ifft(x), np.fft.fft(x, n=40)


@numba.njit
def planes(a):
    return np.fft.fft2(a), scipy.fft.dctn(a), scipy.fft.fftn(a, axes=(0,)), np.fft.fftshift(a)


@numba.njit
def sizes(n):
    return np.fft.fftfreq(n), np.fft.rfftfreq(n), scipy.fft.next_fast_len(n)


rng = np.random.RandomState(0)
signal = rng.normal(size=60)
show("spectra", spectra(signal))
show("single", spectra(signal.astype(np.float32)))
show("planes", planes(rng.normal(size=(12, 10))))
show("sizes", sizes(31))
