"""The picture of docs/remote.md: figures kept as JSON, and the picture drawn from these alone."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "docs" / "pictures" / "fleet.json"
CHART = ROOT / "docs" / "pictures" / "fleet.svg"
LABELS = ("now", "before")
"""The figures of this version, and those that they are compared with."""
SERVERS = {
    "Redis": ("#1a7f6b", "#4cc2a5"),
    "S3": ("#8250df", "#b392f0"),
    "rate limit of 300/s": ("#b07d00", "#d4a72c"),
}
"""The servers that are shown: their colour on a light ground, on a dark one."""

Row = dict[str, Any]


class Panel(NamedTuple):
    """One diagram."""

    title: str
    full: bool
    value: Callable[[Row], float]
    ticks: tuple[float, ...]
    """Of a logarithmic axis."""


PANELS = (
    Panel(
        "Empty cache: compilations of each function",
        False,
        lambda row: row["compilations"] / row["keys"],
        (1, 10, 100, 1000),
    ),
    Panel("Empty cache: uploads of each function", False, lambda row: row["puts"] / row["keys"], (1, 10, 100, 1000)),
    Panel(
        "Full cache: compilations of each function",
        True,
        lambda row: row["compilations"] / row["keys"],
        (0.1, 1, 10, 100, 1000),
    ),
    Panel("Full cache: requests in the busiest second", True, lambda row: row["peak"], (10, 100, 1000, 10000)),
    Panel("Empty cache: the last host is done after [s]", False, lambda row: row["last"], (2, 5, 10, 20, 50)),
    Panel("Full cache: the last host is done after [s]", True, lambda row: row["last"], (2, 5, 10, 20, 50)),
)
HOSTS = (10, 30, 100, 300, 1000)
WIDTH, PANEL, HEIGHT, HEAD, LEFT, GAP = 880, 350, 170, 36, 60, 90


def keep(label: str, rows: list[Row]) -> None:
    """Write down what was measured."""
    known = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    lines = {name: rows if name == label else known.get(name, []) for name in LABELS}
    text = ",\n".join(
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in found) + "\n ]"
        for name, found in lines.items()
    )
    DATA.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def draw() -> None:
    """Write the picture."""
    CHART.write_text(picture(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")


def picture(figures: dict[str, list[Row]]) -> str:
    """Return the picture as SVG that is readable on light and dark grounds."""
    parts: list[str] = []
    for number, panel in enumerate(PANELS):
        x, y = LEFT + number % 2 * (PANEL + GAP), HEAD + number // 2 * (HEIGHT + 70)
        parts += _panel(panel, figures, x, y)
    bottom = HEAD + (len(PANELS) + 1) // 2 * (HEIGHT + 70)
    parts += _legend(bottom)
    style = "".join(
        f".s{n}{{stroke:{light};fill:{light}}}@media (prefers-color-scheme:dark){{.s{n}{{stroke:{dark};fill:{dark}}}}}"
        for n, (light, dark) in enumerate(SERVERS.values())
    )
    return "\n".join([_HEAD.format(WIDTH, bottom + 30, style), *parts, "</svg>", ""])


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img" \
aria-label="Simulated fleets of 10 to 1,000 hosts behind one remote cache" \
font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13">
<style>.title{{fill:#1f2328;font-weight:600;font-size:14px}}.text{{fill:#424a53}}.grid{{stroke:#d0d7de}}\
@media (prefers-color-scheme:dark){{.title{{fill:#f0f6fc}}.text{{fill:#c9d1d9}}.grid{{stroke:#30363d}}}}\
{}polyline,.line{{fill:none;stroke-width:2}}.before{{stroke-dasharray:2 5}}</style>"""


def _panel(panel: Panel, figures: dict[str, list[Row]], x: int, y: int) -> list[str]:
    def across(hosts: float) -> float:
        return x + PANEL * _share(hosts, HOSTS[0], HOSTS[-1])

    def up(value: float) -> float:
        low, high = panel.ticks[0], panel.ticks[-1]
        return y + HEIGHT * (1 - _share(min(max(value, low), high), low, high))

    parts = [f'<text class="title" x="{x - 40}" y="{y - 14}">{escape(panel.title)}</text>']
    for tick in panel.ticks:
        at = up(tick)
        parts.append(f'<line class="grid" x1="{x}" x2="{x + PANEL}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="text" x="{x - 8}" y="{at + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for hosts in HOSTS:
        words = f"{hosts:,} hosts" if hosts == HOSTS[-1] else f"{hosts:,}"
        parts.append(
            f'<text class="text" x="{across(hosts):.1f}" y="{y + HEIGHT + 20}" text-anchor="middle">{words}</text>'
        )
    for label in reversed(LABELS):
        for number, server in enumerate(SERVERS):
            rows = [row for row in figures[label] if row["server"] == server and row["full"] == panel.full]
            points = " ".join(f"{across(row['hosts']):.1f},{up(panel.value(row)):.1f}" for row in rows)
            parts.append(f'<polyline class="s{number} line {label}" points="{points}"/>')
    return parts


def _legend(y: int) -> list[str]:
    parts, x = [], LEFT
    for number, server in enumerate(SERVERS):
        parts.append(f'<line class="s{number} line" x1="{x}" x2="{x + 30}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="text" x="{x + 38}" y="{y + 4}">{escape(server)}</text>')
        x += 70 + 8 * len(server)
    parts.append(f'<line class="s0 line before" x1="{x}" x2="{x + 30}" y1="{y}" y2="{y}"/>')
    parts.append(f'<text class="text" x="{x + 38}" y="{y + 4}">dotted: before what this showed was changed</text>')
    return parts


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)
