"""Ports of loopback that nobody else takes before a server of a test has them."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile

_held: list[int] = []
"""Descriptors of the files that are locked for the ports that this process gave away."""


def free() -> int:
    """Return a port that nothing listens on, and that no other process of tests is given while this one lives.

    It is none of those that the kernel gives to sockets without a port of their own.
    """
    while True:
        port = random.randrange(15_000, 32_000)
        try:
            held = os.open(f"{tempfile.gettempdir()}/nbcache-test-port-{port}", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            continue  # another user's
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(held)
            continue
        _held.append(held)
        return port
