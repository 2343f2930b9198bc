"""Family 35, registrations: what is registered with Numba by others and is, in whole or in part, Numba's own code.

`ext` registers something for a function or a type of its own and is edited; the function compiled doesn't change.
"""

from ..harness import Program, Step, main, py, replaced, trap

_IMPORTS = (
    "import math, operator\nimport numpy as np\nfrom numba import njit, types\nfrom numba.core import boxing, cgutils\n"
    "from numba.cpython import mathimpl\nfrom numba.core.imputils import lower_cast, lower_constant\n"
    "from numba.core.typing import mathdecl\nfrom numba.core.typing.templates import *\n"
    "from numba.np import arraymath\nfrom numba.extending import *\n\n"
)
_TARGET = """
    def target(x):
        raise NotImplementedError
    """
_CALL = main("""
    import ext

    @njit
    def f(x):
        return ext.target(x)

    @njit
    def caller(x):
        return f(x) + 1

    show("f", f, 2.25)
    show("caller", caller, 4.5)
    """)
_PAIR = """
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    class PairType(types.Type):
        def __init__(self):
            super().__init__(name="Pair")

    pair_type = PairType()

    @typeof_impl.register(Pair)
    def typeof_pair(value, context):
        return pair_type

    @register_model(PairType)
    class PairModel(models.StructModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, [("a", types.int64), ("b", types.int64)])

    @unbox(PairType)
    def unbox_pair(typ, obj, c):
        native = cgutils.create_struct_proxy(typ)(c.context, c.builder)
        for name in ("a", "b"):
            value = c.pyapi.object_getattr_string(obj, name)
            setattr(native, name, c.pyapi.long_as_longlong(value))
            c.pyapi.decref(value)
        return NativeValue(native._getvalue())
    """
_WORD = """
    class Word:
        def __init__(self, value):
            self.value = value

    class WordType(types.Integer):
        def __init__(self):
            super().__init__(name="int64", bitwidth=64, signed=True)
            self.name = "Word"

        @property
        def key(self):
            return "Word"

    word_type = WordType()

    @typeof_impl.register(Word)
    def typeof_word(value, context):
        return word_type

    @unbox(WordType)
    def unbox_word(typ, obj, c):
        value = c.pyapi.object_getattr_string(obj, "value")
        word = c.pyapi.long_as_longlong(value)
        c.pyapi.decref(value)
        kind = c.context.get_value_type(typ)
        return NativeValue(c.builder.trunc(word, kind) if kind.width < 64 else word)
    """


def _ext(*parts: str) -> dict[str, str]:
    return {"ext.py": _IMPORTS + "\n".join(py(part) for part in parts)}


def _program(name: str, parts: tuple[str, ...], *edits: tuple[str, str], use: str = _CALL, **options) -> Program:
    files = {"main.py": use, **_ext(*parts)}
    return trap(f"hunt-{name}", 35, files, replaced(files, "ext.py", *edits), **options)


_ATTRIBUTE = main("""
    import ext

    @njit
    def f(pair):
        return pair.first * 10 + pair.second

    show("f", f, ext.Pair(1, 2))
    """)
_ARRAY = main("""
    import ext

    @njit
    def f(x):
        return ext.target(x)

    show("f", f, np.array([1.0, 5.0, 30.0]))
    """)
_STRUCTREF = """
    from numba.experimental import structref

    @structref.register
    class PointType(types.StructRef):
        def preprocess_fields(self, fields):
            return tuple((name, types.unliteral(typ)) for name, typ in fields)

    class Point(structref.StructRefProxy):
        def __new__(cls, a, b):
            return structref.StructRefProxy.__new__(cls, a, b)

        @property
        def a(self):
            return read(self)

    @njit
    def read(point):
        return point.a

    structref.define_proxy(Point, PointType, ["a", "b"])
    """
_STRUCTREF_USE = main("""
    import ext

    @njit
    def f(x):
        point = ext.Point(x, x + 100)
        return point.a * 2

    @njit
    def g(point):
        return point.a * 3

    show("f", f, 7)
    show("g", g, ext.Point(1, 2))
    show("a", lambda: ext.Point(3, 4).a)
    """)
_METERS = """
    class Meters(int):
        pass

    @typeof_impl.register(Meters)
    def typeof_meters(value, context):
        return types.int16
    """


def _meters(body: str) -> str:
    return main("import ext\n\n" + py(body) + "\nshow('f', f, 1)\n")


