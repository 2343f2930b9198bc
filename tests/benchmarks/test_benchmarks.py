"""The benchmarks run; nothing here looks at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbtest import proc

RUN = Path(__file__).with_name("run.py")


@pytest.mark.long
def test_one_benchmark_runs():
    outcome = proc.run([RUN, "--repeat", "1", "--only", "first-hit"])
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    assert "first hit [ms]" in outcome.stdout


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_all_benchmarks_run():
    outcome = proc.run([RUN, "--repeat", "1", "--entries", "3000"], timeout=1200)
    assert outcome.status == 0, outcome.stdout + outcome.stderr


@pytest.mark.long
def test_the_benchmark_of_published_functions_runs():
    outcome = proc.run([RUN.with_name("published.py"), "--repeat", "1", "--functions", "4"])
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    assert "each further function, manifest in hand [us]" in outcome.stdout


@pytest.mark.long
def test_the_benchmark_of_cold_starts_runs():
    outcome = proc.run(
        [RUN.with_name("cold_starts.py"), *["--repeat", "1", "--functions", "4", "--weight", "2", "--jobs", "3"]]
    )
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    assert "compilations for" in outcome.stdout
    assert "with 0 compile events" in outcome.stdout
