"""Makes an image: one shared object with all the machine code of a publication, for nodes without LLVM.

The optimised modules of all signatures and the type checks in front of them are linked into one, which is sent
through code generation once more, position independent this time, and linked by the system's linker. Everything in it
is hidden but one *anchor*, a symbol that no other image has. Its names stay in the symbol table, where debuggers and
profilers look.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from nbcache.errors import ImageError
from nbcache.glue.publishing import shared_object
from nbcache.protocol.manifests import ANCHOR, ImageFacts
from nbcache.published.runtime import UNRESOLVED as _CELL
from nbcache.store.content import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

_LINKERS: Final = ("ld", "ld.lld", "ld.bfd", "cc", "gcc", "clang")
"""What is looked for in PATH, in this order: a compiler only calls one of the others."""
_COMPILERS: Final = frozenset({"cc", "gcc", "clang"})
_OPTIONS: Final = ("-shared", "-Bsymbolic", "-z", "now", "-z", "relro", "-z", "noexecstack", "-z", "noseparate-code")
_TIMEOUT: Final = 120
"""How long a linker may take [s]."""
_OWN: Final = frozenset({llvm.Linkage.internal, llvm.Linkage.private})


class Image(NamedTuple):
    """The file's content, and what a manifest says of it."""

    code: bytes
    facts: ImageFacts


def linker() -> str | None:
    """Return the path of the linker that would be used, or None if there is none."""
    return next(filter(None, map(shutil.which, _LINKERS)), None)


def build(
    bitcodes: Sequence[bytes],
    checks: Sequence[str],
    keep: Collection[str],
    cpu: str = "",
    meanwhile: Callable[[], object] = lambda: None,
) -> Image:
    """Make an image of optimised modules, as bitcode, and of type checks, as text, for a processor or for that which
    this process compiles for.

    ``keep`` are the symbols whose offsets its facts must have; ``meanwhile`` is called while the linker runs. Raises
    ImageError if there is no linker, or if it fails.
    """
    program = linker()
    if program is None:
        raise ImageError(f"no linker was found in PATH ({', '.join(_LINKERS)})")
    code, anchor = _emitted(bitcodes, checks, keep, cpu)
    detached = shared_object.detach(_linked(program, code, meanwhile), {*keep, anchor})
    digest, size = digest_of(detached.code), len(detached.code)
    facts = ImageFacts(digest, size, anchor, detached.slots, detached.sealed, detached.symbols)
    return Image(detached.code, facts)


@global_compiler_lock
def _emitted(bitcodes: Sequence[bytes], checks: Sequence[str], keep: Collection[str], cpu: str) -> tuple[bytes, str]:
    """Return an object file of all of that, and the anchor's name."""
    module = linked(bitcodes, checks, keep)
    anchor = f"{ANCHOR}{blake2b(module.as_bitcode() + cpu.encode(), digest_size=16).hexdigest()}"
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.linkage not in _OWN:
            value.visibility = "hidden"
    exported = ir.Module()
    mark = ir.GlobalVariable(exported, ir.IntType(8), anchor)
    mark.initializer, mark.global_constant = ir.Constant(ir.IntType(8), 1), True
    module.link_in(_parsed(str(exported)))
    module.verify()
    return bytes(_target_machine(cpu).emit_object(module)), anchor


def linked(bitcodes: Sequence[bytes], texts: Sequence[str], keep: Collection[str] = ()) -> Any:
    """Link bitcodes and texts into one module. Of bitcodes it has what is to be kept and what that needs, and what
    several of them have a copy of once.
    """
    module, there = _parsed(str(ir.Module())), set[str]()
    parts = list(map(llvm.parse_bitcode, bitcodes))
    cells = {value.name for part in parts for value in part.global_variables if value.name.startswith(_CELL)}
    needed = {*keep, *(cell.removeprefix(_CELL) for cell in cells)}
    for part in parts:
        for value in _values(part):
            if value.linkage == llvm.Linkage.external and not value.is_declaration:
                name = value.name
                if name in there or name not in needed:
                    # LLVM links it where it is needed: not what C would call a function of `@njit` by.
                    value.linkage = llvm.Linkage.linkonce_odr
                there.add(name)
        module.link_in(part)
    for text in texts:
        module.link_in(_parsed(text))
    if cells:
        module.link_in(_recursions(module, cells))
    return module


def _values(module: Any) -> Iterator[Any]:
    yield from module.functions
    yield from module.global_variables


def _recursions(module: Any, cells: Collection[str]) -> Any:
    """Define the cells through which functions call themselves or each other, which Numba fills while it links."""
    functions = {function.name for function in module.functions if not function.is_declaration}
    made, pointer = ir.Module(), ir.IntType(8).as_pointer()
    for cell in sorted(cells):
        called = cell.removeprefix(_CELL)
        if called not in functions:
            raise ImageError(f"it calls {called} by recursion, which isn't among what is published with it")
        target = ir.Function(made, ir.FunctionType(ir.VoidType(), []), called)
        ir.GlobalVariable(made, pointer, cell).initializer = target.bitcast(pointer)
    return _parsed(str(made))


def _parsed(text: str) -> Any:
    """Parse a module as one for this machine: modules for different ones can't be linked without complaints."""
    module = llvm.parse_assembly(text)
    codegen = cpu_target.target_context.codegen()
    module.triple, module.data_layout = llvm.get_process_triple(), codegen._data_layout
    return module


@functools.cache
def _target_machine(cpu: str) -> Any:
    """Exactly this processor, or Numba's target, but for code that may lie anywhere. The same instructions are chosen
    for the same processor.
    """
    codegen = cpu_target.target_context.codegen()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=cpu or codegen._get_host_cpu_name(),
        features="" if cpu else codegen._tm_features,
        opt=int(config.OPT),
        reloc="pic",
        codemodel="default",
    )


def _linked(program: str, code: bytes, meanwhile: Callable[[], object]) -> bytes:
    """Have a linker make a shared object of an object file. It sees no library, so nothing is bound to one.

    Raises ImageError.
    """
    options: tuple[str, ...] = _OPTIONS
    if os.path.basename(program) in _COMPILERS:
        options = ("-shared", "-nostdlib", *(f"-Wl,{option}" for option in _OPTIONS[1:]))
    with tempfile.TemporaryDirectory(prefix="nbcache-image-") as directory:
        source, result = os.path.join(directory, "image.o"), os.path.join(directory, "image.so")
        with open(source, "wb") as file:
            file.write(code)
        command, nothing = [program, *options, "-o", result, source], subprocess.DEVNULL
        try:
            # The user's own linker, and files of ours.
            with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE, text=True) as running:  # noqa: S603
                try:
                    meanwhile()
                    _said, errors = running.communicate(timeout=_TIMEOUT)
                finally:
                    running.kill()
            if running.returncode:
                raise ImageError(f"{program} failed: {_last_line(errors)}")
            with open(result, "rb") as file:
                return file.read()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ImageError(f"{program} couldn't be run: {error}") from error


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
