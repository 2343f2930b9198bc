"""Family 6: functions compiled in different processes define one symbol twice, and meet in a third.

Family 7: the two halves of a gufunc, kernel and wrapper, from two processes.
"""

from ..harness import Program, Step, main, trap

# Each program gets the numbers of the closures to build; with two, a third function calls both.
_TWINS = """
    import sys

    def make(k):
        @njit
        def f(x):
            return x + k
        return f

    made = [make(int(text)) for text in sys.argv[1:]]
    for f in made:
        show("alone", f, 10)
    if len(made) > 1:
        a, b = made[:2]

        @njit
        def both(x):
            return a(x), b(x)

        show("both", both, 10)
    """

_CALLEE_TWINS = """
    import sys

    def make(k):
        @njit
        def inner(x):
            return x * k

        @njit
        def f(x):
            return inner(x) + 1
        return f

    made = [make(int(text)) for text in sys.argv[1:]]
    for f in made:
        show("alone", f, 10)
    if len(made) > 1:
        a, b = made[:2]

        @njit
        def both(x):
            return b(x), a(x)

        show("both", both, 10)
    """

_GENERATORS = """
    import sys

    def make(k):
        @njit
        def numbers(n):
            for i in range(n):
                yield i * k
        return numbers

    made = [make(int(text)) for text in sys.argv[1:]]
    for f in made:
        show("alone", lambda: list(f(3)))
    if len(made) > 1:
        a, b = made[:2]

        @njit
        def both(n):
            total = []
            for x in a(n):
                total.append(x)
            for x in b(n):
                total.append(x)
            return total

        show("both", both, 3)
    """

_PARALLEL = """
    import sys
    from numba import prange

    def make(k):
        @njit(parallel=True)
        def f(n):
            s = 0
            for i in prange(n):
                s += i * k
            return s
        return f

    made = [make(int(text)) for text in sys.argv[1:]]
    for f in made:
        show("alone", f, 4)
    if len(made) > 1:
        a, b = made[:2]

        @njit
        def both(n):
            return a(n), b(n)

        show("both", both, 4)
    """

_UFUNCS = """
    import sys
    from numba import vectorize

    def make(k):
        @vectorize(["float64(float64)"])
        def u(x):
            return x + k
        return u

    made = [make(int(text)) for text in sys.argv[1:]]
    for u in made:
        show("alone", u, np.arange(3.0))
    if len(made) > 1:
        a, b = made[:2]

        @njit
        def both(x):
            return a(x), b(x)

        show("both", both, np.arange(3.0))
    """

_GUFUNCS = """
    import sys
    from numba import guvectorize

    def make(k):
        @guvectorize(["void(float64[:], float64[:])", "void(int64[:], int64[:])"], "(n)->(n)")
        def g(a, out):
            for i in range(a.shape[0]):
                out[i] = a[i] + k
        return g

    made = [make(int(text)) for text in sys.argv[1:]]
    for g in made:
        show("floats", g, np.arange(3.0))
        show("integers", g, np.arange(3))
    """

_GUFUNC_BY_SIGNATURE = """
    import sys
    from numba import guvectorize

    @guvectorize(sys.argv[1:], "(n),()->(n)")
    def g(a, b, out):
        for i in range(a.shape[0]):
            out[i] = a[i] * b

    for dtype in ("i8", "f4", "f8"):
        show(dtype, g, np.arange(3).astype(dtype), np.dtype(dtype).type(2))
    show("types", lambda: g.types)
    """

_CFUNCS = """
    import sys
    from numba import cfunc

    def make(k):
        @cfunc("int64(int64)")
        def c(x):
            return x + k
        return c

    made = [make(int(text)) for text in sys.argv[1:]]
    for c in made:
        show("alone", c.ctypes, 10)
    """

_FORKED = """
    import multiprocessing
    import sys

    def make(k):
        @njit
        def f(x):
            return x * k
        return f

    def work(k):
        return make(k)(10)

    if __name__ == "__main__":
        numbers = [int(text) for text in sys.argv[2:]]
        context = multiprocessing.get_context(sys.argv[1])
        with context.Pool(len(numbers)) as pool:
            print(pool.map(work, numbers, chunksize=1))
        a, b = make(numbers[0]), make(numbers[1])

        @njit
        def both(x):
            return a(x), b(x)

        show("both", both, 10)
    """

