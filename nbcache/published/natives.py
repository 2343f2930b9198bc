"""C functions that published code calls: found at a node, compared with what was published, and bound.

A function of a shared library is looked for in the file in which the publisher had it, and then wherever the dynamic
linker finds the library's name. It has to be the same build, but of the C library's own, which keep what they had; a
file that others may write isn't loaded at all. A library inside a package is also found where that is installed, in
another environment. One that a Cython module exports is looked for in that module, and has
to have the same signature.
"""

from __future__ import annotations

import _ctypes
import ctypes
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Final

from nbcache.file_trust import Trust
from nbcache.passing_exceptions import let_pass
from nbcache.shared_libraries import build_in, build_of, capsule, exports_of, locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.protocol.rare_parts import Native

C_LIBRARY: Final = frozenset(
    f"lib{name}.so.{number}"
    for name, number in (("c", 6), ("m", 6), ("pthread", 0), ("dl", 2), ("rt", 1), ("util", 1), ("mvec", 1))
)
"""Libraries of which any build has the functions that an older one had (`nbcache.hosts` compares them)."""
_OF_PACKAGES: Final = re.compile(r"/(?:site|dist)-packages/")
"""What the path of an environment's packages ends with."""
_RTLD_DI_LINKMAP: Final = 2


class _LinkMap(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("file", ctypes.c_char_p))


_dlinfo = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
    ("dlinfo", ctypes.CDLL(None)),
)


def address(native: Native) -> int:
    """Return where a function is in this process. Raises LookupError, which says why there is none and what to do."""
    return _exported(native) if native.signature else _in_library(native)


def _exported(native: Native) -> int:
    called = f"the C function {native.symbol} of {native.library}"
    try:
        module = importlib.import_module(native.library)
    except ImportError as error:
        raise LookupError(f"it calls {called}, which can't be imported ({error}): install it here") from error
    exported = exports_of(module).get(native.symbol)
    if exported is None:
        raise LookupError(f"it calls {called}, which the release that is installed hasn't: publish it with that")
    signature, found = capsule(exported)
    if signature != native.signature:
        was = f"as {native.signature}, which is {signature} here"
        raise LookupError(f"it calls {called} {was}: publish it with the release that is here")
    return found


def _in_library(native: Native) -> int:
    problems: list[str] = []
    for name in _candidates(native, problems):
        try:
            handle = _ctypes.dlopen(name, os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            let_pass(error)
            problems.append(f"{name} can't be loaded ({error})")
            continue
        found = _function_of(native, handle, name, problems)
        if found is not None:
            return found
    called, why = native.symbol or "a function", "; ".join(dict.fromkeys(problems))
    advice = "install here what it was published with, or publish it with what is here"
    raise LookupError(f"it calls {called} of {native.library}, but {why}: {advice}")


def _candidates(native: Native, problems: list[str]) -> Iterator[str]:
    """Yield the names to load it by: files that are what the publisher had, and then the library's own."""
    for path in _files(native):
        problem = _problem_of(path, native.build) if os.path.exists(path) else "isn't there"
        if problem is None:
            yield path
        else:
            problems.append(f"{path} {problem}")
    if native.library != native.path:
        yield native.library


def _files(native: Native) -> Iterator[str]:
    """Yield where the publisher had a library, and where it lies if its package is installed elsewhere here."""
    if not native.path or not native.build:
        return  # of the C library, the process has one already
    yield native.path
    inside = _OF_PACKAGES.split(native.path, maxsplit=1)[1:]
    for folder in dict.fromkeys(sys.path) if inside else ():
        path = os.path.join(folder, *inside)
        if os.path.isabs(folder) and path != native.path and os.path.exists(path):
            yield path


def _problem_of(path: str, build: str) -> str | None:
    """Say why a file isn't to be loaded: loading it would run its code already."""
    real = os.path.realpath(path)
    trust = Trust()
    try:
        problem = trust.file_problem(os.stat(real), real) or trust.parents_problem(real)
        return problem or (None if build_in(real) == build else _ANOTHER)
    except (OSError, ValueError) as error:
        let_pass(error)
        return f"can't be read: {error}"


_ANOTHER: Final = "is another build"


def _function_of(native: Native, handle: int, name: str, problems: list[str]) -> int | None:
    loaded = ctypes.POINTER(_LinkMap)()
    if _dlinfo(handle, _RTLD_DI_LINKMAP, ctypes.byref(loaded)):
        problems.append(f"{name} can't be examined")
        return None
    path, base = os.fsdecode(loaded.contents.file or b""), loaded.contents.base or 0
    if native.build and build_of(path or sys.executable, base) != native.build:
        problems.append(f"{path or name} {_ANOTHER}")
        return None
    if not native.symbol:
        return base + native.offset
    try:
        found: int = _ctypes.dlsym(handle, native.symbol)
    except OSError as error:
        let_pass(error)
        problems.append(f"{path or name} has no {native.symbol}")
        return None
    inside = locate(found)
    if inside is not None and native.build and inside.base != base:
        problems.append(f"{path or name} has no {native.symbol} of its own")
        return None
    return found
