"""The runner of the peer's suite reports what becomes of each test, also of those that end their process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbtest import proc

RUN = Path(__file__).with_name("run.py")
EXPECTED = {
    "Ordinary.test_error": "error",
    "Ordinary.test_expected_failure": "expected failure",
    "Ordinary.test_fail": "fail",
    "Ordinary.test_ok": "ok",
    "Ordinary.test_skip": "skip",
    "Ordinary.test_subtests": "fail",
    "Ordinary.test_unexpected_success": "unexpected success",
    "Fatal.test_1_crash": "crash: SIGSEGV",
    "Fatal.test_2_exit": "exit with status 3",
    "Fatal.test_3_hang": "no end in 10 s",
    "Fatal.test_4_after": "ok",
    "setUpClass (made_up.NoClass)": "error",
    "Different.test_off_only": "ok",
    "Wrong.test_hit": "ok",
}


def run(folder, *arguments, limit=600, extra=None):
    return proc.run([RUN, "--package", "", "--workdir", folder, "--limit", limit, *arguments], extra=extra)


def results(folder, module, mode):
    lines = (folder / module / f"{mode}.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return {r["test"].removeprefix("made_up."): r["outcome"] for r in records if "test" in r}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(folder, "--modules", "made_up", limit=10)


@pytest.mark.long
def test_every_outcome_is_recorded(whole):
    folder, _ = whole
    assert results(folder, "made_up", "off") == EXPECTED
    assert results(folder, "made_up", "cold") == EXPECTED | {"Different.test_off_only": "fail"}
    assert results(folder, "made_up", "warm") == EXPECTED | {"Different.test_off_only": "fail"}


@pytest.mark.long
def test_what_differs_is_reported(whole):
    _, outcome = whole
    assert outcome.status == 1, outcome.stderr
    assert "tests run: off 14, cold 14, warm 14" in outcome.stdout
    assert "differ: 1\n  made_up.Different.test_off_only: off ok, cold fail, warm fail" in outcome.stdout


@pytest.mark.long
def test_nothing_finished_runs_again(whole):
    folder, first = whole
    before = {path: path.read_bytes() for path in folder.glob("*/*.jsonl")}
    assert run(folder, "--modules", "made_up", "--resume", limit=10).stdout == first.stdout
    assert {path: path.read_bytes() for path in folder.glob("*/*.jsonl")} == before


def test_equal_outcomes_are_success(tmp_path):
    outcome = run(tmp_path, "--modules", "made_up.Ordinary")
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    assert "made_up.Ordinary: 7 tests" in outcome.stdout


def test_a_hit_that_is_compiled_to_something_else_is_reported(tmp_path):
    assert run(tmp_path, "--modules", "made_up.Wrong").status == 0
    outcome = run(tmp_path, "--modules", "made_up.Wrong", extra={"NBTEST_CHECK": "all"})
    assert outcome.status == 1, outcome.stderr
    assert "made_up.Wrong: 2 of 2 hits are compiled to something else" in outcome.stdout


def test_samples_are_the_same_each_time(tmp_path):
    outcome = run(tmp_path, "--modules", "made_up.Ordinary", "--sample", "2")
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    sampled = [results(tmp_path, "made_up.Ordinary", mode) for mode in ("off", "cold", "warm")]
    assert 0 < len(sampled[0]) < 7
    assert sampled[0] == sampled[1] == sampled[2]


def test_a_module_that_cannot_be_loaded_is_an_error_everywhere(tmp_path):
    outcome = run(tmp_path, "--modules", "no_such_module")
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    assert set(results(tmp_path, "no_such_module", "warm").values()) == {"error"}


def test_the_simulator_is_not_tried_without_what_its_tests_import(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['filecheck'] = None\n")
    outcome = proc.run([RUN, "--simulator", "--workdir", tmp_path / "work"], extra={"PYTHONPATH": str(tmp_path)})
    assert outcome.status == 1
    assert "filecheck" in outcome.stderr
    assert not outcome.stdout
