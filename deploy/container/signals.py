"""The example's library: functions that Numba compiles."""

import numpy as np
from numba import njit


@njit
def smooth(signal, width):
    """Return the moving average of a signal."""
    result = np.empty_like(signal)
    for i in range(signal.size):
        low, high = max(0, i - width), min(signal.size, i + width + 1)
        result[i] = signal[low:high].mean()
    return result
