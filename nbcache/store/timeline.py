"""When things happened: what usage records told, by hours and by days, kept for as long as people ask.

``v1/timeline.json``, one JSON object::

    version    1
    hours      {hours since 1970: bucket}     the last HOURS of them
    days       {days since 1970: bucket}      the last DAYS of them
    functions  {function and signature: [builds, seconds, changes, the key built last]}
    bucket   = [processes, hits, saved seconds, builds, built seconds, uncacheable, evicted, evicted bytes, misses]
    misses   = {reason: count}

The sum of folded records (:mod:`nbcache.store.usage`) says how often; whoever folds a record into it adds the record
here as well, at the time when its process counted last. ``changes`` is how often a function was built under another
key than the time before. Reasons are those of :mod:`nbcache.store.reasons`.

Bounded in every direction, whatever the records say: buckets by number, functions by those that cost or changed most,
names by length. Like all statistics it can be skewed by whoever may write a record, and is for people alone. What
can't be read, or is of another version, is begun anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nbcache.process import time
from nbcache.store import bounded, layout, reasons
from nbcache.store.usage import count_of, seconds_of

if TYPE_CHECKING:
    from nbcache.store.usage import Record

VERSION: Final = 1
HOUR: Final = 3600
DAY: Final = 24 * HOUR
HOURS: Final = 14 * 24
DAYS: Final = 400
MAX_COSTLY: Final = 200
"""How many functions are kept for the time that they took."""
MAX_CHANGING: Final = 100
"""How many more are kept because their keys changed most."""
MAX_NAME: Final = 200
"""How much of a function's name and signature is kept [characters]."""
MAX_TIMELINE: Final = 2 << 20
"""The largest timeline that is read [bytes]. What :meth:`Timeline.encode` returns is smaller."""
_CROWD: Final = 4096
"""From so many functions on, those that won't be kept are dropped while records are still being added."""
_SHORT_KEY: Final = 12


@dataclass(slots=True)
class Bucket:
    """What was counted by processes that did so last within one hour, or one day."""

    processes: int = 0
    hits: int = 0
    saved_seconds: float = 0.0
    builds: int = 0
    built_seconds: float = 0.0
    uncacheable: int = 0
    evicted: int = 0
    evicted_bytes: int = 0
    misses: dict[str, int] = field(default_factory=dict)

    @property
    def missed(self) -> int:
        """Look-ups that found nothing to use."""
        return sum(self.misses.values())

    def add(self, record: Record, misses: dict[str, int]) -> None:
        """Add what one record tells."""
        self.processes += record["processes"]
        self.hits += record["hit_count"]
        self.saved_seconds += record["saved_seconds"]
        self.builds += record["builds_count"]
        self.built_seconds += record["built_seconds"]
        self.uncacheable += sum(item["count"] for item in record["uncacheable"].values())
        self.evicted += record["evicted"]
        self.evicted_bytes += record["evicted_bytes"]
        for reason, count in misses.items():
            self.misses[reason] = self.misses.get(reason, 0) + count


@dataclass(slots=True)
class Function:
    """What building one function for one signature took."""

    builds: int = 0
    seconds: float = 0.0
    changes: int = 0
    """How often it was built under another key than the time before."""
    key: str = ""
    """The beginning of the key that it was built under last."""


