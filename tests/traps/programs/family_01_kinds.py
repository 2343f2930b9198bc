"""Family 1, other kinds of callee: ufuncs, gufuncs, stencils and jitclasses that are edited in another file."""

from ..harness import main, py, replaced, trap
from .family_01_callees import callee

_VECTORIZE = callee(
    "through-a-ufunc",
    """
    from numba import vectorize
    import lib

    @vectorize(["int64(int64)", "float64(float64)"])
    def u(x):
        return lib.g(x) * 10

    show("u int", u, np.arange(3))
    show("u float", u, np.arange(3) / 2)
    """,
)

_DUFUNC = callee(
    "through-a-dufunc",
    """
    import lib

    @njit
    def f(a):
        return lib.u(a)

    show("f", f, np.arange(3.0))
    show("u", lib.u, np.arange(3))
    """,
    py("""
        from numba import vectorize

        @vectorize
        def u(x):
            return x + 1
    """),
)

_GUFUNC_FILES = {
    "main.py": main("""
        import lib

        show("g", lib.g, np.arange(6.0).reshape(2, 3), 3.0)
    """),
    "lib.py": py("""
        from numba import guvectorize
        import helper

        @guvectorize(["void(float64[:], float64, float64[:])"], "(n),()->(n)")
        def g(a, b, out):
            for i in range(a.shape[0]):
                out[i] = helper.h(a[i], b)
    """),
    "helper.py": py("""
        from numba import njit

        @njit
        def h(x, y):
            return x + y
    """),
}
_GUFUNC = trap("callee-through-a-gufunc", 1, _GUFUNC_FILES, replaced(_GUFUNC_FILES, "helper.py", ("x + y", "x - y")))

_STENCIL = callee(
    "through-a-stencil",
    """
    import lib

    @njit
    def f(a):
        return lib.s(a)

    show("from jitted code", f, np.arange(5.0))
    show("neighborhood", lambda: lib.s.neighborhood)
    show("from Python", lib.s, np.arange(5.0))
    """,
    py("""
        from numba import stencil

        @stencil
        def s(a):
            return a[-1] + 2.0 * a[1]
    """),
    ("2.0", "3.0"),
)

_JITCLASS_LIB = py("""
    from numba import int64, float64
    from numba.experimental import jitclass

    @jitclass([("n", int64), ("x", float64)])
    class Box:
        def __init__(self, n):
            self.n = n
            self.x = 0.1 * n

        def twice(self):
            return self.n * 2
""")

_JITCLASS_BODY = """
    import lib

    @njit
    def f(n):
        box = lib.Box(n)
        return box.twice(), box.x, box.n

    show("f", f, 7)
    """

_JITCLASS = callee("jitclass-method", _JITCLASS_BODY, _JITCLASS_LIB, ("self.n * 2", "self.n * 3"))

_JITCLASS_SPEC = callee("jitclass-spec", _JITCLASS_BODY, _JITCLASS_LIB, ('("x", float64)', '("x", int64)'))

_JITCLASS_PYTHON = callee(
    "jitclass-used-from-python",
    """
    import lib

    box = lib.Box(7)
    show("method", box.twice)
    show("attribute", lambda: box.x)
    """,
    _JITCLASS_LIB,
    ("self.n * 2", "self.n - 2"),
)

_LIFTED = callee(
    "through-a-lifted-loop",
    """
    from numba import jit
    import lib

    @jit(forceobj=True)
    def f(n):
        names = {}
        total = 0
        for i in range(n):
            total += lib.g(i)
        for i in range(n):
            names[str(i)] = lib.g
        return total, len(names), names["1"](1)

    show("f", f, 3)
    """,
)

PROGRAMS = (_VECTORIZE, _DUFUNC, _GUFUNC, _STENCIL, _JITCLASS, _JITCLASS_SPEC, _JITCLASS_PYTHON, _LIFTED)
