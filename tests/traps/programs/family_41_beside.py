"""Family 41, ordinary code beside what nobody identifies: of classes that there are values of, and of what `objmode` uses,
counts what Numba reads; the rest is found when it runs.
"""

from ..harness import Program, main, py, replaced, trap

_FRAMES = py("""
    import datetime, inspect

    def level():
        return inspect.currentframe().f_code.co_filename

    class Frame:
        capsule = datetime.datetime_CAPI  # as pandas has, which nobody can identify

        def __init__(self, *data):
            self.data = data

        def mean(self):
            level()
            return sum(self.data) / len(self.data)
    """)


def _edited(name: str, body: str, kinds: str, *pairs: tuple[str, str], **options) -> Program:
    """A program over `kinds.py`, which is edited, beside `frames.py`."""
    files = {"main.py": main(body), "kinds.py": py(kinds), "frames.py": _FRAMES}
    return trap(f"beside-{name}", 41, files, replaced(files, "kinds.py", *pairs), **options)


_COLOR = """
    import enum
    import frames

    class Color(enum.Enum):
        RED = 1
        BLUE = 2

        def frame(self) -> frames.Frame:
            return frames.Frame(self.value, 4)
    """
_USES_COLOR = """
    from numba import objmode
    from kinds import Color

    @njit
    def f(color):
        with objmode(y="float64"):
            y = Color.BLUE.frame().mean()
        return color.value + 10 * Color.BLUE.value, color is Color.RED, color, y

    show("f", f, Color.RED)
    """
_TOLD = """
    from kinds import Color

    @njit
    def f(color):
        return color.value, Color.RED.value

    show("f", f, Color.RED)
    """
_TELLS = """
    import enum

    class Color(enum.Enum):
        RED = 1
        value = property(lambda self: self._value_ * 2)
    """
_POINT = """
    import typing
    import frames

    class Point(typing.NamedTuple):
        x: float
        y: int = 7
        frame: typing.Optional[frames.Frame] = None

        def whole(self):
            return frames.Frame(self.x, self.y).mean()

    ORIGIN = Point(0.5, 2)
    """
_USES_POINT = """
    import kinds

    @njit
    def f(p):
        return p.x, p.y + kinds.ORIGIN.y, kinds.Point(p.x, x_or_y(p.y)), p

    @njit
    def g(x):
        return kinds.Point(x)

    @njit
    def x_or_y(x):
        return x + 1

    show("f", f, kinds.Point(1.5, 3))
    show("g", g, 2.5)
    print(kinds.ORIGIN.whole())
    """
_READS = """
    from kinds import Color, scaled

    @njit
    def f(color):
        return scaled(color)

    @njit
    def caller(x):
        return x + f(Color.RED)

    show("caller", caller, 1)
    """
_READ = """
    import enum
    from numba import types
    from numba.core.imputils import lower_builtin
    from numba.core.typing.templates import AbstractTemplate, infer_global, signature
    from numba.extending import intrinsic, overload

    class Color(enum.Enum):
        RED = 1

        @classmethod
        def factor(cls):
            return 3
    """
_INTRINSIC = """
    @intrinsic
    def _scale(typingctx, color):
        def codegen(context, builder, sig, args):
            kind = sig.args[0]<INSIDE>
            return context.get_constant(types.int64, kind.instance_class.factor())
        return types.int64(color), codegen

    @njit
    def scaled(color):
        return _scale(<GIVEN>)
    """
_CHOOSER = """
    def scaled(color):
        raise NotImplementedError

    @overload(scaled)
    def choose(color):
        factor = color.instance_class.factor()
        return lambda color: factor
    """
_LOWERED = """
    def scaled(color):
        raise NotImplementedError

    @infer_global(scaled)
    class Scaled(AbstractTemplate):
        def generic(self, args, kws):
            return signature(types.int64, *args)

    @lower_builtin(scaled, types.EnumMember)
    def lower_scaled(context, builder, sig, args):
        return context.get_constant(types.int64, sig.args[0].instance_class.factor())
    """
