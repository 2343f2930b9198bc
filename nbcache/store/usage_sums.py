"""Summing up the usage records of processes long gone, so that they don't pile up.

Their sum is ``v1/usage.json``: a record (:mod:`nbcache.store.usage`) that also says when it was, by hours, and by days
where that is long ago. It is written before the records are removed. Besides the fields of a record it has::

    hours      {hours since 1970: bucket}     the last HOURS of them, and the first one of each of the last DAYS
    functions  {function and signature: [builds, seconds, changes, the key built last]}
    bucket   = a usage record of processes that counted last within that hour, or day, as `reasons.brief` makes it

``changes`` is how often a function was built under another key than the time before. Reasons in buckets are those of
:mod:`nbcache.store.reasons`.

Bounded in every direction, whatever the records say: buckets by number, functions by those that cost or changed most,
names by length. Like all statistics it can be skewed by whoever may write a record, and is for people alone. What
can't be read is begun anew.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from nbcache.file_trust import Trust
from nbcache.passing_exceptions import suppressed
from nbcache.process import os, time
from nbcache.store import atomic, layout, reasons, usage
from nbcache.store.folders import Folder
from nbcache.store.usage import Record, count_of, seconds_of

FOLD_STEP: Final = 32 << 20
"""How much of records one step of folding reads [bytes]."""
FOLD_STEPS: Final = 50
"""How many such steps a command makes."""
FOLD_SECONDS: Final = 3600.0
"""From this age a record is folded [s]."""
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
_CROWD: Final = 4096
"""From so many functions on, those that won't be kept are dropped while records are still being added."""
_SHORT_KEY: Final = 12


def fold(
    root: str,
    keep: Callable[[str], bool],
    *,
    age: float = FOLD_SECONDS,
    budget: usage.Budget | None = None,
    trust: Trust | None = None,
) -> int:
    """Add the records older than ``age`` [s] to the sum and remove them; return how many. Never raises.

    One step: what is beyond the budget (default: :data:`FOLD_STEP`) is left for the next. With ``trust``, only what it
    allows to be read. ``keep(key)`` says of which keys the last use is still wanted. The sum is written before the
    records are removed: a process killed in between, or two that fold at once, makes them count twice; none gets lost.
    """
    limit = time.time() - age
    budget = usage.Budget(FOLD_STEP) if budget is None else budget
    with suppressed(OSError, ValueError), Folder(root, layout.USAGE) as folder:
        old = usage.records(folder, budget, trust, lambda _name, status: status.st_mtime < limit)
        return _fold(root, folder, keep, old, budget)
    return 0


def fold_all(root: str, keep: Callable[[str], bool], *, age: float = FOLD_SECONDS) -> int:
    """Fold step by step until nothing is left to be folded, or :data:`FOLD_STEPS` were made; return how many."""
    count = 0
    for _ in range(FOLD_STEPS):
        budget = usage.Budget(FOLD_STEP)
        count += fold(root, keep, age=age, budget=budget)
        if not budget.over:
            break
    return count


def forget(root: str, keep: Callable[[str], bool]) -> None:
    """Begin to count anew: of all that was counted, only when each key was used last is kept. Raises OSError.

    What processes that run have counted so far is forgotten as well; they begin another record.
    """
    fold_all(root, keep, age=0.0)
    past = Past.read(root)
    past.total = {**usage.nothing(), "last_use": past.total["last_use"]}
    atomic.write_file(f"{root}/{layout.USAGE_TOTAL}", past.encode(), durable=False)


def since(root: str, moment: float, budget: usage.Budget) -> Iterator[Record]:
    """Yield what was counted from *moment* [Unix s] on: whole hours, or days where that is too long ago."""
    length = HOUR if time.time() - moment < (HOURS - 1) * HOUR else DAY
    for number, bucket in Past.read(root).hours.items():
        if number * HOUR >= moment // length * length:
            yield bucket
    with suppressed(OSError), Folder(root, layout.USAGE) as folder:
        for _, record, status in usage.records(folder, budget):
            if record is not None and status.st_mtime >= moment:
                yield record


def _fold(
    root: str,
    folder: Folder,
    keep: Callable[[str], bool],
    records: Iterator[tuple[str, usage.Record | None, os.stat_result]],
    budget: usage.Budget,
) -> int:
    directory = folder.status
    past: Past | None = None
    folded: list[str] = []
    for name, record, status in records:
        # What can't be removed would be counted at each turn.
        if not _removable(directory, status):
            continue
        if record is None:
            folder.remove(name)
            continue
        if past is None:
            if _is_too_large(root, budget):
                return 0
            past = Past.read(root)
        past.add(record, status.st_mtime, keep)
        folded.append(name)
    if past is None:
        return 0
    past.total["last_use"] = {key: when for key, when in past.total["last_use"].items() if keep(key)}
    data = past.encode()
    if len(data) > usage.MAX_TOTAL:
        past.total["last_use"] = {}
        data = past.encode()
    atomic.write_file(f"{root}/{layout.USAGE_TOTAL}", data, durable=False)
    return sum(folder.remove(name) for name in folded)


