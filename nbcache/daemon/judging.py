"""Whether interpreters may be started, found out beside the daemon's loop: what is looked at may hang.

A request names its interpreter, which may lie on a file server that is gone, or on one that its user has made for the
purpose. To look at it then waits for ever, and a daemon that did so would serve nobody, be ended by its watchdog, and
meet the same request again. So a thread looks, and the request waits, taking no worker, for :data:`SECONDS` at most.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nbcache.daemon import interpreters

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.trust import Trust

SECONDS: Final = 10.0
"""How long an interpreter may be looked at [s]."""
MAX_HANGING: Final = 32
"""How many of one user's interpreters may be being looked at: each takes a thread, until its filesystem answers."""
_SILENT: Final = "can't be looked at: its filesystem doesn't answer"
_ENOUGH: Final = f"is not looked at: {MAX_HANGING} others of this user are on filesystems that don't answer"


@dataclass(slots=True)
class _Look:
    uid: int
    trust: Trust
    began: float = field(default_factory=time.monotonic)
    verdict: Future[str | None] = field(default_factory=Future)


class Judging:
    """What is known of interpreters. One thread asks."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """*wake* is called, in any thread, when a look has ended."""
        self._wake = wake
        self._looks: dict[str, _Look] = {}

    def is_over(self, interpreter: str, trust: Trust, uid: int) -> bool:
        """Whether there is a verdict, or won't be one; begin to look if nobody does. Raises OSError (no thread)."""
        look = self._looks.get(interpreter)
        if look is None or (look.trust is not trust and look.verdict.done()):
            if self._hanging(uid) >= MAX_HANGING:
                return True
            look = self._looks[interpreter] = _Look(uid, trust)
            self._begin(look, interpreter)
        return look.verdict.done() or time.monotonic() - look.began > SECONDS

    def problem(self, interpreter: str) -> str | None:
        """Say why an interpreter isn't started, after :meth:`is_over`; None if it may be. A verdict holds once."""
        look = self._looks.get(interpreter)
        if look is None:
            return _ENOUGH
        if not look.verdict.done():
            return _SILENT
        return self._looks.pop(interpreter).verdict.result()

    def _hanging(self, uid: int) -> int:
        return sum(look.uid == uid and not look.verdict.done() for look in self._looks.values())

    def _begin(self, look: _Look, interpreter: str) -> None:
        def judge() -> None:
            try:
                look.verdict.set_result(interpreters.problem(interpreter, look.trust))
            except Exception as error:  # noqa: BLE001  whoever asks gets it
                look.verdict.set_exception(error)
            self._wake()

        try:
            threading.Thread(target=judge, name="nbcache judges", daemon=True).start()
        except RuntimeError as error:
            look.verdict.set_exception(OSError(str(error)))
