"""What compiled code expects from elsewhere: addresses of Numba's runtime, of Python's and NumPy's C API and of the C
library, and for each of its functions an environment, with the constants that it reads.

Each symbol is bound as Numba binds it, to the same functions; only what would import Numba is bound to functions of
our own (:mod:`nbcache.published.unpickling`). The sources are numba/core/base.py (helpers, exceptions),
core/runtime/nrt.py, core/externals.py (libm), cpython/hashing.py and np/ufunc/parallel.py.

Numba's own C extensions are loaded by file, without Numba, and under their real names. Where Numba is installed in the
version that the code was built with, its own files are taken, so that an ``import numba`` later, or before, has the
very same ones with their state. Elsewhere, and beside a Numba of another version, which then has its own, they come out
of the store, where they were put with the publication, and are loaded from memory: a store may be mounted ``noexec``,
and a file that is truncated while it is mapped ends the process.
"""

from __future__ import annotations

import _ctypes
import builtins
import ctypes
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

    from nbcache.protocol import manifests
    from nbcache.protocol.manifests import Extension

THREADING: Final = frozenset({
    "numba_parallel_for", "do_scheduling_signed", "do_scheduling_unsigned", "allocate_sched", "deallocate_sched",
    "get_num_threads", "set_num_threads", "get_thread_id",
    "set_parallel_chunksize", "get_parallel_chunksize", "get_sched_size",
})  # fmt: skip
"""Symbols of the threading layer, which is started when code that needs it is loaded."""

UNRESOLVED: Final = ".numba.unresolved$"
"""What Numba calls the cell in which code looks for a function that is still being compiled, before the function's
name."""
NUMPY: Final = "nbcache.numpy."
"""What the symbol of an attribute of NumPy begins with: ``nbcache.numpy.ndarray`` is the address of that class."""
INTERNED: Final = "nbcache.text."
"""What the symbol of a text begins with: ``nbcache.text.x`` is the address of the "x" that code has as a name."""

UNPICKLER: Final = "nbcache.unpickler"
EXCEPTION_BUILDER: Final = "nbcache.exception_builder"
"""Functions of Python, the objects themselves, for code that calls them (``glue/publishing/ir_asking_python.py``)."""
UNPICKLE: Final = "nbcache.unpickle"
"""The function of machine code that does, for the one that remembers what it returned."""
NUMBA_UNPICKLE: Final = "numba_unpickle"
NUMBA_BUILD_EXCEPTION: Final = "numba_runtime_build_excinfo_struct"
MEMO: Final = "nbcache_unpickle"
BUILD_EXCEPTION: Final = "nbcache_build_exception"
"""What takes the place of these two in an object file for LLVM; in an image it has the names of Numba's."""
REPLACED: Final = {NUMBA_UNPICKLE: MEMO, NUMBA_BUILD_EXCEPTION: BUILD_EXCEPTION}
NOWHERE: Final = "it calls {}, which no library of this process has: name one that does in publish(…, libraries=[…])"
MAKE_GENERATOR: Final = "numba_make_generator"
ADD_PENDING_CALL: Final = "Py_AddPendingCall"
HELPERS: Final = "numba._helperlib"
MEMORY: Final = "numba.core.runtime._nrt_python"
GENERATORS: Final = "numba._dynfunc"

_HASH_PREFIX: Final = "_numba_hashsecret_"
_STEMS: Final = (
    "frexp", "ldexp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
    "exp", "expm1", "sqrt", "fabs", "floor", "ceil", "log", "log10", "log1p", "round", "trunc", "pow", "fmod", "atan2",
)  # fmt: skip
_MATH: Final = tuple(name + suffix for name in _STEMS for suffix in ("", "f"))
"""Functions of libm that Numba binds to its own helpers, under their plain names (numba/cpython/mathimpl.py)."""
_ALGEBRA: Final = ("numba_ez_", "numba_x")
"""What Numba's helpers around BLAS and LAPACK begin with, and nothing else does (numba/_lapack.c)."""
_LIBRARIES: Final = ("libm.so.6", "libgcc_s.so.1")


