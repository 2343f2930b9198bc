"""Units as requests, and warm lists: what a program asked for, a line of JSON each, to be built again elsewhere."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, cast

from nbcache import regular_files
from nbcache.client.logs import log, once
from nbcache.counting import Counters
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.units import Unit
from nbcache.process import os
from nbcache.protocol.profiles import Head
from nbcache.protocol.requests import BadRequestError, Request
from nbcache.store import reasons

_MODE = 0o644


_summed_up: set[int] = set()
"""The process that has added its line, which a forked child has not."""


def sum_up(path: str, counters: Counters) -> None:
    """Add a line of what this process did to a file, once: any number of processes may. Never raises OSError."""
    if counters.empty or os.getpid() in _summed_up:
        return
    _summed_up.add(os.getpid())
    counted = counters.snapshot()
    line = {name: counted[name] for name in ("start", "end", "pid", "argv0", "hit_count", "saved_seconds")}
    line |= {"misses": reasons.missed(counted), "uncacheable": reasons.uncacheable(counted)}
    line |= {name: counted[name] for name in ("builds_count", "built_seconds")}
    try:
        regular_files.append(path, json.dumps(line).encode() + b"\n", _MODE)
    except OSError as exc:
        once("NBCACHE_STATS_LOG=%s can't be written: %s", path, exc.strerror or exc)


def noted(unit: Unit, counters: Counters | None) -> Request | None:
    """A unit as a request for an entry and a profile; None for what can't be asked for, which *counters* count with its
    reason.

    Without *counters*, only what other processes can import.
    """
    from nbcache.protocol import profiles

    return _requested(unit, counters, quietly=True, by_value=counters is not None, most=profiles.MAX_VALUE)


def _requested(unit: Unit, counters: Counters | None = None, *, quietly: bool = False, **limits: Any) -> Request | None:
    """A unit as a request; None and a line in the log for what can't be asked for, which *counters* count."""
    from nbcache.glue.requests.requested import UnaskableError

    try:
        return request_for(unit, explain=False, **limits)
    except UnaskableError as exc:
        log.log(
            logging.DEBUG if quietly else logging.INFO,
            "%s can't be requested from another process: %s",
            unit.name,
            exc,
        )
        if counters is not None:
            counters.unasked(str(exc))
        return None


def append(path: str, unit: Unit) -> None:
    """Add a unit to a list. Any number of processes may: each line is one write. Never raises OSError."""
    request = _requested(unit)
    if request is None:
        return
    try:
        regular_files.append(path, request.line() + b"\n", _MODE)
    except (OSError, BadRequestError) as exc:
        what = getattr(exc, "strerror", None) or exc
        once("the warm list NBCACHE_RECORD=%s can't be written: %s", path, what)


def request_for(unit: Unit, *, explain: bool = True, by_value: bool = True, most: int | None = None) -> Request:
    """What to ask a daemon for, or to write into a warm list.  Raises UnaskableError.

    See `nbcache.glue.requests.requested.request_for`.
    """
    if unit.kind.startswith("cuda "):
        from nbcache.glue.cuda import requested as cuda_requested

        return cuda_requested.request_for(cast("Any", unit), explain=explain, by_value=by_value)
    from nbcache.glue.requests import requested

    return _with_device(requested.request_for(unit, explain=explain, by_value=by_value, most=most))


def lane_of(maker: KeyMaker, head: Head, package: str, lane: int) -> Request:
    """Ask for what a profile lists, or what of it is in one package, as one of several who do.  Raises
    UnaskableError.
    """
    from nbcache.glue.requests import requested

    return _with_device(requested.profile_request(maker, head.program, head.name, head.uid, package, lane))


def _with_device(request: Request) -> Request:
    # A module may compile kernels when it is imported, also for who wants a function for the CPU.
    seams = sys.modules.get("nbcache.glue.cuda.seams")
    kernels = None if seams is None else seams.known()
    return request if kernels is None or not kernels.cc else request._replace(cc=kernels.cc)
