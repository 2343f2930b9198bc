"""Family 33, the past of the process: Numba compiles a callee once, and everybody later gets that overload.

Who asked first decides which flags a callee inherits, and when it was asked decides which globals it holds. So one
program answers differently by the order of its calls. Each step here is another order, against one cache.
"""

from ..harness import Step, main, trap

_FLAGS = {
    "main.py": main("""
        import sys
        from numba import vectorize, guvectorize

        @njit
        def h(x):
            return 1.0 / x

        @njit
        def g(x):
            return h(x) + 1

        @njit
        def f(x):
            return g(x) * 3

        @njit(error_model="numpy")
        def numpy_like(x):
            return g(x) * 5

        @vectorize
        def v(x):
            return g(x) * 2

        @njit
        def calls_v(x):
            return v(x)

        @guvectorize("(n)->(n)")
        def gu(x, out):
            for i in range(len(x)):
                out[i] = g(x[i]) + 7

        @njit
        def is_nan(x):
            return x != x

        @njit(fastmath=True)
        def fast(x):
            return is_nan(x), g(x) > 0

        @njit
        def exact(x):
            return is_nan(x), g(x) > 0

        def signatures(_):
            return [str(s) for d in (g, h, f) for s in d.signatures]

        def eager(x):
            @njit("float64(float64)")
            def e(x):
                return g(x) - 1

            @njit
            def calls_e(x):
                return e(x) * 9

            return e(x), calls_e(x)

        ARRAYS = {"v", "calls_v", "gu"}
        np.seterr(all="ignore")
        for name in sys.argv[1:]:
            name, _, value = name.partition("=")
            value = float(value or 0)
            argument = np.array([2.0, 4.0]) if name in ARRAYS else value
            show(name, globals()[name], argument)
    """)
}

_GLOBALS = {
    "main.py": main("""
        import sys
        from numba import jit, vectorize

        K = 3

        @njit
        def g(x):
            return x + K

        @njit
        def f(x):
            return g(x) * 10

        @njit
        def ff(x):
            return f(x) + 1000

        @vectorize
        def v(x):
            return g(x) * 2

        @vectorize
        def own(x):
            return x * K

        @njit
        def calls_own(x):
            return own(x) + K * 100

        @jit(forceobj=True)
        def lifted(x):
            # Two loops that Numba lifts out, the first compiled natively, the second not: each when it is first
            # entered, with what the globals and the callee are then, or were when the function around was compiled.
            names, total = {"k": K}, K
            if x > 100:
                for i in range(x, x + 3):
                    total += g(i) * K
                for i in range(3):
                    names[str(i)] = K
            return names, total

        @njit
        def no_inline(x):
            if x > 1000:
                raise ValueError(K)
            return x - K

        @njit
        def calls_raise(x):
            return no_inline(x)

        for word in sys.argv[1:]:
            if word.startswith("K="):
                K = int(word[2:])
                continue
            name, _, kind = word.partition(":")
            show(word, globals()[name], {"": 1, "d": 1.5, "a": np.arange(3), "b": 2000}[kind])
    """)
}

_DECLARED = {
    "main.py": main("""
        import sys

        @njit
        def g(x):
            return x / 3

        @njit
        def f(x):
            return g(x) * 2

        for word in sys.argv[1:]:
            if word == "declare":
                g.compile("float32(int64)")
            elif word == "recompile":
                g.recompile()
            else:
                show(word, globals()[word], 7)
                print(g.nopython_signatures)
    """)
}

_LIBRARY = {
    "main.py": main("""
        import sys

        @njit(fastmath=True)
        def fast(a):
            return np.nanmax(a), np.nansum(a), np.nanmean(a), np.median(a)

        @njit
        def exact(a):
            return np.nanmax(a), np.nansum(a), np.nanmean(a), np.median(a)

        @njit
        def other(a):
            return np.nanmean(a) * 2

        DATA = np.array([1.5, np.nan, 2.25, np.inf, -3.0])
        for word in sys.argv[1:]:
            show(word, globals()[word], DATA)
    """)
}

