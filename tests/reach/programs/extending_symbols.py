"""extending: an @intrinsic that calls by its symbol what another library defines."""

from llvmlite import ir
from numba import float64, njit
from numba.core import cgutils
from numba.extending import intrinsic
from shown import show

SIGNATURE = float64(float64, float64)


@njit(SIGNATURE)
def scaled(x, y):
    return x * y + 1.5


SYMBOL = scaled.get_compile_result(SIGNATURE).fndesc.llvm_cfunc_wrapper_name


@intrinsic
def by_symbol(typingctx, x, y):
    def codegen(context, builder, signature, args):
        number = ir.DoubleType()
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number, number]), SYMBOL)
        return builder.call(function, args)

    return SIGNATURE, codegen


@njit
def summed(n):
    total = 0.0
    for i in range(n):
        total += by_symbol(float(i), 2.0)
    return total


show("scaled", scaled(1.0, 2.0))
show("summed", summed(5))
