"""Family 1, constants: a value that a jitted function captures is edited in another file."""

from ..harness import Program, main, py, replaced, trap


def _constant(name: str, body: str, before: str, after: str, head: str = "", **options) -> Program:
    """Return a program that uses something of `cfg.py`, which changes from `before` to `after`."""
    head = py(head)
    files = {"main.py": main(body), "cfg.py": head + before + "\n"}
    return trap(f"constant-{name}", 1, files, {"cfg.py": head + after + "\n"}, **options)


_IMPORTED = _constant(
    "imported",
    """
    from cfg import K

    @njit
    def f(x):
        return x * K

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_ATTRIBUTE = _constant(
    "module-attribute",
    """
    import cfg

    @njit
    def f(x):
        return x * cfg.K

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_GETATTR = _constant(
    "getattr",
    """
    import cfg

    @njit
    def f(x):
        return x * getattr(cfg, "K")

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_LOCAL_ALIAS = _constant(
    "module-in-a-local",
    """
    import cfg

    @njit
    def f(x):
        c = cfg
        if x > 100:
            d = c
        else:
            d = c
        return x * d.K

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_PACKAGE_FILES = {
    "main.py": main("""
        import pkg
        import pkg.cfg

        def make(p):
            @njit
            def f(x):
                return x * p.cfg.K
            return f

        @njit
        def g(x):
            return x * pkg.cfg.K

        show("module in a cell", make(pkg), 2)
        show("module in a global", g, 2)
    """),
    "pkg/__init__.py": "",
    "pkg/cfg.py": "K = 3\n",
}
_PACKAGE = trap("constant-package-attribute", 1, _PACKAGE_FILES, {"pkg/cfg.py": "K = 4\n"})

_TUPLES = _constant(
    "tuples",
    """
    import cfg

    @njit
    def flat():
        return cfg.FLAT

    @njit
    def nested():
        return cfg.NESTED[1][0], cfg.NESTED

    @njit
    def mixed():
        return cfg.MIXED

    show("flat", flat)
    show("nested", nested)
    show("mixed", mixed)
    """,
    "FLAT = (1, 2)\nNESTED = (1, (2, (3, 4)))\nMIXED = (1, 'a', 2.5)",
    "FLAT = (1, 3)\nNESTED = (1, (2, (3, 5)))\nMIXED = (1, 'b', 2.5)",
)

_TUPLE_LENGTH = _constant(
    "tuple-length",
    """
    import cfg

    @njit
    def f():
        total = 0
        for i in range(len(cfg.T)):
            total += cfg.T[i]
        return total, len(cfg.T)

    show("f", f)
    """,
    "T = (1, 2)",
    "T = (1, 2, 0)",
)

_STRINGS = _constant(
    "strings-and-bytes",
    """
    import cfg

    @njit
    def text():
        return cfg.S + "!"

    @njit
    def raw():
        return cfg.B[0], len(cfg.B)

    @njit
    def choose(x):
        if cfg.MODE == "add":
            return x + 1
        return x - 1

    show("text", text)
    show("raw", raw)
    show("choose", choose, 5)
    """,
    "S = 'abc'\nB = b'abc'\nMODE = 'add'",
    "S = 'ab\\u00e9'\nB = b'bbc'\nMODE = 'sub'",
)

_ENUM = _constant(
    "enum-member-value",
    """
    from cfg import Colour, Level

    @njit
    def enum_value():
        return Colour.RED.value

    @njit
    def int_enum(x):
        return x + Level.HIGH

    @njit
    def compare(x):
        return x == Colour.RED, x == Colour.BLUE

    show("value", enum_value)
    show("int", int_enum, 1)
    show("compare", compare, Colour.BLUE)
    """,
    "class Colour(Enum):\n    RED = 1\n    BLUE = 2\nclass Level(IntEnum):\n    HIGH = 10",
    "class Colour(Enum):\n    RED = 2\n    BLUE = 1\nclass Level(IntEnum):\n    HIGH = 20",
    head="from enum import Enum, IntEnum\n",
)

_ENUM_ORDER = _constant(
    "enum-argument-of-a-changed-class",
    """
    from cfg import Mode

    @njit
    def f(m, x):
        if m == Mode.A:
            return x + 100
        return x + 200

    show("f", f, Mode(1), 1)
    """,
    "class Mode(Enum):\n    A = 1\n    B = 2",
    "class Mode(Enum):\n    A = 2\n    B = 1",
    head="from enum import Enum\n",
)

_NAMEDTUPLE = _constant(
    "namedtuple-field-order",
    """
    from cfg import P, ORIGIN

    @njit
    def f(p):
        return p.x - 2 * p.y, ORIGIN.x

    @njit
    def build(a, b):
        return P(a, b)

    show("f", f, P(1, 10))
    show("build", build, 1, 2)
    """,
    "P = namedtuple('P', 'x y')\nORIGIN = P(1, 2)",
    "P = namedtuple('P', 'y x')\nORIGIN = P(1, 2)",
    head="from collections import namedtuple\n",
)

_RECORD = _constant(
    "record-layout",
    """
    import cfg

    ROW = numba.from_dtype(cfg.DTYPE)

    @njit
    def f(rows):
        return rows[0].a, rows[1].b

    @njit
    def make():
        rows = np.zeros(2, ROW)
        rows[0].a = 7
        return rows

    rows = np.zeros(2, cfg.DTYPE)
    rows["a"] = 1, 2
    rows["b"] = 3, 4
    show("f", f, rows)
    show("make", make)
    show("first bytes", lambda: rows.tobytes())
    """,
    "DTYPE = np.dtype([('a', 'i4'), ('b', 'i4'), ('c', 'i8')])",
    "DTYPE = np.dtype([('b', 'i4'), ('a', 'i4'), ('c', 'i4'), ('d', 'i4')], align=True)",
    head="import numpy as np\n",
)

_DTYPE = _constant(
    "dtype-object",
    """
    import cfg

    @njit
    def f(n):
        return np.ones(n, dtype=cfg.D)

    @njit
    def cast(x):
        return cfg.T(x)

    show("f", f, 2)
    show("cast", cast, 300.7)
    """,
    "D = np.dtype('f4')\nT = np.int64",
    "D = np.dtype('f8')\nT = np.uint8",
    head="import numpy as np\n",
)

_ARRAY_VALUES = _constant(
    "array-values",
    """
    import cfg
    from cfg import A

    @njit
    def f(i):
        return A[i], A.sum()

    def make(a):
        @njit
        def g(i):
            return a[i]
        return g

    show("global", f, 1)
    show("cell", make(cfg.A), 1)
    """,
    "A = np.array([1, 2, 3])",
    "A = np.array([1, 5, 3])",
    head="import numpy as np\n",
)

_ARRAY_DTYPE = _constant(
    "array-dtype-over-the-same-bytes",
    """
    import cfg

    @njit
    def f():
        return cfg.A[0], cfg.Z

    show("f", lambda: [x if i == 0 else x.copy() for i, x in enumerate(f())])
    """,
    "A = RAW.view('i8')\nZ = np.array(5, 'i8')",
    "A = RAW.view('f8')\nZ = np.array(5, 'u8')",
    head="import numpy as np\nRAW = np.arange(3, dtype='i8')\n",
)

_ARRAY_ORDER = _constant(
    "array-order-over-the-same-bytes",
    """
    import cfg

    @njit
    def f():
        return cfg.A[0, 1], cfg.A[1, 0]

    @njit
    def shape():
        return cfg.B.shape

    show("order", f)
    show("shape", shape)
    """,
    "A = RAW.reshape(2, 2)\nB = RAW.reshape(1, 4)",
    "A = RAW.reshape(2, 2, order='F')\nB = RAW.reshape(4, 1)",
    head="import numpy as np\nRAW = np.arange(4)\n",
)

_ARRAY_STRIDES = _constant(
    "array-strides-and-byte-order",
    """
    import cfg

    @njit
    def f():
        return cfg.A[0], cfg.A[1]

    show("f", f)
    """,
    "A = RAW[::2]",
    "A = RAW[::-2]",
    head="import numpy as np\nRAW = np.array([0, 1, 0, 1])\n",
)

_DEFAULTS_FILES = {
    "main.py": main("""
        import cfg
        from cfg import callee

        @njit
        def f(x, k=cfg.K):
            return x * k

        @njit
        def keyword_only(x, *, k=cfg.K):
            return x * k

        @njit
        def caller(x):
            return callee(x)

        show("default", f, 2)
        show("keyword only", keyword_only, 2)
        show("callee", caller, 2)
    """),
    "cfg.py": py("""
        from numba import njit

        K = 3

        @njit
        def callee(x, k=K):
            return x * k
    """),
}
_DEFAULTS = trap("constant-default-arguments", 1, _DEFAULTS_FILES, replaced(_DEFAULTS_FILES, "cfg.py", ("= 3", "= 4")))

_CELL_CHANGED = _constant(
    "cell-changed-before-the-first-call",
    """
    import cfg

    def make():
        k = 1

        @njit
        def f(x):
            return x * k

        def change(value):
            nonlocal k
            k = value

        return f, change

    f, change = make()
    change(cfg.K)
    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_CELL_FACTORY = _constant(
    "closure-cells",
    """
    import cfg

    def outer(a):
        def middle(b):
            @njit
            def f(x):
                return x * a + b
            return f
        return middle

    show("f", outer(cfg.K)(cfg.K + 1), 10)
    show("g", outer(5)(cfg.K), 10)
    """,
    "K = 3",
    "K = 4",
)

_INNER_FUNCTION = _constant(
    "used-by-an-inner-function",
    """
    import cfg
    from cfg import g, K

    @njit
    def f(x):
        def inner(y):
            return g(y) + K
        return inner(x) + sum([K * i for i in range(3)])

    show("f", f, 1)
    """,
    "K = 3\n@njit\ndef g(x):\n    return x",
    "K = 4\n@njit\ndef g(x):\n    return -x",
    head="from numba import njit\n",
)

_TYPES_AS_VALUES = _constant(
    "numba-types",
    """
    import cfg
    from numba import typed

    @njit
    def f(x):
        return cfg.T(x)

    @njit
    def empty():
        d = typed.Dict.empty(cfg.T, cfg.T)
        d[cfg.T(1)] = cfg.T(2)
        return d[cfg.T(1)]

    show("cast", f, 3.7)
    show("container", empty)
    """,
    "T = types.int32",
    "T = types.float64",
    head="from numba import types\n",
)

_NONE = _constant(
    "none-and-optional",
    """
    from cfg import LIMIT

    @njit
    def f(x):
        if LIMIT is None:
            return x
        return min(x, LIMIT)

    show("f", f, 10)
    """,
    "LIMIT = None",
    "LIMIT = 5",
)

_BUILTIN_SHADOWED = _constant(
    "global-that-hides-a-builtin",
    """
    from cfg import *

    @njit
    def f(x, y):
        return max(x, y)

    show("f", f, 1, 2)
    """,
    "unused = 1",
    "max = min",
)

PROGRAMS = (
    _IMPORTED,
    _ATTRIBUTE,
    _GETATTR,
    _LOCAL_ALIAS,
    _PACKAGE,
    _TUPLES,
    _TUPLE_LENGTH,
    _STRINGS,
    _ENUM,
    _ENUM_ORDER,
    _NAMEDTUPLE,
    _RECORD,
    _DTYPE,
    _ARRAY_VALUES,
    _ARRAY_DTYPE,
    _ARRAY_ORDER,
    _ARRAY_STRIDES,
    _DEFAULTS,
    _CELL_CHANGED,
    _CELL_FACTORY,
    _INNER_FUNCTION,
    _TYPES_AS_VALUES,
    _NONE,
    _BUILTIN_SHADOWED,
)
