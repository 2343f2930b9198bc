"""Family 17: Python objects that compiled code refers to while it runs are the live ones, with an empty cache too.

What `objmode`, object mode and lifted loops read through a closure lies in the environment of their code. Two closures
that are alike have environments of their own, and what comes out of a cache refers to this process's objects.
"""

from ..harness import Program, Step, main, replaced, trap

_OBJMODE = """
    def make({state}):
        @njit
        def f(x):
            with numba.objmode():
                {use}
            return x + 1
        return f
    """
_FORCEOBJ = """
    from numba import jit

    def make({state}):
        @jit(forceobj=True)
        def f(x):
            {use}
            return x + 1
        return f
    """


def _live(name: str, body: str, **options) -> Program:
    """Return a program of one version: it is run with an empty cache, and once more."""
    return trap(f"live-{name}", 17, {"main.py": main(body)}, differs=False, **options)


_ALIKE = """
    one, two = [], []
    f, g = make(one), make(two)
    show("f", f, 1)
    show("g", g, 2)
    show("f", f, 3)
    print(one, two)
    """

_EDITED = {
    "main.py": main("""
        from settings import SEEN

        def make(seen):
            @njit
            def f(x):
                with numba.objmode(y="int64"):
                    seen.append(x)
                    y = seen[0]
                return x * y
            return f

        show("f", make(SEEN), 3)
        print(SEEN)
    """),
    "settings.py": "SEEN = [10]\n",
}

