"""The table in machine code of what was unpickled: the same objects, with a reference for whoever asks."""

import ctypes
import itertools
import sys

import llvmlite.binding as llvm
import pytest
from nbtest.checked import compiled

from nbcache.glue.publishing import ir_unpickling
from nbcache.published.runtime import UNPICKLE

KIND = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
NUMBERS = itertools.count()
KEPT = []


def unpickler(fallback):
    """A new function with a table of its own, which asks ``fallback``."""
    symbol = f"nbtest_memo_{next(NUMBERS)}"
    address = ctypes.cast(fallback, ctypes.c_void_p).value
    KEPT.append(fallback)
    # LLVM has one table of names for the process, and binds when it compiles.
    llvm.add_symbol(UNPICKLE, address)
    module = llvm.parse_assembly(ir_unpickling.unpickle_ir(symbol))
    module.triple = llvm.get_process_triple()
    return KIND(compiled(module, symbol))


def test_the_same_object_is_returned_and_nobody_asked_again():
    asked = []

    def fallback(address, size, digest):
        asked.append((address, size, digest))
        return [address]

    find = unpickler(KIND(fallback))
    first, again, other = find(4096, 7, 64), find(4096, 7, 64), find(4112, 8, 128)
    assert first is again and first == [4096] and other == [4112]
    assert asked == [(4096, 7, 64), (4112, 8, 128)]


def test_references_are_the_callers():
    held = ["something"]
    find = unpickler(KIND(lambda *_: held))
    find(4096, 1, 1)
    before = sys.getrefcount(held)
    kept = [find(4096, 1, 1) for _ in range(1000)]
    assert sys.getrefcount(held) == before + 1000
    del kept
    assert sys.getrefcount(held) == before


def test_what_an_exception_is_made_of_is_not_remembered():
    find = unpickler(KIND(lambda *_: (RuntimeError, (len(asked.append(1) or asked),), None)))
    asked = []
    assert [find(4096, 1, 1)[1] for _ in range(3)] == [(1,), (2,), (3,)]


def test_an_error_passes_and_is_not_remembered():
    find = unpickler(ctypes.pythonapi.PyErr_NoMemory)
    for _ in range(3):
        with pytest.raises(MemoryError):
            find(4096, 1, 1)


def test_more_than_there_are_places_for_are_found_all_the_same():
    find = unpickler(KIND(lambda address, *_: [address]))
    addresses = [4096 + 24 * number for number in range(3 * ir_unpickling.SLOTS)]
    first = [find(address, 1, 1) for address in addresses]
    again = [find(address, 1, 1) for address in addresses]
    assert first == again == [[address] for address in addresses]
    same = sum(one is other for one, other in zip(first, again, strict=True))
    assert ir_unpickling.SLOTS // 2 < same <= ir_unpickling.SLOTS