_FORKED_WARM = """
    import multiprocessing
    import sys

    @njit
    def shared(x):
        return x + 0.5

    def make(k):
        @njit
        def f(x):
            return shared(x) * k

        @njit
        def g(x):
            return f(x) - k
        return g

    def work(k):
        return make(k)(10.0)

    if __name__ == "__main__":
        show("in the parent first", make(1), 10.0)
        numbers = [int(text) for text in sys.argv[1:]]
        children = []
        for number in numbers:
            child = multiprocessing.get_context("fork").Process(target=work, args=(number,))
            child.start()
            child.join()
            children.append(child.exitcode)
        print(children)
        a, b = make(numbers[0]), make(numbers[-1])

        @njit
        def both(x):
            return a(x), b(x)

        show("both", both, 10.0)
    """

_OVERLOAD_TWINS = """
    import sys
    from numba.extending import overload

    def make(k):
        def marker(x):
            raise NotImplementedError

        @overload(marker)
        def choose(x):
            def implementation(x):
                return x + k
            return implementation

        @njit
        def f(x):
            return marker(x)
        return f

    made = [make(int(text)) for text in sys.argv[1:]]
    for f in made:
        show("alone", f, 10)
    if len(made) > 1:
        a, b = made[:2]

        @njit
        def both(x):
            return a(x), b(x)

        show("both", both, 10)
    """

_INNER_CLOSURES = """
    import sys

    def make(k):
        @njit
        def f(x):
            def inner(y):
                return y * k
            return inner(x) + sum([inner(i) for i in range(3)])
        return f

    made = [make(int(text)) for text in sys.argv[1:]]
    for f in made:
        show("alone", f, 10)
    if len(made) > 1:
        a, b = made[:2]

        @njit
        def both(x):
            return a(x), b(x)

        show("both", both, 10)
    """

_FIRST_CLASS = """
    import sys
    from numba import types, typed

    def make(k):
        @njit("int64(int64)")
        def f(x):
            return x + k
        return f

    made = [make(int(text)) for text in sys.argv[1:]]
    for f in made:
        show("alone", f, 10)
    if len(made) > 1:
        @njit
        def each(functions, x):
            total = 0
            for f in functions:
                total = total * 1000 + f(x)
            return total

        show("in a tuple", each, tuple(made), 10)
        show("reversed", each, tuple(reversed(made)), 10)
    """


def _twins(name: str, body: str, *runs: str, family: int = 6, **options) -> Program:
    """Return a program run with each of these argument lists, on one cache."""
    first, *others = [Step(argv=("main.py", *run.split())) for run in runs]
    return trap(name, family, Step(files={"main.py": main(body)}, argv=first.argv), *others, **options)


PROGRAMS = (
    _twins("symbols-closures", _TWINS, "1", "2", "1 2"),
    _twins("symbols-closures-crossed", _TWINS, "1 2", "2 1", "3 1", "3 2"),
    _twins("symbols-closures-over-closures", _CALLEE_TWINS, "1", "2", "1 2"),
    _twins("symbols-inner-functions", _INNER_CLOSURES, "1", "2", "2 1"),
    _twins("symbols-generators", _GENERATORS, "1", "2", "1 2"),
    _twins("symbols-parallel-kernels", _PARALLEL, "1", "2", "1 2"),
    _twins("symbols-ufuncs", _UFUNCS, "1", "2", "1 2"),
    _twins("symbols-cfuncs", _CFUNCS, "1", "2", "1 2"),
    _twins("symbols-overloads", _OVERLOAD_TWINS, "1", "2", "1 2"),
    _twins("symbols-first-class-functions", _FIRST_CLASS, "1", "2", "1 2"),
    _twins("symbols-forked-workers", _FORKED, "fork 1 2", "fork 3 4", "fork 4 1 2 3"),
    _twins("symbols-spawned-workers", _FORKED, "spawn 1 2", "spawn 2 3"),
    _twins("symbols-forked-after-compiling", _FORKED_WARM, "1 2", "2 3", "3 2 1"),
    _twins("halves-gufunc-closures", _GUFUNCS, "1", "2", "1 2", family=7),
    _twins("halves-gufunc-closures-crossed", _GUFUNCS, "1 2", "2 1", "3 2 1", family=7),
    _twins(
        "halves-gufunc-signatures",
        _GUFUNC_BY_SIGNATURE,
        "void(float64[:],float64,float64[:])",
        "void(int64[:],int64,int64[:])",
        "void(int64[:],int64,int64[:]) void(float64[:],float64,float64[:])",
        family=7,
    ),
)
