"""What the parts of one daemon have in common; and a log that others can't fill."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nbcache.config import Settings
from nbcache.daemon.audit import Audit
from nbcache.daemon.failures import Answers
from nbcache.daemon.pool import Limits
from nbcache.daemon.whose_turn import Jobs
from nbcache.file_trust import Trust
from nbcache.metrics.meter import Meter
from nbcache.one_line import log
from nbcache.protocol.requests import Request
from nbcache.store.directory import Store


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    name: str = ""
    """Among the daemons of this store; the host's name if empty."""
    workers: int = 0
    """Jobs at once; as many as there are processors if 0."""
    limits: Limits = field(default_factory=Limits)
    state: str = ""
    """Where the audit log lies, on local disk: a folder for each store in it; "" for none."""
    uids: range | None = None
    """As whom jobs may run, where this process may say that; None: as anybody without an account."""
    farm: str = ""
    """The address of the scheduler of a cluster that jobs run on; "" for jobs here."""
    farm_waits: bool = False
    """Whether jobs wait for the cluster while it is out of reach. If not, they run here."""
    idle: float = 0.0
    """After how long without a request it ends [s]; 0 for never."""
    alone: bool = False
    """Whether it hears its own user alone, whoever else is trusted."""
    watched: tuple[str, ...] | None = None
    """In which directories files are watched to which profiles refer: wherever they lie if empty, nowhere if None."""
    told: Callable[[str], None] | None = None
    """Who is told of files that were saved, besides the log."""


class Stock(NamedTuple):
    """How much there is in a store."""

    entries: int = 0
    """Files, that is, variants."""
    size: int = 0
    """[bytes]"""


@dataclass(slots=True)
class Commons:
    """Settings and store, which a reload replaces; what is asked for; and where each part counts and reports."""

    settings: Settings
    options: Options
    store: Store
    workers: int
    """Jobs at once; on a farm, as many as it has room for at the moment."""
    jobs: Jobs
    answers: Answers
    problems: Problems
    sparing: Sparing
    """For what anybody can bring about by putting files somewhere."""
    meter: Meter
    audit: Audit
    stock: Stock = field(default_factory=Stock)
    """What is in the store, as far as it was counted."""
    tests: deque[tuple[float, str, str]] = field(default_factory=deque)
    """Self-tests that are over: when, by the monotonic clock [s], and for which key and scope. Threads may share it."""
    again: deque[Request] = field(default_factory=deque)
    """What is to be built again, in the name of whom it was built for. Any thread may add to it."""

    @property
    def heard(self) -> Trust:
        """Whose requests are carried out."""
        return Trust() if self.options.alone else self.store.trust


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
            log.info("resolved: %s", before)
        else:
            self._lasting[about] = problem
            log.warning("%s", problem, exc_info=fault)
