"""Family 30: what compiling would have left behind, and a hit has to.

Each program is run once on an empty cache and again on what that left; both have to print what no cache prints.
"""

from ..harness import Program, Step, main, py, trap

_CALLEE = """
    @njit
    def g(x):
        return x * 10

    @njit
    def f(x):
        return g(x) + 1

    show("f", f, 7)
    """


def _twice(name: str, body: str, *options: str, rerun: str = "same", **files: str) -> Program:
    """Return a program that is run twice by `python` with these options."""
    first = Step(
        files={"main.py": main(body)} | {f"{k}.py": py(v) for k, v in files.items()}, argv=(*options, "main.py")
    )
    return trap(f"owed-{name}", 30, first, Step(argv=(*options, "main.py")), differs=False, rerun=rerun)


_DISABLED = """
    import nbcache

    LEVEL = 1

    @njit
    def g(x):
        return x * LEVEL

    @njit
    def f(x):
        return g(x) + 1

    show("f", f, 7)
    """

_SHOWN = """
    import contextlib, io

    @njit(parallel=True)
    def f(a):
        return (a * 2 + 1).sum()

    # Names in it tell where the program lies, and differ from one process to another.
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        f(np.arange(4.0))
    print(len(shown.getvalue()) > 100)
    """

_SHOWN_OF_A_CLOSURE = """
    import contextlib, io

    @njit
    def f(x):
        g = lambda y: y * 2
        return g(x) + 1

    with contextlib.redirect_stdout(io.StringIO()) as shown:
        f(7)
    print(len(shown.getvalue()) > 100)
    """

_LINES = """
    from numba.misc import coverage_support

    class Lines(coverage_support.NotifyLocBase):
        def notify(self, loc):
            lines.add(loc.line)

        def close(self):
            pass

    lines = set()
    coverage_support._the_registry.append(Lines)

    @njit
    def f(x):
        return x * 10

    show("f", f, 7)
    print(sorted(lines))
    """

