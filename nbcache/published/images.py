"""Opening images: a shared object is mapped, its slots are filled, and its symbols have addresses.

What is guaranteed
------------------
- **Nothing is mapped that isn't whole**: the caller has the bytes and checked their digest (as
  :mod:`nbcache.store.publication` does when it reads one), for mapping a truncated file ends the process with
  SIGBUS.
- **What is mapped is what was checked.** The C library gives the library that it already has to whoever asks for the
  same path; so a path names its content, and the image's anchor, a symbol that no other image has, is asked for
  afterwards.
- A file that can't be mapped (``noexec``), or whose pages may be taken away while they are used (every filesystem but
  those known to be local: another host may remove a file of NFS), is copied into memory, where it works as well but
  its pages aren't shared with other processes.
- An image is mapped once in a process, as long as somebody has it; whoever opens the next one unmaps it then. Whoever
  calls its code, or has given somebody an address in it, has the image, or has it :meth:`~Image.stay`.
- **Nobody gets a mapping that was filled before**: a file that the process has mapped already, for whomever, is copied.

One thread at a time may open images.

Nothing is looked up by the dynamic linker: see :mod:`nbcache.protocol.manifests`.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import struct
from _ctypes import dlclose, dlopen, dlsym
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary, ref

import numpy as np

from nbcache.passing_exceptions import errors, let_pass
from nbcache.protocol.manifests import ADDRESS_SIZE, ImageFacts, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


_READ: Final = 1  # PROT_READ
_WORD: Final = (1 << 64) - 1
# Of Linux's magic.h and the filesystems' own headers: bcachefs, btrfs, ext2 to ext4, f2fs, overlayfs, ramfs, tmpfs,
# xfs, zfs.
_LOCAL: Final = frozenset(
    {0xCA451A4E, 0x9123683E, 0xEF53, 0xF2F52010, 0x794C7630, 0x858458F6, 0x01021994, 0x58465342, 0x2FC12FC1}
)
_STATFS_SIZE: Final = 256
"""More than any machine's ``struct statfs`` has [bytes]."""
_STATFS: Final = struct.Struct("=Q72xQ")
"""Of that: the type of the filesystem, and the flags of the mount, as x86-64 and AArch64 have them."""
_NOEXEC, _VALID = 0x0008, 0x0020
"""Of these flags: nothing may be executed from there, and that the kernel says so."""

_opened: Final[WeakValueDictionary[str, Image]] = WeakValueDictionary()
_mapped: Final[dict[int, tuple[Any, int]]] = {}
"""By the number of each: what tells when nobody has the image any more, and its handle."""
_gone: Final[dict[int, Any]] = {}
"""Those of them that nobody has any more."""
_numbers: Final = itertools.count()
_staying: Final[list[Image]] = []
_libc: Any = None
_status: Final = ctypes.create_string_buffer(_STATFS_SIZE)


class Image:
    """An image in this process."""

    __slots__ = ("__weakref__", "_held", "base", "kept", "symbols")

    def __init__(self, handle: int, base: int, symbols: dict[str, int]) -> None:
        """``base`` is where it is mapped, ``symbols`` has their offsets from there."""
        # Of garbage that refers to itself, finalisers may still call code. Python says before that an object is gone
        # which it tracks, such as the image itself; of an array it says so when the image lets go of it.
        self._held = np.empty(0)
        number = next(_numbers)
        _mapped[number] = ref(self._held, functools.partial(_gone.__setitem__, number)), handle
        self.base = base
        self.symbols = symbols
        self.kept: list[Any] = []
        """What its code has the addresses of."""

    def stay(self) -> None:
        """Have it mapped for as long as the process lives."""
        if self not in _staying:
            _staying.append(self)

    def address(self, symbol: str) -> int:
        """Return where one of the symbols is that the manifest names. Raises ImageError for another."""
        try:
            return self.base + self.symbols[symbol]
        except KeyError:
            raise errors.ImageError(f"the manifest doesn't say where {symbol} is in the image") from None


