"""What a report tells, as data: from the entries of a store, from usage records, and from what is left of older ones.

Reading has a budget of time; what didn't fit in is said in :attr:`Report.notes`. Only reads.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nbcache.cli.entries import read_components
from nbcache.cli.explain import differing, name_of
from nbcache.protocol import heartbeats
from nbcache.protocol.heartbeats import Heartbeat
from nbcache.store import evict, layout, pins, reasons, usage
from nbcache.store.directory import Store
from nbcache.store.entry import Header
from nbcache.store.folders import Folder
from nbcache.store.listing import EntryInfo
from nbcache.store.usage import Record
from nbcache.store.usage_sums import Function, Past

SECONDS: Final = 20.0
"""How long headers of entries are read, and then once more entries are compared [s]."""
MOST_TEXT: Final = 300
"""The longest text that is shown [characters]."""
COSTLY: Final = 12
NEXT: Final = 10
"""How many entries are named that would be evicted next."""
PACKAGES: Final = 8
COMPARED_FUNCTIONS: Final = 5
"""Of how many functions of a package the entries are compared."""
COMPARED: Final = 8
"""How many entries of a function."""
CAUSES: Final = 3
AGES: Final = ((86400.0, "a day"), (7 * 86400.0, "a week"), (30 * 86400.0, "a month"), (90 * 86400.0, "three months"))


@dataclass(slots=True)
class Costly:
    """A function, and what all of its compilations took."""

    name: str
    seconds: float = 0.0
    builds: int = 0


class Victim(NamedTuple):
    """An entry that would be evicted before others."""

    name: str
    signature: str
    size: int
    """[bytes]"""
    used: float
    """When it was used last, Unix time [s]."""
    goes: bool
    """Whether it would go now."""


@dataclass(slots=True)
class Package:
    """What became of the keys of the functions of one package."""

    name: str
    functions: int = 0
    changes: int = 0
    """How often a function was built, or is there, under one key more."""
    seconds: float = 0.0
    """What its compilations took [s]."""
    worst: str = ""
    """The function that changed most often."""
    causes: list[tuple[str, int]] = field(default_factory=list)
    """What differed between entries, and how often."""


@dataclass(slots=True)
class Report:
    """See the module."""

    root: str
    made: float
    limit: int
    entries: int = 0
    size: int = 0
    total: Record = field(default_factory=usage.nothing)
    """What all usage records add up to."""
    past: Past = field(default_factory=Past)
    misses: dict[str, int] = field(default_factory=dict)
    changed: int = 0
    """How many builds are known to be of functions that were there under another key."""
    costly: list[Costly] = field(default_factory=list)
    victims: list[Victim] = field(default_factory=list)
    evicts: int = 0
    """How many entries would be evicted now."""
    ages: list[tuple[str, int, int]] = field(default_factory=list)
    """How long ago things were used: words, entries, bytes."""
    packages: list[Package] = field(default_factory=list)
    daemons: list[Heartbeat] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def gather(store: Store, limit: int, now: float | None = None) -> Report:
    """Return what there is to tell of a store whose size is to be at most ``limit`` [bytes]."""
    made = time.time() if now is None else now
    report = Report(store.path, made, limit)
    infos = list(store.scan())
    report.entries, report.size = len(infos), sum(info.size for info in infos)
    used = _read_usage(report, store, {info.key for info in infos}, made)
    known = _read_headers(report, infos)
    _plan(report, infos, known, used, pins.read(store.path, store.trust))
    report.costly = _costly(report.past.functions, known.values())
    _read_changes(report, store, known)
    report.daemons = [each for each in heartbeats.read(store.path, store.trust) if each.alive]
    return report


def _read_usage(report: Report, store: Store, keys: set[str], now: float) -> dict[str, float]:
    """Read all usage records; return when keys were hit last."""
    budget = usage.Budget()
    report.past = Past.read(store.path)
    with suppress(OSError), Folder(store.path, layout.USAGE) as folder:
        for _, record, status in usage.records(folder, budget):
            if record is not None:
                report.past.add(record, status.st_mtime, keys.__contains__, now)
    if budget.over:
        report.notes.append("There are more usage records than are read at once; `nbcache gc` sums them up.")
    total = report.past.total
    report.total = usage.merge([total])
    report.misses = reasons.brief(total).get("misses", {})
    report.changed = sum(each.changes for each in report.past.functions.values())
    return {key: when for key, when in total["last_use"].items() if key in keys}


def _read_headers(report: Report, infos: list[EntryInfo]) -> dict[str, Header]:
    """Return the entries whose header can be read, by path."""
    deadline = time.monotonic() + SECONDS
    known = {}
    # In the order of keys, which are digests: where time is short, any part of them is as good as another.
    for count, info in enumerate(sorted(infos, key=lambda info: info.key)):
        if time.monotonic() > deadline:
            report.notes.append(f"Of {len(infos)} entries the first {count} by key were looked into.")
            break
        header = info.header
        if header is not None:
            # It may hold text of any length.
            function, signature = header.function[:MOST_TEXT], header.signature[:MOST_TEXT]
            known[info.path] = header._replace(
                function=function, signature=signature, toolchain="", build="", guard="", extra={}
            )
    return known


def _plan(
    report: Report, infos: list[EntryInfo], known: dict[str, Header], used: dict[str, float], pinned: pins.Pins
) -> None:
    """Say what would be evicted, and how long ago things were used."""
    ordered = evict.ordered((info for info in infos if info.key not in pinned.entries), report.made, used)
    report.evicts = len(evict.plan(infos, report.limit, report.made, used, pinned).remove)
    for number, info in enumerate(ordered[:NEXT]):
        header = known.get(info.path)
        name, signature = ("(can't be read)", "") if header is None else (header.function, header.signature)
        last = max(info.mtime, used.get(info.key, 0.0))
        report.victims.append(Victim(name, signature, info.size, last, number < report.evicts))
    counts, sizes = Counter[str](), Counter[str]()
    for info in infos:
        age = report.made - max(info.mtime, used.get(info.key, 0.0))
        words = next((f"within {words}" for most, words in AGES if age <= most), "longer ago")
        counts[words] += 1
        sizes[words] += info.size
    names = [*(f"within {words}" for _, words in AGES), "longer ago"]
    report.ages = [(words, counts[words], sizes[words]) for words in names]


def _costly(functions: dict[str, Function], known: Iterable[Header]) -> list[Costly]:
    """Return what took longest to compile, by records; where these tell nothing yet, by the entries."""
    found: dict[str, Costly] = {}
    told = [(name.partition(" ")[0], each.seconds, each.builds) for name, each in functions.items()]
    for name, seconds, builds in told or [(each.function, each.compile_seconds, 1) for each in known]:
        item = found.setdefault(name, Costly(name))
        item.seconds += seconds
        item.builds += builds
    return sorted(found.values(), key=lambda item: -item.seconds)[:COSTLY]


def _read_changes(report: Report, store: Store, known: dict[str, Header]) -> None:
    """Say which packages keep changing keys, and what of them changes."""
    # A ufunc and its wrapper have one name and one signature, and keys that have nothing in common.
    groups: dict[tuple[str, str, str], list[tuple[str, Header]]] = {}
    for path, header in known.items():
        groups.setdefault((header.function, header.signature, header.kind), []).append((path, header))
    functions = dict.fromkeys(name.partition(" ")[0] for name in report.past.functions)
    seen: Counter[str] = Counter()
    for (function, _, _), members in groups.items():
        seen[function] += len({header.key for _, header in members}) - 1
        functions[function] = None
    told: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for name, item in report.past.functions.items():
        function = name.partition(" ")[0]
        told[function] += item.changes
        seconds[function] = seconds.get(function, 0.0) + item.seconds
    packages: dict[str, Package] = {}
    for function in functions:
        name = function.partition(":")[0].partition(".")[0]
        package = packages.setdefault(name, Package(name))
        changes = max(told[function], seen[function])
        package.functions += 1
        package.seconds += seconds.get(function, 0.0)
        package.changes += changes
        if changes and (not package.worst or changes > max(told[package.worst], seen[package.worst])):
            package.worst = function
    ranked = sorted(packages.values(), key=lambda each: (-each.changes, each.name))
    report.packages = [each for each in ranked if each.changes][:PACKAGES]
    deadline = time.monotonic() + SECONDS
    for package in report.packages:
        mine = [each for key, each in groups.items() if key[0].partition(":")[0].partition(".")[0] == package.name]
        mine.sort(key=len, reverse=True)
        package.causes = _causes(store, mine[:COMPARED_FUNCTIONS], deadline)


def _causes(store: Store, groups: list[list[tuple[str, Header]]], deadline: float) -> list[tuple[str, int]]:
    """Return in what each entry differs from the one that was built before it."""
    found: Counter[str] = Counter()
    for members in groups:
        newest = sorted(members, key=lambda each: each[1].created)[-COMPARED:]
        before: dict[str, str] | None = None
        for path, header in newest:
            if time.monotonic() > deadline:
                return found.most_common(CAUSES)
            entry = next((one for one in store.find(header.key) if one.path == path), None)
            if entry is None:
                continue
            components = read_components(entry)
            if before is not None:
                found.update({" in ".join(filter(None, name_of(label))) for label in differing(before, components)})
            before = components
    return found.most_common(CAUSES)
