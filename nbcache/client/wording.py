"""Units as requests, whatever they are compiled for."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from nbcache.glue.keys.units import Unit
    from nbcache.protocol.requests import Request


def request_for(unit: Unit, *, explain: bool = True, by_value: bool = True) -> Request:
    """What to ask a daemon for, or to write into a warm list.  Raises UnaskableError.

    See `nbcache.glue.requests.requested.request_for`.
    """
    if unit.kind.startswith("cuda "):
        from nbcache.glue.cuda import requested as cuda_requested

        return cuda_requested.request_for(cast("Any", unit), explain=explain, by_value=by_value)
    from nbcache.glue.requests import requested

    request = requested.request_for(unit, explain=explain, by_value=by_value)
    # A module may compile kernels when it is imported, also for who wants a function for the CPU.
    seams = sys.modules.get("nbcache.glue.cuda.seams")
    kernels = None if seams is None else seams.known()
    return request if kernels is None or not kernels.cc else dataclasses.replace(request, cc=kernels.cc)