class Runtime:
    """Addresses by symbol, for code of one version of Numba. What is bound once stays for the code that was bound to
    it.
    """

    def __init__(self, version: str) -> None:
        """Know nothing yet: each part is loaded when the first symbol of it is asked for."""
        self.extensions = Extensions(version)
        self.known = {
            UNPICKLER: id(_unpickle),
            EXCEPTION_BUILDER: id(_build_exception),
        }
        """What was found so far, to be read."""
        self._kept: list[Any] = []
        self._handles = [ctypes.pythonapi._handle]  # noqa: SLF001  dlsym of ctypes takes it

    def address(self, symbol: str) -> int:
        """Where a symbol lies. Raises LookupError for one that doesn't exist here."""
        found = self.known.get(symbol)
        if found is None:
            found = self.known[symbol] = self._find(symbol)
        return found

    def _find(self, symbol: str) -> int:
        exception = getattr(builtins, symbol[6:], None) if symbol.startswith("PyExc_") else None
        if exception is not None:
            return id(exception)  # the class itself, not Python's variable that points to it, as Numba has it
        if symbol == "_Py_NoneStruct":
            return id(None)
        if symbol.startswith(NUMPY):
            return id(getattr(np, symbol[len(NUMPY) :]))
        if symbol.startswith(INTERNED):
            self._kept.append(sys.intern(symbol[len(INTERNED) :]))
            return id(self._kept[-1])
        if not symbol.startswith(("Py", "_Py")):
            found = self._of_numba(symbol)
            if found is not None:
                return found
        for handle in self._searched():
            try:
                return int(_ctypes.dlsym(handle, symbol))
            except OSError:
                continue
        raise LookupError(NOWHERE.format(symbol))

    def _of_numba(self, symbol: str) -> int | None:
        """Where a symbol lies, if it is of Numba's runtime."""
        if symbol.startswith(("NRT_", "_nrt_")):
            return self._memory().get(symbol.removeprefix("NRT_"))
        if symbol.startswith(_HASH_PREFIX) or symbol in THREADING:
            # All at once: the cells are one's own, and the threads are started once.
            self.known.update(self._rare(symbol))
            return self.known.get(symbol)
        if symbol == MAKE_GENERATOR:
            return self._helpers(GENERATORS).get("make_generator")
        name = symbol.removeprefix("numba_")
        if symbol.startswith(_ALGEBRA):
            from nbcache.published.rare_symbols import is_installed

            # They ask SciPy for its BLAS and LAPACK when they are called, and end the process if there is none.
            if not is_installed("scipy"):
                what = "linear algebra, for which Numba calls SciPy's, which isn't here"
                raise LookupError(f"it uses {what}: install scipy")
        return self._helpers(HELPERS).get(name) if name != symbol or symbol in _MATH else None

    def _rare(self, symbol: str) -> Mapping[str, int]:
        """Return where the symbols of the threading layer lie, or those of hashing."""
        if symbol in THREADING:
            from nbcache.published import threads  # little code is parallel

            return threads.addresses(self.extensions.load, THREADING)
        from nbcache.published.rare_symbols import hash_secrets

        return hash_secrets(self._kept)

    def _helpers(self, module: str) -> Mapping[str, int]:
        found: Mapping[str, int] = self.extensions.load(module).c_helpers
        return found

    def _memory(self) -> Mapping[str, int]:
        first = MEMORY not in sys.modules
        module: Any = self.extensions.load(MEMORY)
        if first:
            module.memsys_use_cpython_allocator()  # numba/core/runtime/__init__.py does
        found: Mapping[str, int] = module.c_helpers
        return found

    def _searched(self) -> Iterator[int]:
        yield from self._handles
        for name in _LIBRARIES[len(self._handles) - 1 :]:
            handle = _ctypes.dlopen(name, os.RTLD_NOW)
            self._handles.append(handle)
            yield handle


class Extensions:
    """Those of one build of Numba, by name: what publications made with it brought along."""

    def __init__(self, version: str) -> None:
        """Know none of this version of Numba yet."""
        self._version = version
        self._known: dict[str, tuple[Extension, Callable[[str], bytes]]] = {}
        self._loaded: dict[str, ModuleType] = {}

    def offer(self, extensions: Iterable[Extension], read: Callable[[str], bytes]) -> None:
        """Note what a publication has; ``read(digest)`` returns a file's content."""
        for each in extensions:
            self._known.setdefault(each.module, (each, read))

    def load(self, name: str) -> ModuleType:
        """Return the extension of this name. Raises ImportError, and what ``read`` raises."""
        module = self._loaded.get(name)
        if module is None:
            module = self._loaded[name] = self._installed(name) or self._published(name)
        return module

    def _installed(self, name: str) -> ModuleType | None:
        """Numba's own, if that is of the version that was published."""
        path = file_of(name)
        if path is None or not _is_of(self._version, name, path):
            return None
        known = self._known.get(name)
        # Reading megabytes to compare them would take longer than everything else.
        if known is not None and os.stat(path).st_size != known[0].size:
            return None
        return sys.modules.get(name) or _load_extension(name, path)

    def _published(self, name: str) -> ModuleType:
        if name not in self._known:
            raise ImportError(f"{name} of Numba {self._version} is not installed, and was not published")
        from nbcache.published.rare_symbols import published_extension  # most have Numba's own, or need none

        return published_extension(*self._known[name], _load_extension)


