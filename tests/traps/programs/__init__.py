"""All trap programs, one or more modules for each family; INDEX.md lists them."""

import importlib
import pkgutil

from ..harness import Program


def load() -> tuple[Program, ...]:
    """Return every program, in the order of families. Names are unique."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    programs = [p for name in names for p in importlib.import_module(f"{__name__}.{name}").PROGRAMS]
    if len({p.name for p in programs}) != len(programs):
        raise ValueError("two trap programs share a name")
    return tuple(programs)
