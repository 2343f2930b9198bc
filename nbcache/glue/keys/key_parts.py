"""The parts of a key: each has a name and content, the key is a digest over all, and an entry lists the digest of each.

So whatever is in a key is written down, and what makes two keys differ can always be named.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable

Part = tuple[str, bytes]
"""A part of a key, and what it is called."""
CONDITIONS = "toolchain, target and settings"
"""What the part is called that `Conditions` gives."""


def key_of_parts(parts: Iterable[Part]) -> str:
    """A key: 64 hex digits."""
    content: list[bytes] = []
    for label, part in parts:
        content += (_label(label), len(part).to_bytes(8, "little"), part)
    return hashlib.blake2b(b"".join(content), digest_size=32, person=b"nbcache key").hexdigest()


def components_of(parts: Iterable[Part]) -> list[tuple[str, str]]:
    """The parts of a key as components, by their digests: two keys differ if and only if one of these does."""
    return [(f"key/{label}", hashlib.blake2b(part, digest_size=8).hexdigest()) for label, part in parts]


@functools.lru_cache(maxsize=1024)
def _label(label: str) -> bytes:
    # Nine for each key, of some thirty that there are.
    return framed(label.encode())


def framed(part: bytes) -> bytes:
    """A part of a key, with its length."""
    return len(part).to_bytes(8, "little") + part
