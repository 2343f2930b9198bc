"""Family 38, a second hunt: what somebody who wants a wrong hit tries once all of the above is known."""

from ..harness import Program, main, py, replaced, trap


def _edited(name: str, lib: str, edit: tuple[str, str], use: str, **options) -> Program:
    """A library that is edited between two runs."""
    files = {"lib.py": py(lib), "main.py": main(use)}
    return trap(f"again-{name}", 38, files, replaced(files, "lib.py", edit), **{"rerun": "hit", **options})


_EXT = """
import operator
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import *
from numba.core.typing import signature
from numba.core.typing.templates import *
from numba.core.imputils import *

def thing(x):
    raise NotImplementedError

"""


_CALL = """
    import ext

    @njit
    def f(x):
        return ext.thing(x)

    show("f", f, 7)
    """


def _extended(name: str, ext: str, edit: tuple[str, str], use: str = "", **options) -> Program:
    """An extension that is edited between two runs."""
    use = use or _CALL
    files = {"ext.py": _EXT + py(ext), "main.py": main(use)}
    return trap(f"again-{name}", 38, files, replaced(files, "ext.py", edit), **{"rerun": "hit", **options})


_OWN_FOR_OWN = (
    _extended(
        "numba-s-lowering-for-another-of-numba-s-operators",
        """
        from numba.cpython import numbers
        lower_builtin(operator.add, types.Integer, types.Integer)(numbers.int_add_impl)
        for ty in (types.int64, types.intp):
            lower_builtin(operator.add, ty, ty)(numbers.int_add_impl)
        """,
        (
            "lower_builtin(operator.add, ty, ty)(numbers.int_add_impl)",
            "lower_builtin(operator.add, ty, ty)(numbers.int_sub_impl)",
        ),
        """
        import ext

        @njit
        def f(x):
            return x + 2

        show("f", f, 7)
        """,
    ),
    _extended(
        "numba-s-template-for-another-of-numba-s-operators",
        """
        from numba.core.typing import builtins
        KEPT = infer_global(operator.add)
        """,
        ("KEPT = infer_global(operator.add)", "infer_global(operator.add)(builtins.BinOpTrueDiv)"),
        """
        import ext

        @njit
        def f(x):
            return x + 2

        show("f", f, np.timedelta64(1, "s"))
        """,
        differs=False,
        rerun="same",
    ),
    _extended(
        "numba-s-model-for-another-of-numba-s-types",
        """
        from numba.core.datamodel import register_default, models
        from numba.core.datamodel.manager import DataModelManager
        KEPT = register_default(types.Boolean)
        """,
        ("KEPT = register_default(types.Boolean)", "register_default(types.Boolean)(models.IntegerModel)"),
        """
        import ext

        @njit
        def f(x):
            return x > 2.0

        show("f", f, 1.5)
        """,
        rerun="same",
    ),
    _extended(
        "numba-s-chooser-for-another-of-numpy-s-functions",
        """
        from numba.np import arraymath

        def chooser(name):
            return getattr(arraymath, name)

        overload(thing)(chooser("np_ptp") if hasattr(arraymath, "np_ptp") else chooser("np_nanmin"))
        """,
        ('chooser("np_ptp") if hasattr(arraymath, "np_ptp") else chooser("np_nanmin")', 'chooser("np_nanmax")'),
        """
        import ext

        @njit
        def f(x):
            return ext.thing(x)

        show("f", f, np.array([1.0, 5.0, np.nan]))
        """,
    ),
    _extended(
        "numba-s-boxing-for-another-of-numba-s-types",
        """
        from numba.core import boxing, pythonapi
        KEPT = pythonapi._boxers.functions
        """,
        (
            "KEPT = pythonapi._boxers.functions",
            "pythonapi._boxers.functions[types.Boolean] = pythonapi._boxers.functions[types.Integer]",
        ),
        """
        import ext

        @njit
        def f(x):
            return x > 2

        show("f", f, True)
        """,
    ),
    _extended(
        "numba-s-typeof-for-a-builtin-class",
        """
        from numba.core.typing import typeof
        typeof.typeof_impl.register(bool)(typeof.typeof_impl.registry[bool])
        """,
        ("(typeof.typeof_impl.registry[bool])", "(typeof.typeof_impl.registry[int])"),
        """
        import ext

        @njit
        def f(x):
            return x

        show("f", f, True)
        """,
    ),
    _extended(
        "numba-s-function-with-another-one-s-code",
        """
        from numba.cpython import numbers
        numbers.int_divmod.__code__ = numbers.int_divmod.__code__
        """,
        ("= numbers.int_divmod.__code__", "= numbers.int_divmod_signed.__code__"),
        """
        import ext

        @njit
        def f(x, y):
            return x // y

        show("f", f, np.uint64(2**63 + 5), np.uint64(3))
        """,
    ),
    _extended(
        "numba-s-function-with-code-of-a-program",
        """
        from numba.core import cgutils

        def is_null(builder, val):
            return cgutils.true_bit

        cgutils.is_scalar_zero.__code__ = cgutils.is_scalar_zero.__code__
        """,
        ("= cgutils.is_scalar_zero.__code__", "= (lambda builder, value: ir.Constant(ir.IntType(1), 1)).__code__"),
        """
        import ext

        @njit
        def f(x, y):
            return x // y

        show("f", f, 9, 2)
        """,
    ),
    _extended(
        "numba-s-function-with-other-defaults",
        """
        from numba.core import typeinfer, ir_utils
        from numba.core.compiler_machinery import PassManager
        from numba.core.compiler import DefaultPassBuilder
        DefaultPassBuilder.define_nopython_pipeline.__defaults__ = ("nopython",)
        """,
        ('__defaults__ = ("nopython",)', '__defaults__ = ("another name",)'),
        """
        import ext

        @njit
        def f(x):
            return x.nothing

        show("f", f, 7)
        print(f.signatures)
        """,
        differs=False,
        rerun="same",
    ),
    _extended(
        "numba-s-default-flags",
        """
        from numba.core.compiler import Flags
        Flags.options["error_model"]._default = Flags.options["error_model"]._default
        LEVEL = Flags.options["boundscheck"]
        """,
        ('LEVEL = Flags.options["boundscheck"]', 'Flags.options["boundscheck"]._default = True'),
        """
        import ext

        @njit
        def f(a, i):
            return a[i]

        show("f", f, np.arange(4)[:3], 3)
        """,
        differs=False,
        rerun="same",
    ),
    _extended(
        "numba-s-object-with-another-attribute",
        """
        from numba.core import cgutils
        from llvmlite import ir
        KEPT = cgutils.true_bit
        """,
        ("KEPT = cgutils.true_bit", "cgutils.false_bit.constant, cgutils.true_bit.constant = 1, 0"),
        """
        import ext

        @njit
        def f(x):
            return x is 2.0

        show("f", f, 7)
        """,
    ),
    _extended(
        "numba-s-lists-that-were-empty",
        """
        from numba.core import ir_utils
        ir_utils.is_pure_extensions.append(lambda rhs, lives, call_table: None)
        ir_utils.is_pure_extensions.pop()
        """,
        ("ir_utils.is_pure_extensions.pop()", "ir_utils.remove_call_handlers.clear()"),
        """
        import ext

        @njit(parallel=True)
        def f(x):
            np.random.rand()
            return x.sum()

        show("f", f, np.arange(4.0))
        """,
        differs=False,
        rerun="same",
    ),
)
_VALUES = (
    _edited(
        "very-large-int",
        "K = 2**63 - 1\n",
        ("2**63 - 1", "2**63"),
        """
        from lib import K

        @njit
        def f(x):
            return x + K

        show("f", f, 0)
        """,
    ),
    _edited(
        "int-over-64-bits-in-a-tuple-that-is-indexed",
        "T = (1, 2**70)\n",
        ("(1, 2**70)", "(2, 2**70)"),
        """
        from lib import T
        N = T[0]

        @njit
        def f(x):
            return x + N

        show("f", f, 0)
        """,
    ),
    _edited(
        "nested-tuple-of-minus-zero",
        "T = ((0.0, (1, 0.0)), 'a')\n",
        ("(1, 0.0)", "(1, -0.0)"),
        """
        from lib import T

        @njit
        def f(x):
            return np.copysign(x, T[0][1][1])

        show("f", f, 3.0)
        """,
    ),
    _edited(
        "payload-of-a-nan-in-an-array",
        "import numpy as np\nA = np.array([0x7ff8000000000001], np.uint64).view(np.float64)\n",
        ("0x7ff8000000000001", "0xfff8000000000002"),
        """
        from lib import A

        @njit
        def f(i):
            return A[i]

        show("f", lambda i: int(np.array([f(i)]).view(np.uint64)[0]), 0)
        """,
    ),
    _edited(
        "complex-with-a-minus-zero-in-a-nested-tuple",
        "T = ((complex(0.0, 0.0),),)\n",
        ("complex(0.0, 0.0)", "complex(-0.0, 0.0)"),
        """
        from lib import T

        @njit
        def f(x):
            return np.copysign(x, T[0][0].real)

        show("f", f, 3.0)
        """,
    ),
    _edited(
        "text-composed-and-decomposed",
        "S = '\\u00e9'\n",
        ("'\\u00e9'", "'e\\u0301'"),
        """
        from lib import S

        @njit
        def f(x):
            return x + len(S)

        show("f", f, 0)
        """,
    ),
    _edited(
        "bool-becomes-an-enum-s-equal",
        "import enum\nclass E(enum.IntEnum):\n    A = 1\nK = True\n",
        ("K = True", "K = E.A"),
        """
        from lib import K

        @njit
        def f(x):
            return K

        show("f", f, 1)
        """,
    ),
    _edited(
        "numpy-bool-for-a-bool",
        "import numpy as np\nK = np.bool_(True)\n",
        ("np.bool_(True)", "np.uint8(1)"),
        """
        from lib import K

        @njit
        def f(x):
            return K

        show("f", f, 1)
        """,
    ),
    _edited(
        "subclass-of-int-with-its-own-type",
        """
        import numba
        from numba.extending import typeof_impl

        class Int(int):
            pass

        @typeof_impl.register(Int)
        def typeof_int(value, context):
            return numba.types.int64

        K = Int(3)
        """,
        ("numba.types.int64", "numba.types.float64"),
        """
        from lib import K

        @njit
        def f(x):
            return x + 1

        show("f", f, K)
        """,
        rerun="same",
        differs=False,
    ),
    _edited(
        "float-subclass-as-a-global",
        """
        class Float(float):
            pass

        K = Float(3.0)
        """,
        ("Float(3.0)", "Float(4.0)"),
        """
        from lib import K
        K = float(K)

        @njit
        def f(x):
            return x + K

        show("f", f, 1)
        """,
    ),
    _edited(
        "dtype-with-the-same-names-and-other-offsets",
        """
        import numpy as np
        D = np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 4], "itemsize": 16})
        """,
        ('"offsets": [0, 4]', '"offsets": [0, 8]'),
        """
        from lib import D
        A = np.zeros(2, D)
        A["b"] = [5, 6]
        RAW = A.view(np.int32)[:8].copy()

        @njit
        def f(raw):
            return raw.view(D)[1].b

        @njit
        def g(a):
            a[0].b = 9
            return a[1].b

        show("f", f, RAW)
        show("g", g, A)
        print(A.tobytes())
        """,
    ),
    _edited(
        "dtype-aligned",
        "import numpy as np\nD = np.dtype([('a', 'i1'), ('b', 'i8')], align=False)\n",
        ("align=False", "align=True"),
        """
        from lib import D

        @njit
        def f(n):
            return np.zeros(n, D).itemsize, np.zeros(n, D).strides[0]

        show("f", f, 3)
        """,
    ),
    _edited(
        "dtype-with-a-title",
        "import numpy as np\nD = np.dtype([('a', 'i4'), ('b', 'f4')])\n",
        ("[('a', 'i4'), ('b', 'f4')]", "[(('title', 'a'), 'i4'), ('b', 'f4', (2,))]"),
        """
        from lib import D

        @njit
        def f(n):
            a = np.zeros(n, D)
            return a[0].b, a.itemsize

        show("f", f, 3)
        """,
    ),
    _edited(
        "read-only-array",
        "import numpy as np\nA = np.arange(3.0)\n",
        ("A = np.arange(3.0)\n", "A = np.arange(3.0)\nA.flags.writeable = False\n"),
        """
        from lib import A

        @njit
        def f(a):
            a[0] = 5.0
            return a[0]

        show("f", f, A)
        """,
        rerun="same",
    ),
    _edited(
        "array-swapped-bytes",
        "import numpy as np\nA = np.arange(3, dtype='<i4')\n",
        ("A = np.arange(3, dtype='<i4')", "A = np.arange(3, dtype='<i4').view('<u4') + np.uint32(2**31)"),
        """
        from lib import A

        @njit
        def f(i):
            return A[i] * 2

        show("f", f, 1)
        """,
    ),
    _edited(
        "zero-dimensional-array",
        "import numpy as np\nA = np.array(3.0)\n",
        ("np.array(3.0)", "np.array(4.0)"),
        """
        from lib import A

        @njit
        def f(x):
            return A[()] + x

        show("f", f, 1.0)
        """,
    ),
    _edited(
        "array-that-is-broadcast",
        "import numpy as np\nA = np.broadcast_to(np.arange(3.0), (2, 3))\n",
        ("np.arange(3.0)", "np.arange(1.0, 4.0)"),
        """
        from lib import A

        @njit
        def f(i):
            return A[i, 0] + A[0, i]

        show("f", f, 1)
        """,
    ),
    _edited(
        "array-subclass-memmap-edited-on-disk",
        """
        import numpy as np, os
        PATH = os.path.join(os.path.dirname(__file__), "data.bin")
        np.array([1.0, 2.0]).tofile(PATH)
        A = np.memmap(PATH, dtype=np.float64, mode="r")
        A = np.asarray(A)
        """,
        ("[1.0, 2.0]", "[1.0, 3.0]"),
        """
        from lib import A

        @njit
        def f(i):
            return A[i]

        show("f", f, 1)
        """,
    ),
)
_SHAPES = (
    _edited(
        "dataclass-fields-read-before",
        """
        import dataclasses

        @dataclasses.dataclass(frozen=True)
        class Config:
            a: int = 1
            b: int = 2

        FIELDS = tuple(field.name for field in dataclasses.fields(Config))
        """,
        ("a: int = 1\n    b: int = 2", "b: int = 2\n    a: int = 1\n    c: int = 3"),
        """
        from lib import FIELDS

        @njit
        def f(x):
            return x + len(FIELDS)

        show("f", f, 1)
        """,
    ),
    _edited(
        "namedtuple-default-of-a-field",
        """
        from collections import namedtuple
        P = namedtuple("P", "x y", defaults=(5,))
        """,
        ("defaults=(5,)", "defaults=(6,)"),
        """
        from lib import P
        VALUE = P(1)

        @njit
        def f(x):
            return VALUE.y + x

        show("f", f, 1)
        """,
    ),
    _edited(
        "namedtuple-renamed-field",
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\n",
        ("'x y'", "'y z'"),
        """
        from lib import P

        @njit
        def f(x):
            p = P(x, x + 1)
            return p.y

        show("f", f, 1)
        """,
    ),
)
PROGRAMS = (*_OWN_FOR_OWN, *_VALUES, *_SHAPES)
