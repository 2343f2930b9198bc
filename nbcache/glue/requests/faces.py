"""What users know a kernel's dispatcher as: the ufunc or gufunc that it is compiled for."""

from __future__ import annotations

import weakref
from typing import Any

from nbcache.glue import marks


def show_as(ufunc: object, kernel: object) -> None:
    """Remember that *kernel*, a dispatcher, is what *ufunc* compiles."""
    vars(kernel)[marks.FACE] = weakref.ref(ufunc)


def public_face(owner: Any) -> Any:
    """The ufunc, while it lives; any other *owner* of a unit is what users know already."""
    face = vars(owner).get(marks.FACE)
    found = None if face is None else face()
    return owner if found is None else found
