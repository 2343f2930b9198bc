"""A callee that a hit saved the compilation is what it would have been, whatever changed before somebody calls it."""

from traps.harness import Program, Step, main, py, trap


def _owed(name: str, code: str, shown: str, *, before: str = "", change: str = "K = 10") -> Program:
    """*code* has functions of K and `top`, which calls them; *shown* is printed after the *change*."""
    text = "from numba import objmode, types\nfrom numba.experimental import jitclass\nK = 1\n"
    text += py(code) + py(before) + 'show("top", top, 1.0)\n' + py(change) + f"\nprint({shown})\n"
    return trap(f"hunt-owed-{name}", 36, {"main.py": main("") + text}, Step(), differs=False, rerun="same")


_LEAF_AND_MID = """
@njit
def leaf(x):
    return x + K

@njit
def mid(x):
    return leaf(x) * K

@njit(<options>)
def top(x):
    return mid(x)

@njit
def other(x):
    return mid(x) * 100
"""

_GENERATOR = """
@njit
def gen(x):
    for i in range(2):
        yield x + K

@njit
def top(x):
    return sum([y for y in gen(x)])

@njit
def other(x):
    most = 0.0
    for y in gen(x):
        most = max(most, y)
    return most
"""

_CELLS = """
def run(cell):
    exec(cell, globals())

run(CELL % 1)

@njit
def g(x):
    <body>

@njit
def top(x):
    <top>
"""


def _cell(name: str, cell: str, body: str, shown: str, top: str = "return g(x)", again: str = "100") -> Program:
    code = f"import enum\nfrom collections import namedtuple\nfrom numba import cfunc\nCELL = {cell!r}\n" + py(_CELLS)
    code = code.replace("<body>", body).replace("<top>", top)
    return _owed(f"cell-{name}", code, shown, change=f"run(CELL % {again})")


_CHOSEN = """
from numba.extending import overload, register_jitable

MODE = 1

def thing(x):
    "Chosen below."

@register_jitable
def helper(x):
    return x + MODE

@overload(thing)
def overload_thing(x):
    return lambda x: helper(x)

@njit
def g(x):
    return thing(x) + K

@njit
def top(x):
    return g(x)

@njit
def other(x):
    return g(x) * 100
"""

_LATE = """
K = 10

@overload(thing)
def overload_thing_of_floats(x):
    if isinstance(x, types.Float):
        return lambda x: x + 50
"""

_BOUNDS = main("""
    import os
    from numba import config

    VALUES = np.arange(8.0)[:4]

    @njit
    def at(values, i):
        return values[i]

    @njit
    def f(values, i):
        return at(values, i)

    <when>
    show("f", f, VALUES, 5)
    """)


def _bounds(before: str, after: str) -> dict[str, str]:
    when = f'show("f", f, VALUES, 1)\nconfig.BOUNDSCHECK = {after}\nshow("at", at, VALUES, 5)'
    return {"main.py": f"import numba\nnumba.config.BOUNDSCHECK = {before}\n" + _BOUNDS.replace("<when>", when)}


_LATE_CHECK = """
if "APP_CHECKED" not in os.environ:
    show("at", at, VALUES, 5)
config.BOUNDSCHECK = 1
"""
_CHECKED_LATE = {"main.py": _BOUNDS.replace("<when>", py(_LATE_CHECK))}


def _poisoned(name: str, code: str, first: str) -> Program:
    """Who asks late gets what it would have got without a cache, and stores it for nobody who wouldn't."""
    text = main("import os\nK = 1\n") + py(code)
    text += f"if 'APP_DIRECT' in os.environ:\n    {first}\nelse:\n    show('top', top, 1.0)\n"
    text += "K = 10\nif 'APP_LATE' in os.environ:\n    show('other', other, 1.0)\n"
    late, direct = {"APP_LATE": "1"}, {"APP_LATE": "1", "APP_DIRECT": "1"}
    steps = ({"main.py": text}, Step(env=late), Step(env=direct))
    return trap(f"hunt-owed-{name}-for-others", 36, *steps, rerun="same")


_HALVES = {
    "main.py": main("""
    import os

    K = 1

    class Error(Exception):
        pass

    @njit
    def even(x):
        if x > 100:
            raise Error("too much")
        return K if x <= 0 else odd(x - 1) + K

    @njit
    def odd(x):
        if x > 100:
            raise Error("too much")
        return K if x <= 0 else even(x - 1) + K

    @njit
    def top(x):
        return even(x)

    if "APP_ODD" in os.environ:
        show("odd", odd, 3)
    else:
        show("top", top, 3)
    K = 10
    show("odd", odd, 3)
    show("even", even, 3)
    show("top", top, 3)
    """)
}
_ODD = {"APP_ODD": "1"}

_LET_GO = {
    "main.py": main("""
    import gc
    import weakref

    def made():
        @numba.vectorize
        def u(x):
            return x + 1

        @njit
        def f(x):
            return u(x) * 2

        return f

    f = made()
    show("f", f, 1.0)
    known = weakref.ref(f)
    del f
    gc.collect()
    print(known())
    """)
}

