"""Usage records: what each process hit, missed and built, written when it ends.

``v1/usage/<host>-<pid>-<random>.json``, one JSON object each::

    version 1 · host · pid · start, end [Unix s] · argv0
    hits {key: count} · saved_seconds [s]
    builds [{key, function, seconds}] · builds_count · built_seconds [s]
    misses {reason: count} · uncacheable {reason: {count, functions}} · errors {what: count}
    published count

They are for people (``nbcache stats``) and for eviction, which learns from them when an entry was last used.

Anybody may write here (a client whose uid may not write entries uses them all the same), so a record is only ever
*data*: JSON of bounded size from a regular file, every field type-checked, everything else dropped. A forged record can
skew the statistics and keep an entry alive; it can't do more.

So that the directory doesn't grow for ever, :func:`fold` sums up the records of processes long gone in
``v1/usage.json``, a record of the same shape with two fields more: ``processes`` and ``last_use {key: Unix s}``.

Nor may records cost whoever reads them more than it has to give: all reading is within a :class:`Budget`. A program
that ends gives 100 ms, and reads only what trusted users wrote (:func:`at_exit`); commands and the daemon, whose
business it is, sum up in steps of bounded size.
"""

from __future__ import annotations

import json
import os
import stat
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing import let_pass, suppressed
from nbcache.store import atomic, bounded, layout
from nbcache.store.folders import Folder
from nbcache.trust import OPEN_FLAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from nbcache.trust import Trust

VERSION: Final = 1
MAX_RECORD: Final = 1 << 20
"""The largest record that is written or read [bytes]."""
MAX_TOTAL: Final = 64 << 20
"""The largest sum of records that is read [bytes]."""
MAX_RECORDS: Final = 50_000
"""How many records are read at most."""
MAX_READ: Final = 256 << 20
"""How much of records is read at most [bytes], where nothing else is said."""
FOLD_STEP: Final = 32 << 20
"""How much of records one step of folding reads [bytes]."""
FOLD_STEPS: Final = 50
"""How many such steps a command makes."""
MAX_KEYS: Final = 8_000
"""How many keys one record names at most, in ``hits`` and in ``builds`` each."""
MAX_REASONS: Final = 200
"""How many different reasons, errors… are kept."""
MAX_EXAMPLES: Final = 50
"""How many functions are named as examples under ``uncacheable``."""
FOLD_SECONDS: Final = 3600.0
"""From this age a record is folded [s]."""
MAX_TEXT: Final = 300
_MOST: Final = (1 << 53) - 1

Record = dict[str, Any]