_BLOCK = """
    import kinds
    from kinds import FRAME, OUT, helper, jitted
    from numba import objmode

    def made(frame, number, function):
        @njit
        def inner(x):
            with objmode(y="float64"):
                y = frame.mean() + number + function(x)
            return y
        return inner

    @njit
    def f(x):
        with objmode(y=OUT):
            try:
                y = FRAME.mean() + kinds.NUMBER + helper(x) + sum([FRAME.scaled(k) for k in range(3)]) + jitted(x)
            except ZeroDivisionError:
                y = kinds.FRAME.data[0]
        return y + 1

    show("f", f, 2)
    show("inner", made(FRAME, kinds.NUMBER, helper), 2)
    """
_USED = """
    import frames
    from numba import njit, types

    class Scaled(frames.Frame):
        def scaled(self, k):
            return k * 3

    FRAME, NUMBER, OUT = Scaled(1, 2), 5, types.float64

    def helper(x):
        return FRAME.data[0] + x + 10

    @njit
    def jitted(x):
        return x + 20
    """
_DIFFERS = {"differs": False}

PROGRAMS = (
    _edited("value-of-a-member", _USES_COLOR, _COLOR, ("BLUE = 2", "BLUE = 3")),
    _edited("method-of-an-enum", _USES_COLOR, _COLOR, ("self.value, 4", "self.value, 6"), hit=True),
    _edited("annotation-of-an-enum", _USES_COLOR, _COLOR, (" -> frames.Frame", ""), hit=True, **_DIFFERS),
    _edited("alias-in-an-enum", _USES_COLOR, _COLOR, ("BLUE = 2", "BLUE = 1")),
    _edited("value-that-a-property-tells", _TOLD, _TELLS, ("* 2)", "* 5)")),
    _edited("method-of-a-named-tuple", _USES_POINT, _POINT, ("(self.x, self.y)", "(self.x, self.y, 9)"), hit=True),
    _edited("annotation-of-a-field", _USES_POINT, _POINT, ("[frames.Frame]", "[frames.level]"), hit=True, **_DIFFERS),
    _edited("default-of-a-field", _USES_POINT, _POINT, ("y: int = 7", "y: int = 8")),
    _edited("name-of-a-field", _USES_POINT, _POINT, ("frame: typing", "other: typing")),
    _edited(
        "order-of-fields",
        _USES_POINT.replace("Point(x)", "Point(x, 1, 1)"),
        _POINT.replace("y: int = 7", "y: int"),
        ("x: float", "z: float"),
        ("y: int", "x: int"),
        ("z: float", "y: float"),
    ),
    _edited("value-of-a-named-tuple", _USES_POINT, _POINT, ("Point(0.5, 2)", "Point(0.5, 4)")),
    _edited(
        "class-that-an-intrinsic-reads",
        _READS,
        _READ.replace("from numba import types", "from numba import njit, types")
        + _INTRINSIC.replace("<INSIDE>", "").replace("<GIVEN>", "color"),
        ("return 3", "return 4"),
        rerun="same",
    ),
    _edited(
        "class-inside-a-type-that-an-intrinsic-reads",
        _READS,
        _READ.replace("from numba import types", "from numba import njit, types")
        + _INTRINSIC.replace("<INSIDE>", ".types[0]").replace("<GIVEN>", "(color, 2.5)"),
        ("return 3", "return 4"),
        rerun="same",
    ),
    _edited("class-that-a-chooser-reads", _READS, _READ + _CHOOSER, ("return 3", "return 4")),
    _edited("class-that-a-lowering-function-reads", _READS, _READ + _LOWERED, ("return 3", "return 4")),
    _edited("method-that-a-block-calls", _BLOCK, _USED, ("k * 3", "k * 4"), hit=True),
    _edited("object-that-a-block-uses", _BLOCK, _USED, ("Scaled(1, 2)", "Scaled(1, 3)"), hit=True),
    _edited("helper-that-a-block-calls", _BLOCK, _USED, ("x + 10", "x + 11"), hit=True),
    _edited("number-that-a-block-reads", _BLOCK, _USED, ("2), 5,", "2), 6,")),
    _edited("type-that-a-block-returns", _BLOCK, _USED, ("OUT = ", "OUT, _ = "), ("types.float64", "types.int64, 0")),
    _edited("jitted-function-that-a-block-calls", _BLOCK, _USED, ("x + 20", "x + 21")),
)
