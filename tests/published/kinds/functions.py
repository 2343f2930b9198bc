"""One function of each kind, by name; `inputs.py` has what each is called with."""

import enum
import heapq
import math
import random

import numpy as np
from numba import (
    cfunc,
    guvectorize,
    njit,
    prange,
    stencil,
    typed,
    types,
    vectorize,
)
from numba.experimental import jitclass
from numba.extending import overload
from plain import Negative, Point

SMALL = np.arange(12.0).reshape(3, 4)
LARGE = np.sin(np.arange(200_000.0))
FORTRAN = np.asfortranarray(np.cos(np.arange(200_000.0)).reshape(400, 500))
BACKWARDS = np.sin(np.arange(400_000.0)).reshape(400, 1000)[::-2, 900:100:-3]
WEIGHTS = (0.25, 3, "x")


class Color(enum.IntEnum):
    RED = 3
    BLUE = 4


@njit
def integers(a, b):
    return (a * b + (a >> 3)) ^ (b << 2), a // 7, a % 5


@njit
def floats(a, b):
    return math.sin(a) * b + math.hypot(a, b)


@njit
def small_integers(a, b):
    return a + b, a * b, a & b


@njit
def wrapping(a):
    return a * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)


@njit
def booleans(a, b):
    return a and not b, a or b, a == b


@njit
def complexes(z, w):
    return z * w + z.conjugate(), abs(z), z**2


@njit
def nothing(a):
    if a > 2:
        return
    a + 1


@njit
def special_functions(a):
    return math.erf(a), math.lgamma(abs(a) + 1), math.ldexp(a, 3), math.expm1(a), math.atan2(a, 0.7)


@njit
def array_sum(a):
    total = 0.0
    for x in a:
        total += x
    return total


@njit
def allocated(a, b):
    return a * 2 + b


@njit
def same(a):
    return a


@njit
def view(a):
    return a[1:-1]


@njit
def in_place(a, x):
    for i in range(a.size):
        a[i] = a[i] * x + i


@njit
def fortran(a):
    return a.T.copy(), a.T, a.sum(axis=0)


@njit
def strided(a):
    return a[::2, ::-1], a.sum()


@njit
def three_dimensions(a):
    return a.sum(axis=1), a[0], a.mean()


@njit
def read_only(a):
    return a.sum() + a[0]


@njit
def single_precision(a):
    return a / np.float32(3), a.astype(np.float64)


@njit
def masks(a, mask):
    return a[mask], np.where(mask, a, -a), ~mask


@njit
def indices(a):
    return np.nonzero(a > 0)[0], np.argmax(a), a[np.argsort(a)]


@njit
def zero_dimensions(a):
    return a + 1, a[()]


@njit
def tuples(t, u):
    return t[0] + u[1], (t[1], u), len(t)


@njit
def nested_tuples(t):
    (a, b), c = t
    return (a * 2, (b, a)), c + 1


@njit
def named(p, q):
    return Point(p.x + q.x, p.y * q.y)


@njit
def strings(a, b):
    return a.upper() + "-" + b, a.find(b), a * 2, b in a, a[::-1]


@njit
def texts(n):
    parts = [str(i) for i in range(n)]
    return ",".join(parts), len(parts), str(n).zfill(5)


@njit
def hashes(a, n):
    return hash(a), hash((n, a)), hash(float(n))


@njit
def records(r):
    r.a += 1
    return r.a + r.b


@njit
def record_arrays(a):
    for i in range(a.size):
        a[i].b = a[i].a * 1.5
    return a[::-1], a.b.sum()


@njit
def laid_out_records(a, b):
    a[0].b = 3.5
    return a[::2], b[::2], b[1].b


@njit
def characters(a):
    return a[0] == a[1], a[1:], len(a[0])


@njit
def optional_argument(a, b):
    if b is None:
        return a
    return a + b


@njit
def optional_result(a):
    if a > 0:
        return a * 2.5
    return None


@njit
def defaults(a, b=2, c=0.5):
    return a * b + c


@njit
def stars(a, *rest):
    total = a
    for x in rest:
        total += x
    return total, len(rest)


@njit
def raises(a):
    if a > 0.5:
        raise ValueError("too large")
    return a


