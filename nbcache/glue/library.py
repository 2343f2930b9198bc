"""A code library whose object code comes out of an entry.

The object goes in through the MCJIT object-cache callback, as Numba's own cache does it, with an
empty module standing for the one it was compiled from.  The LLVM bitcode is only needed to link
the function into a new caller or to look at it; it is read and parsed then.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.runtime import rtsys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_half_loaded: list[Any] = []


class StoredLibrary(JITCodeLibrary):
    """Behaves like the library the entry was made from.

    ``read(section)`` returns a section of the entry, or None when the entry is gone by now;
    ``rebuild()`` then compiles the function again, under the same symbol names.
    """

    def __init__(
        self,
        codegen: Any,
        name: str,
        code: bytes,
        symbols: dict[str, tuple[str, ...]],
        read: Callable[[str], bytes | None],
        rebuild: Callable[[], Any],
    ) -> None:
        # Not JITCodeLibrary.__init__: it builds and prints an IR module that nobody needs here.
        CodeLibrary.__init__(self, codegen, name)
        self._linking_libraries: list[Any] = []
        self._shared_module = None
        self._read = read
        self._rebuild = rebuild
        self._final_module = llvm.parse_assembly(_stand_in(codegen, symbols["unresolved"]))
        self._final_module.name = name
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._disable_inspection = False
        codegen._rtlinker._defined.update(symbols["functions"])
        try:
            self._finalize_final_module()
        except BaseException:
            # The engine has the module and will ask its library for the object again.
            _half_loaded.append(self)
            raise
        codegen._engine._defined_symbols.update(symbols["functions"], symbols["variables"])

    def _finalize_specific(self) -> None:
        """Put the code into the engine, and the addresses of recursive functions where they are looked up.

        Numba's linker fills in what is defined by now, here and in code that waited for this.  Numba
        would put a placeholder into the rest at once; here the entries that are needed come first.
        """
        engine, linker = self._codegen._engine, self._codegen._rtlinker
        for variable in self._final_module.global_variables:
            if not engine.is_symbol_defined(variable.name):
                cell = ctypes.c_void_p(0)
                engine.add_global_mapping(variable, ctypes.addressof(cell))
                linker._unresolved[variable.name[len(linker.PREFIX) :]] = cell
        engine.finalize_object()
        linker.resolve(engine)

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            bitcode = self._read("bitcode")
            self._shared_module = llvm.parse_bitcode(bitcode) if bitcode is not None else self._rebuild()
        return self._shared_module

    def _get_compiled_object(self) -> bytes:
        code = self._read("object")
        if code is None:
            msg = f"the entry of {self.name} is gone"
            raise RuntimeError(msg)
        return code

    def get_function(self, name: str) -> Any:
        return self._get_module_for_linking().get_function(name)

    def get_defined_functions(self) -> Iterator[Any]:
        return (function for function in self._get_module_for_linking().functions if not function.is_declaration)

    def get_llvm_str(self) -> str:
        return str(self._get_module_for_linking())

    def get_asm_str(self) -> str:
        return str(self._codegen._tm.emit_assembly(self._get_module_for_linking()))


def abort_unresolved(target_context: Any) -> None:
    """Let calls of functions that will never be defined raise, as Numba does, instead of crashing.

    Numba names the other half of a recursion by the flags of the caller, which may not be its own.
    """
    waiting = [cell for cell in target_context.codegen()._rtlinker._unresolved.values() if not cell.value]
    if waiting:
        rtsys.initialize(target_context)
        placeholder = rtsys.library.get_pointer_to_function("nrt_unresolved_abort")
        for cell in waiting:
            cell.value = placeholder


def _stand_in(codegen: Any, unresolved: tuple[str, ...]) -> str:
    """An empty module that declares the pointers Numba resolves after linking (recursion)."""
    lines = [f'target triple = "{codegen._llvm_module.triple}"', f'target datalayout = "{codegen._data_layout}"']
    lines += [f'@"{name}" = external global i64' for name in unresolved]
    return "\n".join(lines)
