"""What docs/security.md says is shown by tests that there are."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TEXT = (TESTS.parent / "docs/security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)


def test_each_test_that_is_named_is_there():
    assert len(NAMED) > 40
    for path, name in sorted(set(NAMED)):
        assert (TESTS / path).exists(), path
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert name in {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}, f"{path}::{name}"


def test_each_row_and_each_promise_names_one():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| who |")]
    promises = re.split(r"^\d+\. ", TEXT.partition("## What is promised")[2].partition("\n## ")[0], flags=re.MULTILINE)[
        1:
    ]
    assert len(rows) > 10 and len(promises) > 8
    assert all(".py::test_" in row for row in rows)
    assert all(".py::test_" in promise for promise in promises)
