"""Family 10: what `numba.extending` adds to the compiler changes in another file; the caller's code doesn't show it."""

from ..harness import Program, Step, main, py, replaced, trap

_CALL = """
    import ext

    @njit
    def f(x):
        return ext.thing(x)

    @njit
    def caller(x):
        return f(x) * 10

    show("f", f, 7)
    show("caller", caller, 7)
    show("float", f, 7.5)
    """

_HEAD = "from numba import njit, types\nfrom numba.extending import *\nfrom numba.core import cgutils\n\n"
_THING = "def thing(x):\n    raise NotImplementedError\n\n"


def _extension(name: str, ext: str, *pairs: tuple[str, str], body: str = _CALL, **options) -> Program:
    """Return a program that uses `ext.py`, which is edited."""
    files = {"main.py": main(body), "ext.py": _HEAD + _THING + py(ext)}
    return trap(f"extension-{name}", 10, files, replaced(files, "ext.py", *pairs), **options)


def _elsewhere(name: str, ext: str, before: str, after: str, body: str = _CALL, **options) -> Program:
    """Return a program that uses `ext.py`, which takes something from `other.py`, which is edited."""
    files = {"main.py": main(body), "ext.py": _HEAD + _THING + py(ext), "other.py": _HEAD + py(before)}
    return trap(f"extension-{name}", 10, files, {"other.py": _HEAD + py(after)}, **options)


_FLAG_SET_AT_RUN_TIME = {
    "main.py": main("""
        import os
        import ext, flags

        flags.MODE = os.environ.get("APP_MODE", "add")

        @njit
        def f(x):
            return ext.thing(x)

        show("f", f, 7)
    """),
    "flags.py": "MODE = None\n",
    "ext.py": _HEAD
    + _THING
    + py("""
        import flags

        @overload(thing)
        def choose(x):
            if flags.MODE == "add":
                return lambda x: x + 1
            return lambda x: x - 1
    """),
}

_NEW_OVERLOAD = {
    "main.py": main("""
        import ext

        @njit
        def f(a):
            return np.trapezoid(a) if False else np.sum(a) + np.ptp(a)

        show("f", f, np.array([1.0, 5.0]))
    """),
    "ext.py": "",
}

_ROW = """
    import ctypes

    class Row(ctypes.Structure):
        _fields_ = [("n", ctypes.c_int64)]
"""
_MANY_ROWS = """
    import ctypes
    import other

    @intrinsic
    def bytes_of(typingctx, count):
        def codegen(context, builder, sig, args):
            return builder.mul(args[0], args[0].type(ctypes.sizeof(other.Row)))
        return types.intp(types.intp), codegen

    @overload(thing)
    def choose(x):
        if isinstance(x, types.Integer):
            return lambda x: bytes_of(x)
        return lambda x: x
"""
_LENGTHS = {
    "main.py": main("""
        import ext

        @njit
        def f(x):
            return len(x) / 2, len(x)

        show("f", f, ext.Thing())
    """),
    "ext.py": _HEAD
    + py("""
        from numba.core.typing.templates import AbstractTemplate, infer_global, signature

        class Thing:
            pass

        class ThingType(types.Type):
            def __init__(self):
                super().__init__(name="Thing")

        register_model(ThingType)(models.OpaqueModel)

        @typeof_impl.register(Thing)
        def typeof_thing(value, context):
            return ThingType()

        @unbox(ThingType)
        def unbox_thing(typ, obj, c):
            return NativeValue(c.context.get_dummy_value())

        @infer_global(len)
        class Length(AbstractTemplate):
            def generic(self, args, kws):
                if len(args) == 1 and isinstance(args[0], ThingType):
                    return signature(types.intp, args[0])

        @lower_builtin(len, ThingType)
        def lower_length(context, builder, sig, args):
            return context.get_constant(sig.return_type, 42)
    """),
}
_CASES = {
    "main.py": main("""
        import math
        import ext

        @njit
        def f(x):
            return math.comb(x)

        show("f", f, 7)
    """),
    "ext.py": _HEAD
    + py("""
        import math
        from numba.core.typing.templates import ConcreteTemplate, infer_global, signature

        @infer_global(math.comb)
        class Choices(ConcreteTemplate):
            cases = [signature(types.intp, types.int64)]

        @lower_builtin(math.comb, types.Any)
        def lower_choices(context, builder, sig, args):
            return context.get_constant(sig.return_type, 42)
    """),
}
_SINES = {
    "main.py": main("""
        import math
        import ext

        @njit
        def f(x):
            return math.sin(x)

        show("f", f, 0.5)
    """),
    "ext.py": "from numba.core import types\nfrom numba.cpython.mathimpl import lower\n",
}
_OWN_SINE = """
@lower(math.sin, types.float64)
def sine(context, builder, sig, args):
    return context.get_constant(sig.return_type, -42)
"""

