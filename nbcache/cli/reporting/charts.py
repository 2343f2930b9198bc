"""Drawings of a report: bars that are HTML, and a course of time that is SVG. Colours are those of the style sheet."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache.cli.reporting.html import Html, join, tag
from nbcache.cli.text import duration
from nbcache.store import folding, reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nbcache.cli.reporting.html import Child
    from nbcache.store.folding import Past
    from nbcache.store.usage import Record

HOUR: Final = 3600.0
DAY: Final = 86400.0
STEPS: Final = (HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY)
"""What one column may stand for [s]."""
COLUMNS: Final = 72
FEWEST: Final = 24
"""A past shorter than this has empty columns before it: one column alone would be a wall."""
WIDTH: Final = 1000.0
LEFT: Final = 46.0
RIGHT: Final = 10.0
RATE_TOP: Final = 14.0
RATE: Final = 130.0
"""The height of the hit rate."""
VOLUME_TOP: Final = 172.0
VOLUME: Final = 84.0
HEIGHT: Final = 284.0


class Column(NamedTuple):
    """What happened within one span of time."""

    begin: float
    """Unix time [s]."""
    hits: int
    missed: int

    @property
    def rate(self) -> float | None:
        """Hits among look-ups; None if there were none."""
        both = self.hits + self.missed
        return self.hits / both if both else None


def bars(rows: Iterable[tuple[Child, float, Child]], kind: str = "") -> Html:
    """Return a row for each (what, how much, how much in words), the longest bar as wide as there is room."""
    told = list(rows)
    most = max((value for _, value, _ in told), default=0.0) or 1.0
    return tag(
        "div",
        [
            tag(
                "div",
                tag("div", what, class_="what"),
                meter(value / most, kind),
                tag("div", words, class_="much"),
                class_="row",
            )
            for what, value, words in told
        ],
        class_="bars",
    )


def meter(share: float, kind: str = "") -> Html:
    """Return one bar, as wide as its share of the room."""
    return tag("div", tag("div", style=f"width:{_percent(share)}", class_=f"bar {kind}"), class_="track")


def strip(parts: Sequence[tuple[str, float, str]]) -> Html:
    """Return one bar of several parts (class, size, what a pointer shows), which fill it."""
    whole = sum(size for _, size, _ in parts) or 1.0
    told = [
        tag("div", class_=kind, style=f"width:{_percent(size / whole)}", title=words)
        for kind, size, words in parts
        if size
    ]
    return tag("div", told, class_="strip")


def columns_of(past: Past, now: float) -> tuple[float, list[Column]]:
    """Return the course of time as columns of equal spans, the last one that of now, and how long each is [s]."""
    if not past.hours:
        return HOUR, []
    span = now - min(past.hours) * HOUR
    # What is long ago is known by the day.
    length = HOUR if span <= folding.HOURS * HOUR else DAY
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


def course(step: float, columns: Sequence[Column]) -> Html:
    """Return the hit rate as a line, and below it how many look-ups there were."""
    width = (WIDTH - LEFT - RIGHT) / max(1, len(columns))
    return tag(
        "svg",
        _grid(columns),
        [_bar(number, column, width, _most(columns), step) for number, column in enumerate(columns)],
        _line(columns, width),
        _dates(columns, width, step),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        aria_label="Hit rate and number of look-ups over time",
    )


def _grid(columns: Sequence[Column]) -> Html:
    lines = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = RATE_TOP + RATE * (1 - share)
        lines.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        if share in {0.0, 0.5, 1.0}:
            lines.append(tag("text", f"{share:.0%}", x=LEFT - 7, y=f"{y + 4:.1f}", class_="tick end"))
    base = VOLUME_TOP + VOLUME
    lines.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="grid"))
    lines.append(tag("text", short(_most(columns)), x=LEFT - 7, y=VOLUME_TOP + 8, class_="tick end"))
    lines.append(tag("text", "0", x=LEFT - 7, y=base + 2, class_="tick end"))
    return join(lines)


def _bar(number: int, column: Column, width: float, most: int, step: float) -> Html:
    x = LEFT + number * width
    hits, missed = VOLUME * column.hits / most, VOLUME * column.missed / most
    base = VOLUME_TOP + VOLUME
    inner = max(1.0, width - 2)
    hit = {"x": f"{x + 1:.1f}", "width": f"{inner:.1f}", "height": f"{hits:.1f}", "class_": "hits"}
    miss = {**hit, "height": f"{missed:.1f}", "class_": "misses"}
    rate = (
        "no look-ups" if column.rate is None else f"{column.rate:.1%} of {short(column.hits + column.missed)} look-ups"
    )
    return tag(
        "g",
        tag("title", f"{_moment(column.begin, step)}: {rate}, {short(column.missed)} misses"),
        # The whole height answers to the pointer.
        tag("rect", x=f"{x:.1f}", y=RATE_TOP, width=f"{width:.1f}", height=base - RATE_TOP, class_="ground"),
        tag("rect", y=f"{base - hits:.1f}", **hit),
        tag("rect", y=f"{base - hits - missed:.1f}", **miss),
    )


def _line(columns: Sequence[Column], width: float) -> Html:
    """The rate where there is one: a gap is no rate of zero."""
    runs: list[list[tuple[float, float]]] = [[]]
    for number, column in enumerate(columns):
        if column.rate is None:
            runs.append([])
        else:
            runs[-1].append((LEFT + (number + 0.5) * width, RATE_TOP + RATE * (1 - column.rate)))
    drawn = []
    for run in filter(None, runs):
        if len(run) == 1:
            drawn.append(tag("circle", cx=f"{run[0][0]:.1f}", cy=f"{run[0][1]:.1f}", r=3, class_="dot"))
            continue
        points = Html(" ".join(f"{x:.1f},{y:.1f}" for x, y in run))
        base = RATE_TOP + RATE
        area = Html(f"M{run[0][0]:.1f},{base:.1f} L{points} L{run[-1][0]:.1f},{base:.1f} Z")
        drawn += [tag("path", d=area, class_="area"), tag("polyline", points=points, class_="rate")]
    return join(drawn)


def _dates(columns: Sequence[Column], width: float, step: float) -> Html:
    every = max(1, math.ceil(len(columns) / 8))
    return join(
        tag(
            "text",
            _moment(column.begin, step),
            x=f"{LEFT + (number + 0.5) * width:.1f}",
            y=HEIGHT - 8,
            class_="tick mid",
        )
        for number, column in enumerate(columns)
        if number % every == 0 and number + every / 2 < len(columns) + (number == 0)
    )


def _most(columns: Sequence[Column]) -> int:
    return max((column.hits + column.missed for column in columns), default=0) or 1


def _moment(when: float, step: float) -> str:
    return time.strftime("%d %b" if step >= DAY else "%d %b %H:%M", time.gmtime(when))


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


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.2f}%"
