"""The code of one library as a manifest's code: the entry that holds it, and what it expects of the process it runs
in.
"""

from __future__ import annotations

import io
import re
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numba.core.environment import lookup_environment

from nbcache.elf import symbols_of
from nbcache.errors import ImageError
from nbcache.glue import own_attributes
from nbcache.glue.capture import placeholders
from nbcache.glue.entries.meta import Meta
from nbcache.glue.publishing import natives
from nbcache.glue.publishing.constants import constant, names_in_code
from nbcache.glue.publishing.refusals import OBJECT_MODE, Refused
from nbcache.protocol import manifests, rare_parts
from nbcache.published.manifest_names import fields_of
from nbcache.published.runtime import GENERATORS, HELPERS, MEMORY, NOWHERE, THREADING, UNRESOLVED
from nbcache.published.threads import POOLS
from nbcache.published.unpickling import LOCATE, LOCATE_IN, RECALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nbcache.store.entry import Entry

_ENVIRONMENTS = ("_ZN08NumbaEnv", ".NumbaEnv")
_NUMBA_MODULE = re.compile(rb"\0(numba(?:\.[a-z_]+)+)\0")


class Entries(Protocol):
    """Where entries are looked for."""

    def find(self, key: str) -> Iterator[Entry]:
        """Yield each entry of a key that may be used; it is in the store then."""


