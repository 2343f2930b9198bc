"""What the guides show of the benchmark: figures kept as JSON, and from these alone README's chart and the table.

`run.py --figures` measures and writes all three; `test_figures.py` asks that they agree.
"""

from __future__ import annotations

import json
import re
import statistics
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbbench.sides import NBCACHE, OWN, PLAIN, SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbbench.measures import Samples

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "docs" / "pictures" / "benchmark.json"
CHART = ROOT / "docs" / "pictures" / "benchmark.svg"
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
    CHART.write_text(chart(figures), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub(lambda found: found[1] + table(figures) + found[3], text), encoding="utf-8")


def read() -> Figures:
    """Return the figures that were written last."""
    return json.loads(DATA.read_text(encoding="utf-8"))


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
    for row, words in ROWS.items():
        medians = _medians(figures, row)
        ratios = (
            f"{medians[side] / medians[NBCACHE]:.{1 if medians[side] < 10 * medians[NBCACHE] else 0}f}"
            for side in (OWN, PLAIN)
        )
        lines.append(f"| {words} | {' | '.join(time(medians[side]) for side in SIDES)} | {' | '.join(ratios)} |")
    return "\n".join([*lines, "", f"{figures['machine']}; medians of {figures['repeat']}.", ""])


def time(ms: float) -> str:
    """Return a time [ms] with a unit that suits it."""
    if ms >= 1000:
        return f"{ms / 1000:.2f} s"
    return f"{ms:.{0 if ms >= 100 else 1 if ms >= 10 else 2}f} ms"


def _medians(figures: Figures, row: str) -> dict[str, float]:
    return {side: figures["rows"][row][side] for side in SIDES}


# -- the chart: a group of bars for each row, each group with a scale of its own ---------------------------------------

WIDTH, LEFT, RIGHT = 880, 130, 110
BAR, GAP, HEAD = 20, 6, 34


def chart(figures: Figures) -> str:
    """Return the chart as SVG that is readable on light and dark grounds."""
    parts: list[str] = []
    y = 8
    for row, words in ROWS.items():
        medians = _medians(figures, row)
        parts.append(f'<text class="title" x="0" y="{y + 18}">{escape(words[0].upper() + words[1:])}</text>')
        y += HEAD
        for side in SIDES:
            parts += _bar(y, side, medians)
            y += BAR + GAP
        y += 14
    style = "".join(
        f".{_name(side)}{{fill:{light}}}@media (prefers-color-scheme:dark){{.{_name(side)}{{fill:{dark}}}}}"
        for side, (light, dark) in COLOURS.items()
    )
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 8}" role="img" aria-label="How long it takes '
                "to have compiled functions: nbcache, Numba's own cache, plain Numba\" "
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


def _bar(y: int, side: str, medians: Mapping[str, float]) -> list[str]:
    length = max(1.5, (WIDTH - LEFT - RIGHT) * medians[side] / max(medians.values()))
    return [
        f'<text class="text" x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(side)}</text>',
        f'<rect class="{_name(side)}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>',
        f'<text class="text" x="{LEFT + length + 8:.1f}" y="{y + 15}">{time(medians[side])}</text>',
    ]


def _name(side: str) -> str:
    return "side" + str(SIDES.index(side))
