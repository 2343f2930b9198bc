# A notebook of test_notebooks.py: what users do in one, functions redefined and cells run again included.

# %%
import numpy as np
from numba import guvectorize, njit, typed, vectorize

RATE = 0.5


# %%
@njit
def grown(x, n):
    for _ in range(n):
        x = x + x * RATE
    return x


grown(1.0, 3), grown(np.arange(3.0), 2)


# %%
@vectorize
def clipped(x):
    return min(max(x, 0.0), 1.0)


clipped(np.array([-1.0, 0.5, 2.0]))


# %%
@guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def total(a, out):
    out[0] = 0.0
    for x in a:
        out[0] += x


total(np.ones((2, 3)))


# %%
@njit
def step(x):
    return x + 1


@njit
def twice(x):
    return step(step(x))


twice(1), twice(1.5)


# %% a function is defined anew, and the one that calls it as well
@njit
def step(x):
    return x + 10


@njit
def twice(x):
    return step(step(x))


twice(1), twice(1.5)


# %% as it was at first
@njit
def step(x):
    return x + 1


@njit
def twice(x):
    return step(step(x))


twice(1), step(2)

# %% a global changes, and the function that reads it is made again
RATE = 1.0


@njit
def grown(x, n):
    for _ in range(n):
        x = x + x * RATE
    return x


grown(1.0, 3)


# %%
class Tool:
    @staticmethod
    @njit
    def halved(x):
        return x / 2


Tool.halved(3)


# %%
names = typed.Dict()
names["a"] = 1
names["b"] = 2
dict(names)


# %%
@njit
def checked(x):
    if x < 0:
        raise ValueError("negative")
    return x


try:
    checked(-1)
except ValueError as error:
    print(repr(error))
