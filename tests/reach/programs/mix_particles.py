"""mix: jitclass, typed list, parallel loop, ufunc and exception in one simulation."""

import numpy as np
from numba import float64, njit, prange, typed, vectorize
from numba.experimental import jitclass
from shown import raised, show


@jitclass([("x", float64), ("v", float64)])
class Particle:
    def __init__(self, x, v):
        self.x = x
        self.v = v

    def step(self, dt):
        if dt < 0:
            raise ValueError("backwards")
        self.x += self.v * dt


@vectorize
def clipped(x):
    return min(max(x, 0.0), 1.5)


@njit
def simulate(particles, n):
    for _ in range(n):
        for p in particles:
            p.step(0.25)
    return clipped(np.array([p.x for p in particles]))


@njit(parallel=True)
def energy(v):
    s = 0.0
    for i in prange(v.size):
        s += v[i] * v[i]
    return s


particles = typed.List([Particle(0.0, 1.0), Particle(1.0, 2.0)])
show("simulate", simulate(particles, 3))
show("energy", energy(np.arange(4.0)))
raised("backwards", particles[0].step, -1.0)
