"""Hosts that start at once and run one program, by nbcache's own code for remote caches.

What is real: the policy of a look-up (`client.lookup`, `client.remote`, with its budgets), the helper's reading,
uploading, tiers and breakers, entries, signatures and what is admitted. What is simulated: time and threads
(`clock.py`), servers (`servers.py`), the socket between a program and its helper, local stores (in memory), and
compiling, which is waiting.
"""

from __future__ import annotations

import logging
import random
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from nbcache import signing_keys
from nbcache.client import lookup as lookup_module
from nbcache.client import remote as remote_module
from nbcache.client.lookup import Found, Lookup
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.keyring import Keyring
from nbcache.protocol import helper as protocol
from nbcache.remote import helper as helper_module
from nbcache.remote import objects, reading, storage, tiers, uploading
from nbcache.secret import Secret
from nbcache.store import entry, reasons
from nbcache.store.content import blake2b
from nbcache.store.entry import Header
from nbcache.store.slots import PUBLISHED, Published
from nbsim.clock import Clock, Executor, Future, Threading
from nbsim.servers import Kind, Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HIT = 0.001
"""How long loading an entry takes [s]."""
HELPER = 0.25
"""How long starting a helper takes [s]."""
MESSAGE = 0.0005
"""How long asking a helper takes, besides what it does [s]."""
SPEED = 0.1
"""By how much hosts differ in speed, as the standard deviation of its logarithm."""
COMPILE = (0.3, 0.8)
"""The median of what a function takes to compile [s], and the standard deviation of its logarithm."""
ENTRY = (16_000, 0.5)
"""The same of an entry's size [bytes]; half of it is left when it is compressed."""
CALLEES = 2
"""How many functions each one calls that is called by the program."""


class Function(NamedTuple):
    """One that the program calls, or a callee of one."""

    key: str
    seconds: float
    """What it takes to compile, without callees [s]."""
    sections: Mapping[str, bytes]
    callees: tuple[Function, ...] = ()

    @property
    def all_seconds(self) -> float:
        """What it takes with its callees [s]."""
        return self.seconds + sum(each.seconds for each in self.callees)


class Measured(NamedTuple):
    """What a fleet did."""

    hosts: int
    keys: int
    compilations: int
    in_vain: int
    """How many compilations began while the server had the entry."""
    gets: int
    puts: int
    megabytes: float
    peak: int
    """How many requests the server had in its busiest second."""
    refused: int
    """How many requests it answered with an error, or not at all."""
    last: float
    """When the last host had called everything [s]."""
    median: float
    """When half of the hosts had [s]."""
    plain: float
    """When the last would have had without a cache [s]."""
    waited: float
    """How long the host that waited longest did so, beyond what it saved [s]."""


