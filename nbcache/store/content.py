"""What a file is called that is named by its content, and the hash that it is called by.

``hashlib`` would load OpenSSL for the other functions that it offers: 1.5 ms, in processes that need none of them.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python that keeps it elsewhere
    from hashlib import blake2b

__all__ = ["blake2b", "digest_of"]


def digest_of(data: bytes) -> str:
    """Return what a file with this content is called: blake2b-256, 64 hexadecimal digits."""
    return blake2b(data, digest_size=32).hexdigest()
