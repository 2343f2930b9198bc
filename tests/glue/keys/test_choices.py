"""Other people's choosers are asked again on a hit."""

import pytest

LIBRARY = """
import collections, os

def make():
    return collections.namedtuple("Row", "a b")(3, 2.5)

KEPT = make()

def __getattr__(name):
    if name != "K":
        raise AttributeError(name)
    return make() if "APP_EACH" in os.environ else KEPT
"""
CHOSEN = """
import library

def times(x):
    return x * library.K.a
"""
CHOOSES = """
from numba.extending import overload

def scaled(x):
    pass

@overload(scaled)
def choose(x):
    return getattr(__import__("cho" + "sen"), "times")

@njit
def f(x):
    return scaled(x)

try:
    print(f(7))
except Exception as raised:
    print(type(raised).__name__)
print(nbcache.stats()["hit_count"], [*nbcache.stats()["misses"]], nbcache.stats()["errors"])
"""


@pytest.mark.long
def test_what_is_chosen_and_cannot_be_identified_is_a_miss_and_no_fault(run, tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "chosen.py").write_text(CHOSEN)
    run(CHOOSES)
    assert run(CHOOSES) == ("21\n1 [] {}\n", "")
    said, complaints = run(CHOOSES, APP_EACH="1")
    reason = "choose chooses what depends on the module library gives something else each time that it is asked for K"
    assert (said.splitlines()[0], complaints) == ("TypingError", "")
    assert reason in said
    assert said.endswith(" {}\n")


MANY = """
import os
from numba import types
from numba.extending import intrinsic, overload
from nbcache.glue.identity.registrations import ExtensionIndex
from nbcache.glue.keys.choices import Choices

asked = []

def counted(cls, name):
    original = getattr(cls, name)

    def count(self, *args):
        asked.append(name)
        return original(self, *args)

    setattr(cls, name, count)

counted(Choices, "_digest")
counted(ExtensionIndex, "_digest")
NULL = open(os.devnull)

@intrinsic
def two(context):
    def code(context, builder, signature, args):
        if not NULL.closed:
            return context.get_constant(types.int64, 2)
    return types.int64(), code

def scaled(x):
    pass

@overload(scaled)
def choose(x):
    def times(x):
        return x * two()
    return times

def make(number):
    def other(x):
        pass

    @overload(other)
    def choose(x):
        def plus(x):
            return x + number
        return plus
    return other

others = [make(number) for number in range(20)]
source = "def f(x):\\n    x = scaled(x)\\n" + "".join(f"    x = o{n}(x)\\n" for n in range(20)) + "    return x\\n"
names = {"scaled": scaled, **{f"o{n}": other for n, other in enumerate(others)}}
if FIRST:
    source = source.replace("    x = scaled(x)\\n", "")
exec(source, names)
print(njit(names["f"])(1))
print(len(asked), nbcache.stats()["uncacheable"] != {})
"""


def test_for_what_cannot_become_an_entry_nothing_more_is_identified(run):
    said, complaints = run("FIRST = True\n" + MANY)
    assert (said.splitlines()[0], complaints) == ("191", "")
    assert int(said.split()[1]) >= 40, said  # the instruments work
    said, complaints = run("FIRST = False\n" + MANY)
    assert (said.splitlines()[0], complaints) == ("192", "")
    assert said.split()[2] == "True"
    assert int(said.split()[1]) <= 5, said


WARNS = """
import warnings
from numba import types
from numba.extending import intrinsic

def check(number):
    if number > 5:
        warnings.warn("it is large")

@intrinsic
def same(context, x):
    def code(context, builder, signature, args):
        check(3)
        return args[0]
    return types.int64(x), code

@njit
def f(x):
    return same(x) + 1
@njit
def g(x):
    return f(x) * 2
print(g(3), nbcache.stats()["builds_count"])
"""


def test_what_may_warn_while_it_makes_code_is_found(run):
    """Warnings are listened to while something is compiled, so another function stands there meanwhile."""
    assert run(WARNS) == ("8 3\n", "")
    assert run(WARNS) == ("8 0\n", "")


EAGER = """
from numba.extending import register_jitable

@register_jitable
def helper(x):
    return x + 1

@njit("int64(int64)")
def plus(x):
    return helper(x)

@njit("int64(int64)")
def times(x):
    return helper(x) * 100

@njit
def direct(x):
    return times(x)

@njit
def passed_on(i, x):
    return (plus, times)[i](x)

print(direct(2), passed_on(1, 2), nbcache.stats()["builds_count"])
"""


def test_what_calls_a_function_with_a_signature_depends_on_what_is_chosen_for_that(run):
    """Numba takes the overload that is there, and asks for no compilation."""
    assert run(EAGER)[0].split()[:2] == ["300", "300"]
    assert run(EAGER)[0] == "300 300 0\n"
    assert run(EAGER.replace("x + 1", "x + 2"))[0].split()[:2] == ["400", "400"]


CHOOSERS_WARN = """
import warnings
from numba import types
from numba.extending import intrinsic, overload, register_jitable

def plain(x):
    pass

@overload(plain)
def choose_plain(x):
    warnings.warn("plain")
    return lambda x: x + 1

def put_in(x):
    pass

@overload(put_in, inline="always")
def choose_put_in(x):
    warnings.warn("put in")
    return lambda x: x + 2

@intrinsic
def same(context, x):
    warnings.warn("typed")
    def code(context, builder, signature, args):
        warnings.warn("made")
        return args[0]
    return types.int64(x), code

@njit
def inner(x):
    return plain(x)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    @njit
    def f(x):
        return inner(x) + plain(x) + put_in(x) + same(x)
    print(f(3))
    print(sorted(str(each.message) for each in caught if each.category is UserWarning))
print(nbcache.stats()["builds_count"])
"""


def test_a_chooser_that_warns_does_so_once_on_a_hit(run):
    """It is asked again, and so warns itself; what only a compilation runs is repeated."""
    first, builds = run(CHOOSERS_WARN)[0].rsplit("\n", 2)[:2]
    assert first.splitlines()[0] == "16" and int(builds) > 0
    assert run(CHOOSERS_WARN)[0] == f"{first}\n0\n"
    assert run(CHOOSERS_WARN, NBCACHE_DISABLE="1")[0].startswith(first)
