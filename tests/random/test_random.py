"""Random programs under random edits: nbcache must say what plain Numba says, and hit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from randprog.drive import Drive

if TYPE_CHECKING:
    from pathlib import Path


def check(seed: int, steps: int, tmp_path: Path) -> None:
    report = Drive(seed, tmp_path / "work").run(steps)
    assert not report.differences, report.summary()
    assert not report.noisy, report.summary()
    assert report.hits > report.builds / 4, report.summary()
    assert report.failed < steps / 4, report.summary()


@pytest.mark.parametrize(("seed", "steps"), [(1, 5), pytest.param(2, 15, marks=pytest.mark.long)])
def test_a_few_edits(seed: int, steps: int, tmp_path: Path) -> None:
    check(seed, steps, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(6000)
def test_thousand_edits(tmp_path: Path) -> None:
    check(1000, 1000, tmp_path)
