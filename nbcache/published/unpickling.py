"""The pickles inside compiled code, without Numba: what `numba_unpickle` and its like are bound to.

Numba bakes pickles into object code: exceptions with the place that they blame, classes and dtypes that results are
made with. Its own functions for reading them import `numba.core.serialize` when they are first called; the ones here
don't. A place that nbcache's placeholders stand for (see ``glue/capture/placeholders.py``) is looked up among those
that the manifest says, a class by its name; a value that is only known when the exception is raised was pickled as a
value of LLVM's, which is a blank here.
"""

from __future__ import annotations

import ctypes
import io
import pickle
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Mapping

Location = tuple[str, str, int]

LOCATE: Final = ("nbcache.glue.capture.placeholders", "locate")
"""What pickles call for a place in a source file."""
LOCATE_IN: Final = ("nbcache.glue.capture.placeholders", "locate_in")
"""What they call for a text that ends with one."""
RECALL: Final = ("nbcache.glue.capture.placeholders", "recall")
"""What they call for a class or function of somebody's, with a token and its name."""
_TOOLCHAIN: Final = ("numba", "llvmlite", "nbcache")

_MAX_FAILURES: Final = 10
failures: list[str] = []
"""What could not be unpickled while code ran, in a line each; the proof of a publication looks here."""
_MAX_UNPICKLED: Final = 10_000
"""How many unpickled objects are remembered."""
_places: Final[WeakValueDictionary[str, Place]] = WeakValueDictionary()
_unpickled: dict[tuple[int, bytes], Any] = {}


class Place:
    """A place in a source file."""

    __slots__ = ("__weakref__", "location")

    def __init__(self, location: Location) -> None:
        """``location`` is the function, the file and the line."""
        self.location = location


class Blank:
    """Stands for a value that comes with the exception."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        """Take whatever is pickled."""

    def __setstate__(self, _state: object) -> None:
        """The same."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == LOCATE:
            return _located
        if (module, name) == LOCATE_IN:
            return _text
        if (module, name) == RECALL:
            return self._named
        if module == "llvmlite.ir" or module.startswith("llvmlite.ir."):
            return Blank
        if module.partition(".")[0] in _TOOLCHAIN:
            raise pickle.UnpicklingError(f"{module}.{name} needs Numba")
        return super().find_class(module, name)

    def _named(self, _token: str, name: str) -> Any:
        module, _, qualname = name.partition(":")
        return self.find_class(module, qualname)


def _located(token: str) -> Location | None:
    place = _places.get(token)
    return None if place is None else place.location


def _text(token: str, before: str, between: str, after: str) -> str:
    _function, file, line = _places[token].location
    return f"{before}{file}{between}{line}{after}"


def loads(data: bytes) -> Any:
    """What a pickle out of compiled code means here. Raises what unpickling raises."""
    return _Unpickler(io.BytesIO(data)).load()


def locate(locations: Mapping[str, Location]) -> list[Place]:
    """Have code that blames one of these places mean this line of this file, as long as somebody has what is
    returned.
    """
    found = []
    for token, location in locations.items():
        place = _places.get(token)
        if place is None:
            place = _places[token] = Place(location)
        place.location = location
        found.append(place)
    return found


def unpickle(address: int, size: int, digest: int) -> Any:
    """What ``numba_unpickle`` returns: what a pickle of that many bytes at an address means. Raises RuntimeError for
    what can't be had, and what any function of Python may raise.
    """
    # Keyed as Numba does: an address alone may come again when code is unloaded.
    key = address, ctypes.string_at(digest, 20)
    found = _unpickled.get(key, _unpickled)
    if found is _unpickled:
        found = _had(ctypes.string_at(address, size))
        if len(_unpickled) >= _MAX_UNPICKLED:
            _unpickled.clear()
        _unpickled[key] = found
    return found


def build_exception(fixed: bytes, values: tuple[Any, ...]) -> Any:
    """What ``numba_runtime_build_excinfo_struct`` returns: class, arguments and place of an exception, with the
    values that are only known when it is raised. Raises as :func:`unpickle`.
    """
    exception, arguments, location = _had(fixed)
    rest = iter(values)
    return exception, tuple(next(rest) if isinstance(each, Blank) else each for each in arguments), location


def _had(data: bytes) -> Any:
    try:
        return loads(data)
    except (RecursionError, MemoryError):  # the caller's business, and no property of what was pickled
        raise
    except Exception as exc:
        words = f"{type(exc).__name__}: {exc}"
        if len(failures) < _MAX_FAILURES:
            failures.append(words)
        raise RuntimeError(words) from exc