@njit
def raises_with_values(a):
    if a > 0.2:
        raise Negative("value", a)
    if a < -0.5:
        raise KeyError(a, "small")
    return a


@njit
def raises_from_a_callee(a):
    return raises(a) + raises_with_values(-a)


@njit
def asserts(a):
    assert a < 0.5, "not so large"
    return a


@njit
def divides(a, b):
    return a // b


@njit(boundscheck=True)
def checked(a, i):
    return a[i]


@njit
def sorting(a):
    b = a.copy()
    b.sort()
    return np.sort(a), np.unique((a * 10).astype(np.int64)), b, np.median(a)


@njit
def linear_algebra(a, b):
    return np.linalg.solve(a, b), np.linalg.inv(a), a @ a, np.dot(a, b), np.linalg.det(a)


@njit
def decompositions(a):
    _u, s, _v = np.linalg.svd(a)
    q, r = np.linalg.qr(a)
    return s, np.abs(q), np.abs(r), np.linalg.norm(a)


@njit
def random_numbers(seed):
    np.random.seed(seed)
    return np.random.rand(3), np.random.normal(0.0, 1.0), np.random.randint(0, 10, 4), np.random.permutation(5)


@njit
def python_random(seed):
    random.seed(seed)
    return random.random(), random.randint(0, 100), random.gauss(0.0, 1.0)


@njit(parallel=True)
def parallel(a):
    out = np.empty_like(a)
    for i in prange(a.size):
        out[i] = a[i] * i
    return out, (a + out).sum() > 0


@njit
def generator(n):
    for i in range(n):
        yield i * i + 0.5


@njit
def array_generator(a):
    for x in a:
        yield a * x


@njit
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@njit
def even(n):
    if n == 0:
        return True
    return odd(n - 1)


@njit
def odd(n):
    if n == 0:
        return False
    return even(n - 1)


@njit
def typed_list(a):
    found = typed.List()
    for x in a:
        found.append(x * 2)
    found.reverse()
    return found[0], len(found)


@njit
def typed_dict(a):
    counts = typed.Dict.empty(key_type=types.int64, value_type=types.float64)
    for x in a:
        key = int(x * 3)
        counts[key] = counts.get(key, 0.0) + x
    total = 0.0
    for key in sorted(counts):
        total += key * counts[key]
    return total, len(counts)


@njit
def string_keys(text):
    counts = {"a": 0}
    for c in text:
        counts[c] = counts.get(c, 0) + 1
    return max(counts.values()), counts["a"], "b" in counts


@njit
def list_result(n):
    found = [i * 0.5 for i in range(n)]
    found.append(1.0)
    return found


@njit
def sets(a):
    found = set()
    for x in a:
        found.add(int(x * 4))
    return len(found), sorted(found)


@njit
def set_result(n):
    found = set()
    for i in range(n + 1):
        found.add(i % 3)
    return found


@njit
def heaps(a):
    queue = [x + 0.0 for x in a]
    heapq.heapify(queue)
    return heapq.heappop(queue), heapq.heappop(queue)


@njit
def small_global(i):
    return SMALL[i % 3], SMALL.sum(), WEIGHTS[0] * i, WEIGHTS[2]


@njit
def strided_global(i, j):
    return BACKWARDS[i, j], BACKWARDS[-1 - i].sum(), BACKWARDS.shape, BACKWARDS.strides


@njit
def octets(data, i):
    total = 0
    for each in data:
        total = (total * 31 + each) & 0xFFFF
    return total, len(data), data[i]


@njit
def large_global(i):
    return LARGE[i], LARGE[i : i + 3].copy(), LARGE.sum(), FORTRAN[i % 400, 3]


@njit
def large_global_result(i):
    return LARGE[i : i + 5]


@njit
def enumeration(i):
    return i == Color.RED, Color.BLUE + i


@njit
def dates(d, t):
    return d + t, d - d, d > d + t


@njit
def date_arrays(a):
    return a[1] - a[0], a.min(), np.isnat(a), a[1:]


def _scaled_by(factor):
    @njit
    def inner(x):
        return x * factor

    return inner


_three_times = _scaled_by(3)


@njit
def closures(a):
    def local(x):
        return x + 1

    return local(_three_times(a))


@vectorize
def halves(a):
    return a / 2


