"""The store: bytes and paths, no idea of Numba. Works, and is tested, without a compiler."""

from nbcache.store.directory import BadEntry, Refusal, Store
from nbcache.store.entry import FORMAT_VERSION, Header
from nbcache.store.found import FoundEntry

__all__ = ["FORMAT_VERSION", "BadEntry", "FoundEntry", "Header", "Refusal", "Store"]
