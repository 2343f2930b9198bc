"""What compiled code calls to ask Python for something, as LLVM IR: no signal gets in between.

Signals that came while compiled code ran are handled as soon as Python runs, which is in the function that is asked
here (:mod:`nbcache.published.unpickling`), before its first line. What the handler raises, KeyboardInterrupt say, must
neither be lost nor leave the code without an answer: what it does with the result of unpickling it does unseen. A
callback of ctypes would do both.

What is guaranteed: unpickling is asked for again where it raised, and what was raised is raised when the call is over.
Where it raises again there is no result, and that exception. Making an exception may fail: what was raised takes its
place.
"""

from __future__ import annotations

import functools
from typing import Final

from llvmlite import ir

from nbcache.published.runtime import ADD_PENDING_CALL, EXCEPTION_BUILDER, UNPICKLER

_TYPE: Final = 8  # PyObject.ob_type
_I8, _I32 = ir.IntType(8), ir.IntType(32)
_POINTER: Final = _I8.as_pointer()
_NOTHING: Final = ir.VoidType()
_FORMAT: Final = b"nin\0"


@functools.cache  # a first publication needs it twice
def unpickle_ir(symbol: str) -> str:
    """Return a module that defines ``symbol``, with the arguments of Numba's ``numba_unpickle``.

    Its externals are CPython's, and :data:`~nbcache.published.runtime.UNPICKLER`.
    """
    module = ir.Module(name=symbol)
    function = ir.Function(module, ir.FunctionType(_POINTER, [_POINTER, _I32, _POINTER]), symbol)
    callee = ir.GlobalVariable(module, _I8, UNPICKLER)
    words = ir.GlobalVariable(module, ir.ArrayType(_I8, len(_FORMAT)), f"{symbol}_format")
    words.initializer, words.linkage, words.global_constant = (
        ir.Constant(words.value_type, bytearray(_FORMAT)),
        "internal",
        True,
    )
    call = declared(module, "PyObject_CallFunction", _POINTER, _POINTER, _POINTER, variadic=True)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    asked = [callee, builder.bitcast(words, _POINTER), *function.args]
    null = ir.Constant(_POINTER, None)
    found = builder.call(call, asked)
    with builder.if_then(builder.icmp_unsigned("!=", found, null), likely=True):
        builder.ret(found)
    raised = [builder.alloca(_POINTER) for _ in range(3)]
    pointers = [_POINTER.as_pointer()] * 3
    builder.call(declared(module, "PyErr_Fetch", _NOTHING, *pointers), raised)
    again = builder.call(call, asked)
    release = declared(module, "Py_DecRef", _NOTHING, _POINTER)
    with builder.if_then(builder.icmp_unsigned("==", again, null), likely=False):
        for each in raised:
            builder.call(release, [builder.load(each)])
        builder.ret(again)
    builder.call(declared(module, "PyErr_NormalizeException", _NOTHING, *pointers), raised)
    later = _raising(module, f"{symbol}_raise")
    postpone = declared(module, ADD_PENDING_CALL, _I32, later.type, _POINTER)
    kind, value, trace = (builder.load(each) for each in raised)
    full = builder.icmp_signed("<", builder.call(postpone, [later, value]), ir.Constant(_I32, 0))
    with builder.if_then(full, likely=False):
        builder.call(release, [value])
    builder.call(release, [kind])
    builder.call(release, [trace])
    builder.ret(again)
    return str(module)


def exception_ir(symbol: str) -> str:
    """Return a module that defines ``symbol``, with the arguments of ``numba_runtime_build_excinfo_struct``.

    Its externals are CPython's, and :data:`~nbcache.published.runtime.EXCEPTION_BUILDER`.
    """
    module = ir.Module(name=symbol)
    function = ir.Function(module, ir.FunctionType(_POINTER, [_POINTER, _POINTER]), symbol)
    callee = ir.GlobalVariable(module, _I8, EXCEPTION_BUILDER)
    call = declared(module, "PyObject_CallFunctionObjArgs", _POINTER, _POINTER, variadic=True)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(builder.call(call, [callee, *function.args, ir.Constant(_POINTER, None)]))
    return str(module)


def _raising(module: ir.Module, symbol: str) -> ir.Function:
    """What Python calls as soon as it runs the main thread again, with an exception that was kept for it."""
    function = ir.Function(module, ir.FunctionType(_I32, [_POINTER]), symbol)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    value = function.args[0]
    place = builder.gep(value, [ir.Constant(ir.IntType(64), _TYPE)], source_etype=_I8)
    kind = builder.load(builder.bitcast(place, _POINTER.as_pointer()), typ=_POINTER)
    builder.call(declared(module, "PyErr_SetObject", _NOTHING, _POINTER, _POINTER), [kind, value])
    builder.call(declared(module, "Py_DecRef", _NOTHING, _POINTER), [value])
    builder.ret(ir.Constant(_I32, -1))
    return function


def declared(
    module: ir.Module, name: str, result: ir.Type, *parameters: ir.Type, variadic: bool = False
) -> ir.Function:
    """Return a function of that name, as it was declared before or is now."""
    found = module.globals.get(name)
    if found is not None:
        return found
    return ir.Function(module, ir.FunctionType(result, parameters, var_arg=variadic), name)
