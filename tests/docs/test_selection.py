"""What runs before a merge: of many cases some, of each test at least one, and the same ones in every worker."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILE = """
import pytest

@pytest.mark.every(3)
@pytest.mark.parametrize("case", range(7))
def test_of_seven(case): ...

@pytest.mark.every(3)
@pytest.mark.parametrize("case", range(2))
def test_of_two(case): ...

@pytest.mark.every(3)
@pytest.mark.parametrize("case", [0, pytest.param(1, marks=pytest.mark.long)])
def test_of_one_that_is_not_long(case): ...

@pytest.mark.parametrize("case", range(3))
def test_of_three(case): ...
"""


def selected(folder, *arguments):
    (folder / "test_it.py").write_text(FILE)
    shutil.copy(TESTS / "conftest.py", folder)
    shutil.copy(TESTS.parent / "pyproject.toml", folder)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments, folder / "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS / "support")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line)


def test_of_the_cases_of_a_test_each_nth_runs_before_a_merge(tmp_path):
    chosen = selected(tmp_path, "-m", "not long")
    assert chosen == selected(tmp_path, "-m", "not long", "-p", "no:randomly")
    counted = {name: sum(each.startswith(f"{name}[") for each in chosen) for name in ("test_of_seven", "test_of_two")}
    assert counted["test_of_seven"] in (2, 3) and counted["test_of_two"] == 1
    assert [each for each in chosen if each.startswith("test_of_one_")] == ["test_of_one_that_is_not_long[0]"]
    assert sum(each.startswith("test_of_three") for each in chosen) == 3
    assert len(selected(tmp_path, "-m", "")) == 14
