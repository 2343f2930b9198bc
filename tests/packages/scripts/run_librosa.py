"""Onsets, beats, pitch, alignment and constant-Q of a synthetic tone."""

import librosa
import numpy as np
from _digest import show

rate = 11025
time = np.arange(4 * rate) / rate
tone = (
    np.sin(2 * np.pi * 220 * time) * (np.sin(2 * np.pi * 2 * time) > 0) + 0.5 * np.sin(2 * np.pi * 330 * time)
).astype(np.float32)
show("onset", librosa.onset.onset_strength(y=tone, sr=rate))
tempo, beats = librosa.beat.beat_track(y=tone, sr=rate)
show("tempo", tempo)
show("beats", beats)
show("yin", librosa.yin(tone, fmin=80, fmax=800, sr=rate))
show("pyin", librosa.pyin(tone[:rate], fmin=80, fmax=800, sr=rate))
chroma = librosa.feature.chroma_stft(y=tone, sr=rate)
show("dtw", librosa.sequence.dtw(X=chroma[:, :60], Y=chroma[:, 20:80]))
show("viterbi", librosa.sequence.viterbi(chroma[:, :40] / chroma[:, :40].sum(axis=0), np.full((12, 12), 1 / 12)))
show("peaks", librosa.util.peak_pick(tone[:2000], pre_max=3, post_max=3, pre_avg=3, post_avg=5, delta=0.1, wait=2))
show("zero crossings", librosa.zero_crossings(tone))
show("localmax", librosa.util.localmax(tone))
