"""A program that starts cold on any number of processors, and the lanes through its profile.

What runs is nbcache's own code: the order and the number of lanes (`protocol/profiles`), a lane's way through a profile
(`glue/requests/profile_lane`), and whom the program waits for, and how long (`client/elsewhere`, `client/waiting_account`). Stand-ins
are time, the store, and compiling: a unit takes the seconds that its profile recorded, after what it is built upon, if
that isn't there.

The program has a processor for itself while it compiles. Lanes have the lowest priority and share the others; while the
program waits for one of them, all of them. What they share beside processors (memory, its bandwidth) isn't simulated.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import patch

from nbcache.client import elsewhere, waiting_account
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.glue.requests import profile_lane
from nbcache.protocol import spool
from nbcache.protocol.profiles import Head, Profile, Unit
from nbsim.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).resolve().parent.parent / "profiles.json"
PROCESSORS = (1, 2, 4, 8, 16, 32, 64)
IMPORTS = 1.0
"""How long a program takes until it compiles [s]."""
BEGINNING = 2.0
"""How long after it was asked for a new helper has lanes at work, with their imports [s]. With 1.0 to 1.5, two
processors take what was measured on two (docs/benchmarks.md, "Cold starts")."""
HIT = 0.001
"""How long something that is there takes [s]."""
MISS = 1.12
"""How much longer it takes to compile and to publish than to compile."""


def recorded() -> dict[str, list[tuple[float, list[int]]]]:
    """Return by program the seconds of its units, and upon which ones each is built."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def profile_of(units: list[tuple[float, list[int]]]) -> Profile:
    """Return a profile of such units."""
    listed = [
        Unit("dispatcher", f"lib:f{at}", "()", {}, (), None, key_of(at), seconds, tuple(inside), 0.0)
        for at, (seconds, inside) in enumerate(units)
    ]
    return Profile(Head("program.py", {}, "", 0.0), listed)


def key_of(at: int) -> str:
    """Return the key of a unit."""
    return f"{at:064x}"


def plain(profile: Profile) -> float:
    """Return how long the program takes without a cache [s]."""
    return IMPORTS + profile.seconds


def simulate(profile: Profile, processors: int) -> float:
    """Return how long the program takes on so many processors with a new helper, everything stale [s]."""
    return _Host(profile, processors).run()


def shares() -> dict[str, dict[int, float]]:
    """Return, by program that was recorded and by processors, what part of plain Numba's time it takes."""
    profiles = {name: profile_of(units) for name, units in recorded().items()}
    return {
        name: {count: simulate(profile, count) / plain(profile) for count in PROCESSORS}
        for name, profile in profiles.items()
    }


class _Store:
    """What lanes and program share."""

    def __init__(self) -> None:
        self._there: set[str] = set()
        self.leased: dict[str, _Process] = {}

    def exists(self, key: str) -> bool:
        return key in self._there

    def stamp(self, key: str) -> int:
        return key in self._there

    def publish(self, key: str) -> None:
        self._there.add(key)


class _SeenStore:
    """The store as one process sees it."""

    path, writable = "", True

    def __init__(self, store: _Store, process: _Process) -> None:
        self._store, self._process = store, process
        self.exists, self.stamp = store.exists, store.stamp

    def lease(self, key: str) -> SimpleNamespace | None:
        holder = self._store.leased.get(key)
        if holder not in {None, self._process}:
            return None
        self._store.leased[key] = self._process
        if holder is not None:
            return SimpleNamespace(key=key, release=lambda: None)
        return SimpleNamespace(key=key, release=lambda: self._store.leased.pop(key, None))


class _Seen(elsewhere.Elsewhere):
    """Others as one process sees them, which is told how much processor time they have had."""

    def _progress_of(self, key: str) -> tuple[float | None, float | None]:
        return self._daemons.spent(key), None


