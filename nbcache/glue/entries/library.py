"""A code library whose object code comes out of an entry.

The object goes straight into the engine.  Numba's own cache hands it over through the object-cache
callback of a module, which has to be made, scanned three times and found again among all others.
The LLVM bitcode is only needed to link the function into a new caller or to look at it; it is read
and parsed then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from numba import _dynfunc
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.funcdesc import FunctionDescriptor
from numba.core.runtime import rtsys

from nbcache.glue import own_attributes
from nbcache.glue.entries.meta import Callee, Symbols
from nbcache.process import time


class StoredLibrary(JITCodeLibrary):
    """Behaves like the library the entry was made from.

    ``read(section)`` returns a section of the entry, or None where that is gone or damaged by now;
    ``rebuild()`` then makes the library again, under the same symbol names.  ``llvm_seconds``: how long llvmlite's lock
    was held to load the code.
    """

    def __init__(
        self,
        codegen: Any,
        name: str,
        code: bytes,
        symbols: Symbols,
        callees: Sequence[Callee],
        read: Callable[[str], bytes | None],
        rebuild: Callable[[], Any],
    ) -> None:
        # Not JITCodeLibrary.__init__: it builds and prints an IR module that nobody needs here.
        CodeLibrary.__init__(self, codegen, name)
        self._linking_libraries: list[Any] = []
        self._shared_module = None
        self._read = read
        self._rebuild = rebuild
        self._rebuilt: Any = None
        self._disable_inspection = False
        self.llvm_seconds = 0.0
        if not codegen._engine._defined_symbols:
            _drop_empty_module(codegen)
        for callee in callees:
            if not codegen._engine.is_symbol_defined(callee.function):
                self._add(callee.code, callee.symbols)
        if callees:
            setattr(self, own_attributes.CALLEES, callees)
        self._add(code, symbols)
        self._finalized = True

    def _add(self, code: bytes, symbols: Symbols) -> None:
        """Put an object into the engine."""
        engine, linker = self._codegen._engine, self._codegen._rtlinker
        self._map_unresolved(symbols.unresolved)
        with ffi.lib._lock._lock:
            began = time.perf_counter()
            _load(engine._ee, code)
            self.llvm_seconds += time.perf_counter() - began
        linker._defined.update(symbols.functions)
        engine._defined_symbols.update(symbols.functions, symbols.variables)
        linker.resolve(engine)

    def _map_unresolved(self, names: tuple[str, ...]) -> None:
        """Make cells for the addresses of recursive functions, where the code looks them up.

        Numba's linker fills in what is defined by now, here and in code that waited for this.  Numba
        would put a placeholder into the rest at once; here the entries that are needed come first.
        """
        engine, linker = self._codegen._engine, self._codegen._rtlinker
        for name in names:
            if not engine.is_symbol_defined(name):
                cell = ctypes.c_void_p(0)
                llvm.add_symbol(name, ctypes.addressof(cell))
                engine._defined_symbols.add(name)
                linker._unresolved[name[len(linker.PREFIX) :]] = cell

    @property
    def _final_module(self) -> Any:
        return self._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            bitcode = self._read("bitcode")
            if bitcode is not None:
                self._shared_module = _linkable(bitcode)
            elif self in _being_made:
                # One half of a recursion links the other. What was loaded defines it, for this process alone.
                for half in _being_made[_being_made.index(self) + 1 :]:
                    own_attributes.taint(half, "one of its callees was damaged or gone")
                return llvm.parse_assembly("")
            else:
                self._shared_module = self._of_another("_get_module_for_linking")
        return self._shared_module

    def _get_compiled_object(self) -> bytes:
        code = self._read("object")
        return self._of_another("_get_compiled_object") if code is None else code

    def _of_another(self, method: str) -> Any:
        """What the library gives that is made in the place of this one's entry."""
        with global_compiler_lock:  # who only looks hasn't got it
            if self._rebuilt is None:
                _being_made.append(self)
                try:
                    self._rebuilt = self._rebuild()
                finally:
                    _being_made.pop()
            return getattr(self._rebuilt, method)()

    def get_function(self, name: str) -> Any:
        return self._get_module_for_linking().get_function(name)

    def get_defined_functions(self) -> Iterator[Any]:
        return (function for function in self._get_module_for_linking().functions if not function.is_declaration)

    def get_llvm_str(self) -> str:
        return str(self._get_module_for_linking())

    def get_asm_str(self) -> str:
        return str(self._codegen._tm.emit_assembly(self._get_module_for_linking()))