class Codes:
    """The codes of one publication, with all that they share."""

    def __init__(self, store: Entries) -> None:
        self._store = store
        self._index: dict[tuple[str, str], int] = {}
        self.codes: list[manifests.Code] = []
        self._entries: list[Entry] = []
        self.tokens: dict[str, tuple[str, str, int]] = {}
        self.imports: dict[str, tuple[str, ...]] = {}
        self.extensions: set[str] = {HELPERS, MEMORY}
        self.natives: dict[str, rare_parts.Native] = {}
        self.arrays: dict[str, tuple[bytes, str, int]] = {}
        """Files, what of the array is pointed to, and where in the file's data its first element lies, by symbol."""

    def add(self, library: Any, key: str) -> int:
        """Add the code of a *library* whose entry is the one under *key*, and of its recursions; return its number.

        Raises Refused.
        """
        number = self._add(bytes(library._get_compiled_object()), key)
        meta, _definitions = own_attributes.meta_of(library)
        for _symbol, needed, build in meta.needs if isinstance(meta, Meta) else ():
            entry = next((each for each in self._store.find(needed) if each.header.build == build), None)
            if entry is None:
                raise Refused("the other half of a recursion is not in the store: compile both anew, in a new process")
            self._add(entry.section("object") or b"", needed)
        return number

    def _add(self, code: bytes, key: str) -> int:
        entry = self._entry_of(key, code)
        known = self._index.get((key, entry.digest))
        if known is not None:
            return known
        symbols = symbols_of(code)
        assert symbols is not None, "it is an entry"
        for module, name in names_in_code(code):
            self._add_pickled(module, name)
        self._refuse_imports(symbols.undefined, code)
        externals, cells = [], []
        for name in symbols.undefined:
            if name.startswith(UNRESOLVED):
                cells.append(name[len(UNRESOLVED) :])
            else:
                externals.append(name)
        self._add_tokens(placeholders.tokens_in(code))
        self._add_extensions(externals)
        self.natives.update(natives.called_by_name(externals))
        found = manifests.Code(
            key, entry.digest, tuple(externals), tuple(cells), tuple(_environments(symbols.variables))
        )
        number = self._index[key, entry.digest] = len(self.codes)
        self.codes.append(found)
        self._entries.append(entry)
        return number

    def bitcodes(self) -> list[bytes]:
        """What the codes were compiled from, optimised, in their order.  Raises ImageError."""
        found = []
        for entry in self._entries:
            bitcode = entry.section("bitcode")
            if bitcode is None:
                raise ImageError("an entry is damaged")
            found.append(bitcode)
        return found

    def _entry_of(self, key: str, code: bytes) -> Entry:
        for entry in self._store.find(key):
            if entry.section("object") == code:
                return entry
        # What was stored is kept where the same was compiled for want of a symbol alone: other processes have that.
        symbols = symbols_of(code)
        nowhere = natives.nowhere(() if symbols is None else symbols.undefined)
        if nowhere is not None:
            raise Refused(NOWHERE.format(nowhere))
        raise Refused(
            "its entry is not in the store, or is that of another build by now: compile it anew, in a new process"
        )

    def _add_pickled(self, module: str, name: str) -> None:
        if (module, name) in {LOCATE, LOCATE_IN, RECALL} or module.startswith("llvmlite.ir"):
            return
        if module.partition(".")[0] in {"numba", "llvmlite"}:
            what = "a block of objmode, mostly, or a function that is handed over"
            raise Refused(
                f"its code makes {module}.{name} when it runs ({what}), which needs Numba: leave that to its caller"
            )
        self._add_import(f"{module}:{name}")

    def _add_import(self, where: str) -> None:
        self.imports[where] = fields_of(where)

    def _refuse_imports(self, undefined: Iterable[str], code: bytes) -> None:
        if any(name.startswith("PyImport_") for name in undefined):
            found = _NUMBA_MODULE.search(code)
            if found is not None:
                raise Refused(f"its code imports {found[1].decode()} when it runs: leave what needs that to its caller")

    def _add_tokens(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            kind, *rest = placeholders.definitions[token]
            live = placeholders._live[token]
            if kind in {"line", "toolchain", "file"}:
                function, file, line = live
                # Numba's helper takes UTF-8, and crashes over a name of other bytes.
                self.tokens[token] = function, file.encode("utf-8", "backslashreplace").decode(), line
            elif kind == "address" and isinstance(live.owner, np.ndarray):
                what = rest[0][0]
                self.arrays[token] = _npy(live.owner, what), what, _offset(live.owner)
            elif kind == "address" and rest[0][0] in {"library", "exported"}:
                self.natives[token] = natives.at(live.value, natives.POINTER)
            elif kind == "object" and rest[1] and isinstance(live(), type | FunctionType):
                self._add_import(rest[1])
            else:
                raise Refused(_refusal(kind, live))

    def _add_extensions(self, externals: Iterable[str]) -> None:
        if not THREADING.isdisjoint(externals):
            self.extensions.update(POOLS)
        if "numba_make_generator" in externals:
            self.extensions.add(GENERATORS)


def _environments(variables: Iterable[str]) -> Iterable[manifests.Environment]:
    for name in variables:
        if name.startswith(_ENVIRONMENTS):
            environment = lookup_environment(name)
            if environment is None:
                yield manifests.Environment(name, "builtins", ())
            else:
                module = environment.globals.get("__name__")
                constants = tuple(constant(each, "a constant of its code") for each in environment.consts)
                yield manifests.Environment(name, module if isinstance(module, str) else "builtins", constants)


def _npy(array: Any, what: str) -> bytes:
    """An array as a file; one that isn't contiguous as the memory that it spans, since code has its strides."""
    if array.dtype.hasobject:
        raise Refused("it uses a global array of objects, which no other process has: use one of numbers")
    if not array.flags.forc:
        if what != "data":
            raise Refused("it uses a global array that isn't contiguous: use a contiguous copy of it")
        array = _spanned(array)
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _spanned(array: Any) -> Any:
    """The bytes from an array's first in memory to its last, zero where none of its elements lies."""
    reach = sum(abs(stride) * (length - 1) for stride, length in zip(array.strides, array.shape, strict=True))
    memory = np.zeros(reach + array.itemsize, np.uint8)
    np.ndarray(array.shape, array.dtype, memory, _offset(array), array.strides)[...] = array
    return memory


def _offset(array: Any) -> int:
    """How far its first element lies behind its first byte in memory: where strides are negative."""
    return sum(max(0, -stride * (length - 1)) for stride, length in zip(array.strides, array.shape, strict=True))


def _refusal(kind: str, live: Any) -> str:
    if kind == "object":
        obj = live()
        name = getattr(obj, "__qualname__", type(obj).__name__)
        return f"it refers to {name}, which can't be imported: define it in a module, at the top level"
    if kind == "address":
        advice = "call what it was made of, or a C function of a library"
        return f"it has the address of a {type(live.owner).__name__} built in, which no other process has: {advice}"
    return OBJECT_MODE
