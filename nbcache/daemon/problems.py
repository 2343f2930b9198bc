"""What is wrong with a daemon at the moment: said once when it begins, and once when it is over."""

from __future__ import annotations

import logging

_log = logging.getLogger("nbcache")


class Problems:
    """The problems that last, by what they are about. Threads may share one where they report on different things."""

    def __init__(self) -> None:
        """Know of none."""
        self._lasting: dict[str, str] = {}

    def report(self, about: str, problem: str | None, fault: BaseException | None = None) -> None:
        """Say that there is this problem, or with None that there is none; nothing if that was said before."""
        before = self._lasting.get(about)
        if problem == before:
            return
        if problem is None:
            del self._lasting[about]
            _log.info("resolved: %s", before)
        else:
            self._lasting[about] = problem
            _log.warning("%s", problem, exc_info=fault)
