"""Family 25: what an object keeps from the moment it was made, while what it was made from has moved on.

Each program sets a value, decorates, and sets the value to the same thing in both versions: at the first call nothing
tells them apart but what was frozen.
"""

from ..harness import Program, Step, main, trap

_FIRST, _SECOND = {"APP_LEVEL": "1"}, {"APP_LEVEL": "2"}
_LEVEL = """
    import os
    LEVEL = int(os.environ["APP_LEVEL"])
    """


def _frozen(name: str, body: str, **options) -> Program:
    """Return a program that decorates something while `LEVEL` is 1 in version 1, and 2 in version 2."""
    files = {"main.py": main(_LEVEL + body)}
    return trap(f"frozen-{name}", 25, Step(files=files, env=_FIRST), Step(env=_SECOND), **options)


_STENCIL = """
    from numba import stencil

    @stencil
    def kernel(a):
        return a[-1] * LEVEL + a[1]

    LEVEL = 50
    """

_CALLED_STENCIL = """
    from numba import stencil

    @stencil
    def kernel(a):
        return a[-1] * 2 + a[1]

    @njit
    def f(a):
        return kernel(a)
    """

PROGRAMS = (
    _frozen(
        "global-of-a-stencil",
        _STENCIL + "\n    show('stencil', kernel, np.arange(5.0))\n",
    ),
    _frozen(
        "global-of-a-stencil-called-by-jitted-code",
        _STENCIL
        + """
    @njit
    def f(a):
        return kernel(a)

    show("f", f, np.arange(5.0))
    """,
    ),
    _frozen(
        "global-of-a-stencil-in-a-parallel-function",
        _STENCIL
        + """
    @njit(parallel=True)
    def f(a):
        return kernel(a) + 1

    show("f", f, np.arange(5.0))
    """,
    ),
    _frozen(
        "cell-of-a-stencil",
        """
    from numba import stencil

    def build(level):
        @stencil
        def kernel(a):
            return a[-1] * level + a[1]

        level = 50
        return kernel

    kernel = build(LEVEL)

    @njit
    def f(a):
        return kernel(a)

    show("stencil", kernel, np.arange(5.0))
    show("f", f, np.arange(5.0))
    """,
    ),
    _frozen(
        "function-called-by-a-stencil",
        """
    from numba import stencil

    def make(level):
        return njit(lambda x: x * level)

    scale = make(LEVEL)

    @stencil
    def kernel(a):
        return scale(a[-1]) + a[1]

    scale = make(50)

    @njit
    def f(a):
        return kernel(a)

    show("stencil", kernel, np.arange(5.0))
    show("f", f, np.arange(5.0))
    """,
    ),
    _frozen(
        "default-of-a-callee",
        """
    @njit
    def g(x, k=LEVEL):
        return x * 10 + k

    g.py_func.__defaults__ = (50,)

    @njit
    def f(x):
        return g(x)

    show("f", f, 7)
    """,
    ),
    _frozen(
        "no-default-of-a-callee",
        """
    def g(x, k):
        return x * 10 + k

    if LEVEL == 1:
        g.__defaults__ = (50,)
    g = njit(g)
    g.py_func.__defaults__ = (50,)

    @njit
    def f(x):
        return g(x)

    show("f", f, 7)
    """,
        rerun="same",
    ),
    _frozen(
        "default-of-the-function-itself",
        """
    @njit
    def f(x, k=LEVEL):
        return x * 10 + k

    f.py_func.__defaults__ = (50,)
    show("f", f, 7)
    """,
    ),
    _frozen(
        "signature-of-a-wrapped-callee",
        """
    import inspect

    def g(a, b):
        return a * 10 + b

    def other(b, a):
        pass

    g.__signature__ = inspect.signature(g if LEVEL == 1 else other)
    jitted = njit(g)
    del g.__signature__

    @njit
    def f(x):
        return jitted(a=x, b=1)

    show("f", f, 7)
    """,
    ),
    _frozen(
        "neighborhood-of-a-stencil",
        _CALLED_STENCIL
        + """
    if LEVEL == 2:
        kernel.neighborhood = ((-2, 2),)
    show("f", f, np.arange(8.0))
    """,
    ),
    _frozen(
        "neighborhood-of-a-stencil-that-was-used",
        _CALLED_STENCIL
        + """
    show("f", f, np.arange(8.0))
    if LEVEL == 2:
        kernel.neighborhood = ((-2, 2),)
        kernel.options["cval"] = 9.0
    show("f", f, np.arange(8))
    """,
    ),
    _frozen(
        "function-of-a-dispatcher-s-compiler",
        """
    def g(x):
        return x + LEVEL

    def h(x):
        return x - 50

    jitted = njit(g)
    LEVEL = 50
    if os.environ["APP_LEVEL"] == "2":
        jitted._compiler.py_func = h

    @njit
    def f(x):
        return jitted(x)

    show("jitted", jitted, 7)
    show("f", f, 7)
    """,
    ),
    _frozen(
        "function-of-a-compiler-that-was-used",
        """
    def g(x):
        return x + 1

    def h(x):
        return x - 50

    jitted = njit(g)

    @njit
    def f(x):
        return jitted(x)

    show("f", f, 7)
    if os.environ["APP_LEVEL"] == "2":
        jitted._compiler.py_func = h
    show("f", f, 7.5)
    show("jitted", jitted, 7 + 1j)
    """,
    ),
    _frozen(
        "variables-declared-later",
        """
    from numba import types

    @njit(locals={"y": types.float64})
    def g(x):
        y = x / 3
        z = y * 2
        return z

    @njit
    def f(x):
        return g(x)

    show("f", f, 7)
    if os.environ["APP_LEVEL"] == "2":
        g._compiler.locals["z"] = types.float32
    show("f", f, 7.5)
    show("g", g, np.float32(7))
    """,
    ),
    _frozen(
        "options-of-a-compiler-that-was-used",
        """
    from numba import types

    @njit
    def g(x):
        y = x / 3
        return y

    @njit
    def f(x):
        return g(x)

    show("f", f, 7)
    if os.environ["APP_LEVEL"] == "2":
        g._compiler.locals = {"y": types.float32}
    show("f", f, 7.5)
    show("g", g, np.float32(7))
    if os.environ["APP_LEVEL"] == "2":
        g._compiler.targetoptions = dict(g.targetoptions, fastmath=True, error_model="numpy")
    show("f", f, np.uint32(7))
    """,
    ),
    _frozen(
        "function-of-a-ufunc-that-was-used",
        """
    from numba import vectorize

    def h(x):
        return x - 50

    @vectorize
    def g(x):
        return x + 1

    @njit
    def f(x):
        return g(x)

    show("g", g, np.arange(3))
    show("f", f, np.arange(3))
    if os.environ["APP_LEVEL"] == "2":
        g._dispatcher.py_func = h
    show("g", g, np.arange(3.0))
    show("f", f, np.arange(3.0))
    """,
    ),
    _frozen(
        "function-of-a-gufunc-that-was-used",
        """
    from numba import guvectorize

    def h(x, res):
        res[0] = x.sum() - 50

    @guvectorize("(n)->()")
    def g(x, res):
        res[0] = x.sum() + 1

    g(np.arange(3), np.zeros((), np.int64))
    if os.environ["APP_LEVEL"] == "2":
        g.gufunc_builder.nb_func.py_func = h
    shown = np.zeros(())
    g(np.arange(3.0), shown)
    print("g", shown)
    """,
    ),
)
