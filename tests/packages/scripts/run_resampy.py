"""Band-limited resampling of a signal, one channel and several, in parallel and not."""

import numpy as np
import resampy
from _digest import show

time = np.arange(8000) / 8000
tone = np.sin(2 * np.pi * 440 * time)
show("up", resampy.resample(tone, 8000, 11025))
show("down", resampy.resample(tone.astype(np.float32), 8000, 4000, filter="kaiser_fast"))
show("channels", resampy.resample(np.array([tone, tone[::-1]]), 8000, 6000, axis=1))
show("parallel", resampy.resample(tone, 8000, 16000, parallel=True))
show("at times", resampy.resample_nu(tone, 8000, np.linspace(0, 0.5, 300)))
