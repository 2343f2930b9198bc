"""The machine code of publications in this process: out of an image, or entry by entry with LLVM.

Both ways bind the same symbols to the same things: arrays that code has the address of, cells through which functions
call each other, and the runtime (:mod:`~nbcache.published.runtime`). An image is preferred, because it needs no LLVM;
where it can't be mapped, the entries are there as well.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from nbcache.passing_exceptions import errors
from nbcache.published import environments, unpickling
from nbcache.published.runtime import ADD_PENDING_CALL, MAKE_GENERATOR, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np

    from nbcache.protocol.manifests import ImageFacts, Manifest
    from nbcache.published import images
    from nbcache.published.entry_code import Entries
    from nbcache.published.members import Files, ObjectOf


class _Cell(ctypes.c_void_p):
    """A variable that holds a pointer, and keeps what that points to. It can be referred to weakly."""

    def __init__(self, value: int, pointed_to: object = None) -> None:
        super().__init__(value)
        self.pointed_to = pointed_to


def _leaves_addresses(manifest: Manifest, facts: ImageFacts) -> bool:
    """Whether somebody may have an address in the code of an image, or in its constants, when its functions are gone.

    C has those of callbacks, generators that of their code, and Python that of what raises later what the handler of a
    signal raised. That comes along with unpickling, and so with each array that is handed to Python: it may be a
    constant.
    """
    leaving = {MAKE_GENERATOR, ADD_PENDING_CALL}
    called = any(symbol in leaving for _offset, symbol, _addend in facts.slots)
    return called or any(each.what == "cfunc" for each in manifest.functions.values())


class MachineCode:
    """What this process has loaded of code that one version of Numba made. One thread at a time."""

    def __init__(self, version: str) -> None:
        """Load nothing yet, and start no LLVM."""
        self._runtime = Runtime(version)
        self._entries: Entries | None = None
        self._arrays: WeakValueDictionary[str, np.ndarray[Any, Any]] = WeakValueDictionary()
        """By the digests of their files."""
        self._cells: WeakValueDictionary[str, _Cell] = WeakValueDictionary()
        """Variables that code finds by name."""
        self._kept: list[Any] = []
        """What code that stays has the addresses of."""
        self._functions: dict[str, int] = {}
        """C functions that code calls by name, of libraries that a manifest names."""

    def load(self, manifest: Manifest, files: Files, object_of: ObjectOf | None) -> Callable[[str], int]:
        """Load what a manifest refers to; return what says where its symbols lie. Raises PublicationError.

        ``files`` are those of publications, by digest. Without ``object_of`` there are no object files, and an image
        that can't be mapped, or isn't there, raises ImageError.
        """
        if any(manifest.imports.values()):
            from nbcache.published.manifest_names import check_fields

            check_fields(manifest)
        self._runtime.extensions.offer(manifest.extensions, lambda digest: files.read(digest, manifest.name))
        kept: list[Any] = unpickling.locate(manifest.tokens)
        for symbol, array in manifest.arrays.items():
            cell = self._cells.get(symbol)
            if cell is None:
                held = self._array(files.read(array.digest, manifest.name), array.digest)
                place = held.ctypes.data + array.offset if array.what == "data" else id(held)
                cell = self._cells[symbol] = _Cell(place, held)
            kept.append(cell)
        self._bind(manifest)
        if manifest.image is not None:
            try:
                return self._load_image(manifest, manifest.image, files, kept)
            except errors.ImageError as error:
                if object_of is None:
                    raise
                import logging

                logging.getLogger("nbcache").info(
                    "%s is loaded with LLVM instead of its image: %s", manifest.name, error
                )
        if object_of is None:
            raise errors.ImageError("there is no image of it")
        self._kept += kept
        if self._entries is None:
            from nbcache.published.entry_code import Entries

            self._entries = Entries(self._addresses, self._cell, self._kept)
        return self._entries.load(manifest, files, object_of)

    def _bind(self, manifest: Manifest) -> None:
        """Find the C functions that code calls. Raises PublicationError."""
        if not manifest.natives:
            return
        from nbcache.published import natives  # most publications call none

        for symbol, native in manifest.natives.items():
            try:
                found = natives.address(native)
            except LookupError as error:
                raise errors.PublicationError(manifest.name, str(error.args[0])) from error
            if native.what == "pointer":
                known = self._cell(symbol, found).value
            else:
                known = self._functions.setdefault(symbol, found)
            if known != found:
                raise errors.PublicationError(
                    manifest.name, f"it calls another {native.symbol} than this process has loaded: start a new one"
                )

    def _cell(self, symbol: str, value: int) -> _Cell:
        """Return a variable that stays, with the value that it has, or gets now."""
        cell = self._cells.get(symbol)
        if cell is None:
            cell = self._cells[symbol] = _Cell(value)
        self._kept.append(cell)
        return cell

    def _array(self, data: bytes, digest: str) -> np.ndarray[Any, Any]:
        import io

        import numpy as np

        found = self._arrays.get(digest)
        if found is None:
            found = self._arrays[digest] = np.load(io.BytesIO(data), allow_pickle=False)
            # As compiled code takes it: a constant.
            found.flags.writeable = False
        return found

    def _addresses(self, symbols: Iterable[str]) -> dict[str, int]:
        """Where symbols from elsewhere lie. Raises LookupError."""
        known, find, cells = self._runtime.known, self._runtime.address, self._cells
        functions = self._functions
        return {
            symbol: functions.get(symbol)
            or known.get(symbol)
            or (ctypes.addressof(cells[symbol]) if symbol in cells else find(symbol))
            for symbol in symbols
        }

    def _load_image(self, manifest: Manifest, facts: ImageFacts, files: Files, kept: list[Any]) -> Callable[[str], int]:
        from nbcache.published import images

        path, code = files.opened(facts.digest, manifest.name)

        def bind(image: images.Image) -> None:
            image.kept = kept
            for each in manifest.codes:
                environments.bind(each.environments, image.address, kept)

        image = images.open_image(code, facts, self._addresses, path, bind)
        if _leaves_addresses(manifest, facts):
            image.stay()
        return image.address