class _Process:
    """The program, or a lane."""

    def __init__(self, host: _Host, *, gives_way: bool) -> None:
        self._host, self.gives_way = host, gives_way
        self.spent = 0.0
        self.store = _SeenStore(host.store, self)
        self.others = _Seen(Settings(dir="/nowhere"), self.store, Counters())
        self.others._daemons = SimpleNamespace(
            worth_asking=lambda: False, spent=host.spent,
            gives_way=lambda key: key in host.store.leased and host.store.leased[key].gives_way,
        )  # fmt: skip

    def compile(self, at: int) -> None:
        """Compile a unit, and what it is built upon if that isn't there."""
        for each in self._host.profile.units[at].inside:
            self.need(each)
        left = MISS * self._host.profile.units[at].seconds
        while left > 1e-9:
            self._host.compiling.add(self)
            rate = self._host.rate_of(self)
            step = min(left / rate, waiting_account.LOOK_SECONDS)
            self._host.clock.sleep(step)
            self.spent += step * rate
            left -= step * rate
        self._host.compiling.discard(self)
        self._host.store.publish(key_of(at))

    def need(self, at: int) -> None:
        """Have a unit: load it, wait for it, or compile it."""
        key, releases = key_of(at), []
        unit = SimpleNamespace(key=key, name=f"lib:f{at}", signature_text="()")

        def load() -> bool | None:
            return self.store.exists(key) or None

        if not load() and self.others.find(unit, load, releases.append, is_there=False) is None:
            self.compile(at)
        else:
            self._host.clock.sleep(HIT)
        for release in releases:
            release()


class _Host:
    def __init__(self, profile: Profile, processors: int) -> None:
        self.profile, self.clock, self.store = profile, Clock(), _Store()
        self._lanes = profile.lanes(processors) if processors > 1 else 0
        self._processors, self._took = processors, 0.0
        self.compiling: set[_Process] = set()

    def rate_of(self, process: _Process) -> float:
        """Return what part of a processor somebody has who compiles."""
        if not process.gives_way:
            return 1.0
        lanes = sum(each.gives_way for each in self.compiling)
        return min(1.0, (self._processors - (len(self.compiling) - lanes)) / lanes)

    def spent(self, key: str, _scope: str = "") -> float | None:
        holder = self.store.leased.get(key)
        return None if holder is None else holder.spent

    def run(self) -> float:
        # Whoever may wait for next to nothing more gets past it, as with a clock that goes on by itself.
        time = SimpleNamespace(
            monotonic=self.clock.monotonic,
            sleep=lambda seconds: self.clock.sleep(max(seconds, 1e-3)),
            process_time=self.clock.monotonic,
        )
        with ExitStack() as stack:
            for module in (elsewhere, waiting_account, profile_lane):
                stack.enter_context(patch.object(module, "time", time))
            stack.enter_context(patch.object(spool, "waits", lambda _path: self._lanes > 0))
            self.clock.start(self._program)
            self.clock.run()
        return self._took

    def _program(self) -> None:
        process = _Process(self, gives_way=False)
        self.clock.sleep(IMPORTS)
        if self._lanes:
            process.others.share(self.profile, ["lane"] * self._lanes)
            for _ in range(self._lanes):
                self.clock.start(self._lane)
        for at in range(len(self.profile.units)):
            process.need(at)
        self._took = self.clock.now

    def _lane(self) -> None:
        process = _Process(self, gives_way=True)
        process.others.share(self.profile)
        self.clock.sleep(BEGINNING)
        lane = _Lane(process, self.profile)
        while lane.run(float("inf"), lambda: True):
            pass


class _Lane(profile_lane.Lane):
    """A lane whose functions are numbers of units."""

    def __init__(self, process: _Process, profile: Profile) -> None:
        super().__init__(SimpleNamespace(path=()), profile, process.store, maker=SimpleNamespace())
        self._process = process

    def _begin(self) -> None:
        """Nothing is imported."""

    def _find(self, unit: Unit) -> tuple[str, Callable[[], None]]:
        return unit.key, lambda: self._process.compile(int(unit.key, 16))
