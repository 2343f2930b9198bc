"""The store: bytes and paths, no idea of Numba. Works, and is tested, without a compiler."""

from nbcache.store.directory import Refusal, Store

__all__ = ["Refusal", "Store"]