_LATE_OVERLOAD = {
    "main.py": main("""
        import ext

        @njit
        def f(x):
            return ext.thing(x)

        show("f", f, 7)
    """),
    "ext.py": _HEAD + _THING + "@overload(thing)\ndef general(x):\n    return lambda x: x + 1\n",
}

_SPECIAL = py("""
    @overload(thing)
    def special(x):
        if isinstance(x, types.Integer):
            return lambda x: x * 100
    """)

_USER_TYPE = """
    class Money:
        def __init__(self, cents):
            self.cents = cents

    class MoneyType(types.Type):
        def __init__(self):
            super().__init__(name="Money")

    money = MoneyType()

    @typeof_impl.register(Money)
    def typeof_money(value, context):
        return money

    @register_model(MoneyType)
    class MoneyModel(models.StructModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, [("cents", types.int64)])

    make_attribute_wrapper(MoneyType, "cents", "cents")

    @overload_method(MoneyType, "scaled")
    def scaled(self, k):
        return lambda self, k: self.cents * k

    @overload_attribute(MoneyType, "euros")
    def euros(self):
        return lambda self: self.cents / 100

    @unbox(MoneyType)
    def unbox_money(typ, obj, c):
        cents = c.pyapi.object_getattr_string(obj, "cents")
        native = cgutils.create_struct_proxy(typ)(c.context, c.builder)
        native.cents = c.pyapi.long_as_longlong(cents)
        c.pyapi.decref(cents)
        return NativeValue(native._getvalue())

    @type_callable(Money)
    def type_money(context):
        return lambda cents: money

    @lower_builtin(Money, types.Integer)
    def make_money(context, builder, sig, args):
        native = cgutils.create_struct_proxy(money)(context, builder)
        native.cents = builder.add(args[0], args[0].type(0))
        return native._getvalue()

    @box(MoneyType)
    def box_money(typ, value, c):
        native = cgutils.create_struct_proxy(typ)(c.context, c.builder, value=value)
        number = c.pyapi.long_from_longlong(c.builder.add(native.cents, native.cents.type(0)))
        return number
    """
_USE_TYPE = """
    import ext

    @njit
    def method(m):
        return m.scaled(3)

    @njit
    def attribute(m):
        return m.euros

    @njit
    def constructed(n):
        return ext.Money(n).cents

    @njit
    def back(m):
        return m

    m = ext.Money(250)
    show("method", method, m)
    show("attribute", attribute, m)
    show("constructed", constructed, 5)
    show("boxed", back, m)
    """

_OVERLOAD = """
    @overload(thing)
    def choose(x):
        def implementation(x):
            return x + 1
        return implementation
    """

_CHOICE = """
    @overload(thing)
    def choose(x):
        if isinstance(x, types.Integer):
            return lambda x: x + 1
        return lambda x: x - 1
    """

