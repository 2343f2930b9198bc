"""The type check in front of a published function's signatures, as LLVM IR.

Numba's wrapper around compiled code looks at little more than the item size of an array: called with other types than
it was compiled for, it reads and writes where it must not. So what a node calls is a function made here, of CPython's
calling convention ``METH_FASTCALL | METH_KEYWORDS``. It compares the arguments with each signature and calls the
wrapper of the one that fits, or else the *slow path*, a Python callable that is the ``self`` of the builtin function
object.

What is guaranteed
------------------
- **A wrapper is called only if Numba's dispatcher would choose it.** That is where the arguments have exactly the
  types of its signature. A signature that no other one could be weighed against also takes what it takes without
  converting a value: any layout for ``A``, writable arrays where read-only ones are meant, None and the inner type
  for an optional one; and an ``int`` of 64 bits for a float, which the wrapper converts, whoever calls it.
- **Keywords** are arguments in their places, if each is the name of one that isn't there yet, as the very object that
  Python has for that name in code.
- **Everything else is left to the slow path**: other keywords, defaults, subclasses, other byte orders, unaligned
  arrays, records, named tuples, dates, conversions between numbers, and whatever kind of type this module doesn't know.
- Reference counts are what they were, also when the wrapper raises or the tuple of arguments can't be made.

An ``int`` fits an ``int64`` whatever its value, as for Numba: what is too large is the wrapper's OverflowError.

Where the layouts come from
---------------------------
``PyObject`` and ``PyTupleObject`` of CPython 3.10 to 3.15 with a GIL, on 64-bit machines (Include/cpython/object.h,
tupleobject.h); ``PyArrayObject_fields`` and the head of ``PyArray_Descr``, which are the same in NumPy 1.26 and 2.x
(numpy/ndarraytypes.h). They are compared with objects of this process before they are relied upon (:func:`verify`); a
manifest says which Python and which NumPy a node has to have.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import sysconfig
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from nbcache.errors import ImageError
from nbcache.glue.publishing.ir_asking_python import declared
from nbcache.published.runtime import INTERNED, NUMPY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TYPE: Final = 8  # PyObject.ob_type
_SIZE: Final = 16  # PyVarObject.ob_size
_ITEMS: Final = tuple.__basicsize__  # PyTupleObject.ob_item, behind a hash since CPython 3.14
_NDIM: Final = 24  # PyArrayObject_fields.nd
_DESCR: Final = 56
_FLAGS: Final = 64
_BYTE_ORDER: Final = 26  # PyArray_Descr.byteorder
_TYPE_NUMBER: Final = 28

_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400
_OPPOSITE: Final = ord(">" if sys.byteorder == "little" else "<")

_INTEGERS: Final = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_NUMBERS: Final = (*_INTEGERS, "float32", "float64", "complex64", "complex128", "bool")
# The classes whose instances Numba types so, by the symbols under which a node finds them.
_PYTHON_CLASSES: Final = {
    "int64": "PyLong_Type",
    "float64": "PyFloat_Type",
    "complex128": "PyComplex_Type",
    "bool": "PyBool_Type",
    "unicode_type": "PyUnicode_Type",
    "bytes": "PyBytes_Type",
}
_MOST_NAMES: Final = 16
"""Of how many parameters names are compared: each keyword with each of them."""
_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER: Final = _I8.as_pointer()


class Overload(NamedTuple):
    """One signature: its ``parameters`` as type data, and the ``entry``, the symbol of Numba's wrapper for CPython."""

    parameters: Sequence[Mapping[str, Any]]
    entry: str

    @property
    def passed(self) -> int | None:
        """How many arguments a call passes, or None if those that are left out aren't the last ones."""
        given = [parameter["k"] != "omitted" for parameter in self.parameters]
        count = sum(given)
        return count if all(given[:count]) else None


