"""Family 42: what a type of somebody else's holds is the program's to say, not an entry's; so is which twin is meant.

`ext` is a package that extends Numba with a type of its own, and `settings` what it reads when it does.
"""

from ..harness import Program, main, py, replaced, trap

_TYPE = """
    import functools
    import numpy as np
    from numba import njit, types
    from numba.core import cgutils
    from numba.extending import *
    import settings

    NUMBERED = []

    class Thing:
        def __init__(self, v):
            self.v = v

    class ThingType(types.Type):
        def __init__(self, kind):
            self.kind = kind
            {init}
            super().__init__(name=f"ThingType({{kind}})")

        @property
        def key(self):
            return self.kind

        {member}

    @register_model(ThingType)
    class ThingModel(models.StructModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, [("v", types.int64)])

    make_attribute_wrapper(ThingType, "v", "v")
    typeof_impl.register(Thing)(lambda value, context: ThingType("a"))

    @unbox(ThingType)
    def unbox_thing(typ, obj, c):
        v = c.pyapi.object_getattr_string(obj, "v")
        native = cgutils.create_struct_proxy(typ)(c.context, c.builder)
        native.v = c.pyapi.long_as_longlong(v)
        c.pyapi.decref(v)
        return NativeValue(native._getvalue())

    @box(ThingType)
    def box_thing(typ, value, c):
        {boxing}
        native = cgutils.create_struct_proxy(typ)(c.context, c.builder, value=value)
        return c.pyapi.long_from_longlong(native.v)

    @intrinsic
    def make(context, v):
        def generate(context, builder, sig, args):
            native = cgutils.create_struct_proxy(sig.return_type)(context, builder)
            native.v = args[0]
            return native._getvalue()
        return ThingType("a")(types.int64), generate

    def lowered(v):
        pass

    @type_callable(lowered)
    def type_lowered(context):
        return lambda v: ThingType("a") if isinstance(v, types.Integer) else None

    @lower_builtin(lowered, types.Integer)
    def lower_lowered(context, builder, sig, args):
        {lowering}
        native = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        native.v = context.cast(builder, args[0], sig.args[0], types.int64)
        return native._getvalue()

    @overload_method(ThingType, "scaled")
    def choose_scaled(self):
        {choosing}
        n = self.factor
        return lambda self: self.v * n
    """
_ATTRIBUTE = """

    class Holder:
        pass

    class HolderType(types.Type):
        def __init__(self):
            super().__init__(name="Holder")

    register_model(HolderType)(models.OpaqueModel)
    typeof_impl.register(Holder)(lambda value, context: HolderType())

    @unbox(HolderType)
    def unbox_holder(typ, obj, c):
        return NativeValue(c.context.get_dummy_value())

    @infer_getattr
    class HolderAttributes(AttributeTemplate):
        key = HolderType

        def resolve_part(self, typ):
            return ThingType("b")

    @lower_getattr(HolderType, "part")
    def lower_part(context, builder, typ, value):
        native = cgutils.create_struct_proxy(ThingType("b"))(context, builder)
        native.v = context.get_constant(types.int64, 3)
        return native._getvalue()
    """
_OF_ATTRIBUTE = main(
    """
    import ext

    @njit
    def f(holder):
        return holder.part.scaled()

    show("f", f, ext.Holder())
    """
)
_CALLS = main(
    """
    import ext

    @njit
    def f(x):
        return ext.make(x).scaled()

    @njit
    def g(x):
        return ext.make(x).scaled() + 1

    show("f", f, 3)
    show("g", g, 3)
    """
)
_FILLED = main(
    """
    import sys
    import ext

    @njit
    def f(x):
        return ext.{make}(x){of_it}

    @njit
    def g(thing):
        return thing.scaled()

    show("f", f, 3)
    if len(sys.argv) > 1 or not {later}:
        show("g", g, ext.Thing(7))
    """
)


def _from_setting(name: str, **parts: str) -> Program:
    """A type holds what the package has read from a setting, which is edited."""
    parts = {"init": "pass", "member": "", "boxing": "pass", "lowering": "pass", "choosing": "pass", **parts}
    files = {"ext.py": py(_TYPE.format(**parts)), "settings.py": "FACTOR = 10\n", "main.py": _CALLS}
    return trap(name, 42, files, {"settings.py": "FACTOR = 20\n"})


def _of_attribute(name: str, init: str, *changes: dict[str, str], **options: bool) -> Program:
    """A type is given by a template that nobody asks again."""
    text = _TYPE.format(init=init, member="", boxing="pass", lowering="pass", choosing="pass") + _ATTRIBUTE
    files = {
        "ext.py": "from numba.core.typing.templates import AttributeTemplate\n" + py(text),
        "main.py": _OF_ATTRIBUTE,
    }
    return trap(name, 42, {**files, "settings.py": "FACTOR = 10\n"}, *changes, **options)


