"""Family 39, what describers read: an object whose class is exchanged, and one of which reading something raises."""

from ..harness import Program, Rerun, Step, main, py, replaced, trap

_CLASS = main("""
    import logging, os
    from numba import float64, types
    from numba.extending import intrinsic

    class Loud(logging.Logger):
        def isEnabledFor(self, level):
            return True

    class Thing:
        def __init__(self):
            self.value = 2
        def isEnabledFor(self, level):
            return False

    class Other(Thing):
        def isEnabledFor(self, level):
            return True

    READ, ANOTHER = <OBJECT>

    @intrinsic
    def level(typingctx):
        def codegen(context, builder, signature, args):
            return context.get_constant(types.float64, 1.0 if READ.isEnabledFor(logging.DEBUG) else 0.0)
        return float64(), codegen

    @njit
    def f(x):
        return x + level()

    show("f", f, 2.0)
    if "APP_OTHER" in os.environ:
        READ.__class__ = ANOTHER
    show("f", f, np.float32(2.0))
    """)
_RAISES = main("""
    import logging
    from numba import float64, types
    from numba.core.imputils import lower_constant
    from numba.extending import intrinsic, models, overload, register_model, typeof_impl

    class Meta(type):
        def __getattribute__(cls, name):
            if name == "__doc__":
                raise RuntimeError("not configured")
            return super().__getattribute__(name)

    class Unready(metaclass=Meta):
        pass

    READ = <OBJECT>

    class Price:
        pass

    class PriceType(types.Type):
        def __init__(self):
            super().__init__("Price")

    price_type, PRICE = PriceType(), Price()

    @typeof_impl.register(Price)
    def typeof_price(value, c):
        return price_type

    @register_model(PriceType)
    class PriceModel(models.PrimitiveModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, dmm.lookup(types.float64).get_value_type())

    @lower_constant(PriceType)
    def constant(context, builder, typ, value):
        return context.get_constant(types.float64, 3.0 if READ is not None else 4.0)

    @intrinsic
    def value_of(typingctx, price):
        def codegen(context, builder, signature, args):
            return args[0]
        return float64(price), codegen

    @overload(float)
    def float_of(price):
        if price is price_type:
            return lambda price: value_of(price)

    @njit
    def f(x):
        return x * float(PRICE)

    show("f", f, 6.0)
    """)


def _exchanged(name: str, objects: str, rerun: Rerun = "hit") -> Program:
    text = _CLASS.replace("<OBJECT>", objects)
    changed = Step(env={"APP_OTHER": "1"})
    return trap(f"described-{name}-of-another-class", 39, {"main.py": text}, changed, rerun=rerun)


def _raising(name: str, read: str) -> Program:
    text = _RAISES.replace("<OBJECT>", read)
    return trap(f"described-{name}-that-raises", 39, {"main.py": text}, Step(), differs=False, rerun="same")


_SLICE = {
    "main.py": main("""
    import cfg
    from numba import int64
    from numba.extending import intrinsic

    @intrinsic
    def first(typingctx):
        def codegen(context, builder, signature, args):
            return context.get_constant(int64, cfg.SLICE.start.value)
        return int64(), codegen

    @njit
    def f(x):
        return x + first()

    show("f", f, 1)
    """),
    "cfg.py": py("""
    class Place:
        def __init__(self, value):
            self.value = value

        def __repr__(self):
            return "a place"

    SLICE = slice(Place(1), None)
    """),
}

PROGRAMS = (
    _exchanged("logger", 'logging.Logger("app", logging.ERROR), Loud', rerun="same"),
    _exchanged("instance", "Thing(), Other"),
    trap("described-slice-of-objects", 39, _SLICE, replaced(_SLICE, "cfg.py", ("Place(1)", "Place(2)"))),
    _raising("class", "Unready"),
    _raising("logger", "logging.Logger.__new__(logging.Logger)"),
    _raising("instance", "type('Slotted', (), {'__slots__': ('a',), '__reduce__': lambda self: self.a})()"),
)