_SETTINGS = {
    "main.py": main("""
        import os
        import sys
        from numba import jit

        DATA = {word: np.arange(10, dtype=word)[:4] for word in ("float64", "int64", "int16")}

        @jit(forceobj=True, looplift=True)
        def loop(word):
            data, total = DATA[str(word)], 0
            for i in range(len(data) + 2):
                total += data[i]
            return total

        for word in sys.argv[1:]:
            if word == "check":
                os.environ["NUMBA_BOUNDSCHECK"] = "1"
            else:
                show(word, loop, word)
    """)
}

_STENCILS = {
    "main.py": main("""
        import sys
        from numba import stencil

        @stencil
        def s(a):
            return a[-1] + a[0] + a[2]

        @njit
        def f(a):
            return s(a) * 2

        @njit
        def g(a):
            return s(a) * 3

        for word in sys.argv[1:]:
            show(word, {"s": s, "f": f, "g": g}[word], np.arange(6.0))
            print(s.neighborhood)
    """)
}

_CHOICES = {
    "main.py": main("""
        import sys
        from numba import types
        from numba.extending import intrinsic, overload, overload_attribute, overload_method

        K, N = np.array([1.0, 2.0]), 5

        def stub(x):
            raise NotImplementedError

        @overload(stub)
        def choose(x):
            if N > 6:
                return lambda x: x * 1000 + K[1]
            return lambda x: x + K[1]

        @overload_method(types.Array, "weighted")
        def weighted(a):
            return lambda a: a[0] + K[1] * N

        @overload_attribute(types.Array, "first")
        def first(a):
            return lambda a: a[0] + K[1] * N

        @intrinsic
        def twice(context, x):
            if N > 6:
                return x(x), lambda context, builder, sig, args: builder.fadd(args[0], args[0])
            return x(x), lambda context, builder, sig, args: args[0]

        @njit
        def f(x):
            return stub(x) + 1

        @njit
        def g(x):
            return stub(x) * 2

        @njit(fastmath=True)
        def fast(x):
            return stub(x) * 3

        @njit
        def h(x):
            return np.array([x, x]).weighted()

        @njit
        def calls_h(x):
            return h(x) + 1

        @njit
        def i(x):
            return np.array([x, x]).weighted() * 3 + np.array([x]).first

        @njit
        def p(x):
            return twice(x) + 1

        @njit
        def q(x):
            return twice(x) * 2

        for word in sys.argv[1:]:
            if word == "patch":
                K, N = np.array([4.0, 9.0]), 7
            elif word == "register":
                overload_attribute(types.Array, "second")(lambda a: lambda a: a[1])
            else:
                show(word, globals()[word], 0.5)
    """)
}

_LOOPS = {
    "main.py": main("""
        import sys
        from numba import prange
        from numba.extending import overload

        values = np.sqrt(np.arange(10_000))

        @njit(parallel=True)
        def g(a, n):
            total = 0.0
            for i in prange(a.size):
                total += a[i]
            return total

        @njit
        def k(a, n):
            return g(a, n)

        @njit
        def plain(a, n):
            return a[0] + a[-1]

        def chosen(a, n):
            pass

        @overload(chosen, jit_options={"parallel": True})
        def choose(a, n):
            def total(a, n):
                total = 0.0
                for i in prange(a.size):
                    total += a[i]
                return total
            return total

        @njit
        def c(a, n):
            return chosen(a, n)

        @njit(parallel=True)
        def around_k(a, n):
            out = np.zeros(3)
            for i in prange(3):
                out[i] = k(a, i) + plain(a, i)
            return out

        @njit(parallel=True)
        def around_c(a, n):
            out = np.zeros(3)
            for i in prange(3):
                out[i] = c(a, i)
            return out

        for word in sys.argv[1:]:
            show(word, globals()[word], values, np.uint64(0))
    """)
}
"""What the body of a parallel loop is the first to call, by the loop's index, runs its own loops one iteration after the
other, from then on and for all: a sum differs in the last digits."""