def _filled(name: str, make: str, of_it: str, **parts: str) -> Program:
    """A type is filled in while a function is compiled; the second version asks for what was filled in."""
    member = "factor = 1"
    parts = {"init": "pass", "member": member, "boxing": "pass", "lowering": "pass", "choosing": "pass", **parts}
    files = {"ext.py": py(_TYPE.format(**parts)), "settings.py": ""}
    first, second = (_FILLED.format(make=make, of_it=of_it, later=later) for later in (True, False))
    return trap(name, 42, {**files, "main.py": first}, {"main.py": second}, rerun="same")


_TWINS = """
    from collections import namedtuple
    import numpy as np
    from numba import njit, types
    from numba.extending import overload, overload_method, register_jitable
    import settings

    TABLE = np.arange(12).reshape(4, 3)
    COLUMN_0, COLUMN_1 = TABLE[:, 0], TABLE[:, 1]
    A0, A1 = np.full(200_000, 1), np.full(200_000, 2)
    N0, N1 = namedtuple("P", "x"), namedtuple("P", "x")

    def which(x):
        pass

    {registered}
    """
_TWO = """
    import ext

    @njit
    def f(x):
        return {asked}, {own}

    show("f", {shown}, 3)
    """


def _twins(name: str, registered: str, asked: str, own: str, *, shown: str = "f", edited: bool = False) -> Program:
    """A function reads one of two objects that are alike, and what is registered for it the other one."""
    files = {"ext.py": py(_TWINS).replace("{registered}", py(registered)), "settings.py": "SECOND = 0\n"}
    files["main.py"] = main(_TWO.format(asked=asked, own=own, shown=shown))
    then = {"settings.py": "SECOND = 1\n"} if edited else replaced(files, "main.py", ("return", "return 0,"))
    return trap(name, 42, files, then, *(() if edited else ({"main.py": files["main.py"]},)), differs=edited)


PROGRAMS = (
    _from_setting("type-holds-a-setting", init="self.factor = settings.FACTOR"),
    _from_setting(
        "type-remembers-a-setting",
        choosing="self.factor = getattr(self, 'factor', settings.FACTOR)",
    ),
    _from_setting(
        "type-has-a-cached-property-of-a-setting",
        member="factor = functools.cached_property(lambda self: settings.FACTOR)\n"
        "        factor.__set_name__(None, 'factor')",
    ),
    _from_setting(
        "type-has-a-number-of-a-setting",
        init="NUMBERED.append(kind); self.factor = settings.FACTOR + len(NUMBERED)",
    ),
    _of_attribute("type-of-an-attribute", "self.factor = 7", {"settings.py": "FACTOR = 20\n"}, differs=False, hit=True),
    _of_attribute(
        "type-of-an-attribute-holds-a-setting", "self.factor = settings.FACTOR", {"settings.py": "FACTOR = 20\n"}
    ),
    _filled("type-that-lowering-returns-is-filled", "lowered", ".v + 1", lowering="sig.return_type.factor = 10"),
    _filled("type-that-is-returned-is-filled-by-boxing", "lowered", "", boxing="typ.factor = 10"),
    _twins(
        "twin-that-an-overload-reads",
        """
        @overload(which)
        def choose(x):
            return lambda x: A1[x]
        """,
        "ext.which(x)",
        "ext.A0[x]",
    ),
    _twins(
        "twin-that-a-helper-reads",
        """
        @register_jitable
        def second(x):
            return COLUMN_1[x]
        """,
        "ext.second(x)",
        "ext.COLUMN_0[x]",
    ),
    _twins(
        "twin-that-a-method-reads",
        """
        @njit
        def inner(x):
            return A1[x]

        @overload_method(types.Integer, "looked")
        def choose(self):
            return lambda self: inner(self)
        """,
        "x.looked()",
        "ext.A0[x]",
    ),
    _twins(
        "twin-that-an-overload-makes",
        """
        @overload(which)
        def choose(x):
            return lambda x: N1(x)
        """,
        "ext.which(x)",
        "ext.N0(x)",
        shown="lambda x: [[ext.N0, ext.N1].index(type(each)) for each in f(x)[-2:]]",
    ),
    _twins(
        "twin-that-is-chosen-by-a-setting",
        """
        @overload(which)
        def choose(x):
            array = A1 if settings.SECOND else A0
            return lambda x: array[x]
        """,
        "ext.which(x)",
        "ext.A0[x]",
        edited=True,
    ),
    _twins(
        "twin-that-a-helper-has-by-a-setting",
        """
        ARRAY = A1 if settings.SECOND else A0

        @register_jitable
        def second(x):
            return ARRAY[x]
        """,
        "ext.second(x)",
        "ext.A0[x]",
        edited=True,
    ),
)