def dispatch_ir(overloads: Sequence[Overload], symbol: str, names: Sequence[str] = ()) -> str:
    """Return a module that defines ``symbol``, the function to be called, and leaves the entries to be linked.

    ``names`` are those of the parameters; without them, keywords are left to the slow path. Its other externals are
    functions and classes of CPython by their names, classes of NumPy (:data:`NUMPY`), and texts (:data:`INTERNED`).
    Raises :class:`~nbcache.errors.ImageError` in a process whose layouts are not the expected ones.
    """
    verify()
    module = ir.Module(name=symbol)
    convention = ir.FunctionType(_POINTER, [_POINTER, _POINTER, _I64, _POINTER])
    function = ir.Function(module, convention, symbol)
    check = _Check(module, function)
    check.keywords(names if len(names) <= _MOST_NAMES and all(map(str.isascii, names)) else ())
    for position, overload in enumerate(overloads):
        others = (*overloads[:position], *overloads[position + 1 :])
        check.overload(overload, exact=not all(_disjoint(overload, other) for other in others))
    check.finish()
    return str(module)


class _Check:
    """Emits the function; :attr:`builder` stands where the checks so far have succeeded."""

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        self.module = module
        self.function = function
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.slow = function.append_basic_block("slow")
        self._failed = self.slow
        _, self._arguments, self._count, _ = function.args
        self._overflow = self.builder.alloca(_I32)

    def keywords(self, names: Sequence[str]) -> None:
        """Put arguments that are given by name into their places."""
        _, arguments, count, keywords = self.function.args
        null = ir.Constant(_POINTER, None)
        positional = self.builder.icmp_unsigned("==", keywords, null)
        if not names:
            self.require(positional, self.slow)
            return
        places = self.builder.alloca(ir.ArrayType(_POINTER, len(names)))
        entry, named, placed = (
            self.builder.block, self.function.append_basic_block("named"), self.function.append_basic_block("placed"),
        )  # fmt: skip
        self.builder.cbranch(positional, placed, named)
        self.builder.position_at_end(named)
        total = self.builder.add(count, self._load(keywords, _SIZE, _I64))
        self.require(self.builder.icmp_unsigned("<=", total, ir.Constant(_I64, len(names))), self.slow)
        first = [self.builder.gep(places, [ir.Constant(_I32, 0), ir.Constant(_I32, at)]) for at in range(len(names))]
        for place in first:
            self.builder.store(null, place)
        slots = self.builder.bitcast(places, _POINTER)
        with cgutils.for_range(self.builder, count) as loop:
            self._put(slots, loop.index, self._item(arguments, loop.index))
        with cgutils.for_range(self.builder, self.builder.sub(total, count)) as loop:
            name = self._item(self.builder.gep(keywords, [ir.Constant(_I64, _ITEMS)], source_etype=_I8), loop.index)
            value = self._item(arguments, self.builder.add(count, loop.index))
            for place, wanted in zip(first, names, strict=True):
                with self.builder.if_then(self._is(name, INTERNED + wanted)):
                    self.builder.store(value, place)
        # As many as there are places from the first one on: none is unknown, and none is there twice.
        with cgutils.for_range(self.builder, total) as loop:
            missing = self.builder.icmp_unsigned("==", self._item(slots, loop.index), null)
            with self.builder.if_then(missing, likely=False):
                self.builder.branch(self.slow)
                self.builder.position_at_end(self.function.append_basic_block("unreached"))
        last = self.builder.block
        self.builder.branch(placed)
        self.builder.position_at_end(placed)
        self._arguments, self._count = self.builder.phi(_POINTER), self.builder.phi(_I64)
        for phi, pair in ((self._arguments, (arguments, slots)), (self._count, (count, total))):
            for value, block in zip(pair, (entry, last), strict=True):
                phi.add_incoming(value, block)

    def _put(self, array: ir.Value, index: ir.Value, value: ir.Value) -> None:
        slots = self.builder.bitcast(array, _POINTER.as_pointer())
        self.builder.store(value, self.builder.gep(slots, [index], source_etype=_POINTER))

    def overload(self, overload: Overload, *, exact: bool) -> None:
        """Try one overload, and return what its wrapper returns if it fits; go on if it doesn't."""
        passed = overload.passed
        kinds = [parameter for parameter in overload.parameters if parameter["k"] != "omitted"]
        if passed is None or not all(_is_known(parameter, exact=exact) for parameter in kinds):
            return
        self._failed = self.function.append_basic_block("next")
        self.require(self.builder.icmp_unsigned("==", self._count, ir.Constant(_I64, passed)))
        arguments = [self._load(self._arguments, 8 * index, _POINTER) for index in range(passed)]
        for argument, parameter in zip(arguments, kinds, strict=True):
            self._value(argument, parameter, exact=exact)
        self._call(overload, arguments)
        self.builder.position_at_end(self._failed)

    def finish(self) -> None:
        """End with the slow path: what it returns or raises is the result."""
        self.builder.branch(self.slow)
        self.builder.position_at_end(self.slow)
        callee, arguments, count, keywords = self.function.args
        with self.builder.if_else(self.builder.icmp_unsigned("==", keywords, ir.Constant(_POINTER, None))) as (no, yes):
            with no:
                without = self.builder.block
            with yes:
                named, among = self._load(keywords, _SIZE, _I64), self.builder.block
        total = self.builder.phi(_I64)
        total.add_incoming(ir.Constant(_I64, 0), without)
        total.add_incoming(named, among)
        # One place more: the method gets the object that it is called on as its first argument.
        one = ir.Constant(_I64, 1)
        total = self.builder.add(total, count)
        passed = self.builder.bitcast(self.builder.alloca(_POINTER, self.builder.add(total, one)), _POINTER)
        self._put(passed, ir.Constant(_I64, 0), callee)
        with cgutils.for_range(self.builder, total) as loop:
            self._put(passed, self.builder.add(loop.index, one), self._item(arguments, loop.index))
        call = self._function("PyObject_VectorcallMethod", _POINTER, _POINTER, _POINTER, _I64, _POINTER)
        called = [self._object(INTERNED + "__call__"), passed, self.builder.add(count, one), keywords]
        self.builder.ret(self.builder.call(call, called))

    def _item(self, array: ir.Value, index: ir.Value) -> ir.Value:
        slots = self.builder.bitcast(array, _POINTER.as_pointer())
        return self.builder.load(self.builder.gep(slots, [index], source_etype=_POINTER), typ=_POINTER)

    def require(self, condition: ir.Value, otherwise: ir.Block | None = None) -> None:
        """Go on only if ``condition`` holds, otherwise with the next overload."""
        held = self.function.append_basic_block("held")
        self.builder.cbranch(condition, held, otherwise or self._failed)
        self.builder.position_at_end(held)

    def _value(self, value: ir.Value, parameter: Mapping[str, Any], *, exact: bool) -> None:
        kind = parameter["k"]
        if kind == "array":
            self._array(value, parameter, exact=exact)
        elif kind == "none":
            self.require(self._is(value, "_Py_NoneStruct"))
        elif kind == "tuple":
            self._tuple(value, parameter["items"], exact=exact)
        elif kind == "optional":
            inner, missing = self.function.append_basic_block("given"), self.function.append_basic_block("missing")
            self.builder.cbranch(self._is(value, "_Py_NoneStruct"), missing, inner)
            self.builder.position_at_end(inner)
            self._value(value, parameter["of"], exact=exact)
            self.builder.branch(missing)
            self.builder.position_at_end(missing)
        elif kind in {"float32", "float64"} and not exact:
            self._number(value, kind)
        else:
            self.require(self._is_instance(value, kind))

    def _number(self, value: ir.Value, kind: str) -> None:
        """A float, or an int whose conversion to one is that of an int64."""
        whole, found = self.function.append_basic_block("whole"), self.function.append_basic_block("found")
        self.builder.cbranch(self._is_instance(value, kind), found, whole)
        self.builder.position_at_end(whole)
        self.require(self._is(self._load(value, _TYPE, _POINTER), "PyLong_Type"))
        convert = self._function("PyLong_AsLongLongAndOverflow", _I64, _POINTER, _I32.as_pointer())
        self.builder.call(convert, [value, self._overflow])
        self._equal(self.builder.load(self._overflow), 0)
        self.builder.branch(found)
        self.builder.position_at_end(found)

    def _is_instance(self, value: ir.Value, kind: str) -> ir.Value:
        """Whether it is an instance of Python's class for that kind, or of NumPy's, and of no subclass."""
        found = self._load(value, _TYPE, _POINTER)
        classes = [_PYTHON_CLASSES[kind]] if kind in _PYTHON_CLASSES else []
        if kind in _NUMBERS:
            classes.append(NUMPY + ("bool_" if kind == "bool" else kind))
        fits = [self._is(found, name) for name in classes]
        return functools.reduce(self.builder.or_, fits)

    def _array(self, array: ir.Value, parameter: Mapping[str, Any], *, exact: bool) -> None:
        self.require(self._is(self._load(array, _TYPE, _POINTER), NUMPY + "ndarray"))
        self._equal(self._load(array, _NDIM, _I32), parameter["ndim"])
        # The number and not the object: an array that was pickled has a dtype of its own.
        descr = self._load(array, _DESCR, _POINTER)
        self._equal(self._load(descr, _TYPE_NUMBER, _I32), np.dtype(parameter["dtype"]).num)
        order = self._load(descr, _BYTE_ORDER, _I8)
        self.require(self.builder.icmp_unsigned("!=", order, ir.Constant(_I8, _OPPOSITE)))
        mask, wanted = _flags(parameter, exact=exact)
        flags = self.builder.and_(self._load(array, _FLAGS, _I32), ir.Constant(_I32, mask))
        self._equal(flags, wanted)

    def _tuple(self, value: ir.Value, items: Sequence[Mapping[str, Any]], *, exact: bool) -> None:
        self.require(self._is(self._load(value, _TYPE, _POINTER), "PyTuple_Type"))
        self._equal(self._load(value, _SIZE, _I64), len(items))
        for index, item in enumerate(items):
            self._value(self._load(value, _ITEMS + 8 * index, _POINTER), item, exact=exact)

    def _call(self, overload: Overload, arguments: Sequence[ir.Value]) -> None:
        """Call the wrapper with a tuple of the arguments; it looks at no object that stands for one left out."""
        pack = self._function("PyTuple_Pack", _POINTER, _I64, variadic=True)
        wrapper = self._function(overload.entry, _POINTER, _POINTER, _POINTER, _POINTER)
        nothing = self._object("_Py_NoneStruct")
        places = [*arguments, *[nothing] * (len(overload.parameters) - len(arguments))]
        packed = self.builder.call(pack, [ir.Constant(_I64, len(places)), *places])
        null = ir.Constant(_POINTER, None)
        with self.builder.if_then(self.builder.icmp_unsigned("==", packed, null), likely=False):
            self.builder.ret(null)
        result = self.builder.call(wrapper, [null, packed, null])
        self.builder.call(self._function("Py_DecRef", ir.VoidType(), _POINTER), [packed])
        self.builder.ret(result)

    def _load(self, pointer: ir.Value, offset: int, of: ir.Type) -> ir.Value:
        place = self.builder.gep(pointer, [ir.Constant(_I64, offset)], source_etype=_I8)
        return self.builder.load(self.builder.bitcast(place, of.as_pointer()), typ=of)

    def _equal(self, value: ir.Value, expected: int) -> None:
        self.require(self.builder.icmp_unsigned("==", value, ir.Constant(value.type, expected)))

    def _is(self, value: ir.Value, name: str) -> ir.Value:
        return self.builder.icmp_unsigned("==", value, self._object(name))

    def _object(self, name: str) -> ir.Value:
        found = self.module.globals.get(name)
        return ir.GlobalVariable(self.module, _I8, name) if found is None else found

    def _function(self, name: str, result: ir.Type, *parameters: ir.Type, variadic: bool = False) -> ir.Value:
        return declared(self.module, name, result, *parameters, variadic=variadic)


