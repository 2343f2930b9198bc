"""The picture of docs/cold-starts.md, drawn from figures that are simulated anew each time."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from nbsim.chart import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

CHART = ROOT / "docs" / "pictures" / "cold-starts-simulated.svg"
WIDTH, HEIGHT, LEFT, TOP, LEGEND = 420, 240, 60, 40, 190
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
COLOURS = (
    ("#1a7f6b", "#4cc2a5"), ("#8250df", "#b392f0"), ("#b07d00", "#d4a72c"), ("#0969da", "#58a6ff"),
    ("#cf222e", "#ff7b72"), ("#57606a", "#8b949e"),
)  # fmt: skip
"""Of a program's line: on a light ground, on a dark one."""


def picture(rows: Mapping[str, Mapping[int, float]]) -> str:
    """Return, as SVG, what part of plain Numba's time each program takes, by processors."""
    counts = [*next(iter(rows.values()))]

    def across(count: int) -> float:
        return LEFT + WIDTH * math.log(count) / math.log(counts[-1])

    def up(share: float) -> float:
        return TOP + HEIGHT * (1 - share / 1.2)

    parts = ['<text class="title" x="20" y="20">Cold start, everything stale: part of plain Numba\'s time</text>']
    for tick in TICKS:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for count in counts:
        words = f"{count} processors" if count == counts[-1] else str(count)
        parts.append(f'<text x="{across(count):.1f}" y="{TOP + HEIGHT + 20}" text-anchor="middle">{words}</text>')
    for number, (name, shares) in enumerate(rows.items()):
        points = " ".join(f"{across(count):.1f},{up(share):.1f}" for count, share in shares.items())
        y = TOP + 20 + 22 * number
        parts.append(f'<polyline class="s{number}" points="{points}"/>')
        parts.append(f'<line class="s{number}" x1="{LEFT + WIDTH + 30}" x2="{LEFT + WIDTH + 56}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT + WIDTH + 64}" y="{y + 4}">{escape(name)}</text>')
    style = "".join(
        f".s{number}{{stroke:{light}}}@media (prefers-color-scheme:dark){{.s{number}{{stroke:{dark}}}}}"
        for number, (light, dark) in enumerate(COLOURS)
    )
    head = _HEAD.format(LEFT + WIDTH + LEGEND, TOP + HEIGHT + 40, style)
    return "\n".join([head, *parts, "</svg>", ""])


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img" \
aria-label="Simulated cold starts of recorded programs on 1 to 64 processors" \
font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13">
<style>text{{fill:#424a53}}.title{{fill:#1f2328;font-weight:600;font-size:14px}}.grid{{stroke:#d0d7de}}\
@media (prefers-color-scheme:dark){{text{{fill:#c9d1d9}}.title{{fill:#f0f6fc}}.grid{{stroke:#30363d}}}}\
{}polyline{{fill:none;stroke-width:2}}line{{stroke-width:2}}.grid{{stroke-width:1}}</style>"""