def open_image(
    code: bytes,
    facts: ImageFacts,
    resolve: Callable[[Iterable[str]], Mapping[str, int]],
    path: str | None = None,
    bind: Callable[[Image], object] = lambda _image: None,
) -> Image:
    """Map an image, fill its slots with what ``resolve`` says of their symbols, and ``bind`` what else it needs.

    What these raise passes, and the next one to open it begins anew. ``code`` has been checked. ``path`` is the file
    it was read from, if that name stands for this content and nobody can put another file there who isn't trusted.
    Raises ImageError if it can't be mapped.
    """
    while _gone:
        _dead, handle = _mapped.pop(_gone.popitem()[0])
        dlclose(handle)
    image = _opened.get(facts.digest)
    if image is None:
        image = Image(*_map(code, facts, path), facts.symbols)
        _fill(image.base, facts, resolve)
        bind(image)
        _opened[facts.digest] = image
    return image


def _map(code: bytes, facts: ImageFacts, path: str | None) -> tuple[int, int]:
    """Return the image's handle, and where it is mapped now."""
    if len(code) != facts.size:
        raise errors.ImageError(f"the image has {len(code)} bytes instead of {facts.size}: publish it again")
    try:
        if path is not None and _is_mappable(path) and not _is_mapped(path):
            handle = dlopen(path, os.RTLD_NOW | os.RTLD_LOCAL)
        else:
            handle = _copy(code, facts.digest)
        anchor: int = dlsym(handle, facts.anchor)
    except OSError as error:
        let_pass(error)
        raise errors.ImageError(f"the image can't be mapped: {error}") from error
    return handle, anchor - facts.symbols[facts.anchor]


def _is_mappable(path: str) -> bool:
    """Whether code may be executed from that file, and its pages are there as long as they are used."""
    # The C library puts another directory in the place of words like $ORIGIN: ld.so(8), "dynamic string tokens".
    if "$" in path:
        return False
    if _c_library().statfs(os.fsencode(path), _status):
        return False
    kind, flags = _STATFS.unpack_from(_status)
    return kind & 0xFFFFFFFF in _LOCAL and flags & (_VALID | _NOEXEC) == _VALID


def _is_mapped(path: str) -> bool:
    """Whether the C library would give what somebody in this process has of that file, filled or not."""
    handle = _c_library().dlopen(os.fsencode(path), os.RTLD_NOW | os.RTLD_NOLOAD)
    if handle:
        dlclose(handle)
    return bool(handle)


def _copy(code: bytes, digest: str) -> int:
    """Map the image from memory; return its handle. Raises OSError."""
    from nbcache.memory_files import library  # most are files

    with library(f"nbcache-{digest[:16]}", code) as path:
        return dlopen(path, os.RTLD_NOW | os.RTLD_LOCAL)


def _fill(base: int, facts: ImageFacts, resolve: Callable[[Iterable[str]], Mapping[str, int]]) -> None:
    """Write the addresses, then let nobody write there any more."""
    slots, at = facts.slots, 0
    meanings = resolve(symbol for _offset, symbol, _addend in slots)
    addresses = [(meanings[symbol] + addend) & _WORD for _offset, symbol, addend in slots]
    while at < len(slots):
        end = _end_of_run(slots, at)
        packed = struct.pack(f"={end - at}Q", *addresses[at:end])
        ctypes.memmove(base + slots[at][0], packed, len(packed))
        at = end
    start, size = facts.sealed
    page = _page_size()
    # As a dynamic linker rounds it: a page that is only partly to be sealed isn't.
    first, last = (base + start) // page * page, (base + start + size) // page * page
    if last > first and _c_library().mprotect(first, last - first, _READ):
        raise errors.ImageError("the image's slots can't be protected: mprotect failed")


def _end_of_run(slots: Sequence[Slot], at: int) -> int:
    """Up to which slot those from there on lie side by side."""
    if slots[-1][0] - slots[at][0] == (len(slots) - 1 - at) * ADDRESS_SIZE:
        return len(slots)
    end = at + 1
    while end < len(slots) and slots[end][0] == slots[end - 1][0] + ADDRESS_SIZE:
        end += 1
    return end


@functools.cache
def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _c_library() -> Any:
    global _libc  # noqa: PLW0603  made at the first image
    if _libc is None:
        _libc = ctypes.CDLL(None)
        _libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        _libc.statfs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        _libc.dlopen.argtypes, _libc.dlopen.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
    return _libc