def _flags(parameter: Mapping[str, Any], *, exact: bool) -> tuple[int, int]:
    """The flags of an array to look at, and what they must be.

    Numba's type of an array has the layout C before F, so what is both is no F array.
    """
    layout = {"C": (_C, _C), "F": (_C | _F, _F), "A": (_C | _F, 0) if exact else (0, 0)}[parameter["layout"]]
    writable = (_WRITEABLE, _WRITEABLE) if parameter["mutable"] else (_WRITEABLE if exact else 0, 0)
    return layout[0] | writable[0] | _ALIGNED, layout[1] | writable[1] | _ALIGNED


def _is_known(parameter: Mapping[str, Any], *, exact: bool) -> bool:
    """Whether values of that type can be told natively."""
    kind = parameter["k"]
    if kind == "array":
        dtype = np.dtype(parameter["dtype"]) if isinstance(parameter["dtype"], str) else None
        return dtype is not None and dtype.isnative and dtype.name in _NUMBERS and parameter["aligned"]
    if kind == "tuple":
        return all(_is_known(item, exact=exact) for item in parameter["items"])
    if kind == "optional":
        # No value has this type: None and the others are converted to it.
        return not exact and _is_known(parameter["of"], exact=exact)
    return kind in _NUMBERS or kind in {"unicode_type", "bytes", "none"}


