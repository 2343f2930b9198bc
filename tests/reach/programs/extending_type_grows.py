"""extending: a type that holds an object, which fills in what it computes while it is compiled."""

import operator

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import (
    NativeValue,
    box,
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    overload_method,
    register_model,
    typeof_impl,
    unbox,
)


class lazily:
    """As `functools.cached_property`, of one's own."""

    def __init__(self, getter):
        self.getter = getter
        self.name = getter.__name__

    def __get__(self, obj, cls):
        value = self.getter(obj)
        setattr(obj, self.name, value)
        return value


class Algebra:
    def __init__(self, signs):
        self.signs = signs

    @lazily
    def product(self):
        signs = self.signs

        @njit
        def multiply(x, y):
            return x * y * signs

        return multiply

    @lazily
    def reverse(self):
        @njit
        def reversed_(x):
            return x[::-1].copy()

        return reversed_

    @lazily
    def kind(self):
        return AlgebraType(self)


class AlgebraType(types.Dummy):
    def __init__(self, algebra):
        self.algebra = algebra
        super().__init__(name=f"Algebra({algebra.signs.tolist()})")


class Element:
    def __init__(self, algebra, value):
        self.algebra = algebra
        self.value = value


class ElementType(types.Type):
    def __init__(self, algebra, value):
        self.algebra = algebra
        self.value = value
        super().__init__(name=f"Element({algebra}, {value})")


register_model(AlgebraType)(models.OpaqueModel)


@register_model(ElementType)
class ElementModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, [("algebra", fe_type.algebra), ("value", fe_type.value)])


make_attribute_wrapper(ElementType, "value", "value")
make_attribute_wrapper(ElementType, "algebra", "algebra")


@typeof_impl.register(Element)
def type_of_element(value, context):
    return ElementType(value.algebra.kind, typeof_impl(value.value, context))


@intrinsic
def element(typingctx, algebra, value):
    def codegen(context, builder, sig, args):
        made = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        made.algebra, made.value = args
        context.nrt.incref(builder, sig.args[1], args[1])
        return made._getvalue()

    return ElementType(algebra, value)(algebra, value), codegen


@overload_method(AlgebraType, "element")
def algebra_element(self, value):
    def impl(self, value):
        return element(self, value)

    return impl


@overload(operator.mul)
def multiply(x, y):
    if isinstance(x, ElementType) and isinstance(y, ElementType):
        product = x.algebra.algebra.product

        def impl(x, y):
            return x.algebra.element(product(x.value, y.value))

        return impl
    return None


@overload(operator.invert)
def invert(x):
    if isinstance(x, ElementType):
        reverse = x.algebra.algebra.reverse

        def impl(x):
            return x.algebra.element(reverse(x.value))

        return impl
    return None


@unbox(ElementType)
def unbox_element(typ, obj, c):
    value = c.pyapi.object_getattr_string(obj, "value")
    made = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    made.value = c.unbox(typ.value, value).value
    made.algebra = c.context.get_dummy_value()
    c.pyapi.decref(value)
    return NativeValue(made._getvalue())


@box(ElementType)
def box_element(typ, value, c):
    made = cgutils.create_struct_proxy(typ)(c.context, c.builder, value=value)
    boxed = c.box(typ.value, made.value)
    address = c.context.add_dynamic_addr(c.builder, id(typ.algebra.algebra), info="algebra")
    cls = c.pyapi.unserialize(c.pyapi.serialize_object(Element))
    element = c.pyapi.call_function_objargs(cls, (c.builder.bitcast(address, c.pyapi.pyobj), boxed))
    c.pyapi.decref(boxed)
    c.pyapi.decref(cls)
    return element


@njit
def turned(x, by):
    return by * x * ~by


@njit
def squared(x):
    return ~(x * x)


algebra = Algebra(np.array([1.0, -1.0, 1.0]))
x, by = Element(algebra, np.array([1.0, 2.0, 3.0])), Element(algebra, np.array([0.5, 0.25, 2.0]))
print(turned(x, by).value, turned(x, by).algebra is algebra)
print(squared(x).value)
