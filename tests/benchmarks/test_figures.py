"""README's chart and the table of docs/benchmarks.md show the same figures, those of the last `run.py --figures`."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

sys.path.append(str(Path(__file__).resolve().parent))
from nbbench import figures, sides


def test_the_charts_are_drawn_from_the_figures():
    assert figures.CHART.read_text(encoding="utf-8") == figures.chart(figures.read())
    assert figures.COLD_CHART.read_text(encoding="utf-8") == figures.cold_chart(figures.read_cold())


def test_the_table_in_the_guide_is_that_of_the_figures():
    assert figures.shown(figures.PAGE.read_text(encoding="utf-8")) == figures.table(figures.read())


def test_the_readme_shows_the_chart():
    readme = (figures.ROOT / "README.md").read_text(encoding="utf-8")
    assert str(figures.CHART.relative_to(figures.ROOT)) in readme


@pytest.mark.parametrize("picture", sorted(figures.CHART.parent.glob("*.svg")), ids=lambda path: path.name)
def test_pictures_are_whole_and_readable_on_dark_grounds(picture):
    text = picture.read_text(encoding="utf-8")
    ET.fromstring(text)
    assert "prefers-color-scheme" in text


def test_figures_are_medians():
    samples = {row: {side: [1.0, 5.0, 3.0] for side in sides.SIDES} for row in figures.ROWS}
    made = figures.of_samples(samples, "a machine")
    assert made["repeat"] == 3
    assert made["rows"]["first hit [ms]"]["nbcache"] == 3.0
    assert "| 3.00 ms |" in figures.table(made)