def _orders(name: str, files: dict[str, str], *orders: str):
    """Return a program whose steps run the same files with these words, one cache for all."""
    first, *others = [("main.py", *order.split()) for order in orders]
    return trap(f"history-{name}", 33, Step(files=files, argv=first), *[Step(argv=argv) for argv in others])


PROGRAMS = [
    _orders("python-first", _FLAGS, "g", "v g", "g v", "v f", "f v g"),
    _orders("kernel-first", _FLAGS, "v f", "f", "v", "g f", "v signatures g f"),
    _orders("kernel-of-a-gufunc", _FLAGS, "f gu", "gu f", "gu g signatures", "f"),
    _orders("error-model", _FLAGS, "numpy_like f", "f numpy_like", "f", "numpy_like signatures h", "numpy_like"),
    _orders("through-a-ufunc", _FLAGS, "calls_v f", "f=2 calls_v f", "v calls_v g", "f", "calls_v h f"),
    _orders("fastmath", _FLAGS, "fast=nan exact=nan", "exact=nan", "exact=nan fast=nan", "fast=nan is_nan=nan"),
    _orders("eager-callee", _FLAGS, "v eager", "eager", "v signatures eager", "f=1 eager"),
    _orders("signatures-in-between", _FLAGS, "f=1 signatures v h", "signatures v f", "v signatures h g f"),
    _orders("rebound-before-a-caller", _GLOBALS, "g K=4 f g", "K=4 f g", "f", "g K=4 f ff"),
    _orders("rebound-after-a-caller", _GLOBALS, "f", "f K=4 g f f:d g:d", "ff K=4 f g ff:d", "K=4 f K=3 g"),
    _orders("rebound-under-a-kernel", _GLOBALS, "v:a K=4 g f", "v:a K=5 v:d g:d", "K=4 v:a g", "g K=4 v:a"),
    _orders(
        "rebound-under-a-loop", _GLOBALS, "own:a K=4 calls_own:a", "K=4 calls_own:a", "calls_own:a K=4 own:a own:d"
    ),
    _orders(
        "rebound-with-an-exception", _GLOBALS, "calls_raise K=4 no_inline no_inline:b", "calls_raise:b K=4 no_inline:b"
    ),
    _orders(
        "rebound-under-a-lifted-loop",
        _GLOBALS,
        "lifted K=4 lifted:b lifted K=5 lifted:b",
        "K=4 lifted:b",
        "g K=4 lifted:b",
        "lifted:b",
    ),
    _orders("rebound-under-an-overload", _CHOICES, "patch g", "f patch g", "f patch f g", "g patch f fast", "fast f"),
    _orders("rebound-under-a-method", _CHOICES, "calls_h patch h i", "h patch calls_h i", "i patch h", "patch i h"),
    _orders("rebound-under-an-intrinsic", _CHOICES, "p patch q", "patch q", "p patch q", "p q", "patch p q"),
    _orders("registered-in-between", _CHOICES, "h register calls_h", "register calls_h", "calls_h register h i", "h i"),
    _orders("declared-return-type", _DECLARED, "f", "declare f", "f g", "declare g f", "f recompile g"),
    _orders("settings-under-a-loop", _SETTINGS, "float64 int64", "float64 check int64 int16", "check int16", "int16"),
    _orders(
        "loops-inside-a-loop",
        _LOOPS,
        "g k around_k",
        "around_k k g",
        "plain k",
        "around_k g",
        "k around_k",
        "around_k k",
    ),
    _orders("loops-inside-a-loop-first", _LOOPS, "around_k g k plain", "g", "k", "g around_k k", "plain around_k k g"),
    _orders(
        "chosen-loops-inside-a-loop", _LOOPS, "c around_c", "around_c c", "c", "around_c", "c around_c k", "around_c c"
    ),
    _orders("chosen-loops-inside-a-loop-first", _LOOPS, "around_c c", "c around_c", "c", "around_c", "c"),
    _orders("neighborhood", _STENCILS, "s f", "f", "g s", "f g", "s g"),
    _orders(
        "numba-s-own-functions", _LIBRARY, "fast exact", "exact", "exact fast", "other", "fast other", "other fast"
    ),
]
