"""Family 26: scalars that change in place, so that the same object is another constant later.

Version 1 changes the value between two compilations; version 2 doesn't, or sets another one.
"""

from ..harness import Program, Step, main, trap

_DTYPE = 'np.dtype([("a", np.int64), ("b", np.float64)])'


def _changed(name: str, body: str, **options) -> Program:
    """Return a program in which `STEP` is 1 in version 1 and 0 in version 2."""
    files = {"main.py": main('import os\nSTEP = int(os.environ["APP_STEP"])\n') + main(body).split("njit\n", 1)[1]}
    return trap(
        f"mutable-{name}",
        26,
        Step(files=files, env={"APP_STEP": "1"}),
        Step(env={"APP_STEP": "0"}),
        Step(env={"APP_STEP": "5"}),
        **options,
    )


_TYPE = """
    from numba import types
    from numba.core import cgutils
    from numba.extending import *

    class Scaled:
        pass

    class ScaledType(types.Type):
        def __init__(self):
            super().__init__(name="Scaled")
            self.factor = 3

    scaled_type = ScaledType()

    @typeof_impl.register(Scaled)
    def typeof_scaled(value, context):
        return scaled_type

    @register_model(ScaledType)
    class ScaledModel(models.OpaqueModel):
        pass

    @unbox(ScaledType)
    def unbox_scaled(typ, obj, c):
        return NativeValue(c.context.get_dummy_value())
    """
_METHOD = """
    @overload_method(ScaledType, "apply")
    def apply(self, x):
        k = self.factor
        return lambda self, x: x * k
    """

PROGRAMS = (
    _changed(
        "record",
        f"""
        R = np.zeros(1, {_DTYPE})[0]

        @njit
        def f(x):
            return x + R.a

        show("whole", f, 7)
        R["a"] += STEP
        show("real", f, 7.5)
        """,
    ),
    _changed(
        "record-behind-a-view",
        f"""
        A = np.zeros(2, {_DTYPE})
        R = A[1]

        @njit
        def f(x):
            return x + R.b

        show("whole", f, 7)
        A["b"][1] += STEP
        show("real", f, 7.5)
        """,
    ),
    _changed(
        "record-of-a-subclass",
        f"""
        R = np.recarray(1, {_DTYPE})[0]
        R.a, R.b = 0, 0.0  # its memory isn't cleared

        @njit
        def f(x):
            return x + R.a

        show("whole", f, 7)
        R.a += STEP
        show("real", f, 7.5)
        """,
    ),
    _changed(
        "record-in-a-tuple",
        f"""
        RS = (np.zeros(1, {_DTYPE})[0], 5)

        @njit
        def f(x):
            return x + RS[0].a + RS[1]

        show("whole", f, 7)
        RS[0]["a"] += STEP
        show("real", f, 7.5)
        """,
    ),
    _changed(
        "record-in-a-cell",
        f"""
        def make(r):
            @njit
            def f(x):
                return x + r.a
            return f

        r = np.zeros(1, {_DTYPE})[0]
        first = make(r)
        show("first", first, 7)
        r["a"] += STEP
        show("first", first, 7.5)
        show("second", make(r), 7)
        """,
    ),
    _changed(
        "record-nested",
        """
        R = np.zeros(1, np.dtype([("in", [("a", np.int64)]), ("b", np.int64)]))[0]

        @njit
        def f(x):
            return x + R["in"]["a"]

        show("whole", f, 7)
        R["in"]["a"] += STEP
        show("real", f, 7.5)
        """,
    ),
    _changed(
        "record-read-by-a-chooser",
        f"""
        from numba.extending import overload

        R = np.zeros(1, {_DTYPE})[0]

        def thing(x):
            raise NotImplementedError

        @overload(thing)
        def choose(x):
            k = int(R["a"])
            return lambda x: x + k

        @njit
        def f(x):
            return thing(x)

        show("whole", f, 7)
        R["a"] += STEP
        show("real", f, 7.5)
        """,
    ),
    _changed(
        "attribute-of-a-type",
        _TYPE
        + _METHOD
        + """
    @njit
    def f(s, x):
        return s.apply(x)

    show("whole", f, Scaled(), 7)
    scaled_type.factor += STEP
    show("real", f, Scaled(), 7.5)
    """,
    ),
    _changed(
        "attribute-of-a-type-read-by-lowering",
        _TYPE
        + """
    from numba.core.typing.templates import AttributeTemplate

    @infer_getattr
    class ScaledAttributes(AttributeTemplate):
        key = ScaledType

        def resolve_factor(self, s):
            return types.int64

    @lower_getattr(ScaledType, "factor")
    def lower_factor(context, builder, typ, value):
        return context.get_constant(types.int64, typ.factor)

    @njit
    def f(s):
        return s.factor

    @njit
    def g(s, x):
        return s.factor + x

    show("f", f, Scaled())
    scaled_type.factor += STEP
    show("g", g, Scaled(), 7)
    """,
    ),
    _changed(
        "attribute-of-a-type-in-a-tuple",
        _TYPE
        + _METHOD
        + """
    @njit
    def f(pair, x):
        return pair[0].apply(x)

    show("whole", f, (Scaled(), 1), 7)
    scaled_type.factor += STEP
    show("real", f, (Scaled(), 1), 7.5)
    """,
    ),
)
