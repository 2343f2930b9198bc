"""What a file is called that is named by its content."""

from __future__ import annotations

from hashlib import blake2b


def digest_of(data: bytes) -> str:
    """Return what a file with this content is called: blake2b-256, 64 hexadecimal digits."""
    return blake2b(data, digest_size=32).hexdigest()
