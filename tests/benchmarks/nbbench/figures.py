"""What the guides show of the benchmarks: figures kept as JSON, and from these alone the charts and the table.

`run.py --figures` measures and writes README's chart and the table, but for the cold start: that is what
`cold_starts.py --only cores --keep docs/pictures/cold-starts.json` measured, on a host with more processors. It has a
chart of its own, too. `test_figures.py` asks that all agree.
"""

from __future__ import annotations

import json
import re
import statistics
import textwrap
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbbench.sides import NBCACHE, OWN, PLAIN, SIDES

if TYPE_CHECKING:
    from nbbench.measures import Samples

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "docs" / "pictures" / "benchmark.json"
CHART = ROOT / "docs" / "pictures" / "benchmark.svg"
COLD = DATA.with_name("cold-starts.json")
COLD_CHART = DATA.with_name("cold-starts.svg")
PAGE = ROOT / "docs" / "benchmarks.md"
"""Where the table is."""
MEASURES = ("first-hit", "further-hits", "kinds")
"""What has to be measured for it."""
ROWS = {
    "first hit [ms]": "the first function of a process, after its decorator",
    "each further hit, median of 200 [ms]": "each further function, of 200 small ones",
    "eleven kinds, sum [ms]": "a program with eleven kinds of function",
}
COLOURS = {NBCACHE: ("#1a7f6b", "#4cc2a5"), OWN: ("#b07d00", "#d4a72c"), PLAIN: ("#8c959f", "#6e7681")}
"""Of a side's bars: on a light ground, on a dark one."""

_TABLE = re.compile(r"(<!-- written by tests/benchmarks/run.py --figures -->\n)(.*?)(<!-- end -->)", re.DOTALL)

Figures = dict[str, Any]


def of_samples(samples: Samples, machine: str) -> Figures:
    """Return the figures: of each row and side the median [ms]."""
    rows = {row: {side: round(statistics.median(samples[row][side]), 2) for side in SIDES} for row in ROWS}
    return {"machine": machine, "repeat": len(samples["first hit [ms]"][NBCACHE]), "rows": rows}


def write(figures: Figures) -> None:
    """Write figures, chart and table."""
    DATA.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    draw(figures)


def draw(figures: Figures) -> None:
    """Write charts and table."""
    CHART.write_text(chart(figures), encoding="utf-8")
    COLD_CHART.write_text(cold_chart(read_cold()), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub(lambda found: found[1] + table(figures) + found[3], text), encoding="utf-8")


def read() -> Figures:
    """Return the figures that were written last."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def read_cold() -> Figures:
    """Return what cold starts take: of each side the median [s]."""
    return json.loads(COLD.read_text(encoding="utf-8"))


def shown(text: str) -> str:
    """Return the table in the text of a page."""
    found = _TABLE.search(text)
    return "" if found is None else found[2]


def table(figures: Figures) -> str:
    """Return the table."""
    lines = [
        f"| | {' | '.join(SIDES)} | own / nbcache | plain / nbcache |",
        "|---|" + "---:|" * (len(SIDES) + 2),
    ]
    for words, medians in _groups(figures):
        ratios = (
            f"{medians[side] / medians[NBCACHE]:.{1 if medians[side] < 10 * medians[NBCACHE] else 0}f}"
            for side in (OWN, PLAIN)
        )
        lines.append(f"| {words} | {' | '.join(time(medians[side]) for side in SIDES)} | {' | '.join(ratios)} |")
    note = f"{figures['machine']}; medians of {figures['repeat']}. The cold start: {read_cold()['machine']}."
    return "\n".join([*lines, "", *textwrap.wrap(note, 118), ""])


def time(ms: float) -> str:
    """Return a time [ms] with a unit that suits it."""
    if ms >= 1000:
        return f"{ms / 1000:.2f} s"
    return f"{ms:.{0 if ms >= 100 else 1 if ms >= 10 else 2}f} ms"


def _groups(figures: Figures) -> list[tuple[str, dict[str, float]]]:
    """What is shown, in words, and what it takes each side [ms]."""
    cold = read_cold()["seconds"]
    most = list(cold)[-1]  # on how many processors
    sides = {NBCACHE: cold[most], OWN: cold[OWN], PLAIN: cold["plain"]}
    title = f"a cold start on {most}, where nothing in the store fits any more"
    groups = [(words, {side: figures["rows"][row][side] for side in SIDES}) for row, words in ROWS.items()]
    return [*groups, (title, {side: 1000 * seconds for side, seconds in sides.items()})]


# -- the chart: a group of bars for each row, each group with a scale of its own ---------------------------------------

WIDTH, LEFT, RIGHT = 640, 180, 75
BAR, GAP, HEAD = 20, 6, 34


def chart(figures: Figures) -> str:
    """Return the chart as SVG that is readable on light and dark grounds."""
    label = "How long it takes to have compiled functions: nbcache, Numba's own cache, plain Numba"
    groups = [(words, [(side, side, ms) for side, ms in medians.items()]) for words, medians in _groups(figures)]
    return _drawn(label, groups)


def cold_chart(cold: Figures) -> str:
    """Return the chart of cold starts, by processors, likewise."""
    names = {"plain": PLAIN, OWN: OWN}
    bars = [
        (names.get(side, f"nbcache, {side}"), names.get(side, NBCACHE), 1000 * s) for side, s in cold["seconds"].items()
    ]
    title = f"{cold['functions']} functions, none of them in the store any more"
    return _drawn("How long a cold start takes, by processors", [(title, bars)])


def _drawn(label: str, groups: list[tuple[str, list[tuple[str, str, float]]]]) -> str:
    """Return groups of bars: of each bar its name, the side whose colour it has, and a time [ms]."""
    parts: list[str] = []
    y = 8
    for words, bars in groups:
        parts.append(f'<text class="title" x="0" y="{y + 18}">{escape(words[0].upper() + words[1:])}</text>')
        y += HEAD
        for name, side, ms in bars:
            parts += _bar(y, name, side, ms, max(most for _, _, most in bars))
            y += BAR + GAP
        y += 14
    style = "".join(
        f".{_name(side)}{{fill:{light}}}@media (prefers-color-scheme:dark){{.{_name(side)}{{fill:{dark}}}}}"
        for side, (light, dark) in COLOURS.items()
    )
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 8}" role="img" aria-label="{label}" '
                'font-family="system-ui, -apple-system, \'Segoe UI\', Helvetica, Arial, sans-serif" font-size="14">'
            ),
            (
                f"<style>.title{{fill:#1f2328;font-weight:600;font-size:15px}}.text{{fill:#424a53}}"
                f"@media (prefers-color-scheme:dark){{.title{{fill:#f0f6fc}}.text{{fill:#c9d1d9}}}}{style}</style>"
            ),
            *parts,
            "</svg>",
            "",
        ]
    )


def _bar(y: int, name: str, side: str, ms: float, most: float) -> list[str]:
    length = max(1.5, (WIDTH - LEFT - RIGHT) * ms / most)
    return [
        f'<text class="text" x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{_name(side)}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>',
        f'<text class="text" x="{LEFT + length + 8:.1f}" y="{y + 15}">{time(ms)}</text>',
    ]


def _name(side: str) -> str:
    return "side" + str(SIDES.index(side))
