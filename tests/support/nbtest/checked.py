"""The native check as a callable, for tests: made by LLVM in this process, with entries and slow path of the test."""

from __future__ import annotations

import builtins
import ctypes
import functools
import sys
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np
from numba.core import types
from numba.core.codegen import initialize_llvm
from numba.np.numpy_support import as_dtype

from nbcache.glue.publishing import native_check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_FASTCALL_AND_KEYWORDS = 0x82
_kept: list[Any] = []


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def type_data(described: Any) -> dict[str, Any]:
    """Say what a type of Numba is, as a manifest does."""
    if isinstance(described, types.Array):
        said = {"dtype": as_dtype(described.dtype).str, "ndim": described.ndim, "layout": described.layout}
        return {"k": "array", **said, "mutable": described.mutable, "aligned": described.aligned}
    if isinstance(described, types.BaseTuple):
        return {"k": "tuple", "items": [type_data(item) for item in described]}
    if isinstance(described, types.Optional):
        return {"k": "optional", "of": type_data(described.type)}
    if isinstance(described, types.Omitted):
        return {"k": "omitted", "default": described.value}
    return {"k": "none" if described is types.none else str(described)}


def builtin(address: int, receiver: Any) -> Callable[..., Any]:
    """Make a builtin function of a METH_FASTCALL | METH_KEYWORDS one."""
    definition = _MethodDefinition(b"checked", address, _FASTCALL_AND_KEYWORDS, None)
    _kept.append((definition, receiver))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return make(ctypes.addressof(definition), id(receiver), None)


def resolve(symbol: str) -> int:
    """Where a node would find what a check or Numba's code refers to; here, Numba is there to ask."""
    if symbol.startswith(native_check.NUMPY):
        return id(getattr(np, symbol.removeprefix(native_check.NUMPY)))
    if symbol.startswith(native_check.INTERNED):
        _kept.append(sys.intern(symbol.removeprefix(native_check.INTERNED)))
        return id(_kept[-1])
    if symbol.startswith("PyExc_"):
        return id(getattr(builtins, symbol.removeprefix("PyExc_")))
    address = llvm.address_of_symbol(symbol)
    if not address:
        raise LookupError(symbol)
    return address


def resolve_all(symbols: Iterable[str]) -> dict[str, int]:
    """Where each of several of them is."""
    return {symbol: resolve(symbol) for symbol in symbols}


@functools.cache
def _machine() -> Any:
    initialize_llvm()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True, codemodel="jitdefault")


def checked(
    overloads: Sequence[Sequence[Any]],
    entries: Sequence[Callable[..., Any] | int],
    slow: Any,
    parameters: Sequence[str] = (),
) -> Callable[..., Any]:
    """Make a function that checks for types of Numba, and calls the entry of the first that fits, or else ``slow``.

    With the names of its parameters, it takes keywords.

    An entry is the address of a wrapper, or a function of the tuple of arguments, which must not raise.
    """
    number = len(_kept)
    symbol, names = f"nbtest_check_{number}", [f"nbtest_entry_{number}_{index}" for index in range(len(entries))]
    described = [
        native_check.Overload([type_data(parameter) for parameter in overload], name)
        for overload, name in zip(overloads, names, strict=True)
    ]
    module = llvm.parse_assembly(native_check.dispatch_ir(described, symbol, parameters))
    module.triple = llvm.get_process_triple()
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    for name, entry in zip(names, entries, strict=True):
        if not isinstance(entry, int):
            entry = kind(lambda _self, args, _keywords, entry=entry: entry(args))
            _kept.append(entry)
            entry = ctypes.cast(entry, ctypes.c_void_p).value
        llvm.add_symbol(name, entry)
    for value in (*module.functions, *module.global_variables):
        if value.is_declaration and value.name.startswith((native_check.NUMPY, native_check.INTERNED)):
            llvm.add_symbol(value.name, resolve(value.name))
    return builtin(compiled(module, symbol), slow)


def compiled(module: Any, symbol: str) -> int:
    """Have LLVM compile a parsed module; return where one of its functions is."""
    engine = llvm.create_mcjit_compiler(module, _machine())
    engine.finalize_object()
    _kept.append(engine)
    return engine.get_function_address(symbol)


def outcomes(overloads: Sequence[Sequence[Any]]) -> Callable[..., Any]:
    """Make a check that returns the number of the overload that it chose, or "slow"."""
    entries = [lambda _args, index=index: index for index in range(len(overloads))]
    return checked(overloads, entries, _slow)


def _slow(*_args: Any, **_keywords: Mapping[str, Any]) -> str:
    return "slow"