class Timeline:
    """What is known of the past; see the module."""

    __slots__ = ("days", "functions", "hours")

    def __init__(self) -> None:
        """Know nothing."""
        self.hours: dict[int, Bucket] = {}
        self.days: dict[int, Bucket] = {}
        self.functions: dict[str, Function] = {}

    @classmethod
    def read(cls, root: str) -> Timeline:
        """Return what is known of a store's past; an empty one for anything else. Never raises."""
        found = bounded.read_json(f"{root}/{layout.TIMELINE}", MAX_TIMELINE)
        return cls.decode(None if found is None else found[0])

    @classmethod
    def decode(cls, raw: object) -> Timeline:
        """Return what JSON holds, without what is malformed."""
        line = cls()
        if isinstance(raw, dict) and raw.get("version") == VERSION:
            line.hours = _buckets(raw.get("hours"), HOURS)
            line.days = _buckets(raw.get("days"), DAYS)
            line.functions = _functions(raw.get("functions"))
        return line

    def encode(self, now: float | None = None) -> bytes:
        """Return what :meth:`decode` takes, with what is of no interest any more left out."""
        moment = time.time() if now is None else now
        said = {
            "version": VERSION,
            "hours": _rows(self.hours, int(moment // HOUR), HOURS),
            "days": _rows(self.days, int(moment // DAY), DAYS),
            "functions": {
                name: [each.builds, round(each.seconds, 6), each.changes, each.key]
                for name, each in _kept(self.functions).items()
            },
        }
        return json.dumps(said, separators=(",", ":")).encode("ascii")

    def add(self, record: Record, when: float, now: float | None = None) -> None:
        """Add a record of a process that counted last at ``when`` [Unix s]. A date in the future counts as now."""
        moment = time.time() if now is None else now
        when = max(0.0, min(when, moment))
        misses = reasons.misses(record["misses"])
        for buckets, length, most in ((self.hours, HOUR, HOURS), (self.days, DAY, DAYS)):
            number = int(when // length)
            # Files are dated by whoever wrote them: what would be dropped isn't collected first.
            if number > int(moment // length) - most:
                buckets.setdefault(number, Bucket()).add(record, misses)
        for build in record["builds"]:
            self._built(build["function"], build["key"][:_SHORT_KEY], build["seconds"])

    def _built(self, name: str, key: str, seconds: float) -> None:
        known = self.functions.setdefault(name[:MAX_NAME], Function())
        known.builds += 1
        known.seconds += seconds
        known.changes += known.key not in {"", key}
        known.key = key
        if len(self.functions) > _CROWD:
            self.functions = _kept(self.functions)


def _kept(functions: dict[str, Function]) -> dict[str, Function]:
    """Return the functions that cost most, and of the others those that changed most."""
    by_cost = sorted(functions, key=lambda name: -functions[name].seconds)
    rest = sorted(by_cost[MAX_COSTLY:], key=lambda name: -functions[name].changes)
    return {name: functions[name] for name in [*by_cost[:MAX_COSTLY], *rest[:MAX_CHANGING]]}


def _rows(buckets: dict[int, Bucket], latest: int, most: int) -> dict[str, list[Any]]:
    return {
        str(number): [
            each.processes, each.hits, round(each.saved_seconds, 3), each.builds, round(each.built_seconds, 3),
            each.uncacheable, each.evicted, each.evicted_bytes, each.misses,
        ]
        for number, each in sorted(buckets.items())
        if latest - most < number <= latest
    }  # fmt: skip


def _buckets(raw: object, most: int) -> dict[int, Bucket]:
    found: dict[int, Bucket] = {}
    for number, row in raw.items() if isinstance(raw, dict) else ():
        if len(found) < most and number.isascii() and number.isdigit() and isinstance(row, list) and len(row) == 9:
            misses = row[8] if isinstance(row[8], dict) else {}
            found[int(number[:9])] = Bucket(
                count_of(row[0]), count_of(row[1]), seconds_of(row[2]), count_of(row[3]), seconds_of(row[4]),
                count_of(row[5]), count_of(row[6]), count_of(row[7]),
                {reason: count_of(misses[reason]) for reason in reasons.MISSES if reason in misses},
            )  # fmt: skip
    return found


def _functions(raw: object) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for name, row in raw.items() if isinstance(raw, dict) else ():
        if len(found) < MAX_COSTLY + MAX_CHANGING and isinstance(row, list) and len(row) == 4:
            key = row[3][:_SHORT_KEY] if isinstance(row[3], str) else ""
            found[name[:MAX_NAME]] = Function(count_of(row[0]), seconds_of(row[1]), count_of(row[2]), key)
    return found
