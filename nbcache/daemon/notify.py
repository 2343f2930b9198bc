"""Telling systemd how the daemon is: sd_notify(3).

The protocol is one datagram to a socket named in the environment, so it needs no library: ``systemd-python`` and
``cysystemd`` are C and need libsystemd to build, and ``sdnotify`` is as many lines as these, without the watchdog's
interval or a bound on how long sending may take.

Outside systemd, everything here does nothing. Nothing here raises: a manager that can't be told is no reason to stop.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SEND_SECONDS: Final = 1.0
"""How long a manager that doesn't read may hold up the daemon [s]."""

_log = logging.getLogger("nbcache")


class Notifier:
    """The line to the service manager, if there is one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Find the manager by NOTIFY_SOCKET in ``environ``."""
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))

    def ready(self, status: str) -> None:
        """Say that starting, or reloading, is over; ``systemctl status`` shows the first line of *status*."""
        # What comes after a line break would be another assignment.
        self._send("READY=1", f"STATUS={' '.join(status.split())}")

    def reloading(self) -> None:
        """Say that the configuration is being read again; :meth:`ready` ends it."""
        # The clock that Type=notify-reload compares with its own.
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Say that the daemon is about to end."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Keep the watchdog from restarting the daemon. Only what proves that it works may call this."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(_SEND_SECONDS)
                sender.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)
        except (OSError, ValueError) as error:
            _log.debug("could not send %s to the service manager: %s", lines[0], error)


def _address(name: str) -> bytes | None:
    """Return the address of a socket: a path, or an abstract name, which is written with an ``@``."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    if name.startswith("/"):
        return os.fsencode(name)
    if name:
        _log.debug("NOTIFY_SOCKET=%s is of an unknown kind", name)
    return None
