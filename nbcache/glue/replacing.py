"""What takes the place of attributes of Numba's and numba-cuda's: a row of a table each, and one thing that does."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from nbcache.records import Record

ABSENT = object()
"""In the place of an original that there is none of."""
WAKES = "wakes_the_client"
"""What a descriptor has that wakes the client when it is read, and keeps the ``original`` that it is read for."""


class Seam(Record):
    """One attribute of a compiler: *owner*.*name*, replaced by what *replace* makes of the original.

    *replace* is given what knows of this process's compilations as well; of a class method, its function.
    """

    owner: Any
    name: str
    why: str
    replace: Callable[[Any, Any], Any]
    parameters: tuple[str, ...] | None = None
    optional: bool = False
    """Not on the class, but on its instances."""

    def original(self) -> Any:
        """What the class or module holds, as `inspect.getattr_static` finds it, which takes ten times as long."""
        for holder in self.owner.__mro__ if isinstance(self.owner, type) else (self.owner,):
            if self.name in vars(holder):
                found = vars(holder)[self.name]
                # While the client is being woken, what woke it still stands there.
                return found.original if getattr(found, WAKES, False) else found
        return ABSENT

    def problem(self) -> str | None:
        """What is wrong with this seam on the compiler at hand, or None."""
        original = self.original()
        where = f"{getattr(self.owner, '__name__', self.owner)}.{self.name}"
        if original is ABSENT:
            return None if self.optional else f"{where} does not exist"
        if self.parameters is None:
            return None
        function = original.__func__ if isinstance(original, classmethod | staticmethod) else original
        found = _parameters(function)
        if found is None:
            return f"{where} has no signature"
        return None if found == self.parameters else f"{where} takes {found}, not {self.parameters}"


def _parameters(function: Any) -> tuple[str, ...] | None:
    """The names of parameters, as `inspect.signature` gives them, which takes a hundred times as long."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    count += sum(bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    return tuple(code.co_varnames[:count])


Replaced = list[tuple[Seam, Any]]
"""What was replaced, with the originals."""


def problem_of(seams: Iterable[Seam]) -> str | None:
    """What is wrong with the first seam that isn't as expected, or None."""
    return next((text for seam in seams if (text := seam.problem()) is not None), None)


def replace(seams: Iterable[Seam], known: Any) -> Replaced:
    """Replace every seam."""
    replaced = []
    for seam in seams:
        original = seam.original()
        replaced.append((seam, original))
        setattr(seam.owner, seam.name, _stand_in(original, seam.replace, known))
    return replaced


def _stand_in(original: Any, replace: Callable[[Any, Any], Any], known: Any) -> Any:
    """What takes the place of *original*: a function looks like the one that it stands for."""
    if isinstance(original, classmethod):
        return classmethod(_stand_in(original.__func__, replace, known))
    made = replace(original, known)
    return functools.update_wrapper(made, original) if isinstance(made, FunctionType) else made


def put_back(replaced: Replaced) -> None:
    """Put every original back; what is put back is taken out of the list."""
    while replaced:
        seam, original = replaced.pop()
        if original is ABSENT:
            delattr(seam.owner, seam.name)
        else:
            setattr(seam.owner, seam.name, original)


class NumPy:
    """Stands in for the module ``numpy`` where a compiler looks at arrays: ``numpy.ma`` isn't imported for it.

    As long as nobody has imported that, no array is a masked one.
    """

    class _NoMaskedArrays:
        class MaskedArray:
            pass

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        if name == "ma" and "numpy.ma" not in sys.modules:
            return self._NoMaskedArrays
        return getattr(self._numpy, name)


def without_masked_arrays(original: Any, _known: Any) -> Any:
    """Look at arrays without `numpy.ma`."""
    return NumPy(original)
