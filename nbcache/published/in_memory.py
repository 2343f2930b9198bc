"""Libraries that lie in memory instead of in a file, for the C library to load.

The C library gives the library that it already has to whoever asks for the same path. Descriptors are used again, also
by who closes them all (a daemon, say), and several copies of this module may be in one process: those of wheels. So
each library gets a path that no other one has.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def library(name: str, data: bytes) -> Iterator[str]:
    """Put a library into memory; give the path to load it by, which is good for that alone. Raises OSError."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        # A random number, spelt in steps that lead nowhere.
        number = int.from_bytes(os.urandom(8), "big") | 1 << 64
        steps = "".join("/." if bit == "1" else "/" for bit in f"{number:b}")
        yield f"/proc/self/fd{steps}/{descriptor}"
    finally:
        os.close(descriptor)
