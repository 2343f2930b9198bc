"""What a user can look at in a function that was loaded, as if it had been compiled here.

Type annotations and compilation metadata name lines of the source and objects of the compiler; a
stored copy would be stale or a stranger.  Looking is rare, so the function is compiled again then.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from nbcache.glue.frames import new_build

if TYPE_CHECKING:
    from nbcache.glue.units import Unit


class Inspection:
    """A compilation of *unit* for looking at; nothing is run from it or stored."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    @cached_property
    def result(self) -> Any:
        """A fresh CompileResult."""
        return self._unit.compile_again(new_build(self._unit.key))


class Annotation:
    """Stands in for a TypeAnnotation."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    def __str__(self) -> str:
        return str(self._inspection.result.type_annotation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inspection.result.type_annotation, name)


def complete_metadata(cres: Any) -> None:
    """Fill in the metadata of a loaded result; a compiled one has it already."""
    if isinstance(cres.type_annotation, Annotation) and "parfors" not in cres.metadata:
        cres.metadata.update(cres.type_annotation._inspection.result.metadata)