def _disjoint(one: Overload, other: Overload) -> bool:
    """Whether no arguments could be converted to both: they differ in number, or in what Numba never converts."""

    def differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
        if first["k"] == second["k"] == "array":
            return (first["dtype"], first["ndim"]) != (second["dtype"], second["ndim"])
        families = {_family(first["k"]), _family(second["k"])}
        return None not in families and len(families) == 2

    return (one.passed is not None and other.passed is not None and one.passed != other.passed) or any(
        differ(first, second) for first, second in zip(one.parameters, other.parameters, strict=False)
    )


def _family(kind: str) -> str | None:
    """Kinds of the same family may be converted to each other; None: nothing is known."""
    if kind in _NUMBERS:
        return "number"
    return kind if kind in {"array", "unicode_type"} else None


@functools.cache
def verify() -> None:
    """Compare the layouts with objects of this process. Raises ImageError for a Python or NumPy that has others."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImageError("this Python has no GIL: its objects are laid out differently, and nbcache doesn't know how")
    for what, address, form, expected in _layouts():
        found = struct.unpack(form, ctypes.string_at(address, struct.calcsize(form)))
        if found != expected:
            raise ImageError(f"this Python or NumPy keeps {what} elsewhere: {found} is there instead of {expected}")


def _layouts() -> Iterator[tuple[str, int, str, tuple[int, ...]]]:
    """What is compared: words, an address, the form of what should be there, and what it should be."""
    items = (1.5, "one", None)
    yield "the class of an object", id(items) + _TYPE, "P", (id(tuple),)
    yield "the length of a tuple", id(items) + _SIZE, "n", (len(items),)
    yield "the items of a tuple", id(items) + _ITEMS, "PPP", tuple(map(id, items))
    swapped = np.arange(4, dtype=np.dtype("i4").newbyteorder())
    fixed = np.zeros((2, 3))
    fixed.flags.writeable = False
    samples: list[Any] = [np.zeros((2, 3)), np.zeros((3, 2, 2), "c8", order="F"), np.arange(9)[::2], swapped, fixed]
    samples += [np.frombuffer(b"123456789", "f8", 1, offset=1), *(np.zeros(2, kind) for kind in _NUMBERS)]
    for array in samples:
        flags = array.flags
        bits = (
            (flags.c_contiguous, _C),
            (flags.f_contiguous, _F),
            (flags.aligned, _ALIGNED),
            (flags.writeable, _WRITEABLE),
        )
        known = sum(bit for _, bit in bits)
        found = ctypes.c_int.from_address(id(array) + _FLAGS).value & known
        yield "the number of an array's dimensions", id(array) + _NDIM, "i", (array.ndim,)
        yield "the dtype of an array", id(array) + _DESCR, "P", (id(array.dtype),)
        if found != sum(bit for is_set, bit in bits if is_set):
            raise ImageError(f"this NumPy keeps the flags of an array elsewhere: {found:#x} is there")
        yield "the number of a dtype", id(array.dtype) + _TYPE_NUMBER, "i", (array.dtype.num,)
        order = ord(array.dtype.byteorder)
        yield "the byte order of a dtype", id(array.dtype) + _BYTE_ORDER, "B", (order,)
