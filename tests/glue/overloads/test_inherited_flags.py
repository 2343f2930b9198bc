"""The flags that callees inherit: the list is Numba's, not ours; and what is remembered of overloads.

What follows from a process's past is tested by programs, in `tests/traps/programs/family_33_history.py`.
"""

import functools
import re
import weakref
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import njit

from nbcache.glue.identity.dispatcher_past import past_of
from nbcache.glue.overloads.inherited_flags import INHERITED, giving, in_plain_context, inherited


def test_inherited_flags_are_those_that_numba_hands_down() -> None:
    """Every name that Numba's sources pass to ``inherit_if_not_set`` is known, and no other."""
    sources = Path(numba.__file__).parent.rglob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in sources if "tests" not in path.parts]
    names = {name for text in texts for name in re.findall(r"inherit_if_not_set\(\s*[\"'](\w+)", text)}
    assert names == set(INHERITED)


@pytest.mark.parametrize("given", [(("error_model", "numpy"),), (("fastmath", ("nnan",)), ("forceinline", True))])
def test_what_is_given_is_inherited(given) -> None:
    """A function without options gets exactly what is given; one with options of its own keeps those."""

    @njit
    def plain(x):
        return x

    @njit(error_model="python", fastmath=False, forceinline=False)
    def decided(x):
        return x

    with giving(given):
        assert not in_plain_context()
        assert inherited(plain.targetdescr, plain.targetoptions) == given
        assert inherited(decided.targetdescr, decided.targetoptions) == ()
    assert in_plain_context()
    assert inherited(plain.targetdescr, plain.targetoptions) == ()


def test_a_copied_dict_is_not_a_past() -> None:
    """``functools.wraps`` copies attributes from one dispatcher to the next; its past stays behind."""

    @njit
    def one(x):
        return x

    past_of(one).made_from[()] = b"something"

    @njit
    @functools.wraps(one)
    def other(x):
        return x + 1

    assert past_of(one).made_from == {(): b"something"}
    assert past_of(other).made_from == {}


def test_what_overloads_were_bound_to_is_let_go_once_none_is_made_from_it() -> None:
    """It may be a large array each time, of a function that a program compiles again and again."""

    @njit
    def one(x):
        return x

    past = past_of(one)
    for number in range(4):
        array = np.zeros(number)
        here = b"made from %d" % number
        past.bind(here, b"made from an array", ((b"array", array),))
        past.made_from[()] = here
        assert past.bound[here] == (b"made from an array", ((b"array", array),))
    last = weakref.ref(array)
    past.bind(b"now", b"made from another", ())
    assert [*past.bound] == [here, b"now"]
    past.made_from[()] = b"now"
    past.bind(b"later", b"made from yet another", ())
    del array
    assert [*past.bound] == [b"now", b"later"]
    assert last() is None