_INTRINSIC = """
    @intrinsic
    def native(typingctx, x):
        def codegen(context, builder, signature, args):
            return builder.add(args[0], args[0].type(1))
        return types.int64(types.int64), codegen

    @register_jitable
    def thing(x):
        return native(int(x))
    """

_INTRINSIC_HELPER = """
    import other

    @intrinsic
    def native(typingctx, x):
        def codegen(context, builder, signature, args):
            return other.emit(builder, args[0])
        return types.int64(types.int64), codegen

    @register_jitable
    def thing(x):
        return native(int(x))
    """

_LOWERED = """
    @type_callable(thing)
    def type_thing(context):
        return lambda x: types.int64 if isinstance(x, types.Integer) else None

    @lower_builtin(thing, types.Integer)
    def lower_thing(context, builder, sig, args):
        value = context.cast(builder, args[0], sig.args[0], types.int64)
        return builder.mul(value, value.type(2))
    """
_CALL_INTEGER = _CALL.replace('    show("float", f, 7.5)\n', "")

_LITERALS = {
    "main.py": main("""
        from ext import power
        from numba import literally

        @njit
        def f(x, n):
            return power(x, n)

        @njit
        def g(x, n):
            return f(x, literally(n)) + n

        show("f", f, 2.0, 3)
        show("g", g, 2.0, 3)
        show("g again", g, 2.0, 4)
        print(f.signatures, g.signatures)
    """),
    "ext.py": py("""
        from numba import literally, types
        from numba.extending import overload

        def power(x, n):
            raise NotImplementedError

        @overload(power)
        def choose(x, n):
            if isinstance(n, types.IntegerLiteral):
                k = n.literal_value
                return lambda x, n: x * k
            return lambda x, n: literally(n)
    """),
}

