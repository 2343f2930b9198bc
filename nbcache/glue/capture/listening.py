"""The compilations of a process, with all who listen while one is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbcache.glue.capture.compilations import FrameStack
from nbcache.glue.capture.diagnostics import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.glue.capture.compilations import Effect, PausedListener, Registrar


def frame_stack(maker: Registrar) -> FrameStack:
    """Nothing is open yet."""
    return FrameStack(Watch, _witness, maker)


def _witness(note: Callable[[Effect], None]) -> PausedListener:
    # A process that only hits opens no compilation.
    from nbcache.glue.capture.witness import Witness

    return Witness(note)
