"""What compiled code calls to unpickle something, as LLVM IR: what was unpickled once is found in machine code.

A function that returns an array unpickles the array's class and dtype each time it is called. Numba remembers them in
Python, which takes as long as the rest of the call; the function made here finds them in a table of addresses, and
asks the function of Python (:mod:`nbcache.published.unpickling`) for what isn't there.

What is guaranteed: the same object as that function returned at first, with a reference of the caller's own. An
error, and what an exception is made of (a tuple, which is how a failure to unpickle looks as well), is never
remembered. Code stays where it is for the life of the process, so an address means one pickle. The table is shared by
all that is linked with the function, and what doesn't find a place in it is asked for each time.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from nbcache.glue.publishing.ir_asking_python import declared
from nbcache.published.runtime import UNPICKLE

SLOTS: Final = 1024
"""How many pickles it has places for: a power of two."""
PROBES: Final = 8
"""How many places are looked at for one."""
_TYPE: Final = 8  # PyObject.ob_type

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER: Final = _I8.as_pointer()
_PLACE: Final = ir.LiteralStructType([_I64, _POINTER])


def unpickle_ir(symbol: str) -> str:
    """Return a module that defines ``symbol``, to be called in place of Numba's ``numba_unpickle``.

    Its externals are CPython's, and :data:`~nbcache.published.runtime.UNPICKLE`.
    """
    module = ir.Module(name=symbol)
    convention = ir.FunctionType(_POINTER, [_POINTER, _I32, _POINTER])
    function = ir.Function(module, convention, symbol)
    keep = declared(module, "Py_IncRef", ir.VoidType(), _POINTER)
    table = ir.GlobalVariable(module, ir.ArrayType(_PLACE, SLOTS), f"{symbol}_table")
    table.initializer, table.linkage = ir.Constant(table.value_type, None), "internal"

    builder = ir.IRBuilder(function.append_basic_block("entry"))
    zero = ir.Constant(_I32, 0)
    address = builder.ptrtoint(function.args[0], _I64)
    # Pickles lie some hundred bytes apart, at any alignment.
    first = builder.xor(builder.lshr(address, ir.Constant(_I64, 4)), builder.lshr(address, ir.Constant(_I64, 11)))
    entry, look = builder.block, function.append_basic_block("look")
    further, unknown = function.append_basic_block("further"), function.append_basic_block("unknown")
    builder.branch(look)

    builder.position_at_end(look)
    step = builder.phi(_I64)
    index = builder.and_(builder.add(first, step), ir.Constant(_I64, SLOTS - 1))
    place = builder.gep(table, [zero, index], inbounds=True)
    key = builder.gep(place, [zero, zero], inbounds=True)
    found = builder.load(key)
    with builder.if_then(builder.icmp_unsigned("==", found, address), likely=True):
        known = builder.load(builder.gep(place, [zero, ir.Constant(_I32, 1)], inbounds=True))
        builder.call(keep, [known])
        builder.ret(known)
    builder.cbranch(builder.icmp_unsigned("==", found, ir.Constant(_I64, 0)), unknown, further)

    builder.position_at_end(further)
    following = builder.add(step, ir.Constant(_I64, 1))
    step.add_incoming(ir.Constant(_I64, 0), entry)
    step.add_incoming(following, further)
    builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(_I64, PROBES)), look, unknown)

    builder.position_at_end(unknown)
    # The last place that was looked at; it is free, or somebody else's.
    made = _asked(builder, module, function)
    # Looked at only now: unpickling runs Python, and another thread may have taken the place.
    with builder.if_then(builder.icmp_unsigned("==", builder.load(key), ir.Constant(_I64, 0))):
        builder.call(keep, [made])
        builder.store(made, builder.gep(place, [zero, ir.Constant(_I32, 1)], inbounds=True))
        builder.store(address, key)
    builder.ret(made)
    return str(module)


def _asked(builder: ir.IRBuilder, module: ir.Module, function: ir.Function) -> ir.Value:
    """Ask the function of Python, and return to the caller what isn't to be remembered; what goes on has the rest."""
    made = builder.call(ir.Function(module, function.function_type, UNPICKLE), function.args)
    with builder.if_then(builder.icmp_unsigned("==", made, ir.Constant(_POINTER, None)), likely=False):
        builder.ret(made)
    offset = builder.gep(made, [ir.Constant(_I64, _TYPE)])
    kind = builder.load(builder.bitcast(offset, _POINTER.as_pointer()))
    tuple_type = ir.GlobalVariable(module, _I8, "PyTuple_Type")
    with builder.if_then(builder.icmp_unsigned("==", kind, tuple_type), likely=False):
        builder.ret(made)
    return made
