"""structref: methods and attributes through overloads."""

from numba import njit, types
from numba.core.extending import overload_attribute, overload_method
from numba.experimental import structref
from shown import show


class VectorType(types.StructRef):
    pass


class Vector(structref.StructRefProxy):
    @property
    def x(self):
        return vector_x(self)

    def norm2(self):
        return vector_norm2(self)


structref.register(VectorType)
structref.define_proxy(Vector, VectorType, ["x", "y"])


@overload_method(VectorType, "norm2")
def ol_norm2(self):
    def impl(self):
        return self.x * self.x + self.y * self.y

    return impl


@overload_attribute(VectorType, "double")
def ol_double(self):
    def get(self):
        return self.x * 2

    return get


@njit
def vector_x(self):
    return self.x


@njit
def vector_norm2(self):
    return self.norm2()


@njit
def both(v):
    return v.norm2() + v.double


v = Vector(3.0, 4.0)
show("x", v.x)
show("norm2", v.norm2())
show("both", both(v))
