"""Published names in remote tiers (``NBCACHE_REMOTE``), as a process without Numba sees them: through the helper.

The helper puts the newest version that a tier has into the store, signed by who is trusted
(:mod:`nbcache.remote.publications`); from there it is loaded like all others. A name that is in the store is asked for
again every :data:`AGAIN_SECONDS`, and if no tier answers, what the store has is loaded. One that isn't is asked for
each time, and waited for longer.

What is promised: however slow the tiers are, who has a version of each name waits for newer ones no longer than he does
all else, and :data:`BURST_SECONDS`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import errors
from nbcache.process import time

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.config import Settings
    from nbcache.protocol.helper import Answer

_log = logging.getLogger("nbcache")
AGAIN_SECONDS: Final = 10.0
"""How soon it is looked again whether there is a newer version [s]."""
HERE_SECONDS: Final = 1.0
"""How long who has a version waits for a newer one [s]."""
BURST_SECONDS: Final = 2.0
"""How long a process waits for newer versions before it has done anything else [s]."""
PATIENCE_SECONDS: Final = 30.0
"""How long who has none waits, and who publishes [s]."""
_MOST_KNOWN: Final = 100_000
_asked: Final[dict[str, float]] = {}
"""When names that were in the store were asked for."""


class _Budget:
    """How long this process may wait for newer versions of what it has."""

    def __init__(self) -> None:
        self._left = BURST_SECONDS
        self._since = time.monotonic()

    @property
    def is_enough(self) -> bool:
        """Whether it may wait for an answer now: as long as it did something else, it may wait besides."""
        now = time.monotonic()
        self._left, self._since = min(BURST_SECONDS, self._left + now - self._since), now
        return self._left >= HERE_SECONDS

    def spend(self, seconds: float) -> None:
        """It has waited for so long, until now [s]."""
        self._left -= seconds
        self._since = time.monotonic()


_budget: Final = _Budget()


def look(name: str, settings: Settings, *, is_here: bool, since: Callable[[], float] = float) -> None:
    """Have the newest version put into the store, if it is newer than ``since``. Raises PublicationError if there may
    be one and none is here.
    """
    began = time.monotonic()
    if not is_here:
        why = _problem(_answer(settings, "load", name, PATIENCE_SECONDS))
    elif began - _asked.get(name, -AGAIN_SECONDS) < AGAIN_SECONDS or not _budget.is_enough:
        return
    else:
        if len(_asked) >= _MOST_KNOWN:
            _asked.clear()
        _asked[name] = began
        why = _problem(_answer(settings, "load", name, HERE_SECONDS, since()))
        _budget.spend(time.monotonic() - began)
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


def _answer(settings: Settings, question: str, name: str, seconds: float, since: float = 0.0) -> Answer | None:
    """Ask the helper, starting one if there is none."""
    from nbcache.protocol import helper  # who publishes has mostly no remote tiers

    line = helper.Line(settings)
    answer = line.ask(question, name, seconds, since=since)
    return helper.Answer(helper.FAILED, line.problem) if line.problem else answer
