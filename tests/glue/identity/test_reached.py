"""What a unit reaches is found again, whatever it is."""

import numpy as np
import pytest
from numba import types

from nbcache.glue.capture.addresses import owner_of
from nbcache.glue.identity.counterparts import Reach
from nbcache.glue.identity.marked_packages import Ran
from nbcache.glue.identity.node import Node, Unresolvable

BESIDE_A_REGISTRATION = """
from numba.extending import overload

BIG = np.arange(200_000.0)

def scaled(x):
    pass

@overload(scaled)
def choose(x):
    def times(x):
        return x * 2
    return times

@njit
def f(x):
    return scaled(x) + BIG[x]

if WARM:
    forbid()
print(f(7), nbcache.stats()["errors"])
"""


def test_an_object_that_cannot_be_asked_whether_it_is_true_is_found():
    array = np.arange(3.0)
    node = Node(array, "array")
    node.digest = b"x" * 32
    assert Reach([node], beyond=list).referent((0, node.digest)) is array


def node_of(obj, digest):
    node = Node(obj, "object")
    node.digest = digest * 32
    return node


def test_what_is_reached_otherwise_is_no_own_object_once_it_has_been_asked_for():
    own, other = node_of([], b"a"), node_of([], b"b")
    reach = Reach([own], beyond=lambda: [other])
    assert reach.reference(other.obj) == (1, other.digest)
    assert reach.own_reference(own.obj) == (0, own.digest)
    assert reach.own_reference(other.obj) is None
    assert reach.own_objects() == [own.obj]


def test_an_object_that_is_reached_on_two_ways_is_found_by_what_it_is_on_each():
    shared = []
    compiled, run = node_of(shared, b"a"), node_of(shared, b"b")
    reach = Reach([], beyond=lambda: [run], chosen=lambda: [compiled])
    assert reach.referent((7, run.digest)) is shared
    assert reach.referent((7, compiled.digest)) is shared


def test_what_a_type_holds_is_found_in_the_type_of_that_name_at_that_place():
    class Held(types.Type):
        def __init__(self, name, held):
            super().__init__(name=name)
            self.held = held

    one, same, other = object(), object(), object()
    reference = Reach([], types=[Held("A", one)]).lasting_reference(one)
    assert Reach([], types=[Held("A", same)]).referent(reference) is same
    # The other half of a recursion is loaded for a function that takes others.
    for elsewhere in ([Held("B", other)], [types.float64], []):
        with pytest.raises(Unresolvable, match="the type A is not where it was"):
            Reach([], types=elsewhere).referent(reference)
    assert Reach([], types=[Held("A", None)]).lasting_reference(None) is None


def test_a_function_of_the_unit_that_runs_while_compiling_as_well_stays_its_own():
    def function():
        pass

    own, runs = node_of(function, b"a"), node_of(Ran(function), b"b")
    reach = Reach([own], beyond=lambda: [runs])
    for _ in range(2):
        assert reach.own_reference(function) == reach.reference(function) == (0, own.digest)
        assert [*reach.objects()] == [function, function]
    assert reach.referent((1, runs.digest)) is function


def test_whose_an_address_is_is_looked_for_no_further_than_where_it_is_found():
    cls, walked = type("Boxed", (), {}), []

    def beyond():
        for node in (node_of(cls, b"b"), node_of([], b"c")):
            walked.append(node)
            yield node

    reach = Reach([node_of([], b"a")], beyond=beyond)
    owner, address = owner_of(id(cls), reach)
    assert owner == ("object", (1, b"b" * 32))
    assert address.value == id(cls)
    assert len(walked) == 1
    assert reach.reference(walked[0].obj) == (1, b"b" * 32)
    # All the same, what comes later is found, and is where it would be without that.
    assert owner_of(id(walked), reach) is None
    assert reach.reference(walked[1].obj) == (2, b"c" * 32)


def test_what_is_chosen_meanwhile_is_met_as_long_as_nothing_further_off_was_looked_for():
    own, chosen, far = node_of([], b"a"), [], node_of([], b"c")
    reach = Reach([own], beyond=lambda: [far], chosen=lambda: chosen)
    assert reach.own_reference(own.obj) == reach.reference(own.obj) == (0, own.digest)
    assert not reach.went_further
    chosen.append(node_of([], b"b"))
    assert reach.reference(chosen[0].obj) == (1, chosen[0].digest)
    assert reach.went_further
    assert reach.reference(far.obj) == (2, far.digest)


def test_who_looks_for_something_while_it_is_looked_for_does_not_find_it():
    """A walk asks a module for an attribute, whose code compiles something in the same compilation."""
    far, found = node_of([], b"b"), []

    def beyond():
        with pytest.raises(Unresolvable, match="it is being looked for"):
            reach.reference(far.obj)
        found.append(reach.own_reference(own.obj))
        yield far

    own = node_of([], b"a")
    reach = Reach([own], beyond=beyond)
    assert reach.reference(far.obj) == (1, far.digest)
    assert found == [(0, own.digest)]


PASSED_ON = """
from numba.extending import overload

def halved(x):
    pass

@overload(halved)
def choose_halved(x):
    return lambda x: x / 2

def twice(function, x):
    pass

@overload(twice)
def choose_twice(function, x):
    return lambda function, x: function(function(x))

def eighth(x):
    pass

@overload(eighth)
def choose_eighth(x):
    def implementation(x):
        return twice(halved, x) / 2
    return implementation

@njit
def f(x):
    return eighth(x)

if WARM:
    forbid()
print(f(4.0), nbcache.stats()["errors"])
"""


def test_a_function_that_an_overload_passes_on_is_found_again_before_the_overload_is_chosen(run):
    for warm in (False, True):
        assert run(f"WARM = {warm}\n" + PASSED_ON) == ("0.5 {}\n", "")


def test_what_is_registered_is_not_walked_for_a_line_that_nothing_is_on():
    """Numba says so of whatever it can't place; to walk all of several packages takes seconds."""
    code = test_an_object_that_cannot_be_asked_whether_it_is_true_is_found.__code__
    reach = Reach([Node(test_an_object_that_cannot_be_asked_whether_it_is_true_is_found, "f")], beyond=lambda: 1 / 0)
    assert reach.codes_at(__file__, 1) == [(code, ())]
    assert [each for each, _offsets in reach.codes_at(__file__, code.co_firstlineno + 1)] == [code]


def test_an_array_is_bound_by_its_address_beside_what_is_registered(run):
    for warm in (False, True):
        assert run(f"WARM = {warm}\n" + BESIDE_A_REGISTRATION) == ("21.0 {}\n", "")


SHARED_MEMORY = """
A = np.arange(4.0)
B = A[::2]

@njit
def both(i):
    return A[i] + B[0]

both(0)
print(list(nbcache.stats()["uncacheable"]))
"""


def test_a_reason_names_the_arrays_that_share_what_code_has_the_address_of(run):
    said = "['it has the address of the memory that the arrays A and B share built in']\n"
    assert run(SHARED_MEMORY) == (said, "")
