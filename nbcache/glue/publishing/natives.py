"""C functions that compiled code calls, as a manifest's natives: by the library or Cython module that they lie in."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from llvmlite import binding as llvm

from nbcache.elf import functions_in, soname_of
from nbcache.glue.capture.compilations import build_in
from nbcache.glue.identity import c_functions
from nbcache.glue.identity.roots import package_roots
from nbcache.glue.publishing.refusals import Refused
from nbcache.passing_exceptions import let_pass
from nbcache.protocol import rare_parts
from nbcache.published.natives import C_LIBRARY
from nbcache.shared_libraries import build_of, capsule, exports_of, in_words, locate

if TYPE_CHECKING:
    from collections.abc import Iterable

POINTER, FUNCTION = "pointer", "function"
_TOOLCHAIN = package_roots("numba", "llvmlite", "numpy", "nbcache")
_OF_PYTHON = frozenset({"libpython", "python", "ld-linux", "ld-musl", "libgcc_s.so.1"})


def at(where: int, what: str, name: str = "") -> rare_parts.Native:
    """Describe what lies at an address, which code calls by *name* or by a pointer to it.  Raises Refused."""
    exported = c_functions.exported_as(where)
    if exported is not None:
        module, symbol = exported
        signature, _address = capsule(exports_of(sys.modules[module])[symbol])
        return rare_parts.Native(what, module, "", "", symbol, 0, signature)
    found = locate(where)
    path = "" if found is None else os.path.realpath(os.fsdecode(found.file))
    build = None if found is None else build_of(path, found.base)
    if found is None or build is None:
        called = f"{name}, which is" if name else "a C function that is"
        raise Refused(f"it calls {called} in no library's file: only functions of libraries are there at a node")
    symbol = name or _symbol_at(where, path, found)
    library = soname_of(path) or os.path.basename(path)
    if library in C_LIBRARY:
        if not symbol:
            raise Refused(f"it calls {in_words(where)}, which has no name: take it by its name")
        return rare_parts.Native(what, library, "", "", symbol, 0, "")
    return rare_parts.Native(what, library, path, build, symbol, where - found.base, "")


def load(name: str) -> None:
    """Have code find the functions of a library by their names.  Raises Refused."""
    try:
        llvm.load_library_permanently(name)
    except RuntimeError as error:
        let_pass(error)
        raise Refused(f"the library {name} can't be loaded: {error}") from error


def called_by_name(symbols: Iterable[str]) -> dict[str, rare_parts.Native]:
    """Describe the functions that code calls by the names of symbols, but for those that every node has.

    Raises Refused.
    """
    found = {}
    for symbol in symbols:
        where = llvm.address_of_symbol(symbol)
        located = None if where is None else locate(where)
        if where is not None and located is not None and not _is_everywhere(os.fsdecode(located.file)):
            found[symbol] = at(where, FUNCTION, symbol)
    return found


def nowhere(symbols: Iterable[str]) -> str | None:
    """Return a symbol that code calls by its name and that nothing in this process has; None if there is none."""
    named = (each for each in symbols if each.isidentifier() and not build_in(each))
    return next((each for each in named if llvm.address_of_symbol(each) is None), None)


@functools.cache
def _is_everywhere(file: str) -> bool:
    """Whether what lies in a file is found at each node: Python's and the C library's own, and the toolchain's."""
    path = os.path.realpath(file)
    name = os.path.basename(path)
    return (
        path == os.path.realpath(sys.executable)
        or name.startswith(tuple(_OF_PYTHON))
        or path.startswith(_TOOLCHAIN)
        or (soname_of(path) or name) in C_LIBRARY
    )


def _address_in(library: Any, symbol: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    except AttributeError as error:
        let_pass(error)
        return None


def _symbol_at(where: int, path: str, found: Any) -> str:
    """The name of the function at an address; "" if none leads there."""
    if found.symbol is not None and found.at == where:
        return str(found.symbol.decode("utf-8", "replace"))
    # One that the library chooses for the processor has its own name at another address: each is asked.
    library = ctypes.CDLL(path)
    return next((name for name in functions_in(path) if _address_in(library, name) == where), "")