def _is_too_large(root: str, budget: usage.Budget) -> bool:
    """Whether there is a sum that can't be read within the budget. Raises OSError."""
    with suppressed(FileNotFoundError):
        if budget.largest < os.lstat(f"{root}/{layout.USAGE_TOTAL}").st_size <= usage.MAX_TOTAL:
            budget.over = True
            return True
    return False


def _removable(directory: os.stat_result, file: os.stat_result) -> bool:
    """Whether this process may remove a file from a directory that it may write: from a sticky one, its own alone."""
    return not directory.st_mode & stat.S_ISVTX or os.geteuid() in {0, directory.st_uid, file.st_uid}


@dataclass(slots=True)
class Function:
    """What building one function for one signature took."""

    builds: int = 0
    seconds: float = 0.0
    changes: int = 0
    """How often it was built under another key than the time before."""
    key: str = ""
    """The beginning of the key that it was built under last."""


class Past:
    """What records of the past add up to, and when that was; see the module."""

    __slots__ = ("functions", "hours", "total")

    def __init__(self, total: Record | None = None, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Know what the sum says, without what is malformed in the fields that it has besides a record's."""
        self.total = usage.nothing() if total is None else total
        self.hours = _buckets(more.get("hours"))
        self.functions = _functions(more.get("functions"))

    @classmethod
    def read(cls, root: str) -> Past:
        """Return what is known of a store's past; nothing for anything else. Never raises."""
        found = usage.read_sum(root)
        return cls() if found is None else cls(*found)

    def encode(self, now: float | None = None) -> bytes:
        """Return the file, with what is of no interest any more left out."""
        moment = time.time() if now is None else now
        hours: dict[int, Record] = {}
        for number, record in sorted(self.hours.items()):
            place = _place(number, moment)
            if place is not None:
                usage.add(hours.setdefault(place, usage.nothing()), record)
        said = {
            **self.total,
            "hours": {number: reasons.brief(record) for number, record in hours.items()},
            "functions": {
                name: [each.builds, round(each.seconds, 6), each.changes, each.key]
                for name, each in _kept(self.functions).items()
            },
        }
        return json.dumps(said, separators=(",", ":")).encode("ascii")

    def add(self, record: Record, when: float, keep: Callable[[str], bool], now: float | None = None) -> None:
        """Add a record of a process that counted last at ``when`` [Unix s]. A date in the future counts as now.

        ``keep(key)`` says of which keys the last use is wanted.
        """
        moment = time.time() if now is None else now
        usage.add(self.total, record, keep)
        # Files are dated by whoever wrote them: what would be dropped isn't collected first.
        place = _place(int(max(0.0, min(when, moment)) // HOUR), moment)
        if place is not None:
            usage.add(self.hours.setdefault(place, usage.nothing()), reasons.brief(record))
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


def _place(hour: int, now: float) -> int | None:
    """Return the bucket of an hour: its own, or its day's, which is that of the day's first hour; None for none."""
    age, day = now // HOUR - hour, hour // 24
    if age < HOURS:
        return hour if age >= 0 else None
    return day * 24 if now // DAY - day < DAYS else None


def _kept(functions: dict[str, Function]) -> dict[str, Function]:
    """Return the functions that cost most, and of the others those that changed most."""
    by_cost = sorted(functions, key=lambda name: -functions[name].seconds)
    rest = sorted(by_cost[MAX_COSTLY:], key=lambda name: -functions[name].changes)
    return {name: functions[name] for name in [*by_cost[:MAX_COSTLY], *rest[:MAX_CHANGING]]}


def _buckets(raw: object) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for number, said in raw.items() if isinstance(raw, dict) else ():
        if len(found) < HOURS + DAYS and number.isascii() and number.isdigit() and isinstance(said, dict):
            record = usage.clean({**said, "version": usage.VERSION})
            if record is not None:
                bucket = found[int(number[:9])] = usage.nothing()
                usage.add(bucket, reasons.brief(record))
    return found


def _functions(raw: object) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for name, row in raw.items() if isinstance(raw, dict) else ():
        if len(found) < MAX_COSTLY + MAX_CHANGING and isinstance(row, list) and len(row) == 4:
            key = row[3][:_SHORT_KEY] if isinstance(row[3], str) else ""
            found[name[:MAX_NAME]] = Function(count_of(row[0]), seconds_of(row[1]), count_of(row[2]), key)
    return found
