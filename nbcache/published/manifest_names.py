"""What manifests name as ``module:qualname``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nbcache.errors import PublicationError
from nbcache.passing_exceptions import let_pass, suppressed

if TYPE_CHECKING:
    from nbcache.protocol.manifests import Manifest


def named(name: str) -> Any:
    """Return the object of this name, importing its module. Raises AttributeError, and what importing raises."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found


def fields_of(name: str) -> tuple[str, ...]:
    """Return the fields of the named tuple of this name; nothing for what is none, or can't be imported."""
    with suppressed(Exception):
        return _fields(named(name))
    return ()


def _fields(found: Any) -> tuple[str, ...]:
    fields = getattr(found, "_fields", ())
    return fields if isinstance(fields, tuple) and all(isinstance(each, str) for each in fields) else ()


def check_fields(manifest: Manifest) -> None:
    """See that named tuples which published code fills by position have the fields that they had. Raises
    PublicationError.
    """
    for name, fields in manifest.imports.items():
        if not fields:
            continue
        try:
            here = _fields(named(name))
        except Exception as error:
            let_pass(error)
            advice = "define it in a module that can be imported without Numba, or return its fields as a plain tuple"
            msg = f"it makes a {name}, which can't be imported here ({error}): {advice}"
            raise PublicationError(manifest.name, msg) from error
        if here != fields:
            words = f"({', '.join(fields)}) where it was published, and here ({', '.join(here)})"
            raise PublicationError(manifest.name, f"{name} had the fields {words}: publish it again")
