"""Family 24: the Numba type of a value says how it is compiled, and only `typeof` leads from the value to the type."""

from ..harness import Program, main, py, replaced, trap

_EXT = py("""
    from numba import types
    from numba.core import cgutils
    from numba.core.imputils import lower_constant
    from numba.extending import (
        make_attribute_wrapper, models, overload, overload_attribute, overload_method,
        register_model, typeof_impl,
    )
    import operator

    class Money:
        def __init__(self, cents):
            self.cents = cents

    class MoneyType(types.Type):
        def __init__(self, kind="plain"):
            self.kind = kind
            super().__init__(name=f"Money({kind})")

    @typeof_impl.register(Money)
    def typeof_money(value, context):
        return MoneyType("plain")

    @register_model(MoneyType)
    class MoneyModel(models.StructModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, [("cents", types.int64), ("rest", types.int32)])

    make_attribute_wrapper(MoneyType, "cents", "cents")

    @lower_constant(MoneyType)
    def constant_money(context, builder, typ, value):
        native = cgutils.create_struct_proxy(typ)(context, builder)
        native.cents = context.get_constant(types.int64, value.cents + 0)
        native.rest = context.get_constant(types.int32, 0)
        return native._getvalue()

    @overload_method(MoneyType, "scaled")
    def scaled(self, k):
        if self.kind == "plain":
            return lambda self, k: self.cents * k
        return lambda self, k: -self.cents * k

    @overload_attribute(MoneyType, "euros")
    def euros(self):
        return lambda self: self.cents / 100
    """)


_OPERATORS = py("""
    @overload(operator.neg)
    def negative(a):
        if isinstance(a, MoneyType):
            return lambda a: -a.cents

    @overload(len)
    def length(a):
        if isinstance(a, MoneyType):
            return lambda a: 1
    """)


def _typed(name: str, *pairs: tuple[str, str], use: str = "M.scaled(x)", setup: str = "", more: str = "") -> Program:
    """Return a program over an object of a class of `money.py`; how Numba sees it is said in `ext.py`, an edit there."""
    start, end = _EXT.index("class Money:"), _EXT.index("class MoneyType")
    files = {
        "main.py": main(f"""
            import ext
            import money
            from money import M
            {setup}

            @njit
            def f(x):
                return {use}

            @njit
            def caller(x):
                return f(x) + 1

            show("f", f, 3)
            show("caller", caller, 3)
        """),
        "money.py": _EXT[start:end] + "M = Money(250)\n",
        "ext.py": _EXT[:start] + "from money import Money\n\n" + _EXT[end:] + more,
    }
    return trap(f"typeof-{name}", 24, files, replaced(files, "ext.py", *pairs))


_FLOATS = {
    "main.py": main("""
        import ext
        from metres import D

        @njit
        def f(x):
            return x * D.plain()

        show("f", f, 2)
    """),
    "metres.py": "class Metres(float):\n    pass\n\nD = Metres(3.0)\n",
    "ext.py": py("""
        from metres import Metres
        from numba import types
        from numba.core import cgutils
        from numba.core.imputils import lower_constant
        from numba.extending import models, overload_method, register_model, typeof_impl

        class MetresType(types.Type):
            def __init__(self):
                super().__init__(name="Metres")

        typeof_impl.register(Metres)(lambda value, context: MetresType())

        @register_model(MetresType)
        class Model(models.StructModel):
            def __init__(self, dmm, fe_type):
                super().__init__(dmm, fe_type, [("value", types.float64)])

        @lower_constant(MetresType)
        def constant(context, builder, typ, value):
            native = cgutils.create_struct_proxy(typ)(context, builder)
            native.value = context.get_constant(types.float64, float(value))
            return native._getvalue()

        @overload_method(MetresType, "plain")
        def plain(self):
            return lambda self: 100
    """),
}

_ATTRIBUTE = {
    "main.py": main("""
        import ext
        from settings import S

        def make(s):
            @njit
            def f(x):
                return ext.apply(s, x)
            return f

        show("f", make(S), 2)
    """),
    "settings.py": py("""
        import ext

        class Setting:
            @property
            def _numba_type_(self):
                return ext.kind_of(self)

        S = Setting()
    """),
    "ext.py": py("""
        from numba import types
        from numba.core.imputils import lower_constant
        from numba.extending import models, overload, register_model

        class KindType(types.Type):
            def __init__(self, kind):
                self.kind = kind
                super().__init__(name=f"Kind({kind})")

        register_model(KindType)(models.OpaqueModel)
        lower_constant(KindType)(lambda context, builder, typ, value: context.get_dummy_value())

        def kind_of(setting):
            return KindType("add")

        def apply(s, x):
            raise NotImplementedError

        @overload(apply)
        def choose(s, x):
            if s.kind == "add":
                return lambda s, x: x + 1
            return lambda s, x: x - 1
    """),
}

_TESTED = {
    "main.py": main("""
        import ext

        M = ext.Money(250)

        @njit
        def f(x):
            return M.scaled(x)

        show("f", f, 3)
    """),
    "ext.py": "FOUND_AT = 140000000000000\n\n"
    + _EXT.replace('MoneyType("plain")', 'MoneyType("plain" if FOUND_AT else "negative")'),
}

_METHOD = ("self.cents * k\n    return lambda self, k: -", "self.cents * k * 10\n    return lambda self, k: -")

PROGRAMS = (
    _typed("method-edited", _METHOD),
    _typed("method-of-a-value-on-a-module", _METHOD, use="money.M.scaled(x)"),
    _typed("attribute-edited", ("cents / 100", "cents / 1000"), use="M.euros + x"),
    _typed("operator-edited", ("a: -a.cents", "a: -a.cents * 2"), use="(-M) + x", more="\n" + _OPERATORS),
    _typed("builtin-edited", ("a: 1", "a: 2"), use="len(M) + x", more="\n" + _OPERATORS),
    _typed("constant-lowered-differently", ("cents + 0", "cents + 1")),
    _typed("another-type-chosen", ('return MoneyType("plain")', 'return MoneyType("negative")')),
    _typed(
        "type-depends-on-the-value",
        ('return MoneyType("plain")', 'return MoneyType("plain" if value.cents < 200 else "x")'),
    ),
    _typed(
        "data-model-reordered",
        ('[("cents", types.int64), ("rest", types.int32)]', '[("rest", types.int32), ("cents", types.int16)]'),
        ("int64, value", "int16, 7 + value"),
    ),
    _typed("value-in-a-tuple", _METHOD, use="PAIR[0].scaled(x) + PAIR[1]", setup="PAIR = (M, 5)"),
    _typed("value-in-a-closure", _METHOD, use="bound(x)", setup="bound = (lambda m: njit(lambda x: m.scaled(x)))(M)"),
    trap(
        "typeof-asks-whether-a-number-is-zero",
        24,
        _TESTED,
        replaced(_TESTED, "ext.py", ("FOUND_AT = 140000000000000", "FOUND_AT = 0")),
    ),
    trap(
        "typeof-asks-nothing-else-of-a-number",
        24,
        _TESTED,
        replaced(_TESTED, "ext.py", ("FOUND_AT = 140000000000000", "FOUND_AT = 150000000000000")),
        differs=False,
        hit=True,
    ),
    trap("typeof-subclass-of-float", 24, _FLOATS, replaced(_FLOATS, "ext.py", ("self: 100", "self: 200"))),
    trap(
        "typeof-attribute-of-the-object",
        24,
        _ATTRIBUTE,
        replaced(_ATTRIBUTE, "ext.py", ('KindType("add")', 'KindType("sub")')),
    ),
)
