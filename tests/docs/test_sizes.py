"""How long a module and a function may be before they have to be taken apart."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [ROOT / "_nbcache.py", *sorted((ROOT / "nbcache").rglob("*.py"))]
LONGEST_MODULE, LONGEST_FUNCTION = 450, 50  # [lines]
TABLES = {"table", "_registries", "register"}
"""Functions that do one thing after the other: the seams, and the options of a command."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_of_a_size_and_says_what_it_is_for(path):
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert len(source.splitlines()) <= LONGEST_MODULE
    assert ast.get_docstring(tree)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {each.name: (each.end_lineno or 0) - each.lineno + 1 for each in functions if each.name not in TABLES}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}
