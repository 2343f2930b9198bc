"""What types of others held when they were made."""

import gc
import weakref

from numba import types

from nbcache.glue.identity.asked_names import _AsMade


class Kind(types.Type):
    """A type of somebody else's."""

    def __init__(self, name, **held):
        vars(self).update(held)
        super().__init__(name)


def noted(name, **held):
    """A type that was made just now, and who noted it."""
    as_made, kind = _AsMade(), Kind(name, **held)
    as_made.note(kind)
    return as_made, kind


def test_what_was_added_since_is_left_out():
    as_made, kind = noted("with more", factor=2)
    kind.remembered = 3
    assert as_made.of(kind)["factor"] == 2
    assert "remembered" not in as_made.of(kind)
    kind.factor = 4
    assert as_made.of(kind) is None


def test_what_was_filled_in_is_not_known():
    as_made, kind = noted("filled", known={"a": 1})
    assert as_made.of(kind)["known"] == {"a": 1}
    kind.known["b"] = 2
    assert as_made.of(kind) is None


def test_what_may_be_filled_in_out_of_sight_is_not_known():
    as_made, kind = noted("with a dictionary", known=({},))
    assert as_made.of(kind) is None


def test_another_type_is_not_known():
    as_made, _kind = noted("one")
    assert as_made.of(Kind("another")) is None


def test_it_keeps_no_type_alive():
    _as_made, kind = noted("member of itself", members=[])
    kind.members.append(kind)
    gone = weakref.ref(kind)
    del kind
    gc.collect()
    assert gone() is None
