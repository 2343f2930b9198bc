"""nbcache on a Dask cluster: the cache in its workers, and the cluster as what a daemon builds on.

Needs the package ``distributed`` (``pip install 'nbcache[dask]'``), which nothing else of nbcache imports.
"""

from __future__ import annotations

from nbcache.dask.plugin import CachePlugin

__all__ = ["CachePlugin"]
