"""Family 11: functions that call themselves and one another."""

from ..harness import Step, main, py, replaced, trap

_SELF = {
    "main.py": main("""
        @njit
        def fact(n):
            if n <= 1:
                return 1
            return n * fact(n - 1)

        @njit
        def caller(n):
            return fact(n) + 1

        show("fact", fact, 5)
        show("caller", caller, 5)
    """)
}

_MUTUAL = {
    "main.py": main("""
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

        show("even", even, 10)
        show("odd", odd, 10)
        show("even of 7", even, 7)
    """)
}

_THREE = {
    "main.py": main("""
        @njit
        def a(n):
            if n <= 0:
                return 0
            return b(n - 1) + 1

        @njit
        def b(n):
            if n <= 0:
                return 0
            return c(n - 1) + 10

        @njit
        def c(n):
            if n <= 0:
                return 0
            return a(n - 1) + 100

        show("a", a, 6)
        show("b", b, 6)
        show("c", c, 6)
    """)
}

_ACROSS = {
    "main.py": main("""
        import one

        show("ping", one.ping, 5)
        show("pong", one.pong, 5)
    """),
    "one.py": py("""
        from numba import njit

        @njit
        def ping(n):
            if n <= 0:
                return 0
            return pong(n - 1) + 1

        from two import pong
    """),
    "two.py": py("""
        from numba import njit
        from one import ping

        @njit
        def pong(n):
            if n <= 0:
                return 0
            return ping(n - 1) + 10
    """),
}

_ONLY_THE_OTHER = {
    "main.py": _MUTUAL["main.py"].replace('show("even", even, 10)\n', "").replace('show("even of 7", even, 7)\n', "")
}

_TYPED = {
    "main.py": main("""
        @njit("int64(int64)")
        def fib(n):
            if n < 2:
                return n
            return fib(n - 1) + fib(n - 2)

        @njit
        def poly(n, x):
            if n == 0:
                return x
            return poly(n - 1, x) + x

        show("fib", fib, 10)
        show("int", poly, 3, 1)
        show("float", poly, 3, 1.5)
        show("array", poly, 2, np.arange(3))
    """)
}

_OVER_K = {
    "main.py": main("""
        import cfg

        @njit
        def f(n):
            if n <= 0:
                return cfg.K
            return g(n - 1)

        @njit
        def g(n):
            if n <= 0:
                return -cfg.K
            return f(n - 1)

        show("f", f, 4)
        show("g", g, 4)
    """),
    "cfg.py": "K = 3\n",
}

_UNRESOLVED = {
    "main.py": main("""
        @njit(inline="always")
        def doubled(x):
            return x * 2

        @njit
        def a(x, n):
            if n <= 0:
                return x * 1.0
            return b(x, n - 1) + 1

        @njit
        def b(x, n):
            if n <= 0:
                return x * 2.0
            return a(x, n - 1) * 2 + doubled(x)

        @njit
        def f(x):
            return a(x, 4)

        # Inlining changes the flags of b, by which Numba then names a: plain Numba calls what does not exist.
        show("f", f, 1)
        show("a", a, 1, 2)
    """),
}

PROGRAMS = (
    trap("recursion-self", 11, _SELF, replaced(_SELF, "main.py", ("return 1\n", "return 2\n"))),
    trap(
        "recursion-mutual",
        11,
        _MUTUAL,
        replaced(_MUTUAL, "main.py", ("return False", "return n == 0"), ("return True", "return n != 0")),
    ),
    trap("recursion-mutual-unchanged", 11, _MUTUAL, {}, differs=False),
    trap("recursion-mutual-entered-elsewhere", 11, _ONLY_THE_OTHER, _MUTUAL),
    trap("recursion-of-three", 11, _THREE, replaced(_THREE, "main.py", ("+ 100", "+ 500"))),
    trap("recursion-by-another-name", 11, _UNRESOLVED, {}, differs=False),
    trap("recursion-across-files", 11, _ACROSS, replaced(_ACROSS, "two.py", ("+ 10", "+ 20"))),
    trap("recursion-over-a-constant", 11, _OVER_K, {"cfg.py": "K = 3.5\n"}),
    trap(
        "recursion-typed",
        11,
        _TYPED,
        replaced(_TYPED, "main.py", ("return n\n", "return n + 1\n"), ("return x\n", "return x * 2\n")),
    ),
    trap(
        "recursion-programs-alternate",
        11,
        Step(files=_SELF),
        Step(files=_MUTUAL),
        Step(files=_THREE),
        Step(files=_SELF),
        differs=False,
        hit=True,
    ),
)
