"""Family 7: the two halves of a gufunc, kernel and wrapper, when one of them changes or is lost."""

from ..harness import Step, main, py, replaced, trap
from ..tamper import keep_newest, lose_every_other

_GUFUNC = {
    "main.py": main("""
        from lib import g

        show("g", g, np.arange(6.0).reshape(2, 3), 2.0)
        show("rows", g, np.arange(4.0), np.array([1.0, 2.0]))
    """),
    "lib.py": py("""
        from numba import guvectorize

        @guvectorize(["void(float64[:], float64, float64[:])"], "(n),()->(n)")
        def g(a, b, out):
            for i in range(a.shape[0]):
                out[i] = a[i] * b
    """),
}

_LAYOUT = {
    "main.py": main("""
        from numba import guvectorize

        @guvectorize(["void(float64[:], float64[:])"], "(n)->()")
        def g(a, out):
            out[0] = a.sum()

        show("g", g, np.arange(6.0).reshape(2, 3))
    """)
}

_DYNAMIC = {
    "main.py": main("""
        from numba import guvectorize

        @guvectorize("(n)->(n)")
        def g(a, out):
            for i in range(a.shape[0]):
                out[i] = a[i] + 1

        def call(dtype):
            out = np.zeros(3, dtype)
            g(np.arange(3).astype(dtype), out)
            return out

        show("float", call, "f8")
        show("int", call, "i8")
        show("types", lambda: g.types)
    """)
}

PROGRAMS = (
    trap("halves-kernel-edited", 7, _GUFUNC, replaced(_GUFUNC, "lib.py", ("* b", "- b"))),
    trap(
        "halves-layout-edited",
        7,
        _LAYOUT,
        replaced(_LAYOUT, "main.py", ("(n)->()", "(n)->(n)"), ("out[0] = a.sum()", "out[:] = a.sum()")),
    ),
    trap("halves-dynamic-gufunc", 7, _DYNAMIC, replaced(_DYNAMIC, "main.py", ("+ 1", "+ 2"))),
    trap("halves-one-file-lost", 7, _GUFUNC, Step(tamper=lose_every_other), differs=False),
    trap(
        "halves-one-file-of-each-version",
        7,
        _GUFUNC,
        replaced(_GUFUNC, "lib.py", ("* b", "- b")),
        Step(files=_GUFUNC, tamper=keep_newest),
        differs=False,
    ),
)
