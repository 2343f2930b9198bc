"""extending: @intrinsic and register_jitable."""

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable
from shown import show


@intrinsic
def add_raw(typingctx, a, b):
    if not isinstance(a, types.Integer):
        return None
    sig = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        return builder.add(*args)

    return sig, codegen


@intrinsic
def zero_tuple(typingctx, a):
    sig = types.UniTuple(a, 2)(a)

    def codegen(context, builder, signature, args):
        tup = cgutils.get_null_value(context.get_value_type(signature.return_type))
        return builder.insert_value(tup, args[0], 0)

    return sig, codegen


@register_jitable
def helper(x):
    return x * 3


@register_jitable(inline="always")
def inlined(x):
    return x - 1


@njit
def user(a, b):
    return add_raw(a, b), zero_tuple(a), helper(a), inlined(b)


show("user", user(3, 4))
show("plain", helper(3))
