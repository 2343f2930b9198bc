"""The compilations of a process, with all who listen while one is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbcache.glue.capture.compilations import FrameStack

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.glue.capture.compilations import Effect, Frame
    from nbcache.glue.capture.roles import Listener, PausedListener, Registrar


def frame_stack(maker: Registrar) -> FrameStack:
    """Nothing is open yet."""
    return FrameStack(_watch, _witness, maker)


# A process that only hits opens no compilation, and needs neither of these modules.


def _watch(frames: list[Frame]) -> Listener:
    from nbcache.glue.capture.diagnostics import Watch

    return Watch(frames)


def _witness(note: Callable[[Effect], None]) -> PausedListener:
    from nbcache.glue.capture.witness import Witness

    return Witness(note)
