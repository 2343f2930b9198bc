"""Warm lists: what a program asked for, a line of JSON each, to be built again elsewhere."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbcache import regular
from nbcache.client import logs
from nbcache.process import os
from nbcache.protocol.requests import BadRequestError

if TYPE_CHECKING:
    from nbcache.glue.keys.units import Unit
    from nbcache.protocol.requests import Request

_log = logging.getLogger("nbcache")
_MODE = 0o644


def requested(unit: Unit, *, by_value: bool = True) -> Request | None:
    """A unit as a request, or None and a line in the log."""
    from nbcache.client.wording import request_for
    from nbcache.glue.requests.requested import UnaskableError

    try:
        return request_for(unit, explain=False, by_value=by_value)
    except UnaskableError as exc:
        _log.log(
            logging.INFO if by_value else logging.DEBUG,
            "%s can't be requested from another process: %s",
            unit.name,
            exc,
        )
        return None


def append(path: str, unit: Unit) -> None:
    """Add a unit to a list. Any number of processes may: each line is one write. Never raises OSError."""
    request = requested(unit)
    if request is None:
        return
    try:
        fd = regular.open_to_append(path, _MODE)
        try:
            regular.write(fd, request.line() + b"\n")
        finally:
            os.close(fd)
    except (OSError, BadRequestError) as exc:
        logs.once(
            _log,
            logging.WARNING,
            "the warm list NBCACHE_RECORD=%s can't be written: %s",
            path,
            getattr(exc, "strerror", None) or exc,
        )
