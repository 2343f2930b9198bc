"""The course of time in a report, by column, and how numbers and times are written there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nbcache.cli.text import duration
from nbcache.store import reasons, usage_sums
from nbcache.store.usage import Record
from nbcache.store.usage_sums import Past

HOUR: Final = 3600.0
DAY: Final = 86400.0
STEPS: Final = (HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY)
"""What one column may stand for [s]."""
COLUMNS: Final = 72
FEWEST: Final = 24
"""A past shorter than this has empty columns before it: one column alone would be a wall."""


class Column(NamedTuple):
    """What happened within one span of time."""

    begin: float
    """Unix time [s]."""
    hits: int
    missed: int

    @property
    def lookups(self) -> int:
        """Hits and misses."""
        return self.hits + self.missed

    @property
    def rate(self) -> float | None:
        """Hits among look-ups; None if there were none."""
        return self.hits / self.lookups if self.lookups else None


def columns_of(past: Past, now: float) -> tuple[float, list[Column]]:
    """Return the course of time as columns of equal spans, the last one that of now, and how long each is [s]."""
    if not past.hours:
        return HOUR, []
    span = now - min(past.hours) * HOUR
    # What is long ago is known by the day.
    length = HOUR if span <= usage_sums.HOURS * HOUR else DAY
    step = next((each for each in STEPS if each >= length and span / each <= COLUMNS), STEPS[-1])
    return step, _grouped(past.hours, step, now)


def _grouped(hours: Mapping[int, Record], step: float, now: float) -> list[Column]:
    sums: dict[int, tuple[int, int]] = {}
    for number, bucket in hours.items():
        column = int(number * HOUR // step)
        hits, missed = sums.get(column, (0, 0))
        sums[column] = hits + bucket["hit_count"], missed + reasons.missed(bucket)
    last = int(now // step)
    first = max(min(*sums, last - FEWEST + 1), last - COLUMNS + 1)
    return [Column(column * step, *sums.get(column, (0, 0))) for column in range(first, last + 1)]


def runs(columns: Iterable[Column]) -> list[list[tuple[int, float]]]:
    """Return columns that have a rate, (number, rate), in runs of neighbours: a gap is no rate of zero."""
    found: list[list[tuple[int, float]]] = [[]]
    for number, column in enumerate(columns):
        if column.rate is None:
            found.append([])
        else:
            found[-1].append((number, column.rate))
    return [run for run in found if run]


def moment(when: float, step: float) -> str:
    """Return when a column begins."""
    return time.strftime("%d %b" if step >= DAY else "%d %b %H:%M", time.gmtime(when))


def span_of(step: float) -> str:
    """Return how long a column is, in words."""
    unit, words = (DAY, "a day") if step >= DAY else (HOUR, "an hour")
    count = int(step // unit)
    return words if count == 1 else f"{count} {words.split()[1]}s"


def short(number: float) -> str:
    """Return a number as short as it is understood: ``950``, ``12.3 k``, ``4.5 M``."""
    for unit in ("", " k", " M", " G", " T"):
        if abs(number) < 1000:
            return f"{number:.0f}" if not unit else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.3g} P"


def span(seconds: float) -> str:
    """Return a time in words, to two places: ``8.3 s``, ``5 min 12 s``, ``4 h 05 min``, ``3 d 7 h``."""
    if seconds < 60:
        return duration(seconds)
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    if seconds < 86400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"
    days = int(seconds // 86400)
    return f"{days} d {int(seconds % 86400 // 3600)} h" if days < 1000 else f"{short(days)} d"
