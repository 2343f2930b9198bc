"""Usage records: what each process hit, missed and built, from its first hit on.

``v1/usage/<host>-<pid>-<random>.jsonl``, one JSON object a line: a part of a record each, and the record is their sum.
A process adds a line for what it counts (:mod:`nbcache.client.open_files`), so that its record is complete however it
ends. The first line says whose record it is; one that makes no sense, as the last one may if the process was killed in
the middle of it, is left out. In a file that ends in ``.json``, which was written at once, there is one line::

    version 1 · host · pid · start, end (0 until it ends by itself) [Unix s] · argv0
    hits {key: count} · saved_seconds [s] · sources {layer, or processor, that hits came from: count}
    builds [{key, function, seconds}] · builds_count · built_seconds [s]
    misses {reason: count} · uncacheable {reason: {count, functions}} · errors {what: count}
    waits {upper bound [s], "inf" or "in vain": count} · waited_seconds [s]
    checks {result: count} · unasked {reason: count} · published count · evicted count · evicted_bytes [bytes]

They are for people (``nbcache stats``) and for eviction, which learns from them when an entry was last used.

Anybody may write here (a client whose uid may not write entries uses them all the same), so a record is only ever
*data*: JSON of bounded size from a regular file, every field type-checked, everything else dropped. A forged record can
skew the statistics and keep an entry alive; it can't do more.

So that the directory doesn't grow for ever, :mod:`nbcache.store.usage_sums` sums up the records of processes long gone
in ``v1/usage.json``, a record of the same shape that also says ``processes``, ``last_use {key: Unix s}`` and when it
was.

Whoever evicts writes a record of that, of no process (``processes`` is 0), so evictions are counted in the same way.

Nor may records cost whoever reads them more than it has to give: all reading is within a :class:`Budget`. A program
that ends gives 100 ms, and reads only what trusted users wrote (:func:`at_exit`); commands and the daemon, whose
business it is, sum up in steps of bounded size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from nbcache.file_trust import Trust
from nbcache.passing_exceptions import suppressed
from nbcache.process import os, time
from nbcache.store import atomic, content, layout, reasons
from nbcache.store.content import parsed, reading
from nbcache.store.folders import Folder
from nbcache.store.reasons import MAX_EXAMPLES, MAX_KEYS, MAX_REASONS, MAX_TEXT

VERSION: Final = layout.RECORD_VERSION
MAX_RECORD: Final = layout.MAX_RECORD
MAX_TOTAL: Final = 64 << 20
"""The largest sum of records that is read [bytes]."""
MAX_RECORDS: Final = 50_000
"""How many records are read at most."""
MAX_READ: Final = 256 << 20
"""How much of records is read at most [bytes], where nothing else is said."""
SELF_TEST: Final = "__main__:nbcache_selftest"
"""The function that ``nbcache health`` has built. Whoever builds it leaves no record: it is nobody's program."""
_MOST_NAMES: Final = MAX_REASONS + 50
_REASONS: Final = ("sources", "misses", "errors", "waits", "checks", "unasked")
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
    return _sum_of([raw])


def _sum_of(lines: list[Any]) -> Record | None:
    """Return the record that these lines tell, of which the first has to be one."""
    if not lines or not isinstance(lines[0], dict) or lines[0].get("version") != VERSION:
        return None
    record: Record = {
        "version": VERSION, "host": "", "pid": 0, "start": 0.0, "end": 0.0, "argv0": "",
        "processes": count_of(lines[0].get("processes", 1)), "evicted": 0, "evicted_bytes": 0, **reasons.none_counted(),
        "last_use": {},
    }  # fmt: skip
    for line in lines:
        if isinstance(line, dict):
            for name, value in line.items():
                if name in _COUNTED:
                    reasons.add(record, {name: _COUNTED[name](value)})
                elif name in _STATED:
                    record[name] = _STATED[name](value)
    record["hit_count"] = max(record["hit_count"], sum(record["hits"].values()))
    record["builds_count"] = max(record["builds_count"], len(record["builds"]))
    return record


def write(root: str, record: Mapping[str, object]) -> str | None:
    """Write one process's record at its end; return its path, or None when it couldn't be written. Never raises.

    ``version``, ``host`` and ``pid`` are filled in. A record that is too large loses its longest lists first.
    """
    full = {"argv0": "", **record, "version": VERSION, "host": layout.host(), "pid": os.getpid()}
    path = f"{root}/{layout.USAGE}/{layout.unique()}.json"
    with suppressed(OSError, ValueError, TypeError):
        data = _encode(full)
        with Folder(root, layout.USAGE):  # which is no link
            # Not flushed to the disk: a record lost in a power failure isn't worth a wait at the end of each process.
            if data is not None and atomic.write_file(path, data, durable=False):
                return path
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
        for _, record, _ in records(folder, budget, trust):
            if record is not None:
                yield record


def _lines(data: bytes) -> list[Any]:
    """Return what each line says, but for those after the first that say nothing. Raises ValueError."""
    first, *rest = data.split(b"\n")
    found = [parsed(first)]
    try:
        return found + (parsed(b"[" + b",".join(rest) + b"]") if rest else [])
    except (ValueError, RecursionError):
        for line in rest:
            with suppressed(ValueError, RecursionError):
                found.append(parsed(line))
    return found


def read_total(root: str, budget: Budget | None = None) -> Record | None:
    """Return the sum of folded records; None if there is none, or it is too large for the budget."""
    found = read_sum(root, MAX_TOTAL if budget is None else budget.largest)
    return None if found is None else found[0]