@njit
def ufunc_inside(a):
    return halves(a), np.add(a, a), np.hypot(a, 2.0)


@stencil
def _neighbours(a):
    return a[-1] + a[1]


@njit
def stencil_inside(a):
    return _neighbours(a)


def _special(a):
    raise NotImplementedError


@overload(_special)
def _special_overload(a):
    if isinstance(a, types.Integer):
        return lambda a: a + 1000
    return lambda a: a - 1000


@njit
def overloads(a, b):
    return _special(a), _special(b)


@njit(fastmath=True, nogil=True, error_model="numpy")
def options(a, b):
    total = 0.0
    for x in a:
        total += x / b
    return total, 1.0 / b


@njit
def iterating(a):
    total = 0.0
    for (i, j), x in np.ndenumerate(a):
        total += i * x - j
    for x, y in zip(a.flat, a.T.flat):
        total += x * y
    for k, x in enumerate(a[0]):
        total += k * x
    return total


@njit
def statistics(a):
    return (
        np.histogram(a, 4, (-2.0, 2.0)),
        np.interp(0.3, np.arange(a.size) * 1.0, a),
        np.cumsum(a),
        np.percentile(a, 30),
    )


@njit
def many_results(n):
    return np.arange(n), np.zeros((n, 2)), np.full(n, 1.5), np.linspace(0, 1, n), np.eye(n), np.array([1, 2, n])


@njit
def hexadecimal(data):
    total = 0
    for x in data:
        total = total * 31 + x
    return total & 0xFFFF


@jitclass([("count", types.int64), ("values", types.float64[:])])
class Counter:
    def __init__(self, count):
        self.count = count
        self.values = np.zeros(3)

    def bump(self):
        self.count += 1
        self.values[0] += 2
        return self.count


@njit
def jitclass_inside(n):
    counter = Counter(n)
    counter.bump()
    return counter.bump() + counter.values[0]


@njit
def _increment(x):
    return x + 1


@njit
def _decrement(x):
    return x - 1


@njit
def chosen_function(flag, n):
    function = _increment if flag else _decrement
    return function(n)


@njit
def nested_lists(n):
    return [[i, i * 2] for i in range(n)]


@njit
def generator_that_raises(n):
    for i in range(n):
        if i == 5:
            raise RuntimeError("at five", n)
        yield i


@njit
def catches(n):
    try:
        if n > 3:
            raise ValueError("caught")
        return 0
    except Exception:
        return 1


@njit
def cleans_up(a):
    try:
        a[0] = 1
        if a.size > 9:
            raise ValueError("not caught", a.size)
    finally:
        a[1] = 7
    return a


@njit
def raises_with_arguments(text, n):
    raise KeyError(text, n, (text, n))


@njit
def numpy_scalars(x):
    return np.float32(x), np.int8(x), np.bool_(x), np.uint16(abs(x))


@njit
def splitting(text):
    return text.split("b"), sorted(text.split("a")), text.replace("a", "xx"), [c + "!" for c in text]


@njit(parallel=True)
def reductions(a):
    total, largest = 0.0, -1e9
    for i in prange(a.size):
        total += a[i]
        largest = max(largest, a[i])
    return total > -1e300, largest


@njit
def many_arguments(a, b, c, d, e, f, g, h):
    return a + b + c + d + e + f + g + h


@njit
def no_arguments():
    return 42


@njit(["i8(i8)", "f8(f8)"])
def eager(x):
    return x + 5


@njit(inline="always")
def _inlined(x):
    return x * 3


@njit(debug=True)
def inlining(x):
    return _inlined(x) + 1


@vectorize(["i8(i8, i8)", "f8(f8, f8)"], identity=0)
def ufunc(a, b):
    return a + 3 * b


@guvectorize(["(f8[:], f8[:], f8[:])"], "(n),(n)->()")
def gufunc(a, b, out):
    out[0] = 0
    for i in range(a.size):
        out[0] += a[i] * b[i]


@guvectorize(["(f8[:], i8, f8[:])"], "(n),()->(n)")
def gufunc_of_arrays(a, n, out):
    for i in range(a.size):
        out[i] = a[i] * n


@cfunc("f8(f8, i8)")
def callback(x, n):
    return x * n - 1
