"""Other people's choosers are asked again on a hit."""

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


def test_what_is_chosen_and_cannot_be_identified_is_a_miss_and_no_fault(run, tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "chosen.py").write_text(CHOSEN)
    run(CHOOSES)
    assert run(CHOOSES) == ("21\n1 [] {}\n", "")
    said, complaints = run(CHOOSES, APP_EACH="1")
    reason = (
        "choose chooses what depends on the module library for K, where it finds something of another type each time"
    )
    assert (said.splitlines()[0], complaints) == ("TypingError", "")
    assert reason in said
    assert said.endswith(" {}\n")
