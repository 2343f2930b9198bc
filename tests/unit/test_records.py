"""Records are what named tuples are: built, read, compared, changed and refused in the same way."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import NamedTuple

import pytest

from nbcache.records import Record


class Place(Record):
    name: str
    line: int
    column: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.line}"


class Known(NamedTuple):
    name: str
    line: int
    column: int | None = None
    notes: tuple[str, ...] = ()


GIVEN = [
    (("f", 3), {}),
    (("f", 3, 4, ("a",)), {}),
    (("f",), {"line": 3, "notes": ("b",)}),
    ((), {"name": "f", "line": 3}),
]
REFUSED = [
    ((), {}),
    (("f",), {}),
    (("f", 1, 2, (), 5), {}),
    (("f", 3), {"name": "g"}),
    (("f", 3), {"row": 1}),
]


@pytest.mark.parametrize(("values", "named"), GIVEN)
def test_a_record_is_the_tuple_that_a_named_tuple_is(values, named):
    record, known = Place(*values, **named), Known(*values, **named)
    assert record == known
    assert hash(record) == hash(known)
    assert repr(record) == repr(known).replace("Known", "Place")
    for field in Known._fields:
        assert getattr(record, field) == getattr(known, field)
    assert record._asdict() == known._asdict()
    assert record._replace(line=9) == known._replace(line=9)
    assert type(record._replace(line=9)) is Place


@pytest.mark.parametrize(("values", "named"), REFUSED)
def test_what_a_named_tuple_refuses_is_refused(values, named):
    for kind in (Place, Known):
        with pytest.raises(TypeError):
            kind(*values, **named)


@pytest.mark.parametrize("kind", [Place, Known])
def test_a_record_out_of_values_needs_one_for_each_field(kind):
    assert kind._make(["f", 3, None, ()]) == kind("f", 3)
    for some in (["f", 3], ["f", 3, None, (), 5]):
        with pytest.raises(TypeError):
            kind._make(some)
    with pytest.raises((TypeError, ValueError)):
        kind("f", 3)._replace(row=1)


def test_nobody_changes_a_record_nor_adds_to_it():
    for name in ("line", "row"):
        with pytest.raises(AttributeError):
            setattr(Place("f", 3), name, 1)
    assert sys.getsizeof(Place("f", 3)) == sys.getsizeof(Known("f", 3))


def test_a_record_is_matched_copied_and_pickled_as_what_it_is():
    record = Place("f", 3)
    match record:
        case Place(name, line):
            assert (name, line, record.shown) == ("f", 3, "f:3")
    for other in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert (type(other), other) == (Place, record)


def test_defining_a_record_compiles_no_text():
    texts, listening = [], True  # an audit hook stays for good
    sys.addaudithook(lambda event, args: texts.append(args) if listening and event == "compile" else None)

    class Later(Record):
        name: str
        line: int | None

    of_a_record = len(texts)

    class Other(NamedTuple):
        name: str
        line: int | None

    listening = False
    assert Later("f", None) == Other("f", None)
    assert of_a_record == 0
    assert texts  # the instrument works


def test_fields_are_there_at_once():
    """And not when somebody asks for annotations, as without that line from Python 3.14 on."""
    body = "class One(Record):\n    name: str\n"
    scope = {"Record": Record, "__name__": __name__}
    exec(compile("from __future__ import annotations\n" + body, "", "exec", dont_inherit=True), scope)
    assert scope["One"]("f").name == "f"
    if sys.version_info >= (3, 14):
        with pytest.raises(TypeError, match="has to begin with"):
            exec(compile(body, "", "exec", dont_inherit=True), scope)
