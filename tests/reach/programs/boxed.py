"""Classes that compiled code makes instances of, with methods that no cache can say anything about; no program."""

import threading

from numba import njit, types
from numba.core import cgutils
from numba.experimental import structref
from numba.extending import NativeValue, box, make_attribute_wrapper, models, register_model, typeof_impl, unbox

active = threading.local()
active.scale = 10


class Span:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def scaled(self):
        return (self.high - self.low) * active.scale


class SpanType(types.Type):
    def __init__(self):
        super().__init__(name="Span")


span_type = SpanType()


@typeof_impl.register(Span)
def type_of_span(_value, _context):
    return span_type


@register_model(SpanType)
class SpanModel(models.StructModel):
    def __init__(self, manager, fe_type):
        models.StructModel.__init__(self, manager, fe_type, [("low", types.float64), ("high", types.float64)])


make_attribute_wrapper(SpanType, "low", "low")
make_attribute_wrapper(SpanType, "high", "high")


@unbox(SpanType)
def unbox_span(typ, obj, c):
    span = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    for name in ("low", "high"):
        value = c.pyapi.object_getattr_string(obj, name)
        setattr(span, name, c.unbox(types.float64, value).value)
        c.pyapi.decref(value)
    return NativeValue(span._getvalue(), is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@box(SpanType)
def box_span(typ, val, c):
    span = cgutils.create_struct_proxy(typ)(c.context, c.builder, value=val)
    low, high = c.box(types.float64, span.low), c.box(types.float64, span.high)
    made = c.pyapi.unserialize(c.pyapi.serialize_object(Span))
    found = c.pyapi.call_function_objargs(made, (low, high))
    for each in (low, high, made):
        c.pyapi.decref(each)
    return found


@structref.register
class PairType(types.StructRef):
    pass


class Pair(structref.StructRefProxy):
    def __new__(cls, first, second):
        return structref.StructRefProxy.__new__(cls, first, second)

    def scaled(self):
        return first_of(self) * active.scale


structref.define_proxy(Pair, PairType, ["first", "second"])


@njit
def first_of(pair):
    return pair.first
