"""Summing up the usage records of processes long gone, so that they don't pile up.

Their sum is ``v1/usage.json`` (:mod:`nbcache.store.usage`). When that happened, by hours and by days, is in
``v1/timeline.json``. Both are written before the records are removed; without the latter, a store goes on.

``v1/timeline.json``, one JSON object::

    version    2
    hours      {hours since 1970: bucket}     the last HOURS of them
    days       {days since 1970: bucket}      the last DAYS of them
    functions  {function and signature: [builds, seconds, changes, the key built last]}
    bucket   = a usage record of processes that counted last within one hour, or one day, as `reasons.brief` makes it

The sum of folded records (:mod:`nbcache.store.usage`) says how often; whoever folds a record into it adds the record
here as well, at the time when its process counted last. ``changes`` is how often a function was built under another
key than the time before. Reasons are those of :mod:`nbcache.store.reasons`.

Bounded in every direction, whatever the records say: buckets by number, functions by those that cost or changed most,
names by length. Like all statistics it can be skewed by whoever may write a record, and is for people alone. What
can't be read, or is of another version, is begun anew.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nbcache.passing import let_pass, suppressed
from nbcache.process import os, time
from nbcache.store import atomic, content, layout, reasons, usage
from nbcache.store.folders import Folder
from nbcache.store.usage import count_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.store.usage import Record
    from nbcache.trust import Trust

FOLD_STEP: Final = 32 << 20
"""How much of records one step of folding reads [bytes]."""
FOLD_STEPS: Final = 50
"""How many such steps a command makes."""
FOLD_SECONDS: Final = 3600.0
"""From this age a record is folded [s]."""


def fold(
    root: str,
    keep: Callable[[str], bool],
    *,
    now: float | None = None,
    age: float = FOLD_SECONDS,
    budget: usage.Budget | None = None,
    trust: Trust | None = None,
) -> int:
    """Add the records older than ``age`` [s] to the sum and remove them; return how many. Never raises.

    One step: what is beyond the budget (default: :data:`FOLD_STEP`) is left for the next. With ``trust``, only what it
    allows to be read. ``keep(key)`` says of which keys the last use is still wanted. The sum is written before the
    records are removed: a process killed in between, or two that fold at once, makes them count twice; none gets lost.
    """
    limit = (time.time() if now is None else now) - age
    budget = usage.Budget(FOLD_STEP) if budget is None else budget
    try:
        with Folder(root, layout.USAGE) as folder:
            return _fold(root, folder, keep, usage.records(folder, budget, trust, limit), budget)
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return 0


def fold_all(root: str, keep: Callable[[str], bool]) -> int:
    """Fold step by step until nothing is left to be folded, or :data:`FOLD_STEPS` were made; return how many."""
    count = 0
    for _ in range(FOLD_STEPS):
        budget = usage.Budget(FOLD_STEP)
        count += fold(root, keep, budget=budget)
        if not budget.over:
            break
    return count


def forget(root: str, keep: Callable[[str], bool]) -> None:
    """Begin to count anew: of all that was counted, only when each key was used last is kept. Raises OSError.

    What processes that run have counted so far is forgotten as well; they begin another record.
    """
    for _ in range(FOLD_STEPS):
        budget = usage.Budget(FOLD_STEP)
        fold(root, keep, age=0.0, budget=budget)
        if not budget.over:
            break
    total = usage.read_total(root)
    kept = {**usage.nothing(), "last_use": {} if total is None else total["last_use"]}
    data = json.dumps(kept, separators=(",", ":")).encode("ascii")
    atomic.write_file(f"{root}/{layout.USAGE_TOTAL}", data, durable=False)


def since(root: str, moment: float, budget: usage.Budget) -> Iterator[Record]:
    """Yield what was counted from *moment* [Unix s] on: whole hours, or days where that is too long ago."""
    line, now = Timeline.read(root), time.time()
    buckets, length = (line.hours, HOUR) if now - moment < (HOURS - 1) * HOUR else (line.days, DAY)
    for number, bucket in buckets.items():
        if number >= moment // length:
            yield bucket
    with suppressed(OSError), Folder(root, layout.USAGE) as folder:
        for _, record, status in usage.records(folder, budget, None):
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
    total: usage.Record | None = None
    line: Timeline | None = None
    folded: list[str] = []
    for name, record, status in records:
        # What can't be removed would be counted at each turn.
        if not _removable(directory, status):
            continue
        if record is None:
            folder.remove(name)
            continue
        if total is None or line is None:
            total = _sum_so_far(root, budget)
            if total is None:
                return 0
            line = Timeline.read(root)
        usage.add(total, record, keep)
        line.add(record, status.st_mtime)
        folded.append(name)
    if total is None or line is None:
        return 0
    total["last_use"] = {key: when for key, when in total["last_use"].items() if keep(key)}
    data = json.dumps(total, separators=(",", ":")).encode("ascii")
    if len(data) > usage.MAX_TOTAL:
        total["last_use"] = {}
        data = json.dumps(total, separators=(",", ":")).encode("ascii")
    atomic.write_file(f"{root}/{layout.USAGE_TOTAL}", data, durable=False)
    # Where there is room for one of them and not for the other, the same records must not be added again and again.
    with suppressed(OSError):
        atomic.write_file(f"{root}/{layout.TIMELINE}", line.encode(), durable=False)
    return sum(folder.remove(name) for name in folded)


def _sum_so_far(root: str, budget: usage.Budget) -> usage.Record | None:
    """Return the sum to add to; None if it may be there and can't be read within the budget."""
    try:
        size = os.lstat(f"{root}/{layout.USAGE_TOTAL}").st_size
    except FileNotFoundError:
        return usage.nothing()
    if budget.largest < size <= usage.MAX_TOTAL:
        budget.over = True
        return None
    return usage.read_total(root, budget) or usage.nothing()


def _removable(directory: os.stat_result, file: os.stat_result) -> bool:
    """Whether this process may remove a file from a directory that it may write: from a sticky one, its own alone."""
    return not directory.st_mode & stat.S_ISVTX or os.geteuid() in {0, directory.st_uid, file.st_uid}


VERSION: Final = 2
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
        self.hours: dict[int, Record] = {}
        self.days: dict[int, Record] = {}
        self.functions: dict[str, Function] = {}

    @classmethod
    def read(cls, root: str) -> Timeline:
        """Return what is known of a store's past; an empty one for anything else. Never raises."""
        found = content.read_json(f"{root}/{layout.TIMELINE}", MAX_TIMELINE)
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
        counted = reasons.brief(record)
        for buckets, length, most in ((self.hours, HOUR, HOURS), (self.days, DAY, DAYS)):
            number = int(when // length)
            # Files are dated by whoever wrote them: what would be dropped isn't collected first.
            if number > int(moment // length) - most:
                usage.add(buckets.setdefault(number, usage.nothing()), counted)
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


def _rows(buckets: dict[int, Record], latest: int, most: int) -> dict[str, Record]:
    return {
        str(number): reasons.brief(record)
        for number, record in sorted(buckets.items())
        if latest - most < number <= latest
    }


def _buckets(raw: object, most: int) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for number, said in raw.items() if isinstance(raw, dict) else ():
        if len(found) < most and number.isascii() and number.isdigit() and isinstance(said, dict):
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