class Budget:
    """What reading may cost: so many bytes of records, each no larger than ``largest``, within so many seconds."""

    __slots__ = ("_deadline", "_left", "largest", "over")

    def __init__(self, size: int = MAX_READ, seconds: float = float("inf"), largest: int = MAX_TOTAL) -> None:
        """Begin now. ``largest`` [bytes] holds for the sum as well."""
        self.largest = largest
        self.over = False
        """Whether something was left out because of it."""
        self._left = size
        self._deadline = time.monotonic() + seconds

    def allows(self, size: int = 0) -> bool:
        """Whether as much may be read now [bytes]; it counts as read."""
        if size > self._left or not self.in_time:
            self.over = True
            return False
        self._left -= size
        return True

    @property
    def in_time(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() <= self._deadline


def at_exit(seconds: float) -> Budget:
    """Return what a program gives that ends: 16 MiB with the sum, which is read once to evict and once to add to it."""
    return Budget(12 << 20, seconds, largest=2 << 20)


def clean(raw: object) -> Record | None:
    """Return a record with exactly the known fields, each of the right type; None if ``raw`` isn't a record at all."""
    if not isinstance(raw, dict) or raw.get("version") != VERSION:
        return None
    builds = _builds(raw.get("builds"))
    record: Record = {
        "version": VERSION,
        "host": _text(raw.get("host")),
        "pid": _count(raw.get("pid")),
        "start": _seconds(raw.get("start")),
        "end": _seconds(raw.get("end")),
        "argv0": _text(raw.get("argv0")),
        "hits": _counts(raw.get("hits"), MAX_KEYS, layout.is_key),
        "saved_seconds": _seconds(raw.get("saved_seconds")),
        "builds": builds,
        "builds_count": max(_count(raw.get("builds_count")), len(builds)),
        "built_seconds": _seconds(raw.get("built_seconds")),
        "misses": _counts(raw.get("misses"), MAX_REASONS),
        "uncacheable": _uncacheable(raw.get("uncacheable")),
        "errors": _counts(raw.get("errors"), MAX_REASONS),
        "published": _count(raw.get("published")),
        "processes": max(_count(raw.get("processes")), 1),
        "hit_count": 0,
        "last_use": {},
    }
    record["hit_count"] = max(_count(raw.get("hit_count")), sum(record["hits"].values()))
    return record


def write(root: str, record: Mapping[str, object]) -> str | None:
    """Write one process's record; return its path, or None when it couldn't be written. Never raises.

    ``version``, ``host`` and ``pid`` are filled in. A record that is too large loses its longest lists first.
    """
    full = {"argv0": "", **record, "version": VERSION, "host": atomic.host(), "pid": os.getpid()}
    path = f"{root}/{layout.USAGE}/{atomic.unique()}.json"
    try:
        data = _encode(full)
        # Not flushed to the disk: a record lost in a power failure isn't worth a wait at the end of each process.
        if data is not None and atomic.write_file(path, data, durable=False):
            return path
    except (OSError, ValueError, TypeError) as raised:
        let_pass(raised)
    return None


def read(root: str, budget: Budget | None = None, trust: Trust | None = None) -> Iterator[Record]:
    """Yield the sum of folded records, if there is one, then every record. Garbage is skipped; never raises.

    With ``trust``, only what it allows to be read. What the budget doesn't reach is left out.
    """
    budget = Budget() if budget is None else budget
    total = read_total(root, budget)
    if total is not None:
        yield total
    with suppressed(OSError), Folder(root, layout.USAGE) as folder:
        for _, record, _ in _records(folder, budget, trust):
            if record is not None:
                yield record


def paths(root: str) -> list[str]:
    """Return the paths of the records of single processes, :data:`MAX_RECORDS` at most, in no order. Never raises."""
    found: list[str] = []
    with suppressed(OSError), Folder(root, layout.USAGE) as folder:
        found.extend(f"{root}/{layout.USAGE}/{item.name}" for item in islice(folder.json_files(), MAX_RECORDS))
    return found


def load(path: str, limit: int = MAX_RECORD) -> tuple[Record, float] | None:
    """Return a record and its file's modification time [s]; None for anything but a record."""
    return _cleaned(bounded.read_json(path, limit))


def read_total(root: str, budget: Budget | None = None) -> Record | None:
    """Return the sum of folded records; None if there is none, or it is too large for the budget."""
    budget = Budget() if budget is None else budget
    loaded = load(f"{root}/{layout.USAGE_TOTAL}", budget.largest)
    return None if loaded is None else loaded[0]


def last_use(records: Iterable[Record], known: Callable[[str], bool] = lambda _: True) -> dict[str, float]:
    """Return when each key was last hit, Unix time [s], as far as records say; of ``known`` keys only.

    Records may name keys that nobody ever had: who asks about a store says which ones it has.
    """
    latest: dict[str, float] = {}
    for record in records:
        for key, when in record["last_use"].items():
            if when > latest.get(key, 0.0) and known(key):
                latest[key] = when
    return latest


def merge(records: Iterable[Record]) -> Record:
    """Return the sum of records, with ``last_use`` of each key but without ``hits`` and ``builds`` of single
    processes.
    """
    total = _nothing()
    for record in records:
        _add(total, record, lambda _: True)
    return total


def fold(
    root: str,
    keep: Callable[[str], bool],
    *,
    now: float | None = None,
    age: float = FOLD_SECONDS,
    most: int = MAX_RECORDS,
    budget: Budget | None = None,
    trust: Trust | None = None,
) -> int:
    """Add up to ``most`` records older than ``age`` [s] to the sum and remove them; return how many. Never raises.

    One step: what is beyond the budget (default: :data:`FOLD_STEP`) is left for the next. With ``trust``, only what it
    allows to be read. ``keep(key)`` says of which keys the last use is still wanted. The sum is written before the
    records are removed: a process killed in between, or two that fold at once, makes them count twice; none gets lost.
    """
    limit = (time.time() if now is None else now) - age
    budget = Budget(FOLD_STEP) if budget is None else budget
    try:
        with Folder(root, layout.USAGE) as folder:
            return _fold(root, folder, keep, islice(_records(folder, budget, trust, limit), most), budget)
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return 0


def fold_all(root: str, keep: Callable[[str], bool]) -> int:
    """Fold step by step until nothing is left to be folded, or :data:`FOLD_STEPS` were made; return how many."""
    count = 0
    for _ in range(FOLD_STEPS):
        budget = Budget(FOLD_STEP)
        count += fold(root, keep, budget=budget)
        if not budget.over:
            break
    return count


def _fold(
    root: str,
    folder: Folder,
    keep: Callable[[str], bool],
    records: Iterator[tuple[str, Record | None, os.stat_result]],
    budget: Budget,
) -> int:
    directory = folder.status
    total: Record | None = None
    folded: list[str] = []
    for name, record, status in records:
        # What can't be removed would be counted at each turn.
        if not _removable(directory, status):
            continue
        if record is None:
            folder.remove(name)
            continue
        if total is None:
            total = _sum_so_far(root, budget)
            if total is None:
                return 0
        _add(total, record, keep)
        folded.append(name)
    if total is None:
        return 0
    total["last_use"] = {key: when for key, when in total["last_use"].items() if keep(key)}
    data = json.dumps(total, separators=(",", ":")).encode("ascii")
    if len(data) > MAX_TOTAL:
        total["last_use"] = {}
        data = json.dumps(total, separators=(",", ":")).encode("ascii")
    atomic.write_file(f"{root}/{layout.USAGE_TOTAL}", data, durable=False)
    return sum(folder.remove(name) for name in folded)


def _sum_so_far(root: str, budget: Budget) -> Record | None:
    """Return the sum to add to; None if it may be there and can't be read within the budget."""
    try:
        size = os.lstat(f"{root}/{layout.USAGE_TOTAL}").st_size
    except FileNotFoundError:
        return _nothing()
    if budget.largest < size <= MAX_TOTAL:
        budget.over = True
        return None
    return read_total(root, budget) or _nothing()


def _records(
    folder: Folder, budget: Budget, trust: Trust | None, before: float = float("inf")
) -> Iterator[tuple[str, Record | None, os.stat_result]]:
    """Yield name, record and status of each file last written ``before``; None for one that is no record."""
    for item in islice(folder.json_files(), MAX_RECORDS):
        if not budget.allows():
            return
        with suppressed(OSError):
            if item.stat(follow_symlinks=False).st_mtime >= before:
                continue
            fd = folder.open(item.name, OPEN_FLAGS)
            try:
                status = os.fstat(fd)
                if trust is not None and not trust.allows(status, fd):
                    continue
                if status.st_size > MAX_RECORD:
                    yield item.name, None, status
                    continue
                if not budget.allows(status.st_size):
                    return
                found = bounded.read_json_from(fd, MAX_RECORD)  # it has been judged
            finally:
                os.close(fd)
            loaded = _cleaned(found)
            yield item.name, None if loaded is None else loaded[0], status


def _cleaned(found: tuple[Any, os.stat_result] | None) -> tuple[Record, float] | None:
    if found is None:
        return None
    raw, status = found
    try:
        record = clean(raw)
    except (ValueError, OverflowError, RecursionError):
        return None
    if record is None:
        return None
    _place_use(record, raw, status.st_mtime)
    return record, status.st_mtime


def _removable(directory: os.stat_result, file: os.stat_result) -> bool:
    """Whether this process may remove a file from a directory that it may write: from a sticky one, its own alone."""
    return not directory.st_mode & stat.S_ISVTX or os.geteuid() in {0, directory.st_uid, file.st_uid}


def _nothing() -> Record:
    """Return the sum of no records."""
    total = clean({"version": VERSION})
    assert total is not None  # an empty record is one
    total["processes"] = 0
    return total


def _add(total: Record, record: Record, keep: Callable[[str], bool]) -> None:
    for name in ("saved_seconds", "built_seconds", "builds_count", "published", "processes", "hit_count"):
        total[name] += record[name]
    for name in ("misses", "errors"):
        _add_counts(total[name], record[name])
    _add_uncacheable(total["uncacheable"], record["uncacheable"])
    total["start"] = min(filter(None, (total["start"], record["start"])), default=0.0)
    total["end"] = max(total["end"], record["end"])
    latest = total["last_use"]
    for key, when in record["last_use"].items():
        # Asked before it is kept: records may name any number of keys that nobody has.
        if when > latest.get(key, 0.0) and (key in latest or keep(key)):
            latest[key] = when


def _encode(record: Record) -> bytes | None:
    for drop in (None, "builds", "hits"):
        if drop is not None:
            record[drop] = type(record.get(drop, {}))()
        data = json.dumps(record, separators=(",", ":")).encode("ascii")
        if len(data) <= MAX_RECORD:
            return data
    return None


def _place_use(record: Record, raw: dict[str, Any], mtime: float) -> None:
    """Say when the record's keys were last hit: a sum states it, a process's record was written when it ended."""
    stated = raw.get("last_use")
    if isinstance(stated, dict):
        record["last_use"] = {k: _seconds(v) for k, v in stated.items() if layout.is_key(k)}
    # The file's own time and not the "end" it states: the file server's clock is one clock for everybody.
    for key in record["hits"]:
        record["last_use"][key] = mtime


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _count(value: object) -> int:
    # Cut and not dropped, so that a forged number can't wipe out the sum it was added to.
    return min(value, _MOST) if type(value) is int and value >= 0 else 0


def _seconds(value: object) -> float:
    if type(value) is int:
        value = float(_count(value))
    return min(value, float(_MOST)) if type(value) is float and value >= 0 else 0.0


def _counts(value: object, limit: int, accept: Callable[[str], bool] = lambda _: True) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    pairs = ((key[:MAX_TEXT], _count(number)) for key, number in value.items() if accept(key))
    return dict(pair for pair, _ in zip(pairs, range(limit), strict=False))


def _builds(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list):
        return []
    return [
        {"key": item["key"], "function": _text(item.get("function")), "seconds": _seconds(item.get("seconds"))}
        for item in value[:MAX_KEYS]
        if isinstance(item, dict) and layout.is_key(item.get("key"))
    ]


def _uncacheable(value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        return {}
    cleaned = {}
    for reason, item in list(value.items())[:MAX_REASONS]:
        if isinstance(item, dict):
            functions = item.get("functions")
            names = [_text(name) for name in functions[:MAX_EXAMPLES]] if isinstance(functions, list) else []
            cleaned[_text(reason)] = {"count": _count(item.get("count")), "functions": names}
    return cleaned


def _add_counts(total: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        if name in total or len(total) < MAX_REASONS:
            total[name] = total.get(name, 0) + number


def _add_uncacheable(total: dict[str, dict[str, Any]], more: dict[str, dict[str, Any]]) -> None:
    for reason, item in more.items():
        if reason not in total and len(total) >= MAX_REASONS:
            continue
        known = total.setdefault(reason, {"count": 0, "functions": []})
        known["count"] += item["count"]
        names = dict.fromkeys([*known["functions"], *item["functions"]])
        known["functions"] = list(names)[:MAX_EXAMPLES]
