"""What the parts of one daemon have in common."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbcache.daemon.pool import Limits

if TYPE_CHECKING:
    from nbcache.config import Settings
    from nbcache.daemon.answering import Answers
    from nbcache.daemon.audit import Audit
    from nbcache.daemon.catalogue import Catalogue
    from nbcache.daemon.problems import Problems
    from nbcache.daemon.selftests import SelfTests
    from nbcache.daemon.sparing import Sparing
    from nbcache.daemon.wanted import Jobs
    from nbcache.metrics.meter import Meter
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
    """Where catalogue and history lie, on local disk: a folder for each store in it."""
    uids: range | None = None
    """As whom jobs may run, where this process may say that; None: as anybody without an account."""
    farm: str = ""
    """The address of the scheduler of a cluster that jobs run on; "" for jobs here."""
    farm_waits: bool = False
    """Whether jobs wait for the cluster while it is out of reach. If not, they run here."""


@dataclass(slots=True)
class Commons:
    """Settings and store, which a reload replaces; what is asked for; and where each part counts and reports."""

    settings: Settings
    options: Options
    store: Store
    workers: int
    """Jobs at once; on a farm, as many as it has room for at the moment."""
    jobs: Jobs
    suspects: set[str]
    """Keys of entries that programs crashed with: what is built for them is tried."""
    answers: Answers
    problems: Problems
    sparing: Sparing
    """For what anybody can bring about by putting files somewhere."""
    tests: SelfTests
    meter: Meter
    catalogue: Catalogue
    audit: Audit
    again: deque[Request] = field(default_factory=deque)
    """What is to be built again, in the name of whom it was built for. Any thread may add to it."""