PROGRAMS = (
    _live("list-in-objmode", _OBJMODE.format(state="seen", use="seen.append(x)") + _ALIKE),
    _live("list-in-object-mode", _FORCEOBJ.format(state="seen", use="seen.append(x)") + _ALIKE),
    _live(
        "bound-method",
        _OBJMODE.format(state="emit", use="emit(x)")
        + _ALIKE.replace("make(one), make(two)", "make(one.append), make(two.append)"),
    ),
    _live(
        "progress-bar",
        """
        from numba import jit

        class Bar:
            def __init__(self, total):
                self.total, self.done = total, 0

            def update(self, n):
                self.done += n

        def make(bar):
            @njit
            def f(n):
                s = 0
                for i in range(n):
                    s += i
                    with numba.objmode():
                        bar.update(1)
                return s
            return f

        one, two = Bar(3), Bar(3)
        show("f", make(one), 3)
        show("g", make(two), 2)
        print(one.done, two.done)
        """,
    ),
    _live(
        "array-changed-between-calls",
        """
        def make(weights):
            @njit
            def f(x):
                with numba.objmode(y="float64"):
                    y = float(weights[0])
                return x * y
            return f

        one, two = np.array([2.0, 3.0]), np.array([2.0, 3.0])
        f, g = make(one), make(two)
        show("f", f, 1)
        one[0] = 5.0
        show("f", f, 1)
        show("g", g, 1)
        two[0] = 7.0
        show("g", g, 1)
        show("f", f, 1)
        """,
    ),
    _live(
        "around-a-lifted-loop",
        """
        from numba import jit

        def make(log, names):
            @jit(forceobj=True)
            def f(n):
                log.append(n)
                total = 0
                for i in range(n):
                    total += i * n
                names["total"] = total
                return len(log)
            return f

        logs, names = ([], []), ({}, {})
        f, g = make(logs[0], names[0]), make(logs[1], names[1])
        show("f", f, 4)
        show("g", g, 5)
        show("f", f, 6)
        print(logs, names)
        """,
    ),
    _live(
        "generator-closure",
        """
        from numba import jit

        def make(log):
            @jit(forceobj=True)
            def numbers(n):
                for i in range(n):
                    log.append(i)
                    yield i
            return numbers

        one, two = [], []
        f, g = make(one), make(two)
        show("f", lambda: list(f(2)))
        show("g", lambda: list(g(3)))
        print(one, two)
        """,
    ),
    _live(
        "identity-of-what-comes-back",
        """
        from numba import jit

        class Missing:
            pass

        def make(default, inside):
            @jit(forceobj=True)
            def f(x):
                if x in inside:
                    return inside[x]
                return default
            return f

        MISSING, found = Missing(), {1: [1]}
        f = make(MISSING, found)
        show("default", lambda: f(2) is MISSING)
        show("found", lambda: f(1) is found[1])
        """,
    ),
    _live(
        "one-list-of-two-functions",
        """
        def make(name, log):
            @njit
            def f(x):
                with numba.objmode():
                    log.append((name, x))
                return x
            return f

        log = []
        f, g = make("f", log), make("g", log)
        show("f", f, 1)
        show("g", g, 2)
        print(log)
        """,
    ),
    _live(
        "nested-in-a-tuple",
        """
        def make(state):
            @njit
            def f(x):
                with numba.objmode():
                    state[0].append(x)
                    state[1]["last"] = x
                return x
            return f

        one, two = ([], {}), ([], {})
        f, g = make(one), make(two)
        show("f", f, 1)
        show("g", g, 2)
        print(one, two)
        """,
    ),
    _live(
        "random-generators-alike",
        """
        import random

        def make(rng):
            @njit
            def f(x):
                with numba.objmode(y="float64"):
                    y = rng.random()
                return x + y
            return f

        one, two = random.Random(7), random.Random(7)
        f, g = make(one), make(two)
        show("f", f, 0.0)
        show("g", g, 0.0)
        show("f", f, 0.0)
        show("one", one.random)
        show("two", two.random)
        """,
        rerun="same",
    ),
    _live(
        "counter-from-itertools",
        """
        import itertools
        from numba import jit

        def make(ids, out):
            @jit(forceobj=True)
            def f(x):
                print(x, next(ids), file=out)
                return x
            return f

        import io
        streams = [io.StringIO(), io.StringIO()]
        ids = itertools.count(5)
        f, g = make(ids, streams[0]), make(ids, streams[1])
        show("f", f, 1)
        show("g", g, 2)
        show("f", f, 3)
        print(next(ids), [stream.getvalue() for stream in streams])
        """,
        rerun="same",
    ),
    _live(
        "mutable-default-of-an-objmode-caller",
        """
        from numba import jit

        def make():
            @jit(forceobj=True)
            def f(x, seen=[]):
                seen.append(x)
                return len(seen)
            return f

        f, g = make(), make()
        show("f", f, 1)
        show("g", g, 2)
        show("f", f, 3)
        print(f.py_func.__defaults__, g.py_func.__defaults__)
        """,
    ),
    _live(
        "function-with-state",
        """
        def counting():
            def count(x):
                count.calls += 1
                return x
            count.calls = 0
            return count

        def make(count):
            @njit
            def f(x):
                with numba.objmode(y="int64"):
                    y = count(x)
                return y
            return f

        one, two = counting(), counting()
        f, g = make(one), make(two)
        show("f", f, 1)
        show("g", g, 2)
        show("f", f, 3)
        print(one.calls, two.calls)
        """,
    ),
    _live(
        "partial-over-a-list",
        """
        import functools

        def add(log, x):
            log.append(x)

        def make(emit):
            @njit
            def f(x):
                with numba.objmode():
                    emit(x)
                return x
            return f

        one, two = [], []
        f, g = make(functools.partial(add, one)), make(functools.partial(add, two))
        show("f", f, 1)
        show("g", g, 2)
        print(one, two)
        """,
        rerun="same",
    ),
    _live(
        "bytearray-and-typed-list",
        """
        def make(buffer, values):
            @njit
            def f(x):
                with numba.objmode():
                    buffer[0] = x
                    values.append(x)
                return x
            return f

        from numba.typed import List
        one, two = (bytearray(2), List([1])), (bytearray(2), List([1]))
        f, g = make(*one), make(*two)
        show("f", f, 1)
        show("g", g, 2)
        print(one[0], list(one[1]), two[0], list(two[1]))
        """,
        rerun="same",
    ),
    trap("live-list-edited-elsewhere", 17, _EDITED, replaced(_EDITED, "settings.py", ("[10]", "[20]")), cold=True),
    trap(
        "live-list-longer-by-argument",
        17,
        Step(
            files={
                "main.py": main("""
                import sys

                def make(history):
                    @njit
                    def f(x):
                        with numba.objmode():
                            history.append(x)
                        return x
                    return f

                history = [int(word) for word in sys.argv[1:]]
                show("f", make(history), 9)
                print(history)
                """)
            },
            argv=("main.py", "1"),
        ),
        Step(argv=("main.py", "1", "2")),
        Step(argv=("main.py",)),
        cold=True,
    ),
)