def read_sum(root: str, limit: int = MAX_TOTAL) -> tuple[Record, dict[str, Any]] | None:
    """Return the sum of folded records, and all that the file says, unchecked; None if there is none. Never raises."""
    found = content.read_json(f"{root}/{layout.USAGE_TOTAL}", limit)
    record = None if found is None else _cleaned([found[0]], found[1])
    return None if record is None or found is None else (record, found[0])


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
    processes. The most frequent reasons come first.
    """
    total = nothing()
    for record in records:
        add(total, record)
    for name in _REASONS:
        total[name] = dict(sorted(total[name].items(), key=lambda pair: -pair[1]))
    total["uncacheable"] = dict(sorted(total["uncacheable"].items(), key=lambda pair: -pair[1]["count"]))
    return total


def records(
    folder: Folder,
    budget: Budget,
    trust: Trust | None = None,
    wanted: Callable[[str, os.stat_result], bool] = lambda _name, _status: True,
) -> Iterator[tuple[str, Record | None, os.stat_result]]:
    """Yield name, record and status of each file that is *wanted* by name and status; None for one that is no record.

    A file of several names is none under all but the first of them.
    """
    met: set[tuple[int, int]] = set()
    for number, item in enumerate(folder.json_files(budget.allows)):
        if number >= MAX_RECORDS:
            budget.over = True
            return
        if not budget.allows():
            return
        with suppressed(OSError):
            listed = item.stat(follow_symlinks=False)
            identity = listed.st_dev, listed.st_ino
            # Others may give one of theirs any number of names.
            known = identity in met
            if listed.st_nlink > 1:
                met.add(identity)
            if not wanted(item.name, listed):
                continue
            if known:
                yield item.name, None, listed
                continue
            with reading(item.name, folder.open) as (fd, status):
                if trust is not None and not trust.allows(status, fd):
                    continue
                if status.st_size > MAX_RECORD:
                    yield item.name, None, status
                    continue
                if not budget.allows(status.st_size):
                    return
                found = content.read_json_from(fd, MAX_RECORD, parse=_lines)  # it has been judged
            yield item.name, None if found is None else _cleaned(*found), status


def _cleaned(lines: list[Any], status: os.stat_result) -> Record | None:
    try:
        record = _sum_of(lines)
    except (ValueError, OverflowError, RecursionError):
        return None
    if record is not None:
        _place_use(record, lines[0], status.st_mtime)
    return record


def nothing() -> Record:
    """Return the sum of no records."""
    total = clean({"version": VERSION})
    assert total is not None  # an empty record is one
    total["processes"] = 0
    return total


def add(total: Record, record: Record, keep: Callable[[str], bool] = lambda _: True) -> None:
    """Add a record, or a brief one, to a sum; ``keep(key)`` says of which keys the last use is wanted."""
    reasons.add(total, {name: record[name] for name in (*reasons.SUMS, *_REASONS, "uncacheable") if name in record})
    total["start"] = min(filter(None, (total["start"], record.get("start"))), default=0.0)
    total["end"] = max(total["end"], record.get("end", 0.0))
    latest = total["last_use"]
    for key, when in record.get("last_use", {}).items():
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
    """Say when the record's keys were last hit: a sum states it, a process adds to its record when it uses them."""
    stated = raw.get("last_use")
    if isinstance(stated, dict):
        record["last_use"] = {k: seconds_of(v) for k, v in stated.items() if layout.is_key(k)}
    # The file's own time and not the "end" it states: the file server's clock is one clock for everybody.
    for key in record["hits"]:
        record["last_use"][key] = mtime


def text_of(value: object) -> str:
    """Return text of bounded length; "" for anything else."""
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """Return a count; 0 for anything else."""
    # Cut and not dropped, so that a forged number can't wipe out the sum it was added to.
    return min(value, _MOST) if type(value) is int and value >= 0 else 0


def seconds_of(value: object) -> float:
    """Return a time or date [s]; 0 for anything else."""
    if type(value) is int:
        value = float(count_of(value))
    return min(value, float(_MOST)) if type(value) is float and value >= 0 else 0.0


def _counts(value: object, limit: int = _MOST_NAMES, accept: Callable[[str], bool] = lambda _: True) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    pairs = ((key[:MAX_TEXT], count_of(number)) for key, number in value.items() if accept(key))
    return dict(pair for pair, _ in zip(pairs, range(limit), strict=False))


def _builds(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list):
        return []
    return [
        {"key": item["key"], "function": text_of(item.get("function")), "seconds": seconds_of(item.get("seconds"))}
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
            names = [text_of(name) for name in functions[:MAX_EXAMPLES]] if isinstance(functions, list) else []
            cleaned[text_of(reason)] = {"count": count_of(item.get("count")), "functions": names}
    return cleaned


_STATED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "host": text_of, "pid": count_of, "start": seconds_of, "end": seconds_of, "argv0": text_of,
}  # fmt: skip
_COUNTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "hits": lambda value: _counts(value, MAX_KEYS, layout.is_key),
    "builds": _builds,
    "uncacheable": _uncacheable,
    **dict.fromkeys(_REASONS, _counts),
    **dict.fromkeys(("saved_seconds", "built_seconds", "waited_seconds"), seconds_of),
    **dict.fromkeys(("hit_count", "builds_count", "published", "evicted", "evicted_bytes"), count_of),
}
"""What is added up of a record's lines."""
