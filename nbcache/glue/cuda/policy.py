"""What the hooks for CUDA ask of the client, beside `nbcache.glue.hooks.policy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from nbcache.glue.capture.compilations import Frame, FrameStack
from nbcache.glue.cuda.units import CudaUnit
from nbcache.glue.entries.meta import Packed, Read
from nbcache.glue.keys.key_maker import KeyMaker

Unpack = Callable[[CudaUnit, Read], tuple[Any, list[tuple[Any, ...]]]]
"""Makes a result of an entry's sections, and says what its compilation warned of.  Raises Unloadable."""


class KernelSession(Protocol):
    """Policy lives there, not here."""

    frames: FrameStack
    maker: KeyMaker

    @property
    def cache_path(self) -> str | None:
        """Where entries lie."""

    def find_kernel(self, identify: Callable[[], CudaUnit], unpack: Unpack) -> Any | None:
        """What *unpack* makes of an entry, or None with a frame opened for the compilation that follows.

        *identify* may raise Unidentifiable.
        """

    def keep_kernel(self, pack: Callable[[CudaUnit, Frame], Packed]) -> None:
        """The compilation of the innermost frame succeeded; *pack* may raise Unstorable."""