PROGRAMS = (
    _twice(
        "callee-that-compiles-no-more",
        _CALLEE + "\n    g.disable_compile()\n    show('g', g, 8)\n    show('g', g, 8.5)\n",
    ),
    _twice(
        "callee-that-compiles-no-more-in-optimised-python",
        _CALLEE + "\n    g.disable_compile()\n    show('g', g, 8)\n    show('g', g, 8.5)\n",
        "-O",
    ),
    _twice(
        "callee-that-compiles-no-more-inside-a-new-caller",
        _CALLEE
        + """
    g.disable_compile()

    @njit
    def h(x):
        return g(x) + 2

    show("h", h, 7)
    show("h", h, 7.5)
    """,
        "-O",
    ),
    _twice(
        "callee-passed-when-it-compiles-no-more",
        _CALLEE
        + """
    g.disable_compile()

    @njit
    def apply(function, x):
        return function(x)

    show("typeof", lambda: str(numba.typeof(g)).split("<")[0])
    show("apply", apply, g, 7)
    """,
        "-O",
    ),
    _twice(
        "compiling-disabled-and-enabled-again",
        _CALLEE
        + """
    g.disable_compile()
    show("g", g, 8.5)
    g.disable_compile(False)
    show("g", g, 8.5)
    print(g.signatures)
    """,
        "-O",
    ),
    _twice(
        "promise-after-the-cache-is-off",
        _DISABLED
        + """
    nbcache.disable()
    LEVEL = 50
    show("g", g, 8)
    show("g", g, 8.5)
    """,
    ),
    _twice(
        "new-caller-after-the-cache-is-off",
        _DISABLED
        + """
    nbcache.disable()
    LEVEL = 50

    @njit
    def h(x):
        return g(x) + 2

    show("h", h, 7)
    show("signatures", lambda: str(g.signatures))
    """,
    ),
    _twice(
        "flags-given-before-the-cache-is-off",
        """
    import nbcache

    @njit
    def g(x):
        return 1.0 / x

    @njit(error_model="numpy")
    def f(x):
        return g(x) + 1

    show("f", f, 0)
    nbcache.disable()
    show("g", g, 0)
    """,
    ),
    _twice(
        "choice-made-before-the-cache-is-off",
        """
    import nbcache
    from numba.extending import overload

    LEVEL = 1

    def thing(x):
        raise NotImplementedError

    @overload(thing)
    def choose(x):
        k = LEVEL
        return lambda x: x * k

    @njit
    def f(x):
        return thing(x)

    @njit
    def h(x):
        return thing(x) + 1

    show("f", f, 7)
    nbcache.disable()
    LEVEL = 50
    show("h", h, 7)
    """,
    ),
    _twice(
        "loops-of-a-ufunc-after-the-cache-is-off",
        """
    import nbcache
    from numba import vectorize

    @vectorize
    def u(x):
        return x / 2

    @njit
    def f(a):
        return u(a)

    show("f", f, np.arange(3.0))
    nbcache.disable()
    print(u.types)
    show("u", u, np.arange(3))
    """,
    ),
    _twice(
        "order-of-signatures",
        """
    @njit
    def g(x, y):
        return x + y

    @njit
    def f(x):
        return g(x, 1.5) + g(1.5, x) + g(x, x)

    show("f", f, 7)
    show("g", g, 1 + 0j, 2)
    show("f", f, 7.5)
    print(g.signatures)
    print(f.signatures)
    """,
    ),
    _twice(
        "order-after-another-caller",
        """
    @njit
    def g(x):
        return x + 1

    @njit
    def f(x):
        return g(x + 0.5)

    @njit
    def h(x):
        return g(x)

    show("h", h, 7)
    show("g", g, np.float32(1))
    show("f", f, 7)
    print(g.signatures, list(g.overloads) == g.signatures)
    """,
    ),
    _twice(
        "order-when-it-calls-itself",
        """
    @njit
    def f(x):
        if x < 1:
            return 0.5
        return f(x - 0.5) + 1

    show("f", f, 3)
    show("f", f, np.float32(3))
    print(f.signatures, list(f.overloads) == f.signatures)
    """,
    ),
    _twice(
        "callee-recompiled",
        """
    LEVEL = 1

    @njit
    def g(x):
        return x * LEVEL

    @njit
    def f(x):
        return g(x) + 1

    show("f", f, 7)
    LEVEL = 50
    g.recompile()
    show("g", g, 7)
    show("f", f, 7)
    f.recompile()
    show("f", f, 7)
    print(g.signatures)
    """,
    ),
    *(
        trap(
            f"owed-what-is-asked-to-be-shown-{name.lower()}",
            30,
            {"main.py": main(_SHOWN)},
            Step(env={f"NUMBA_{name}": value}),
            differs=False,
            rerun="same",
        )
        for name, value in (
            ("DUMP_BYTECODE", "1"),
            ("DEBUG_TYPEINFER", "1"),
            ("PARALLEL_DIAGNOSTICS", "4"),
            ("DUMP_ANNOTATION", "1"),
            ("DEBUG_ARRAY_OPT", "1"),
        )
    ),
    *(
        trap(
            f"owed-what-is-asked-to-be-shown-{name.lower()}",
            30,
            {"main.py": main(body)},
            Step(env={f"NUMBA_{name}": "1"}, stderr=name == "TRACE"),
            differs=differs,
            rerun="same",
        )
        for name, body, differs in (
            ("DEBUG_INLINE_CLOSURE", _SHOWN_OF_A_CLOSURE, False),
            ("JIT_COVERAGE", _LINES, True),
            ("TRACE", _CALLEE, False),
        )
    ),
    _twice(
        "module-that-is-emptied-at-the-end",
        """
    import lib

    class Last:
        def __del__(self):
            print("the last of main")

    last = Last()

    @njit
    def f(x):
        return lib.g(x)

    show("f", f, 7)
    """,
        rerun="hit",
        lib="""
    from numba import njit

    class Last:
        def __del__(self):
            print("the last of lib")

    last = Last()

    @njit
    def g(x):
        if x < 0:
            raise ValueError("negative")
        return x + 1
    """,
    ),
    _twice(
        "runtime-that-is-there",
        """
    from numba.core.runtime import rtsys

    @njit
    def f(x):
        return x + 1

    def refcount():
        return rtsys.meminfo_alloc(64).refcount

    show("before", refcount)
    show("f", f, 7)
    show("after", refcount)
    """,
    ),
    _twice(
        "allocations-that-are-counted",
        """
    from numba.core.runtime import rtsys

    numba.config.NRT_STATS = 1

    @njit
    def f(x):
        return np.zeros(x)

    show("before", rtsys.get_allocation_stats)
    show("f", f, 7)
    show("after", lambda: rtsys.get_allocation_stats().mi_alloc > 0)
    """,
    ),
    _twice(
        "type-of-a-cfunc",
        """
    @numba.cfunc("float64(float64)")
    def f(x):
        return x + 1

    show("f", f.ctypes, 7.0)
    show("type", lambda: str(numba.typeof(f)))
    """,
    ),
    _twice(
        "overload-of-what-a-chooser-imports",
        """
    from numba.extending import overload

    def asked(x):
        raise NotImplementedError

    @overload(asked)
    def choose(x):
        import package
        chosen = package.later.g

        def impl(x):
            return chosen(x) + package.later.g(x)

        return impl

    @njit
    def f(x):
        return asked(x)

    from package import later

    show("f", f, np.float32(7))
    show("g", later.g, 7.0)
    show("signatures", lambda: later.g.signatures)
    """,
        rerun="hit",
        **{
            "package/__init__": """
    import importlib

    def __getattr__(name):
        if name != "later":
            raise AttributeError(name)
        return importlib.import_module("package.later")
    """,
            "package/later": """
    from numba import njit

    h = njit(lambda x: x + 1)
    g = njit(lambda x: h(x) * 10)
    """,
        },
    ),
    _twice(
        "overload-that-a-call-wants-after-others",
        _CALLEE
        + """
    show("g", g, np.float32(7))
    show("g", g, 7)
    show("signatures", lambda: g.signatures)
    """,
        rerun="hit",
    ),
)
