"""What a user can look at in a function that was loaded, as if it had been compiled here.

Type annotations and compilation metadata name lines of the source and objects of the compiler; a
stored copy would be stale or a stranger.  Looking is rare, so the function is compiled again then.
"""

from __future__ import annotations

import functools
import sys
from functools import cached_property
from typing import Any

from numba.core import funcdesc

from nbcache.glue.capture.compilations import new_build
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

    def _complete(self) -> None:
        inspection, self._inspection = self._inspection, None
        if inspection is not None:
            own = dict.copy(self)
            self.update(inspection.result.metadata)
            self.update(own)

    def setdefault(self, key: str, default: Any = None) -> Any:
        # Numba asks so for its timers, after each hit: no reason to compile.
        if key != "timers":
            self._complete()
        return super().setdefault(key, default)


def _completing(method: Any) -> Any:
    @functools.wraps(method)
    def call(self: Metadata, *args: Any) -> Any:
        self._complete()
        return method(self, *args)

    return call


for _name in (
    "__getitem__", "get", "__contains__", "__delitem__", "__iter__", "__reversed__", "__len__", "__or__", "__ror__",
    "copy", "clear", "pop", "popitem", "keys", "values", "items", "__repr__", "__eq__",
):  # fmt: skip
    setattr(Metadata, _name, _completing(getattr(dict, _name)))
