"""A module with a function of every kind that a daemon is asked for, and a program that calls them all."""

LIB = """
import numpy as np
from numba import cfunc, guvectorize, int64, njit, prange, vectorize
from numba.experimental import jitclass

K = 3

@njit
def g(x):
    return x + K

@njit
def f(x):
    return g(x) * 10

@njit(["int64(int64)", "float64(float64)"])
def eager(x):
    return x - K

@njit(parallel=True)
def total(a):
    s = 0.0
    for i in prange(a.size):
        s += a[i]
    return s

@njit
def squares(n):
    for i in range(n):
        yield i * i

@vectorize
def u(x):
    return x * 2 + K

@vectorize(["float64(float64)"])
def u_eager(x):
    return x * 2 - K

@guvectorize("(n)->(n)")
def gu(x, out):
    for i in range(len(x)):
        out[i] = x[i] + 7

@guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def gu_eager(x, out):
    out[0] = x.sum()

@vectorize(["float64(float64)"], target="parallel")
def u_parallel(x):
    return x * 5

@cfunc("float64(float64)")
def c(x):
    return x / 2

@jitclass([("n", int64)])
class Box:
    def __init__(self, n):
        self.n = n

    def twice(self):
        return self.n * 2

    @property
    def area(self):
        return self.n ** 2
"""

MAIN = """
import numpy as np
import lib
from numba import cfunc, guvectorize, njit, typed, types, vectorize

def make(k):
    @njit
    def inner(x):
        return lib.f(x) * k
    return inner

@vectorize
def here(x):
    return x + 5

@guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def here_gu(x, out):
    out[0] = x.prod()

@cfunc("int64(int64)")
def here_c(x):
    return x * 9

exec("def generated(x):\\n    return x - 3\\n")
a = np.arange(4.0)
print(lib.f(1), lib.f(1.5), lib.eager(2), lib.total(a), list(lib.squares(3)))
print(lib.u(a), lib.u_eager(2.0), lib.gu(a, np.empty(4)), lib.gu_eager(a), lib.u_parallel(a), lib.c.ctypes(3.0))
box = lib.Box(3)
print(box.twice(), box.n, box.area)
box.n = 7
print(box.twice(), make(2)(3), make(4)(3), here(np.arange(3)), here_gu(a + 1), here_c.ctypes(4))
numbers = typed.Dict.empty(types.int64, types.float64)
numbers[1] = 2.5
print(numbers[1], len(numbers), njit(generated)(10), njit(lambda x: x + 100)(1))
"""
