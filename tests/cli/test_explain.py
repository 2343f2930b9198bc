"""Components compared, in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcache.cli.explain import components_of, differing, explain, nearest

DIGEST = "a1" * 16
OTHER = "b2" * 16


@pytest.mark.parametrize(
    ("label", "old", "new", "line"),
    [
        ("toolchain/numba", "0.67.0", "0.68.1", "toolchain `numba`: 0.67.0 → 0.68.1"),
        ("target/cpu", "znver3", "skylake", "target `cpu`: znver3 → skylake"),
        ("config/NUMBA_OPT", "3", "0", "setting `NUMBA_OPT`: 3 → 0"),
        ("options/fastmath", "False", "True", "option `fastmath`: False → True"),
        ("kind", "dispatcher", "ufunc", "kind: dispatcher → ufunc"),
        ("signature", "(int64,)", "(float64,)", "signature: (int64,) → (float64,)"),
        ("code/pkg:f", DIGEST, OTHER, "code of `pkg:f`: changed"),
        ("code pkg:f.<locals>.g", DIGEST[:12], OTHER[:12], "code of `pkg:f.<locals>.g`: changed"),
        ("code pkg:g", "1" * 12, OTHER[:12], "code of `pkg:g`: changed"),
        ("global pkg:f: pkg.cfg.K", "3", "4", "global `pkg.cfg.K`: 3 → 4"),
        ("global pkg:g: pkg.cfg.K", "3", "4", "global `pkg.cfg.K`: 3 → 4 (in pkg:g)"),
        ("global pkg:g: T", DIGEST, OTHER, "global `T`: changed (in pkg:g)"),
        ("global pkg:f: g is", "CPUDispatcher g", "DUFunc g", "global `g`: CPUDispatcher g → DUFunc g"),
        ("closure pkg:f: x", "1", "1.0", "closure `x`: 1 → 1.0"),
        ("default pkg:f: n", "None", "2", "default `n`: None → 2"),
        ("callee pkg:helper", DIGEST, OTHER, "callee `pkg:helper`: changed"),
        ("dependency lib/_overloads.py", DIGEST, OTHER, "dependency `lib/_overloads.py`: changed"),
        ("extension overload of len", DIGEST[:12], OTHER[:12], "extension `overload of len`: changed"),
        ("dispatcher pkg:g: option fastmath", "False", "True", "dispatcher pkg:g: option fastmath: False → True"),
        ("argument 0 tuple: field dtype", "int64", "int32", "argument 0 tuple: field dtype: int64 → int32"),
        ("something/never seen", "a", "b", "something/never seen: a → b"),
    ],
)
def test_each_component_has_its_words(label, old, new, line):
    assert explain({label: old}, {label: new}, "pkg:f") == [line]


def test_what_only_one_side_has():
    assert explain({}, {"global pkg:f: K": "3"}, "pkg:f") == ["global `K`: new, 3"]
    assert explain({"closure pkg:f: K": DIGEST}, {}, "pkg:f") == ["closure `K`: gone"]


def test_long_integers_are_not_taken_for_digests():
    assert explain({"global f: K": "1" * 40}, {"global f: K": "2" * 40}, "f") == [
        f"global `K`: {'1' * 40} → {'2' * 40}"
    ]


def test_the_nearest_differs_in_the_fewest_and_is_the_latest_of_equals():
    new = {"a": "1", "b": "2", "c": "3"}
    others = [{"a": "1", "b": "2", "c": "4"}, {"a": "1", "b": "9", "c": "3"}, {"a": "0", "b": "0", "c": "3"}]
    assert nearest(new, others) == 1
    assert nearest(new, []) is None


def test_components_of_tolerates_anything():
    assert components_of([["a", "1"], ["a", "2"], ["b"], "ab", 3, ["c", 4]]) == {"a": "1", "a #2": "2", "c": "4"}
    assert components_of({"a": "1"}) == {}
    assert components_of(None) == {}


components = st.dictionaries(st.text(), st.text())


@given(components, components)
def test_one_line_for_each_difference_and_none_for_equals(old, new):
    assert len(explain(old, new)) == len(differing(old, new)) == len(differing(new, old))
    assert explain(new, new) == []
    assert (old == new) == (not differing(old, new))


def test_a_part_of_the_key_is_named_if_no_words_differ():
    part = "key/all that it reaches"
    assert explain({part: "a1" * 8}, {part: "b2" * 8}) == ["all that it reaches: changed"]
    assert explain({part: "a1" * 8, "kind": "x"}, {part: "b2" * 8, "kind": "y"}) == ["kind: x → y"]