def program(keys: int, rng: random.Random) -> tuple[Function, ...]:
    """Return the functions that a program calls: with their callees, so many."""

    def function(number: int, callees: tuple[Function, ...] = ()) -> Function:
        key = blake2b(f"function {number}".encode(), digest_size=32).hexdigest()
        size = int(ENTRY[0] * rng.lognormvariate(0.0, ENTRY[1]))
        code = random.Random(number).randbytes(size // 2) + bytes(size - size // 2)
        return Function(key, COMPILE[0] * rng.lognormvariate(0.0, COMPILE[1]), {"object": code}, callees)

    made, number = [], 0
    while number < keys:
        below = tuple(function(n) for n in range(number + 1, min(number + 1 + CALLEES, keys)))
        made.append(function(number, below))
        number += 1 + len(below)
    return tuple(made)


class Entry(NamedTuple):
    """An entry of a store in memory."""

    header: Header
    parts: Mapping[str, bytes]
    layer = ""
    proven = True

    @property
    def section_sizes(self) -> dict[str, int]:
        """As of an entry in a file."""
        return {name: len(content) for name, content in self.parts.items()}

    def section(self, name: str) -> bytes | None:
        """As of an entry in a file."""
        return self.parts.get(name)

    def sections(self) -> Mapping[str, bytes]:
        """As of an entry in a file."""
        return self.parts


class Store:
    """A local store, in memory."""

    writable = True
    trust = None

    def __init__(self, path: str, keyring: Keyring, contents: dict[str, Mapping[str, bytes]]) -> None:
        """*contents* are those of all entries: hosts share what is the same."""
        self.path = path
        self.keyring = keyring
        self._contents = contents
        self._entries: dict[str, Entry] = {}

    def find(self, key: str, _reject: object = None) -> Iterator[Entry]:
        """As `Store.find`."""
        if key in self._entries:
            yield self._entries[key]

    def publish(self, header: Header, sections: Mapping[str, bytes], **_: object) -> Published:
        """As `Store.publish`."""
        new = header.key not in self._entries
        if new:
            self._entries[header.key] = Entry(header, self._contents.setdefault(header.key, sections))
        return Published(ok=True, reason=PUBLISHED if new else "already there", path="")


class SimulatedLookup(Lookup):
    """The policy of a look-up, where loading an entry is waiting."""

    def _local(self, unit: Any, take: Any, *, waited: bool = False) -> Found:
        for each in self._store.find(unit.key):
            return Found(take(each))
        return Found()


class Host:
    """One host: a program, and its helper."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        """Start nothing yet."""
        self.fleet = fleet
        self.finished = 0.0
        self.compilations = self.in_vain = 0
        self.helper: helper_module.Helper | None = None
        self.starting = False
        self.settings = Settings(
            dir=name,
            remote=(Secret("http://server/"),),
            trusted_keys=(Secret(fleet.public),),
            signing_key=Secret(fleet.key),
        )
        self.store = Store(name, Keyring([fleet.public]), fleet.contents)
        self._counters = Counters()
        self._frames: list[Function] = []
        self._lookup = SimulatedLookup(
            self.store, None, None, self._frames, counters=self._counters, fault=lambda *_: None,
            settings=self.settings, remote=lambda: remote_module.Remote(self.settings, self._counters),
        )  # fmt: skip
        self._speed = fleet.rng.lognormvariate(0.0, SPEED)

    @property
    def waited(self) -> float:
        """How long was waited beyond what it saved [s]."""
        remote = self._lookup.remote()
        return 0.0 if remote is None else remote._spent

    def run(self, after: float) -> None:
        """Run the program, so long [s] after the fleet was started."""
        self.fleet.clock.sleep(after)
        for function in self.fleet.program:
            self._call(function)
        self.finished = self.fleet.clock.now

    def _call(self, function: Function) -> None:
        clock = self.fleet.clock

        def take(entry: Entry) -> bool:
            clock.sleep(HIT)
            self._counters.hit(entry.header.key, entry.header.compile_seconds)
            return True

        found = self._lookup._first(function, take)
        if found.result is not None:
            return
        self.compilations += 1
        self.in_vain += self.fleet.has(function.key)
        began = clock.now
        self._frames.append(function)
        for callee in function.callees:
            self._call(callee)
        clock.sleep(function.seconds * self._speed * self.fleet.rng.lognormvariate(0.0, SPEED / 2))
        self._frames.pop()
        header = Header(
            key=function.key, kind="dispatcher", function="a function", signature="", toolchain="",
            compile_seconds=clock.now - began, created=0.0, build="", guard="",
        )  # fmt: skip
        self._counters.built(function.key, "", function.seconds)
        self.store.publish(header, function.sections)
        remote = self._lookup.remote()
        assert remote is not None
        remote.offer(function.key)


class Fleet:
    """Hosts, and the server between them."""

    def __init__(self, kind: Kind, *, hosts: int, keys: int, spread: float, folder: Path, seed: int = 1) -> None:
        """*hosts* start within *spread* [s] and call functions of so many *keys*; a signing key goes to *folder*."""
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.server = Server(self.clock, kind, random.Random(seed + 1))
        self.contents: dict[str, Mapping[str, bytes]] = {}
        self.key = str(folder / "signing.key")
        if not Path(self.key).exists():
            signing_keys.save(signing_keys.generate("simulated"), self.key)
        self.public = str(signing_keys.read(Secret(self.key)).public)
        # The program is the same whatever the fleet is.
        self.program = program(keys, random.Random(seed))
        self._keys, self._spread = keys, spread
        self.hosts = [Host(self, f"host{n}") for n in range(hosts)]
        self._by_name = {host.settings.dir: host for host in self.hosts}

    def has(self, key: str) -> bool:
        """Whether the server has the first variant of a key."""
        return objects.name_of(key, 0) in self.server.objects

    def run(self) -> Measured:
        """Start all hosts, and let everything happen."""
        with self._in_place():
            begins = [self.rng.uniform(0.0, self._spread) for _ in self.hosts]
            begins[0] = 0.0
            for host, begin in zip(self.hosts, begins, strict=True):
                self.clock.start(host.run, begin)
            self.clock.run()
            ends = sorted(host.finished for host in self.hosts)
            counts = self.server.counts
            alone = sum(function.all_seconds for function in self.program)
            return Measured(
                hosts=len(self.hosts),
                keys=self._keys,
                compilations=sum(host.compilations for host in self.hosts),
                in_vain=sum(host.in_vain for host in self.hosts),
                gets=counts["get"],
                puts=counts["put"],
                megabytes=round(self.server.bytes / 1e6, 1),
                peak=self.server.peak,
                refused=counts["limited"] + counts["unreachable"],
                last=round(ends[-1], 2),
                median=round(ends[len(ends) // 2], 2),
                plain=round(alone + max(begins), 2),
                waited=round(max(host.waited for host in self.hosts), 2),
            )

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Put what is simulated in the place of what is real."""
        clock, threads, meeting = self.clock, Threading(self.clock), Meeting(self)
        places = {
            reading: {
                "time": clock,
                "threading": threads,
                "Future": lambda: Future(clock),
                "quarantine": NOTHING_CRASHES,
            },
            tiers: {"time": clock, "ThreadPoolExecutor": lambda *_: Executor(clock)},
            storage: {"opened": self._storage},
            uploading: {"time": clock, "threading": threads, "quarantine": NOTHING_CRASHES},
            remote_module: {"time": clock},
            protocol: {
                "time": clock,
                "threading": threads,
                **{name: getattr(meeting, name) for name in ("meeting", "hindrance", "start", "ask", "offer")},
            },
            helper_module: {"Store": self},
        }
        log = logging.getLogger("nbcache")
        with ExitStack() as stack:
            for module, names in places.items():
                for name, stand_in in names.items():
                    stack.enter_context(mock.patch.object(module, name, stand_in))
            stack.enter_context(mock.patch.object(log, "disabled", new=True))
            random.seed(1)
            yield

    def _storage(self, _address: str) -> Any:
        return mock.Mock(server=None, get=self.server.get, head=self.server.head, put=self.server.put)

    def open(self, settings: Settings) -> Store:
        """As `Store.open`, of a helper."""
        return self._by_name[settings.dir].store

    def host(self, place: protocol.Meeting) -> Host:
        """Return whose helper is met there."""
        return self._by_name[place.folder]


class Meeting:
    """What stands in for the socket between programs and helpers: `nbcache.protocol.helper`, as a client sees it."""

    def __init__(self, fleet: Fleet) -> None:
        """Of one fleet."""
        self._fleet = fleet

    @staticmethod
    def meeting(settings: Settings, _release: str) -> protocol.Meeting:
        """Return a place that only says whose it is."""
        return protocol.Meeting(str(settings.dir), "/nowhere", "/nowhere/lock")

    @staticmethod
    def hindrance(_folder: str) -> None:
        """Nothing is in the way of one."""

    def start(self, settings: Settings, _seconds: float) -> bool:
        """Start a helper, which takes a while to be there."""
        host, clock = self._fleet.host(self.meeting(settings, "")), self._fleet.clock
        if not host.starting:
            host.starting = True

            def begin() -> None:
                clock.sleep(HELPER)
                host.helper = helper_module.Helper(settings)

            clock.start(begin)
        return True

    def ask(
        self, place: protocol.Meeting, _question: str, key: str, seconds: float, *, slot: int = 0, since: float = 0.0
    ) -> Any:
        """Ask a helper to fetch. Raises OSError where none is there yet."""
        clock, helper = self._fleet.clock, self._fleet.host(place).helper
        if helper is None:
            raise ConnectionRefusedError
        answer = Future(clock)
        clock.start(lambda: answer.set_result(helper.answer(protocol.Question("fetch", key, slot))._asdict()))
        clock.sleep(MESSAGE)
        try:
            return {"v": protocol.VERSION, **answer.result(seconds)}
        except TimeoutError:
            return None

    def offer(self, place: protocol.Meeting, key: str) -> None:
        """Tell a helper of an entry. Raises OSError where none is there yet."""
        helper = self._fleet.host(place).helper
        if helper is None:
            raise ConnectionRefusedError
        helper.uploading.offer(key)


NOTHING_CRASHES = SimpleNamespace(for_others=lambda entries, *_: entries, condemned=lambda *_: frozenset())
"""Stands in for `nbcache.store.quarantine`, which would look at files."""


def fill(fleet: Fleet) -> None:
    """Have the server hold everything that the program needs."""
    secret = signing_keys.read(Secret(fleet.key))
    for outer in fleet.program:
        for function in (outer, *outer.callees):
            header = Header(
                key=function.key, kind="dispatcher", function="a function", signature="", toolchain="",
                compile_seconds=function.all_seconds, created=0.0, build="", guard="",
            )  # fmt: skip
            signed = header._replace(signed=(objects.sign(secret, header, function.sections),))
            packed = objects.pack(entry.encode(signed, function.sections))
            fleet.server.objects[objects.name_of(function.key, 0)] = packed


def simulate(kind: Kind, *, hosts: int, keys: int, spread: float, full: bool, seed: int = 1) -> Measured:
    """Run one fleet; *full*: its server has everything already."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(kind, hosts=hosts, keys=keys, spread=spread, folder=Path(folder), seed=seed)
        if full:
            fill(fleet)
        return fleet.run()


__all__ = ["Fleet", "Measured", "lookup_module", "reasons", "simulate"]
