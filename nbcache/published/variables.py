"""What few published functions refer to by name besides symbols: arrays, variables with pointers, and C functions."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from nbcache.passing_exceptions import errors

if TYPE_CHECKING:
    import numpy as np

    from nbcache.protocol.manifests import Manifest
    from nbcache.published.members import Files


class _Cell(ctypes.c_void_p):
    """A variable that holds a pointer, and keeps what that points to. It can be referred to weakly."""

    def __init__(self, value: int, pointed_to: object = None) -> None:
        super().__init__(value)
        self.pointed_to = pointed_to


class Variables:
    """Those of the code that one version of Numba made. One thread at a time."""

    def __init__(self, kept: list[Any]) -> None:
        """``kept`` holds what code that stays has the addresses of."""
        self._kept = kept
        self._arrays: WeakValueDictionary[str, np.ndarray[Any, Any]] = WeakValueDictionary()
        """By the digests of their files."""
        self._cells: WeakValueDictionary[str, _Cell] = WeakValueDictionary()
        """Variables that code finds by name."""
        self._functions: dict[str, int] = {}
        """C functions that code calls by name, of libraries that a manifest names."""

    def find(self, manifest: Manifest, files: Files) -> list[Any]:
        """Have the arrays and C functions of a manifest; return what its code has the addresses of.

        Raises PublicationError.
        """
        kept = []
        for symbol, array in manifest.arrays.items():
            cell = self._cells.get(symbol)
            if cell is None:
                held = self._array(files.read(array.digest, manifest.name), array.digest)
                place = held.ctypes.data + array.offset if array.what == "data" else id(held)
                cell = self._cells[symbol] = _Cell(place, held)
            kept.append(cell)
        if manifest.natives:
            self._bind(manifest)
        return kept

    def address(self, symbol: str) -> int | None:
        """Where a C function or a variable lies; None if there is none of this name."""
        found = self._functions.get(symbol)
        if found is None:
            cell = self._cells.get(symbol)
            return None if cell is None else ctypes.addressof(cell)
        return found

    def cell(self, symbol: str, value: int) -> _Cell:
        """Return a variable that stays, with the value that it has, or gets now."""
        cell = self._cells.get(symbol)
        if cell is None:
            cell = self._cells[symbol] = _Cell(value)
        self._kept.append(cell)
        return cell

    def _bind(self, manifest: Manifest) -> None:
        """Find the C functions that code calls. Raises PublicationError."""
        from nbcache.published import natives  # most of these refer to arrays

        for symbol, native in manifest.natives.items():
            try:
                found = natives.address(native)
            except LookupError as error:
                raise errors.PublicationError(manifest.name, str(error.args[0])) from error
            if native.what == "pointer":
                known = self.cell(symbol, found).value
            else:
                known = self._functions.setdefault(symbol, found)
            if known != found:
                raise errors.PublicationError(
                    manifest.name, f"it calls another {native.symbol} than this process has loaded: start a new one"
                )

    def _array(self, data: bytes, digest: str) -> np.ndarray[Any, Any]:
        import io

        import numpy as np

        found = self._arrays.get(digest)
        if found is None:
            found = self._arrays[digest] = np.load(io.BytesIO(data), allow_pickle=False)
            # As compiled code takes it: a constant.
            found.flags.writeable = False
        return found