PROGRAMS = (
    _program(
        "numba-s-lowering-for-own-function",
        (
            _TARGET,
            """
            @type_callable(target)
            def type_target(context):
                return lambda x: types.float64

            lower_builtin(target, types.Float)(mathimpl.ceil_impl)
            """,
        ),
        ("ceil_impl", "floor_impl"),
    ),
    _program(
        "numba-s-chooser-for-own-function",
        (_TARGET, "overload(target)(arraymath.np_nanmin)"),
        ("np_nanmin", "np_nanmax"),
        use=_ARRAY,
    ),
    _program(
        "numba-s-template-for-own-function",
        (
            _TARGET,
            """
            infer_global(target)(mathdecl.Math_unary)

            @lower_builtin(target, types.Float)
            def lower_target(context, builder, sig, args):
                return context.cast(builder, args[0], sig.args[0], sig.return_type)
            """,
        ),
        ("Math_unary", "Math_predicate"),
    ),
    _program(
        "attribute-wrapper-of-another-field",
        (
            _PAIR,
            'make_attribute_wrapper(PairType, "a", "first")\nmake_attribute_wrapper(PairType, "b", "second")\n',
        ),
        ('"a", "first"', '"b", "first"'),
        ('"b", "second"', '"a", "second"'),
        use=_ATTRIBUTE,
    ),
    _program(
        "numba-s-data-model-for-own-type",
        (
            _WORD,
            """
            register_model(WordType)(models.IntegerModel)

            @box(WordType)
            def box_word(typ, value, c):
                return c.pyapi.long_from_longlong(c.builder.zext(value, c.pyapi.longlong))
            """,
        ),
        ("models.IntegerModel", "models.BooleanModel"),
        use=main("""
            import ext

            @njit
            def f(word):
                return word

            show("f", f, ext.Word(6))
            """),
    ),
    _program(
        "numba-s-boxing-for-own-type",
        (_WORD, "register_model(WordType)(models.IntegerModel)\nbox(WordType)(boxing.box_integer)\n"),
        ("boxing.box_integer", "boxing.box_bool"),
        use=main("""
            import ext

            @njit
            def f(word):
                return word

            show("f", f, ext.Word(6))
            """),
    ),
    _program(
        "numba-s-typeof-for-own-class",
        (
            """
            from numba.core.typing import typeof

            class Level(float):
                def __int__(self):
                    return 3

            typeof_impl.register(Level)(typeof.typeof_impl.dispatch(float))
            """,
        ),
        ("dispatch(float)", "dispatch(complex)"),
        use=_meters("""
            LEVEL = ext.Level(2.5)

            @njit
            def f(x):
                return x * LEVEL
            """),
    ),
    _program(
        "typeof-of-a-global",
        (_METERS,),
        ("types.int16", "types.int8"),
        use=_meters("""
            M = ext.Meters(300)

            @njit
            def f(x):
                return M
            """),
    ),
    _program(
        "typeof-of-an-element-of-a-global",
        (_METERS,),
        ("types.int16", "types.int8"),
        use=_meters("""
            M = (ext.Meters(300), 2.0)

            @njit
            def f(x):
                return M[0]
            """),
    ),
    _program(
        "typeof-of-an-element-of-a-nested-tuple-in-a-cell",
        (_METERS,),
        ("types.int16", "types.int8"),
        use=_meters("""
            def make(m):
                @njit
                def f(x):
                    return m[1][0]
                return f

            f = make((2.0, (ext.Meters(300), 1)))
            """),
    ),
    _program(
        "typeof-of-a-default-s-element",
        (_METERS,),
        ("types.int16", "types.int8"),
        use=_meters("""
            @njit
            def f(x, m=(ext.Meters(300), 1)):
                return m[0]
            """),
    ),
    _program(
        "class-that-numba-takes-for-a-type",
        ("LEVEL = 1",),
        ("LEVEL = 1", "as_numba_type.register(float, types.float32)"),
        use=main("""
            import ext

            @njit
            def f(x):
                return 1 if isinstance(x, float) else 2

            show("f", f, np.float32(1))
            """),
    ),
    _program(
        "class-that-a-function-takes-for-a-type",
        ("LEVEL = 1",),
        (
            "LEVEL = 1",
            (
                "as_numba_type.register(lambda t: types.float32 if t is np.ndarray else None)\n"
                "as_numba_type.register(float, types.float32)"
            ),
        ),
        use=main("""
            import ext

            @njit
            def inner(x):
                return isinstance(x, (int, float))

            @njit
            def f(x):
                return 1 if inner(x) else 2

            show("f", f, np.float32(1))
            """),
    ),
    _program(
        "casting-rules",
        (
            _TARGET,
            """
            from numba.core.typeconv import rules

            rules.default_casting_rules.unsafe(types.float64, types.int8)
            rules.default_casting_rules.safe(types.float64, types.int16)

            @infer_global(target)
            class Target(ConcreteTemplate):
                cases = [signature(types.int64, types.int8), signature(types.int64, types.int16)]

            @lower_builtin(target, types.Integer)
            def lower_target(context, builder, sig, args):
                return context.get_constant(types.int64, sig.args[0].bitwidth)
            """,
        ),
        ("rules.unsafe(types.float64, types.int8)", "rules.promote(types.float64, types.int8)"),
        rerun="same",
    ),
    _program(
        "structref-fields-in-another-order",
        (_STRUCTREF,),
        ('["a", "b"]', '["b", "a"]'),
        use=_STRUCTREF_USE,
    ),
    _program(
        "structref-method-of-the-proxy",
        (_STRUCTREF,),
        ("return point.a\n", "return point.a + 1000\n"),
        use=_STRUCTREF_USE,
    ),
    _program(
        "structref-fields-preprocessed-otherwise",
        (_STRUCTREF,),
        ("types.unliteral(typ)", "types.float64"),
        use=_STRUCTREF_USE,
    ),
    _program(
        "structref-overloaded-method",
        (
            _STRUCTREF,
            """
            @overload_method(PointType, "scaled")
            def scaled(point, k):
                return lambda point, k: point.a * k
            """,
        ),
        ("point.a * k", "point.b * k"),
        use=main("""
            import ext

            @njit
            def f(x):
                return ext.Point(x, x + 100).scaled(2)

            show("f", f, 7)
            """),
    ),
    _program(
        "pipeline-of-an-overload",
        (
            _TARGET,
            """
            from numba.core import ir
            from numba.core.compiler import CompilerBase, DefaultPassBuilder
            from numba.core.compiler_machinery import FunctionPass, register_pass
            from numba.core.untyped_passes import IRProcessing

            LEVEL = 7

            @register_pass(mutates_CFG=False, analysis_only=False)
            class Change(FunctionPass):
                _name = "change"

                def __init__(self):
                    FunctionPass.__init__(self)

                def run_pass(self, state):
                    for block in state.func_ir.blocks.values():
                        for assign in block.find_insts(ir.Assign):
                            if isinstance(assign.value, ir.Const) and assign.value.value == 5:
                                assign.value.value = LEVEL
                    return True

            class Pipeline(CompilerBase):
                def define_pipelines(self):
                    pm = DefaultPassBuilder.define_nopython_pipeline(self.state)
                    pm.add_pass_after(Change, IRProcessing)
                    pm.finalize()
                    return [pm]

            @overload(target, jit_options=dict(pipeline_class=Pipeline))
            def choose(x):
                def target(x):
                    return x + 5
                return target
            """,
        ),
        ("LEVEL = 7", "LEVEL = 8"),
    ),
    _program(
        "fastmath-set-of-an-overload",
        (
            _TARGET,
            """
            @overload(target, jit_options=dict(fastmath={"nnan", "ninf", "nsz", "arcp", "contract"}))
            def choose(x):
                return lambda x: x * 3 + 1
            """,
        ),
        ("x * 3", "x * 4"),
    ),
    trap(
        "hunt-fastmath-set-under-another-hash-seed",
        35,
        Step(
            files={
                "main.py": _CALL,
                **_ext(
                    _TARGET,
                    """
                    @overload(target, jit_options=dict(fastmath={"nnan", "ninf", "nsz", "arcp", "contract"}))
                    def choose(x):
                        return lambda x: x * 3 + 1
                    """,
                ),
            },
            env={"PYTHONHASHSEED": "1"},
        ),
        Step(env={"PYTHONHASHSEED": "4"}),
        differs=False,
        hit=True,
    ),
    trap(
        "hunt-fastmath-set-of-an-intrinsic-under-another-hash-seed",
        35,
        Step(
            files={
                "main.py": _CALL,
                **_ext(
                    _TARGET,
                    """
                    from numba.extending import intrinsic

                    @intrinsic(jit_options=dict(fastmath={"nnan", "ninf", "nsz", "arcp", "contract"}))
                    def tripled(typingctx, x):
                        def codegen(context, builder, sig, args):
                            return builder.fmul(args[0], args[0].type(3.0))
                        return x(x), codegen

                    @overload(target)
                    def choose(x):
                        return lambda x: tripled(x) + 1
                    """,
                ),
            },
            env={"PYTHONHASHSEED": "1"},
        ),
        Step(env={"PYTHONHASHSEED": "4"}),
        differs=False,
        hit=True,
    ),
    _program(
        "overload-made-by-exec",
        (
            _TARGET,
            """
            TABLE = {"a": 1, "b": 2}

            @overload(target)
            def choose(x):
                scope = {}
                body = " + ".join(f"{value} * x" for name, value in TABLE.items())
                exec(f"def impl(x):\\n    return {body}\\n", scope)
                return scope["impl"]
            """,
        ),
        ('"b": 2', '"b": 3'),
    ),
    _program(
        "two-overloads-change-places",
        (
            _TARGET,
            """
            @overload(target)
            def first(x):
                if isinstance(x, types.Float):
                    return lambda x: x + 1

            @overload(target)
            def second(x):
                if isinstance(x, types.Number):
                    return lambda x: x + 2
            """,
        ),
        ("types.Float)", "types.Number )"),
        ("types.Number)", "types.Float)"),
        ("x + 1", "x + 3"),
        ("x + 2", "x + 1"),
        ("x + 3", "x + 2"),
    ),
)