PROGRAMS = (
    _extension("overload-body", _OVERLOAD, ("x + 1", "x + 2")),
    _extension("overload-choice", _CHOICE, ("types.Integer", "types.Float")),
    _extension("overload-inlined", _OVERLOAD.replace("(thing)", "(thing, inline='always')"), ("x + 1", "x + 2")),
    _extension(
        "overload-options",
        _OVERLOAD.replace("x + 1", "1.0 / (x - x)"),
        ("(thing)", "(thing, jit_options={'error_model': 'numpy'})"),
    ),
    _extension("intrinsic-body", _INTRINSIC, ("type(1)", "type(2)")),
    _extension("lowering", _LOWERED, ("type(2)", "type(3)"), body=_CALL_INTEGER),
    _extension(
        "typing-of-a-callable",
        _LOWERED.replace(
            "return builder.mul(value, value.type(2))",
            "return context.cast(builder, value, types.int64, sig.return_type)",
        ),
        ("lambda x: types.int64", "lambda x: types.float64"),
        body=_CALL_INTEGER,
    ),
    _extension("method", _USER_TYPE, ("self.cents * k", "self.cents - k"), body=_USE_TYPE),
    _extension("attribute", _USER_TYPE, ("self.cents / 100", "self.cents / 1000"), body=_USE_TYPE),
    _extension(
        "unboxing",
        _USER_TYPE,
        ('(obj, "cents")', '(obj, "other")'),
        ("self.cents = cents", "self.cents = cents; self.other = cents + 1"),
        body=_USE_TYPE,
    ),
    _extension(
        "boxing",
        _USER_TYPE,
        ("c.builder.add(native.cents, native.cents.type(0))", "c.builder.add(native.cents, native.cents.type(9))"),
        body=_USE_TYPE,
    ),
    _extension("constructor-lowering", _USER_TYPE, ("args[0].type(0)", "args[0].type(7)"), body=_USE_TYPE),
    _extension(
        "data-model",
        _USER_TYPE,
        ('[("cents", types.int64)]', '[("pad", types.int64), ("cents", types.int16)]'),
        (
            "native.cents = builder.add(args[0], args[0].type(0))",
            "native.cents = builder.trunc(args[0], cgutils.ir.IntType(16))",
        ),
        (
            "native.cents = c.pyapi.long_as_longlong(cents)",
            "native.cents = c.builder.trunc(c.pyapi.long_as_longlong(cents), cgutils.ir.IntType(16))",
        ),
        (
            "c.pyapi.long_from_longlong(c.builder.add(native.cents, native.cents.type(0)))",
            "c.pyapi.long_from_longlong(c.builder.sext(native.cents, cgutils.ir.IntType(64)))",
        ),
        ("self.cents * k", "self.cents + k"),
        body=_USE_TYPE,
    ),
    _elsewhere(
        "overload-chosen-by-a-flag-elsewhere",
        """
        import other

        @overload(thing)
        def choose(x):
            if other.FAST:
                return lambda x: x + 1
            return lambda x: x - 1
        """,
        "FAST = True\n",
        "FAST = False\n",
    ),
    _elsewhere(
        "overload-calls-a-helper-elsewhere",
        """
        from other import helper

        @overload(thing)
        def choose(x):
            return lambda x: helper(x)
        """,
        "@register_jitable\ndef helper(x):\n    return x + 1\n",
        "@register_jitable\ndef helper(x):\n    return x + 2\n",
    ),
    _elsewhere(
        "overload-over-a-constant-elsewhere",
        """
        import other

        @overload(thing)
        def choose(x):
            k = other.compute()
            return lambda x: x + k
        """,
        "def compute():\n    return 1\n",
        "def compute():\n    return 2\n",
    ),
    _elsewhere(
        "intrinsic-helper-elsewhere",
        _INTRINSIC_HELPER,
        "def emit(builder, x):\n    return builder.add(x, x)\n",
        "def emit(builder, x):\n    return builder.mul(x, x)\n",
    ),
    trap(
        "extension-overload-chosen-by-a-flag-set-at-run-time", 10, _FLAG_SET_AT_RUN_TIME, Step(env={"APP_MODE": "sub"})
    ),
    trap(
        "extension-new-overload-of-a-numpy-function",
        10,
        _NEW_OVERLOAD,
        {
            "ext.py": "import numpy as np\n"
            + _HEAD
            + "@overload(np.ptp)\ndef mine(a, axis=None):\n    return lambda a, axis=None: -100.0\n"
        },
    ),
    trap(
        "extension-second-overload-of-one-function",
        10,
        _LATE_OVERLOAD,
        replaced(_LATE_OVERLOAD, "ext.py", ("@overload(thing)", f"{_SPECIAL}\n@overload(thing)")),
    ),
    _elsewhere(
        "layout-of-a-c-structure",
        _MANY_ROWS,
        _ROW,
        _ROW.replace("c_int64)", 'c_int64), ("m", ctypes.c_int8)'),
        rerun="hit",
    ),
    trap(
        "extension-typing-of-a-builtin-function",
        10,
        _LENGTHS,
        replaced(_LENGTHS, "ext.py", ("signature(types.intp", "signature(types.float64")),
    ),
    trap(
        "extension-typing-of-a-builtin-function-by-cases",
        10,
        _CASES,
        replaced(_CASES, "ext.py", ("signature(types.intp", "signature(types.float64")),
    ),
    trap(
        "extension-in-a-registry-of-numbas",
        10,
        _SINES,
        {"ext.py": "import math\n" + _SINES["ext.py"] + _OWN_SINE},
    ),
    trap(
        "extension-user-type-twice",
        10,
        {"main.py": main(_USE_TYPE), "ext.py": _HEAD + _THING + py(_USER_TYPE)},
        {},
        differs=False,
        hit=True,
    ),
    trap(
        "extension-literal-arguments",
        10,
        _LITERALS,
        replaced(_LITERALS, "ext.py", ("literally(n)", "x - n")),
        replaced(_LITERALS, "main.py", ("literally(n)", "n")),
        replaced(_LITERALS, "ext.py", ("x * k", "x ** k")),
        {},
        hit=True,
    ),
)