_being_made: list[StoredLibrary] = []
"""What is being made again, by the thread that has Numba's compiler lock."""


class RenamedLibrary:
    """What can be linked of a *library*, with *names* for functions of other names; wrappers and all are named so."""

    def __init__(self, library: Any, names: dict[str, str]) -> None:
        self._library = library
        self._names = names

    def _get_module_for_linking(self) -> Any:
        text = str(self._library._get_module_for_linking())
        for name, wanted in self._names.items():
            text = text.replace(name.removeprefix(_NESTED), wanted.removeprefix(_NESTED))
        return llvm.parse_assembly(text)

    def _get_compiled_object(self) -> bytes:
        code: bytes = self._library._get_compiled_object()
        return code


def _linkable(bitcode: bytes) -> Any:
    """The module, its functions as `JITCodeLibrary._get_module_for_linking` leaves them: for many callers.

    Past llvmlite's objects, of which each call would take the lock and tell Numba's listeners, as in `_load`.
    """
    module = llvm.parse_bitcode(bitcode)
    functions, call = module.functions, ffi.lib
    following, is_declared = call.LLVMPY_FunctionsIterNext._cfn, call.LLVMPY_IsDeclaration._cfn
    linkage, link = call.LLVMPY_GetLinkage._cfn, call.LLVMPY_SetLinkage._cfn
    with call._lock._lock:
        while function := following(functions):
            if not is_declared(function) and linkage(function) == llvm.Linkage.external:
                link(function, llvm.Linkage.linkonce_odr)
    return module


def _drop_empty_module(codegen: Any) -> None:
    """Take out of the engine the module it was made with: compiling that one, which is empty, takes 1.5 ms."""
    engine, module = codegen._engine._ee, codegen._llvm_module
    if module in engine._modules and not any(module.functions):
        engine.remove_module(module)


def _load(engine: Any, code: bytes) -> None:
    """`ExecutionEngine.add_object_file` and `finalize_object`, by a caller who holds llvmlite's lock.

    The lock itself: going through its wrapper for each call makes two of Numba's events each time, which cost as much
    as what is called.
    """
    call = ffi.lib
    thing = call.LLVMPY_CreateObjectFile._cfn(code, len(code))
    call.LLVMPY_MCJITAddObjectFile._cfn(engine, thing)
    call.LLVMPY_DisposeObjectFile._cfn(thing)
    call.LLVMPY_FinalizeObject._cfn(engine)


def entry_point(library: StoredLibrary, fndesc: Any, environment: Any) -> Any:
    """As `CPUContext.get_executable`, what Python calls; its code knows the *environment* from now on.

    Numba takes llvmlite's lock twice for it, and tells who listens each time.
    """
    call, engine, name = ffi.lib, library.codegen._engine, _wrapper_name(fndesc)
    is_defined = engine.is_symbol_defined(name)  # asking LLVM for what isn't ends the process
    with call._lock._lock:
        address = call.LLVMPY_GetFunctionAddress._cfn(engine._ee, name.encode("ascii")) if is_defined else 0
        place = call.LLVMPY_GetGlobalValueAddress._cfn(engine._ee, fndesc.env_name.encode("ascii"))
    ctypes.c_void_p.from_address(place).value = id(environment)
    doc = f"compiled wrapper for {fndesc.qualname!r}"
    short = fndesc.qualname.rpartition(".")[2]
    return _dynfunc.make_function(fndesc.lookup_module(), short, doc, address, environment, (library,))


def _wrapper_name(fndesc: Any) -> str:
    """As `FunctionDescriptor.llvm_cpython_wrapper_name`, which spells the namespace anew for each function."""
    name: str = fndesc.mangled_name
    return _NAMESPACE + name[len(_NESTED) :] if name.startswith(_NESTED) else fndesc.llvm_cpython_wrapper_name


_NESTED = "_ZN"
_NAMESPACE: str = FunctionDescriptor.llvm_cpython_wrapper_name.fget(SimpleNamespace(mangled_name=_NESTED))
"""What Numba puts in the place of that."""


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
