"""The machine code of publications entry by entry, with LLVM: where an image can't be mapped, or there is none."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from nbcache.published.engine import Engine
from nbcache.published.runtime import REPLACED, UNRESOLVED, bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.protocol.manifests import Code, Manifest
    from nbcache.published.members import Files, ObjectOf


class Entries:
    """What LLVM has loaded in this process of code that one version of Numba made. One thread at a time."""

    def __init__(
        self,
        addresses: Callable[[Iterable[str]], dict[str, int]],
        cell: Callable[[str, int], ctypes.c_void_p],
        kept: list[Any],
    ) -> None:
        """``addresses`` says where symbols from elsewhere lie, ``cell`` has a variable of a name, with a value for one
        that is new, and ``kept`` holds what code has the addresses of.
        """
        self._addresses = addresses
        self._cell = cell
        self._kept = kept
        self._engine = Engine()
        self._replaced: dict[str, int] = {}
        """Where LLVM has the functions that take the place of Numba's, if it has them, by the names of Numba's."""
        self._loaded: set[tuple[str, str]] = set()
        """Entries and object files that LLVM has: keys, or nothing, and digests."""
        self._cells: dict[str, ctypes.c_void_p] = {}
        """Through which its functions call each other."""

    def load(self, manifest: Manifest, files: Files, object_of: ObjectOf) -> Callable[[str], int]:
        """Load what a manifest refers to; return what says where its symbols lie. Raises PublicationError."""
        memo = manifest.memo
        if memo is not None and not self._replaced:
            code = files.read(memo.digest, manifest.name)
            self._engine.load([code], self._addresses(memo.externals))
            self._replaced = {name: self._engine.address(ours) for name, ours in REPLACED.items()}
        self._load_objects(manifest, files, object_of)
        self._fill_cells(manifest.codes)
        return self._engine.address

    def _load_objects(self, manifest: Manifest, files: Files, object_of: ObjectOf) -> None:
        """Load the entries and the type checks that this process doesn't have, all at once."""
        codes = [code for code in manifest.codes if (code.key, code.entry) not in self._loaded]
        externals: dict[str, int] = {}
        for code in codes:
            externals.update(self._externals(code))
        objects = [object_of(manifest, code) for code in codes]
        loaded = {(code.key, code.entry) for code in codes}
        checks = manifest.checks
        if checks is not None and ("", checks.digest) not in self._loaded:
            # They call nothing that takes the place of Numba's.
            externals.update(self._addresses(checks.externals))
            objects.append(files.read(checks.digest, manifest.name))
            loaded.add(("", checks.digest))
        if objects:
            self._engine.load(objects, externals)
        self._loaded |= loaded
        # Those of all: binding may have failed when they were loaded.
        for code in manifest.codes:
            bind(code.environments, self._engine.address, self._kept)

    def _externals(self, code: Code) -> dict[str, int]:
        """What an entry's object expects from elsewhere."""
        found = self._addresses(symbol for symbol in code.externals if symbol not in self._replaced)
        found.update((symbol, self._replaced[symbol]) for symbol in code.externals if symbol in self._replaced)
        for function in code.cells:
            cell = self._cells[function] = self._cell(function, 0)
            found[UNRESOLVED + function] = ctypes.addressof(cell)
        return found

    def _fill_cells(self, codes: Iterable[Code]) -> None:
        for function in {function for code in codes for function in code.cells}:
            cell = self._cells[function]
            if not cell.value:
                cell.value = self._engine.address(function)
