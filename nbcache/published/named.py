"""What manifests name as ``module:qualname``."""

from __future__ import annotations

import importlib
from typing import Any


def named(name: str) -> Any:
    """Return the object of this name, importing its module. Raises AttributeError, and what importing raises."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found
