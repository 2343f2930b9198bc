"""The worked example of a describer in CONTRIBUTING.md holds: its tests pass with it, and without it they fail."""

import re
import sys
import textwrap
from pathlib import Path
from types import MemberDescriptorType
from typing import Any

import pytest

from nbcache.glue.identity import kinds
from nbcache.glue.identity.instances import describe_instance, dictionary_of
from nbcache.glue.identity.node import Node

IMPORTED = {
    "Any": Any, "MemberDescriptorType": MemberDescriptorType, "Node": Node, "describe_instance": describe_instance,
    "dictionary_of": dictionary_of,
}  # fmt: skip
"""What the guide says is there."""
GUIDE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
KIND = "ratio:Ratio"


def blocks():
    text = GUIDE.read_text(encoding="utf-8").partition("## Add a describer")[2].partition("\n## ")[0]
    return [textwrap.dedent(code) for code in re.findall(r"^ *```python\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)]


@pytest.fixture(scope="module")
def example():
    """The describer, its row of the table, and the names of the test file."""
    describer, row, tests = blocks()
    names = dict(IMPORTED)
    exec(describer, names)
    table = eval(f"{{{row}}}", names)
    sys.path.insert(0, str(GUIDE.parent / "tests" / "glue" / "identity"))
    try:
        import test_describe
    finally:
        del sys.path[0]
    names = {name: getattr(test_describe, name) for name in ("look", "pytest")}
    exec(tests, names)
    return table, {name: value for name, value in names.items() if name.startswith("test_")}, names


TESTS = re.findall(r"def (test_\w+)\(ratio\)", "".join(blocks()))


@pytest.mark.parametrize("name", TESTS)
def test_the_example_passes_its_tests(example, monkeypatch, name):
    table, tests, names = example
    for kind, describer in table.items():
        monkeypatch.setitem(kinds.BY_NAME, kind, describer)
    tests[name](names["class_of"](names["RATIO"]))


def test_without_the_describer_the_example_fails(example, monkeypatch):
    _table, tests, names = example
    monkeypatch.delitem(kinds.BY_NAME, KIND, raising=False)
    with pytest.raises(AssertionError):
        tests["test_a_ratio_is_what_it_holds_and_not_whether_it_was_hashed"](names["class_of"](names["RATIO"]))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("        node.watch_attribute(ratio, attribute, value)\n", "test_a_ratio_that_changes_is_another_one"),
        ('    node.edge("class", cls)\n', "test_a_ratio_whose_class_computes_otherwise_is_another_one"),
        ("        describe_instance(node, ratio)\n        return\n", "test_what_a_subclass_of_a_ratio_holds_counts"),
        (
            '        or not slots <= {"numerator", "denominator", "_hash"}\n',
            "test_a_slot_of_a_ratio_that_is_not_known_counts",
        ),
        (
            '        or not (hasattr(ratio, "numerator") and hasattr(ratio, "denominator"))\n',
            "test_a_ratio_that_is_not_filled_yet_is_described",
        ),
    ],
)
def test_each_line_that_could_be_forgotten_is_asked_for(example, monkeypatch, line, name):
    _table, tests, names = example
    describer = blocks()[0]
    assert line in describer
    forgetful = dict(IMPORTED)
    exec(describer.replace(line, "        pass\n" if "return" in line else ""), forgetful)
    monkeypatch.setitem(kinds.BY_NAME, KIND, forgetful["_describe_ratio"])
    with pytest.raises(AssertionError):
        tests[name](names["class_of"](names["RATIO"]))