_RAISED = {
    "errors.py": "class Error(Exception):\n    pass\n",
    "main.py": main("""
    import errors

    @njit
    def f(x):
        if x > 5:
            raise errors.Error("too much")
        return x

    show("f", f, 1)
    errors.Error = None
    show("f", f, 9)
    show("f", f, 9)
    """),
}

PROGRAMS = (
    _owed("flags", _LEAF_AND_MID.replace("<options>", "fastmath=True"), "mid(1.0), leaf(1.0), other(1.0)"),
    _owed("error-model", _LEAF_AND_MID.replace("<options>", "error_model='numpy'"), "mid(1.0), leaf(1.0), other(1.0)"),
    _owed(
        "of-mixed-ages",
        _LEAF_AND_MID.replace("<options>", ""),
        "mid(1.0), leaf(1.0), other(1.0)",
        before="print(leaf(1.0))\nK = 2\n",
        change="K = 3",
    ),
    _owed("generator", _GENERATOR, "list(gen(1.0)), other(1.0), len(gen.signatures)"),
    _owed(
        "block",
        """
        @njit
        def leaf(x):
            return x + K

        @njit
        def g(x):
            with objmode(y="float64"):
                y = leaf(x)
            return y + K

        @njit
        def top(x):
            return g(x)
        """,
        "g(1.0)",
    ),
    _owed(
        "callback",
        """
        @numba.cfunc("float64(float64)")
        def callback(x):
            return x + K

        @njit
        def g(x):
            return callback(x) + K

        @njit
        def top(x):
            return g(x)
        """,
        "g(1.0)",
    ),
    _owed(
        "ufunc",
        """
        @numba.vectorize
        def u(x):
            return x + K

        @njit
        def g(x):
            return u(x) + K

        @njit
        def top(x):
            return g(x)
        """,
        "g(1.0), u(1.0)",
    ),
    _owed(
        "jitclass",
        """
        @jitclass([("a", types.float64)])
        class C:
            def __init__(self, a):
                self.a = a + K

            def m(self):
                return self.a + K

        @njit
        def g(c):
            return c.m() + K

        @njit
        def h(x):
            return g(C(x))

        @njit
        def top(x):
            return h(x)

        c = C(0.0)
        """,
        "h(1.0), g(c), c.m(), C(3.0).a",
    ),
    _owed("registered", _CHOSEN, "g(1.0), other(1.0)", change="MODE, K = 2, 10"),
    _owed("registered-late", _CHOSEN, "g(1.0), other(1.0)", change=_LATE),
    _cell(
        "jitclass",
        "@jitclass([('a', types.float64)])\nclass C:\n    def __init__(self, a): self.a = a\n    def m(self): return self.a + %d\n",
        "return C(x)",
        "g(1.0).m(), top(1.0)",
        top="return g(x).m()",
    ),
    _cell(
        "enumeration",
        "class E(enum.Enum):\n    A = 1\n    B = %d\n",
        "return E.B.value + x, E.B",
        "g(1.0)[0], g(1.0)[1] is E.B",
        top="return g(x)[0]",
    ),
    _cell(
        "named-tuple",
        "P = namedtuple('P', '%s')\n".replace("%s", "a b c%d"),
        "return P(x, x + 1, x + 2)",
        "g(1.0), isinstance(g(1.0), P)",
        top="return g(x).b",
    ),
    _cell(
        "callback",
        "@cfunc('float64(float64)')\ndef callback(x): return x + %d\n",
        "return callback(x) * 2",
        "g(1.0), top(1.0)",
    ),
    _cell(
        "exception",
        "class Error(Exception): level = %d\ndef shown():\n    try: g(7.0)\n    except Exception as e: return type(e) is Error, e.level\n",
        "if x > 5: raise Error('q')\n    return x",
        "shown()",
    ),
    trap("hunt-owed-checked-since", 36, _bounds("None", "1"), Step(), differs=False, rerun="same"),
    trap("hunt-owed-checked-before", 36, _bounds("1", "None"), Step(), differs=False, rerun="same"),
    trap("hunt-owed-checked-late", 36, _CHECKED_LATE, Step(env={"APP_CHECKED": "1"}), rerun="same"),
    _poisoned("generator", _GENERATOR, "show('gen', lambda: list(gen(1.0)))"),
    _poisoned("flags", _LEAF_AND_MID.replace("<options>", "fastmath=True"), "show('mid', mid, 1.0)"),
    trap("hunt-owed-other-half", 36, Step(files=_HALVES, env=_ODD), Step(), rerun="same"),
    trap("hunt-owed-other-half-first", 36, _HALVES, Step(env=_ODD), rerun="same"),
    trap("hunt-owed-nothing", 36, _LET_GO, Step(), differs=False, hit=True),
    trap("hunt-raised-under-a-name-that-is-none", 36, _RAISED, Step(), differs=False, cold=True),
)
