"""Annotations of what runs while compiling count, whether or not somebody has read them."""

import dataclasses
import sys
from types import ModuleType

import pytest

from nbcache.glue.keys.key_maker import KeyMaker

LAZY = sys.version_info >= (3, 14)
FUTURE = "from __future__ import annotations\n"
lazily = pytest.mark.skipif(not LAZY, reason="this Python makes annotations when a function is defined")


@pytest.fixture
def digest():
    return KeyMaker().engine.digest


def made(source, **scope):
    """A class with *source* in it: its methods run while compiling, if anything of it does."""
    scope = {"__name__": "case", "calls": [], **scope}
    exec(compile(source, "case.py", "exec", dont_inherit=True), scope)
    return scope["C"]


METHOD = "class C:\n    def m(self, x: int, y: T = 1) -> float: return x\n"
FIELDS = "class C:\n    x: int\n    y: T = 1\n    def m(self): return 1\n"
BOTH = pytest.mark.parametrize("source", [METHOD, FIELDS], ids=["function", "class"])


@BOTH
@pytest.mark.parametrize("future", ["", FUTURE], ids=["", "future"])
def test_annotations_count(source, future, digest):
    assert digest(made(future + source, T=str)) == digest(made(future + source, T=str))
    assert digest(made(future + source, T=str)) != digest(made(future + source.replace("x: int", "x: str"), T=str))


@BOTH
def test_what_they_name_counts(source, digest):
    assert digest(made(source, T=str)) != digest(made(source, T=float))


@BOTH
def test_it_is_the_same_whether_somebody_has_read_them(source, digest):
    read, new = made(source, T=str), made(source, T=str)
    before = digest(read)
    assert read.__annotations__ is not None
    assert read.m.__annotations__ is not None
    assert digest(read) == digest(new) == before


@BOTH
def test_what_somebody_changes_in_them_counts(source, digest):
    cls = made(source, T=str)
    before = digest(cls)
    (cls.m if source is METHOD else cls).__annotations__["x"] = str
    assert digest(cls) != before


@BOTH
@lazily
def test_what_they_name_may_be_defined_later(source, digest):
    cls = made(source)
    assert digest(cls) == digest(made(source))
    scope = cls.m.__globals__
    scope["T"] = str
    assert digest(cls) == digest(made(source, T=str))
    assert (cls.m if source is METHOD else cls).__annotations__["y"] is str


@BOTH
@lazily
def test_they_are_not_kept_before_somebody_reads_them(source, digest):
    cls = made(source, T=str)
    digest(cls)
    cls.m.__globals__["T"] = float
    assert (cls.m if source is METHOD else cls).__annotations__["y"] is float


def test_what_they_name_in_their_class_counts(digest):
    source = "class C:\n    T = ONE\n    def m(self, x: T): return x\n    y: T\n"
    assert digest(made(source, ONE=1)) == digest(made(source, ONE=1))
    assert digest(made(source, ONE=1)) != digest(made(source, ONE=2))


def test_a_named_tuple_by_a_class_is_described(digest):
    source = "from typing import NamedTuple\nclass C(NamedTuple):\n    x: int\n    y: T = 1\n"
    assert digest(made(source, T=str)) is not None
    assert digest(made(source, T=str)) == digest(made(source, T=str))


FORWARD = "import dataclasses\n@dataclasses.dataclass\nclass C:\n    before: C | None = None\n    y: T = 1\n"
"""Of a class that names itself, and what isn't there yet, dataclasses keep what stands for that."""


@pytest.fixture
def module(monkeypatch):
    """Dataclasses look into the module of a class."""
    monkeypatch.setitem(sys.modules, "case", ModuleType("case"))


@lazily
def test_a_forward_reference_counts_by_what_its_names_lead_to(digest, module):
    cls = made(FORWARD)
    before = digest(cls)
    assert before == digest(made(FORWARD))
    assert before == digest(made(FORWARD, other=1, __file__="/elsewhere/case.py"))
    assert before != digest(made(FORWARD.replace("C | None", "list[C]")))
    dataclasses.fields(cls)[1].type.__globals__["T"] = str
    assert digest(cls) != before


@lazily
def test_a_forward_reference_counts_by_what_its_names_find_around_it(digest, module):
    around = "def around(T):\n    " + FORWARD.replace("\n", "\n    ").replace("y: T", "y: T | There")
    one, same, other = (made(f"{around}\n    return C\nC = around({each})") for each in ("int", "int", "str"))
    assert digest(one) == digest(same) != digest(other)


@lazily
def test_a_forward_reference_may_remember_what_it_was_asked_for(digest, module):
    cls = made(FORWARD)
    before = digest(cls)
    assert "T" in repr(dataclasses.fields(cls))
    with pytest.raises(NameError):
        dataclasses.fields(cls)[1].type.evaluate()
    assert digest(cls) == before
