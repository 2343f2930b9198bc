"""What a user can look at in a function that was loaded, as if it had been compiled here.

Type annotations and compilation metadata name lines of the source and objects of the compiler; a
stored copy would be stale or a stranger.  Looking is rare, so the function is compiled again then.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from numba.core import funcdesc

from nbcache.glue.capture.compilations import new_build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.glue.keys.units import Unit


class Inspection:
    """A compilation of *unit* for looking at; nothing is run from it or stored."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        # As the IR that a compilation leaves does. Python empties a module that is alive when the process ends; of one
        # that isn't, everything would stay that an environment's globals hold, and no file of those would be flushed.
        self.module = sys.modules.get(unit.function.__module__)

    @cached_property
    def result(self) -> Any:
        """A fresh CompileResult."""
        return self._unit.compile_again(new_build(self._unit.key))


class LoadedDescriptor(funcdesc.PythonFunctionDescriptor):
    """A function descriptor whose types of variables and calls are there when somebody asks."""

    __slots__ = ("inspection",)

    @property
    def typemap(self) -> Any:
        """Types of variables."""
        return self.inspection.result.fndesc.typemap

    @property
    def calltypes(self) -> Any:
        """Signatures of calls."""
        return self.inspection.result.fndesc.calltypes

    def lookup_module(self) -> Any:
        """The module of the function; Numba's way there, by `importlib`, is for what isn't loaded."""
        return sys.modules.get(self.modname) or super().lookup_module()


class Annotation:
    """Stands in for a TypeAnnotation.  *lifted*: the loops lifted out of the function, which have overloads."""

    def __init__(self, inspection: Inspection, lifted: tuple[Any, ...]) -> None:
        self._inspection = inspection
        self._loops = lifted

    @cached_property
    def _annotation(self) -> Any:
        annotation = self._inspection.result.type_annotation
        if self._loops:
            annotation.lifted = self._loops
        return annotation

    def __str__(self) -> str:
        return str(self._annotation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._annotation, name)


class Metadata(dict[str, Any]):
    """Stands in for a CompileResult's metadata: filled when somebody reads it.

    What Numba itself adds (timers) goes in without.
    """

    def __init__(self, inspection: Inspection) -> None:
        super().__init__()
        self._inspection: Inspection | None = inspection

    def _completed(self) -> dict[str, Any]:
        inspection, self._inspection = self._inspection, None
        if inspection is not None:
            own = dict.copy(self)
            self.update(inspection.result.metadata)
            self.update(own)
        return super()  # type: ignore[return-value]  # the plain methods of this very dict

    def __getitem__(self, key: str) -> Any:
        return self._completed().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._completed().get(key, default)

    def __contains__(self, key: object) -> bool:
        return self._completed().__contains__(key)

    def __delitem__(self, key: str) -> None:
        self._completed().__delitem__(key)

    def __iter__(self) -> Iterator[str]:
        return self._completed().__iter__()

    def __reversed__(self) -> Iterator[str]:
        return self._completed().__reversed__()

    def __len__(self) -> int:
        return self._completed().__len__()

    def __or__(self, other: Any) -> Any:
        return self._completed().__or__(other)

    def __ror__(self, other: Any) -> Any:
        return self._completed().__ror__(other)

    def copy(self) -> dict[str, Any]:
        return self._completed().copy()

    def clear(self) -> None:
        self._completed().clear()

    def pop(self, *args: Any) -> Any:
        return self._completed().pop(*args)

    def popitem(self) -> tuple[str, Any]:
        return self._completed().popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        # Numba asks so for its timers, after each hit: no reason to compile.
        if key == "timers":
            return super().setdefault(key, default)
        return self._completed().setdefault(key, default)

    def keys(self) -> Any:
        return self._completed().keys()

    def values(self) -> Any:
        return self._completed().values()

    def items(self) -> Any:
        return self._completed().items()

    def __repr__(self) -> str:
        return self._completed().__repr__()
