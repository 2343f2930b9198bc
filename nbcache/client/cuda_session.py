"""What numba-cuda asks of the client: look up, load, or compile once and publish.

As `nbcache.client.session` does for functions: whatever goes wrong in here is a logged miss.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.client.session import ClientSession
    from nbcache.glue.capture.compilations import Frame, FrameStack
    from nbcache.glue.cuda.policy import Unpack
    from nbcache.glue.cuda.units import CudaUnit
    from nbcache.glue.entries.meta import Packed
    from nbcache.glue.keys.key_maker import KeyMaker


class Kernels:
    """Implements `nbcache.glue.cuda.policy.KernelSession` for a session."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.frames: FrameStack = session.frames
        self.maker: KeyMaker = session.maker

    @property
    def cache_path(self) -> str | None:
        """The store's directory."""
        return self._session.cache_path

    def find_kernel(self, identify: Callable[[], CudaUnit], unpack: Unpack) -> Any | None:
        """What *unpack* makes of an entry, or None with a frame opened for the compilation that follows.

        *identify* may raise Unidentifiable. Raises what a warning's filters say has to be raised.
        """
        look_up = functools.partial(self._session.lookup.kernel, unpack=unpack)
        return self._session.find(identify, look_up, "a kernel")

    def keep_kernel(self, pack: Callable[[CudaUnit, Frame], Packed]) -> None:
        """The compilation of the innermost frame succeeded: publish what *pack* makes of it."""
        session, frame = self._session, self.frames.top()
        if frame is None or frame.unit is None or not session.enabled:
            return
        unit = cast("CudaUnit", frame.unit)
        with session.faults("publishing", unit):
            stored = session.saving.kernel(frame, unit, lambda: pack(unit, frame))
            if stored and len(self.frames) == 1:
                session.record(unit)
        unit.forget()
