"""Family 1, values with a layout: enums, records, namedtuples, dtypes and arrays that are edited in another file."""

from .family_01_constants import constant

_ENUM = constant(
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

_ENUM_ORDER = constant(
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

_NAMEDTUPLE = constant(
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

_RECORD = constant(
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

_DTYPE = constant(
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

_ARRAY_VALUES = constant(
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

_ARRAY_DTYPE = constant(
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

_ARRAY_ORDER = constant(
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

_ARRAY_STRIDES = constant(
    "array-strides",
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
    rerun="same",  # Numba bakes in the address of an array that isn't contiguous
)

_TYPES_AS_VALUES = constant(
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

_RECORD_IN_A_RECORD = constant(
    "record-in-a-record",
    """
    import cfg
    from numba.extending import overload

    RECORDS = np.frombuffer(bytes(range(39)), cfg.APART)
    ALIGNED = np.zeros(2, cfg.INSIDE)

    @njit
    def f(i):
        return RECORDS[i].x.b, RECORDS[i].z.b

    def aligned(a):
        raise NotImplementedError

    @overload(aligned)
    def choose(a):
        return (lambda a: 1) if a.dtype.fields["x"].type.aligned else (lambda a: 2)

    @njit
    def g():
        return aligned(ALIGNED)

    show("f", f, 1)
    show("g", g)
    """,
    "INSIDE, APART = [('x', SAME)], [('x', WIDE), ('z', NARROW)]",
    "INSIDE, APART = [('x', LIKE)], [('x', NARROW), ('z', WIDE)]",
    head="""
    import numpy as np
    NARROW = np.dtype([('a', 'u1'), ('b', 'i4')])
    WIDE = np.dtype([('a', 'u1'), ('b', 'i4')], align=True)
    SAME, LIKE = np.dtype('i4, i4', align=True), np.dtype('i4, i4')
    """,
)

PROGRAMS = (
    _ENUM,
    _ENUM_ORDER,
    _NAMEDTUPLE,
    _RECORD,
    _DTYPE,
    _RECORD_IN_A_RECORD,
    _ARRAY_VALUES,
    _ARRAY_DTYPE,
    _ARRAY_ORDER,
    _ARRAY_STRIDES,
    _TYPES_AS_VALUES,
)
