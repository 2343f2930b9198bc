"""A log that others can't fill: a thing is said once, and not more than so many things in an hour.

What is wrong with the daemon itself is said once when it begins, and once when it is over.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST: Final = 100
"""How many different things are said in an hour."""
SECONDS: Final = 3600.0
"""After so long, things may be said again [s]."""


class Sparing:
    """Warns of what anybody can bring about by putting files somewhere. What isn't said is logged at DEBUG."""

    def __init__(self, logger: logging.Logger, most: int = MOST) -> None:
        """Begin an hour."""
        self._logger = logger
        self._most = most
        self._said: set[str] = set()
        self._since = time.monotonic()

    def warning(self, about: str, message: str, *args: object, fault: BaseException | None = None) -> None:
        """Say *message* if nothing was said *about* the same lately."""
        if time.monotonic() - self._since > SECONDS:
            self._said.clear()
            self._since = time.monotonic()
        new = about not in self._said and len(self._said) < self._most
        self._logger.log(logging.WARNING if new else logging.DEBUG, message, *args, exc_info=fault)
        if new:
            self._said.add(about)
            if len(self._said) == self._most:
                self._logger.warning("logged %d such warnings this hour; suppressing further ones", self._most)

    @contextmanager
    def containing(self, name: str, give_up: Callable[[], None]) -> Iterator[None]:
        """Around all that is done about one request: whatever that raises ends this request, and nothing else.

        Giving up removes it, so whoever asked builds it, and no later daemon meets it again.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  a request may bring about what it likes
            kind = type(error).__name__
            self.warning(f"fault {kind}", "internal error while handling %s: %s: %s", name, kind, error, fault=error)
            give_up()


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