_found: Final[dict[str, tuple[list[str], list[str]]]] = {}
"""By package: the path that it was looked for on, and its folders there."""


def folders_of(package: str) -> list[str]:
    """Where the modules of an installed package lie, without importing it; nowhere if it isn't installed."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return list(loaded.__path__)
    path, folders = _found.get(package, ((), []))
    if path != sys.path:
        spec = PathFinder.find_spec(package)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if folders:  # what isn't there may come
            _found[package] = list(sys.path), folders
    return folders


def _is_of(version: str, name: str, path: str) -> bool:
    """Whether a file belongs to this version of Numba, without importing it."""
    package = sys.modules.get("numba")
    if package is not None:
        return getattr(package, "__version__", None) == version
    site = path[: -len(os.path.join(*name.split("."))) - len(EXTENSION_SUFFIXES[0])]
    return os.path.isdir(f"{site}numba-{version}.dist-info")


def file_of(name: str) -> str | None:
    """The file of one of Numba's extensions, without importing Numba; None if it isn't there."""
    for folder in folders_of("numba"):
        for suffix in EXTENSION_SUFFIXES:
            path = os.path.join(folder, *name.split(".")[1:]) + suffix
            if os.path.exists(path):
                return path
    return None


def _load_extension(name: str, path: str) -> ModuleType:
    loader = ExtensionFileLoader(name, path)
    module = loader.create_module(ModuleSpec(name, loader, origin=path))
    loader.exec_module(module)
    return module


def _unpickle(address: int, size: int, digest: int) -> Any:
    """What code calls for its pickles; the first one imports what reads them."""
    from nbcache.published import unpickling

    return unpickling.unpickle(address, size, digest)


def _build_exception(fixed: bytes, values: tuple[Any, ...]) -> Any:
    """Likewise for exceptions with values that are only known when they are raised."""
    from nbcache.published import unpickling

    return unpickling.build_exception(fixed, values)


_HEAD: Final = object.__basicsize__
"""Behind it, compiled code finds the fields of an environment (numba/_dynfunc.c): of a class of two slots likewise."""


class Environment:
    """What a compiled function reads at run time, through a variable that holds its address.

    Slots are laid out by their names, in alphabetical order.
    """

    __slots__ = ("a_globals", "b_consts")

    def __init__(self, module: str, constants: Iterable[manifests.Constant]) -> None:
        """Take the constants of a manifest. Raises what unpickling raises."""
        self.a_globals = {"__name__": module}
        self.b_consts = [constant(each) for each in constants]


def _is_laid_out() -> bool:
    probe = Environment("", ())
    word = ctypes.sizeof(ctypes.c_void_p)
    found = [ctypes.c_void_p.from_address(id(probe) + _HEAD + i * word).value for i in range(2)]
    return found == [id(probe.a_globals), id(probe.b_consts)]


if not _is_laid_out():
    raise ImportError("this Python lays out objects with slots in another way than published code expects")


def bind(environments: Iterable[manifests.Environment], address_of: Callable[[str], int], kept: list[Any]) -> None:
    """Let the variables of these environments, wherever they lie, hold one each, if they don't yet.

    Code has bare pointers to them: whoever keeps the code keeps what is ``kept``. Raises what unpickling raises; those
    that are bound by then stay.
    """
    for each in environments:
        variable = ctypes.c_void_p.from_address(address_of(each.symbol))
        if not variable.value:
            kept.append(Environment(each.module, each.constants))
            variable.value = id(kept[-1])


def constant(data: manifests.Constant) -> Any:
    """What a constant of a manifest is. Raises what unpickling raises."""
    if "dtype" in data:
        return dtype(data["dtype"])
    if "pickle" in data:
        import base64

        from nbcache.published import unpickling

        return unpickling.loads(base64.b64decode(data["pickle"]))
    return data["json"]


def dtype(description: Any) -> np.dtype[Any]:
    """What a dtype of a manifest is (:mod:`nbcache.protocol.manifests`). Raises what NumPy raises."""
    if isinstance(description, str):
        return np.dtype(description)
    fields = description["fields"]
    titled = [name if isinstance(name, list) else (None, name) for name, *_ in fields]
    laid_out: Any = {
        "names": [name for _, name in titled],
        "formats": [(dtype(kind), tuple(shape)) for _, kind, shape, _ in fields],
        "offsets": [offset for *_, offset in fields],
        "titles": [title for title, _ in titled],
        "itemsize": description["size"],
    }
    found: np.dtype[Any] = np.dtype(laid_out, align=description["aligned"])
    return found
