"""A function of every kind; with "late" in its arguments, all that is read of entries after they were loaded is used."""

import io
import sys

import numpy as np
from numba import cfunc, guvectorize, int64, jit, njit, objmode, prange, stencil, vectorize
from numba.experimental import jitclass
from numba.extending import overload

K = 3


@njit
def inner(x):
    return x + K


@njit
def outer(x):
    if x > 1000:
        raise ValueError("too large", x)
    return inner(x) * 10


@njit(["int64(int64)"])
def eager(x):
    return x - K


@njit
def ones(n):
    return np.ones(n)


@njit
def text(n):
    return "no " + str(n)


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


@njit
def even(n):
    return True if n == 0 else odd(n - 1)


@njit
def odd(n):
    return False if n == 0 else even(n - 1)


@vectorize
def u(x):
    return x * 2 + K


@vectorize(["float64(float64)"])
def u_eager(x):
    return x * 2 - K


@vectorize(["float64(float64)"], target="parallel")
def u_parallel(x):
    return x * 5


@guvectorize("(n)->(n)")
def gu(x, out):
    for i in range(len(x)):
        out[i] = x[i] + 7


@guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def gu_eager(x, out):
    out[0] = x.sum()


@cfunc("float64(float64)")
def c(x):
    return x / 2


@jitclass([("n", int64)])
class Box:
    def __init__(self, n):
        self.n = n

    def more(self, by):
        self.n += by
        return self.n


@stencil
def mean(a):
    return (a[-1] + a[1]) / 2


@njit
def smooth(a):
    return mean(a)


@njit
def timed(x):
    with objmode(y="int64"):
        y = len(str(x)) + K
    return y + x


@jit(forceobj=True)
def objects(x):
    s = 0
    for i in range(x):
        s += i
    return [s, object]


def chosen(x):
    return x


@overload(chosen)
def _chosen(x):
    return lambda x: x + K


@njit
def chooses(x):
    return chosen(x)


A = np.arange(6.0)
print(outer(2), outer(2.5), eager(5), ones(3), text(4), total(A), [*squares(4)], even(5), odd(5))
R = np.zeros(6)
gu(A, R)
print(u(A), u(2), u_eager(A), u_parallel(A), R, gu_eager(A), c.ctypes(3.0))
print(Box(4).more(2), mean(A), smooth(A), timed(12345), objects(4)[0], chooses(2))

if "late" in sys.argv:

    @njit
    def calls(n, a):
        box = Box(n)
        s = 0.0
        for each in squares(n):
            s += each
        v = np.zeros(n)
        gu(a, v)
        numbers = outer(n), eager(n), ones(n).sum(), s, even(n), box.more(3), chooses(n)
        return numbers, text(n), u(a), u_eager(a), v, smooth(a)

    @njit
    def calls_more(n, a):
        return total(a), timed(n), u(n), odd(n)

    print(calls(6, A))
    print(calls_more(6, A))
    print(outer(np.int32(4)), u(np.arange(3)), Box(1).more(1))
    for f in (inner, outer, eager, ones, text, total, squares, even, odd, smooth, timed, objects, chooses):
        for signature in f.signatures:
            kinds = f.inspect_llvm(signature), f.inspect_asm(signature)
            print(
                f.__name__,
                signature,
                [bool(each) for each in kinds],
                f.overloads[signature].signature.return_type if f is not squares else 0,
            )
            print(len(f.overloads[signature].library._get_compiled_object()) > 0)
            f.inspect_types(file=io.StringIO())
    print(bool(c.inspect_llvm()), c.native_name != "")
    try:
        outer(2000)
    except ValueError as raised:
        print(raised, raised.__traceback__.tb_next.tb_lineno)
