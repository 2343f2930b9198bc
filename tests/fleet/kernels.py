"""Thirty kernels of strict floating point, whose results are printed to the last bit."""

import cmath
import hashlib
import math

import numpy as np
from numba import guvectorize, njit, prange, vectorize

rng = np.random.default_rng(14)
A, B = rng.normal(size=997), rng.normal(size=997) + 3.0
M, N = rng.normal(size=(31, 17)), rng.normal(size=(17, 23))
S = rng.normal(size=512).astype(np.float32)
C = A[:100] + 1j * B[:100]
J = rng.integers(-1000, 1000, 500)
"""Inputs of odd lengths, so that loops have vectors and remainders."""


@njit
def total(a):
    s = 0.0
    for x in a:
        s += x
    return s


@njit
def dot(a, b):
    s = 0.0
    for i in range(a.size):
        s += a[i] * b[i]
    return s


@njit
def axpy(a, b):
    return 1.5 * a + b * b - a / b


@njit
def horner(a):
    out = np.empty_like(a)
    for i in range(a.size):
        x = a[i]
        out[i] = ((((0.3 * x + 1.1) * x - 2.7) * x + 0.9) * x - 1.3) * x + 0.01
    return out


@njit
def matrix(m, n):
    out = np.zeros((m.shape[0], n.shape[1]))
    for i in range(m.shape[0]):
        for j in range(n.shape[1]):
            for k in range(m.shape[1]):
                out[i, j] += m[i, k] * n[k, j]
    return out


@njit
def norm(a):
    return math.sqrt((a * a).sum())


@njit
def softmax(a):
    e = np.exp(a - a.max())
    return e / e.sum()


@njit
def moments(a):
    return a.mean(), a.var(), a.std(), a.min(), a.max()


@njit
def waves(a):
    return np.sin(a) * np.cos(a) + np.tan(a * 0.1)


@njit
def logs(b):
    return np.log(np.abs(b) + 1.0) + np.log1p(np.abs(b)) - np.expm1(b * 0.01)


@njit
def powers(b):
    return np.abs(b) ** 1.7 + b**3 - np.sqrt(np.abs(b))


@njit
def single(s):
    t = np.float32(0.0)
    for x in s:
        t += x * x - np.float32(0.5) * x
    return t


@njit
def single_array(s):
    return s * np.float32(1.1) + s / (np.abs(s) + np.float32(1.0))


@njit
def complexes(c):
    return (c * c - c / (c + 2.0)).sum()


@njit
def complex_functions(c):
    s = 0j
    for z in c:
        s += cmath.exp(z * 0.01) * cmath.sqrt(z)
    return s


@njit
def integers(i):
    s = 0
    for x in i:
        s += x * x // 7 - (x % 13) + (x >> 2)
    return s


@njit
def running(a):
    return np.cumsum(a), np.diff(a)


@njit
def convolve(a):
    out = np.zeros(a.size - 4)
    for i in range(out.size):
        for k in range(5):
            out[i] += a[i + k] * (0.1 + 0.2 * k)
    return out


@njit
def stencil(m):
    out = m.copy()
    for i in range(1, m.shape[0] - 1):
        for j in range(1, m.shape[1] - 1):
            out[i, j] = 0.25 * (m[i - 1, j] + m[i + 1, j] + m[i, j - 1] + m[i, j + 1]) - m[i, j]
    return out


@njit
def distances(m):
    out = np.empty((m.shape[0], m.shape[0]))
    for i in range(m.shape[0]):
        for j in range(m.shape[0]):
            d = 0.0
            for k in range(m.shape[1]):
                d += (m[i, k] - m[j, k]) ** 2
            out[i, j] = math.sqrt(d)
    return out


@njit
def newton(b):
    out = np.empty_like(b)
    for i in range(b.size):
        y, x = abs(b[i]) + 1.0, 1.0
        for _ in range(20):
            x = 0.5 * (x + y / x)
        out[i] = x
    return out


@njit
def chaos(a):
    x = 0.4
    for v in a:
        x = 3.9 * x * (1.0 - x) + 1e-9 * v
    return x


@njit
def where(a, b):
    return np.where(a > 0, a * b, b - a)


@njit
def histogram(a):
    return np.histogram(a, 13)[0]


@njit
def ordered(a):
    return np.sort(a), np.argsort(a)


@njit
def special(b):
    s = 0.0
    for x in b:
        s += math.erf(x) + math.gamma(abs(x) + 1.0) * 1e-3 + math.atan2(x, 2.0) + math.hypot(x, 1.5)
    return s


@njit(parallel=True)
def parallel(a):
    out = np.empty_like(a)
    for i in prange(a.size):
        out[i] = a[i] * a[i] + math.sin(a[i])
    return out


@vectorize
def ufunc(x, y):
    return x * y + x / (y * y + 1.0)


@guvectorize(["f8[:], f8[:]"], "(n)->(n)")
def gufunc(x, out):
    s = 0.0
    for i in range(x.size):
        s += x[i] * 1.25
        out[i] = s


@njit
def called(a):
    return dot(a, a) * 0.5 + norm(a)


def digest(value):
    parts = value if isinstance(value, tuple) else (value,)
    return hashlib.blake2b(b"".join(np.ascontiguousarray(part).tobytes() for part in parts), digest_size=16).hexdigest()


for name, value in [
    ("total", total(A)), ("dot", dot(A, B)), ("axpy", axpy(A, B)), ("horner", horner(A)), ("matrix", matrix(M, N)),
    ("norm", norm(A)), ("softmax", softmax(A)), ("moments", moments(A)), ("waves", waves(A)), ("logs", logs(B)),
    ("powers", powers(B)), ("single", single(S)), ("single_array", single_array(S)), ("complexes", complexes(C)),
    ("complex_functions", complex_functions(C)), ("integers", integers(J)), ("running", running(A)),
    ("convolve", convolve(A)), ("stencil", stencil(M)), ("distances", distances(M)), ("newton", newton(B)),
    ("chaos", chaos(A)), ("where", where(A, B)), ("histogram", histogram(A)), ("ordered", ordered(A)),
    ("special", special(B)), ("parallel", parallel(A)), ("ufunc", ufunc(A, B)), ("gufunc", gufunc(A)),
    ("called", called(A)),
]:  # fmt: skip
    print(name, digest(value))
