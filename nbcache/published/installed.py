"""Where installed packages lie, without importing them."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder


def folders_of(package: str) -> list[str]:
    """Return the folders of a package's modules; none if it isn't installed."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return list(loaded.__path__)
    spec = PathFinder.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec is not None else []
