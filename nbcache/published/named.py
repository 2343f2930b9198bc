"""What manifests name as ``module:qualname``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nbcache.errors import PublicationError
from nbcache.passing import suppressed

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
        fields = getattr(named(name), "_fields", ())
        if isinstance(fields, tuple) and all(isinstance(each, str) for each in fields):
            return fields
    return ()


def check_fields(manifest: Manifest) -> None:
    """See that named tuples which published code fills by position have the fields that they had. Raises
    PublicationError.
    """
    for name, fields in manifest.imports.items():
        here = fields_of(name) if fields else ()
        if here != fields:
            words = f"({', '.join(fields)}) where it was published, and here ({', '.join(here)})"
            raise PublicationError(manifest.name, f"{name} had the fields {words}: publish it again")
