"""Summing up the usage records of processes long gone, so that they don't pile up.

Their sum is ``v1/usage.json`` (:mod:`nbcache.store.usage`); when what it tells happened goes into ``v1/timeline.json``
(:mod:`nbcache.store.timeline`). Both are written before the records are removed; without the latter, a store goes on.
"""

from __future__ import annotations

import json
import stat
from itertools import islice
from typing import TYPE_CHECKING, Final

from nbcache.passing import let_pass, suppressed
from nbcache.process import os, time
from nbcache.store import atomic, layout, usage
from nbcache.store.folders import Folder
from nbcache.store.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    most: int = usage.MAX_RECORDS,
    budget: usage.Budget | None = None,
    trust: Trust | None = None,
) -> int:
    """Add up to ``most`` records older than ``age`` [s] to the sum and remove them; return how many. Never raises.

    One step: what is beyond the budget (default: :data:`FOLD_STEP`) is left for the next. With ``trust``, only what it
    allows to be read. ``keep(key)`` says of which keys the last use is still wanted. The sum is written before the
    records are removed: a process killed in between, or two that fold at once, makes them count twice; none gets lost.
    """
    limit = (time.time() if now is None else now) - age
    budget = usage.Budget(FOLD_STEP) if budget is None else budget
    try:
        with Folder(root, layout.USAGE) as folder:
            return _fold(root, folder, keep, islice(usage.records(folder, budget, trust, limit), most), budget)
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
