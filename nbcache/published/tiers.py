"""Published names in remote tiers (``NBCACHE_REMOTE``), as a process without Numba sees them: through the helper.

The helper puts the newest version that a tier has into the store, signed by who is trusted
(:mod:`nbcache.remote.publications`); from there it is loaded like all others. A name that is in the store is asked for
again every :data:`AGAIN_SECONDS`, and if no tier answers, what the store has is loaded. One that isn't is asked for
each time, and waited for longer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from nbcache import __version__
from nbcache.passing import errors
from nbcache.process import time
from nbcache.protocol import helper

if TYPE_CHECKING:
    from nbcache.config import Settings
    from nbcache.protocol.helper import Answer

_log = logging.getLogger("nbcache")
AGAIN_SECONDS: Final = 10.0
"""How soon it is looked again whether there is a newer version [s]."""
HERE_SECONDS: Final = 1.0
"""How long who has a version waits for a newer one [s]."""
PATIENCE_SECONDS: Final = 30.0
"""How long who has none waits, and who publishes [s]."""
_MOST_KNOWN: Final = 100_000
_asked: Final[dict[str, float]] = {}
"""When names that were in the store were asked for."""


def look(name: str, settings: Settings, *, is_here: bool) -> None:
    """Have the newest version put into the store. Raises PublicationError if there may be one and none is here."""
    now = time.monotonic()
    if is_here:
        if now - _asked.get(name, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return
        if len(_asked) >= _MOST_KNOWN:
            _asked.clear()
        _asked[name] = now
    why = _problem(_answer(settings, "load", name, HERE_SECONDS if is_here else PATIENCE_SECONDS))
    if why and not is_here:
        raise errors.PublicationError(name, f"it is not in {settings.dir}, and of the remote cache: {why}")
    if why:
        _log.warning("%s: what the store has is loaded; a newer version in the remote cache can't be: %s", name, why)


def publish(name: str, settings: Settings) -> None:
    """Have the tiers have what the store has under a name now, which may be nothing any more.

    Never raises: it is in the store all the same, and what is wrong is logged.
    """
    if settings.remote:
        why = _problem(_answer(settings, "publish", name, PATIENCE_SECONDS))
        if why:
            _log.warning("%s: the remote cache has not what the store has; nbcache push sends it: %s", name, why)


def _problem(answer: Answer | None) -> str:
    if answer is None:
        return "no answer in time; `nbcache remote status` says from which server"
    return answer.why


def _answer(settings: Settings, question: str, name: str, seconds: float) -> Answer | None:
    """Ask the helper, starting one if there is none."""
    place, why, is_started = helper.meeting(settings, __version__), "", False

    def begin(left: float) -> bool:
        nonlocal why, is_started
        if not is_started:
            why = helper.folder_problem(place.folder) or ""
            if not why and not helper.start(settings, left):
                why = "its helper can't be started"
            is_started = not why
        return is_started

    answer = helper.answered(place, question, name, seconds, begin=begin)
    return helper.Answer(helper.FAILED, why, 0.0, 0) if why else answer
