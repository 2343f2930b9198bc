"""Requests that went wrong on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

_PIECES = [b"[", b"{", b'"', b"null", b"-1", b"1e999", b"../", b"true", b"\\u0000"]


def mutated(rng: random.Random, lines: Sequence[bytes]) -> bytes:
    """One of these lines with one to seven bytes changed, stretches taken out, repeated, or pieces of JSON put in."""
    line = bytearray(rng.choice(lines))
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(line))
        match rng.randrange(4):
            case 0:
                line[at] = rng.randrange(256)
            case 1:
                del line[at : at + rng.randrange(1, 60)]
            case 2:
                line[at:at] = rng.choice(_PIECES)
            case 3:
                line[at:at] = line[: rng.randrange(1, 60)]
        line = line or bytearray(b" ")
    return bytes(line)
