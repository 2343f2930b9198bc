"""extending: a user's type with its own model, boxing and unboxing."""

from numba import njit, types
from numba.core import cgutils
from numba.extending import (
    NativeValue,
    box,
    lower_builtin,
    make_attribute_wrapper,
    models,
    overload,
    overload_attribute,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)
from shown import show


class Interval:
    def __init__(self, lo, hi):
        self.lo = lo
        self.hi = hi

    def __repr__(self):
        return f"Interval({self.lo}, {self.hi})"


class IntervalType(types.Type):
    def __init__(self):
        super().__init__(name="Interval")


interval_type = IntervalType()


@typeof_impl.register(Interval)
def typeof_interval(val, c):
    return interval_type


@type_callable(Interval)
def type_interval(context):
    def typer(lo, hi):
        if isinstance(lo, types.Float) and isinstance(hi, types.Float):
            return interval_type
        return None

    return typer


@register_model(IntervalType)
class IntervalModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, [("lo", types.float64), ("hi", types.float64)])


make_attribute_wrapper(IntervalType, "lo", "lo")
make_attribute_wrapper(IntervalType, "hi", "hi")


@overload_attribute(IntervalType, "width")
def get_width(interval):
    def getter(interval):
        return interval.hi - interval.lo

    return getter


@overload(len)
def interval_len(interval):
    if isinstance(interval, IntervalType):
        return lambda interval: 2
    return None


@lower_builtin(Interval, types.Float, types.Float)
def impl_interval(context, builder, sig, args):
    interval = cgutils.create_struct_proxy(sig.return_type)(context, builder)
    interval.lo, interval.hi = args
    return interval._getvalue()


@unbox(IntervalType)
def unbox_interval(typ, obj, c):
    lo, hi = (c.pyapi.object_getattr_string(obj, name) for name in ("lo", "hi"))
    interval = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    interval.lo, interval.hi = c.pyapi.float_as_double(lo), c.pyapi.float_as_double(hi)
    c.pyapi.decref(lo)
    c.pyapi.decref(hi)
    return NativeValue(interval._getvalue())


@box(IntervalType)
def box_interval(typ, val, c):
    interval = cgutils.create_struct_proxy(typ)(c.context, c.builder, val)
    lo, hi = c.pyapi.float_from_double(interval.lo), c.pyapi.float_from_double(interval.hi)
    cls = c.pyapi.unserialize(c.pyapi.serialize_object(Interval))
    out = c.pyapi.call_function_objargs(cls, (lo, hi))
    for thing in (lo, hi, cls):
        c.pyapi.decref(thing)
    return out


@njit
def merged(a, b):
    return Interval(min(a.lo, b.lo), max(a.hi, b.hi))


@njit
def measured(a):
    return a.width, len(a)


show("merged", merged(Interval(0.0, 2.0), Interval(1.0, 5.0)))
show("measured", measured(Interval(1.0, 4.0)))
