"""LLVM's engine without llvmlite's Python: object code of entries is loaded as it is, nothing is compiled.

`libllvmlite.so` is called through ctypes; importing llvmlite would cost ten times as much as loading its library does.
There is one engine for the process, as Numba has one. What the code expects from elsewhere is told to LLVM by name,
and LLVM has one table of names for the whole process, which Numba uses too: so where somebody had another meaning for
a name, he gets it back as soon as the code is bound. Source of the functions: llvmlite's ffi/executionengine.cpp,
targets.cpp, dylib.cpp.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import errors
from nbcache.published.runtime import folders_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_OUT: Final = ctypes.POINTER(ctypes.c_char_p)
_FUNCTIONS: Final[Mapping[str, tuple[Any, list[Any]]]] = {
    "InitializeNativeTarget": (_INT, []),
    "InitializeNativeAsmPrinter": (_INT, []),
    "GetProcessTriple": (None, [_OUT]),
    "GetTargetFromTriple": (_POINTER, [_TEXT, _OUT]),
    "CreateTargetMachine": (_POINTER, [_POINTER, *[_TEXT] * 3, _INT, _TEXT, _TEXT, _INT, _INT, _TEXT]),
    "GetGlobalContext": (_POINTER, []),
    "ParseAssembly": (_POINTER, [_POINTER, _TEXT, _OUT]),
    "CreateMCJITCompiler": (_POINTER, [_POINTER, _POINTER, ctypes.c_bool, _OUT]),
    "RemoveModule": (ctypes.c_bool, [_POINTER, _POINTER, _OUT]),
    "AddSymbol": (None, [_TEXT, _POINTER]),
    "SearchAddressOfSymbol": (_POINTER, [_TEXT]),
    "CreateObjectFile": (_POINTER, [_TEXT, ctypes.c_size_t]),
    "MCJITAddObjectFile": (None, [_POINTER, _POINTER]),
    "DisposeObjectFile": (None, [_POINTER]),
    "FinalizeObject": (None, [_POINTER]),
    "GetGlobalValueAddress": (ctypes.c_uint64, [_POINTER, _TEXT]),
    "GetFunctionAddress": (ctypes.c_uint64, [_POINTER, _TEXT]),
}


_LINK_MAP: Final = 2
"""RTLD_DI_LINKMAP of dlinfo(3): a structure whose first field says where the library lies."""
_DONT_NEED: Final = 4
_HEADER: Final = struct.Struct("<4s28xQ14xHH6x")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_LOADED, _WRITABLE = 1, 2
"""Of ELF64: what is looked at of its header (magic, where the segments' headers are, their size and number), the header
of a segment, and of that its kind and its flags."""


def library_path() -> str | None:
    """Where llvmlite's shared library lies, without importing llvmlite; None if it isn't installed."""
    for folder in folders_of("llvmlite"):
        path = os.path.join(folder, "binding", "libllvmlite.so")
        if os.path.exists(path):
            return path
    return None


class Engine:
    """LLVM's MCJIT, with objects for ever: nothing that was loaded is taken away again. One thread at a time."""

    def __init__(self) -> None:
        """Start it. Raises NoEngineError."""
        path = library_path()
        if path is None:
            raise errors.NoEngineError("llvmlite is not installed: install it, or publish where there is a linker")
        self._library = ctypes.CDLL(path)
        self._call = _functions(self._library)
        self._engine = self._create()
        self._told: dict[str, int] = {}
        self._is_fresh = True

    def _create(self) -> int:
        call, error, triple = self._call, _TEXT(), _TEXT()
        call["InitializeNativeTarget"]()
        call["InitializeNativeAsmPrinter"]()
        call["GetProcessTriple"](ctypes.byref(triple))
        target = call["GetTargetFromTriple"](triple.value, ctypes.byref(error))
        machine = call["CreateTargetMachine"](target, triple.value, b"", b"", 0, b"static", b"jitdefault", 0, 1, b"")
        module = call["ParseAssembly"](call["GetGlobalContext"](), b"", ctypes.byref(error))
        # llvmlite's own manager of memory where llvmlite chooses it: on AArch64, LLVM's may put code and data too far
        # apart for instructions that refer to one from the other, and then LLVM aborts.
        manages = os.uname().machine == "aarch64"
        engine = call["CreateMCJITCompiler"](module, machine, manages, ctypes.byref(error))
        if not engine:
            raise errors.NoEngineError(f"LLVM can't load code here: {(error.value or b'').decode(errors='replace')}")
        # MCJIT would compile the module that it was made with, though it is empty.
        call["RemoveModule"](engine, module, ctypes.byref(error))
        return int(engine)

    def load(self, objects: Iterable[bytes], externals: Mapping[str, int]) -> None:
        """Load object files, in which each of these symbols means that address.

        All that they expect from elsewhere must be there: LLVM ends the process over a symbol that it doesn't know.
        Several at once cost little more than one: it is making code executable, page by page, that takes long.
        """
        call, engine = self._call, self._engine
        with _llvmlites_lock():
            theirs = self._tell(externals)
            for code in objects:
                thing = call["CreateObjectFile"](code, len(code))
                call["MCJITAddObjectFile"](engine, thing)
                call["DisposeObjectFile"](thing)
            call["FinalizeObject"](engine)
            for symbol, address in theirs.items():
                call["AddSymbol"](symbol, address)
                self._told.pop(symbol.decode(), None)
        if self._is_fresh and "llvmlite" not in sys.modules:
            _let_go(self._library)
        self._is_fresh = False

    def _tell(self, externals: Mapping[str, int]) -> dict[bytes, int]:
        """Tell LLVM what symbols mean; return what others had told it of them."""
        search, add = self._call["SearchAddressOfSymbol"], self._call["AddSymbol"]
        # Without llvmlite's Python, nobody else tells it anything.
        alone, theirs = "llvmlite" not in sys.modules, {}
        for name, address in externals.items():
            if alone and self._told.get(name) == address:
                continue
            symbol = name.encode()
            known = None if alone else search(symbol)
            if known != address:
                add(symbol, address)
                if known:
                    theirs[symbol] = known
            self._told[name] = address
        return theirs

    def address(self, symbol: str) -> int:
        """Where a symbol of a loaded object lies. Raises LookupError."""
        name = symbol.encode()
        found = self._call["GetGlobalValueAddress"](self._engine, name)
        found = found or self._call["GetFunctionAddress"](self._engine, name)
        if not found:
            raise LookupError(f"no loaded code defines {symbol}")
        return int(found)


def _let_go(library: ctypes.CDLL) -> None:
    """Let go of the pages of a library that its start needed: 40 MiB of LLVM's, for a thousand small constructors.

    What nobody writes to is mapped again where it is touched; the kernel has it in its cache.
    """
    c_library, link = ctypes.CDLL(None), _POINTER()
    if c_library.dlinfo(_POINTER(library._handle), _LINK_MAP, ctypes.byref(link)) or not link.value:  # noqa: SLF001
        return
    base = _POINTER.from_address(link.value).value or 0
    header = _HEADER.unpack(ctypes.string_at(base, _HEADER.size))
    _magic, table, size, count = header
    page = os.sysconf("SC_PAGE_SIZE")
    for index in range(count):
        place = base + table + index * size
        kind, flags, _offset, start, _physical, _stored, length, _align = _SEGMENT.unpack(
            ctypes.string_at(place, _SEGMENT.size)
        )
        if kind == _LOADED and not flags & _WRITABLE:
            first, last = start // page * page, -(-(start + length) // page) * page
            c_library.madvise(_POINTER(base + first), ctypes.c_size_t(last - first), _DONT_NEED)


def _functions(library: ctypes.CDLL) -> dict[str, Any]:
    found = {}
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, f"LLVMPY_{name}", None)
        if function is None:
            raise errors.NoEngineError(
                f"this llvmlite has no LLVMPY_{name}: install one that the published code was built with"
            )
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found


def _llvmlites_lock() -> AbstractContextManager[Any]:
    """What keeps others out of LLVM, if there are any."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    lock: AbstractContextManager[Any] | None = getattr(getattr(ffi, "lib", None), "_lock", None)
    return contextlib.nullcontext() if lock is None else lock
