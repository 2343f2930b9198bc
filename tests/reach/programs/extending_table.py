"""extending: code for a call that is looked up in a table by function."""

from llvmlite import ir
from numba import njit, types
from numba.extending import lower_builtin, type_callable
from shown import show


def twice(x):
    return 2 * x


def shifted(builder, value):
    return builder.shl(value, ir.Constant(value.type, 1))


CODE = {twice: shifted}


@type_callable(twice)
def type_twice(context):
    return lambda x: x if isinstance(x, types.Integer) else None


@lower_builtin(twice, types.Integer)
def lower_twice(context, builder, sig, args):
    return CODE[twice](builder, args[0])


@njit
def use(x):
    return twice(x) + 1


show("use", use(4))
