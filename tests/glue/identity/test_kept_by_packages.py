"""What packages keep beside their settings: locks, what threads have, sets, native functions."""

import fractions
import threading
from types import ModuleType

import pytest

from nbcache.glue.identity.instances import dictionary_of
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker

PACKAGE = """
import threading
lock = threading.RLock()
class Locked:
    def __init__(self, level):
        self.lock, self.condition, self.level = threading.Lock(), threading.Condition(), level
class Local(threading.local):
    def __init__(self):
        self.level = 1
class Slotted:
    __slots__ = ("level",)
def one(): return 1
def two(): return 2
def twins(): return [(lambda number=number: number) for number in (1, 2)]
locked, local, plain_local = Locked(1), Local(), threading.local()
plain_local.level = 1
functions, pairs = {one}, {("a", 1), ("b", 2)}
def reads():
    with lock:
        return locked, local, plain_local, functions, pairs
"""


@pytest.fixture
def package():
    module = ModuleType("paket")
    exec(compile(PACKAGE, "paket.py", "exec"), vars(module))
    return module


def digest(*objects):
    return KeyMaker().engine.digest([*objects])


CHANGES = {
    "beside a lock": lambda package: setattr(package.locked, "level", 2),
    "of a thread": lambda package: setattr(package.plain_local, "level", 2),
    "of a thread, in a class of its own": lambda package: setattr(package.local, "level", 2),
    "another function in a set": lambda package: package.functions.add(package.two),
    "in the place of another": lambda package: (package.functions.clear(), package.functions.add(package.two)),
    "another pair in a set": lambda package: package.pairs.add(("c", 3)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_set_there_counts_and_is_noticed(package, change):
    maker = KeyMaker()
    before, scope = maker.engine.scoped([package.reads])
    assert scope.unchanged()
    change(package)
    assert not scope.unchanged()
    assert maker.engine.digest([package.reads]) != before


def test_whether_a_lock_is_held_does_not_count(package):
    before = digest(package.reads)
    with package.lock, package.locked.lock:
        assert digest(package.reads) == before


def test_each_thread_has_its_own(package):
    found = [digest(package.plain_local)]
    thread = threading.Thread(target=lambda: found.append(digest(package.plain_local)))
    thread.start()
    thread.join()
    assert found[0] != found[1]


def test_sets_have_no_order(package):
    first, second = package.twins()
    assert digest({package.one, package.two, first}) == digest({first, package.two, package.one})
    assert digest({first, package.one}) != digest({second, package.one})
    assert digest({package.one}) != digest([package.one])


def test_a_set_of_what_nobody_identifies_is_refused():
    with pytest.raises(Unidentifiable):
        digest({(each for each in ())})


def test_class_methods_of_native_classes_count_by_their_names():
    assert digest(vars(dict)["fromkeys"]) == digest(vars(dict)["fromkeys"]) != digest(vars(int)["from_bytes"])
    assert digest(fractions.Fraction(1, 2)) != digest(fractions.Fraction(1, 3))


class Other:
    pass


class Proxy:
    """As wrapt's, which are in C: the dictionary that the class tells of is that of what is wrapped, if that has one."""

    __slots__ = ("level",)
    __dict__ = vars(Other)["__dict__"]


class Child(Proxy):
    """It has a dictionary of its own."""


def test_what_a_proxy_has_is_its_own():
    proxy, child = Proxy(), Child()
    with pytest.raises(TypeError):
        vars(proxy)
    proxy.level, child.more = 1, 2
    assert (dictionary_of(proxy), dictionary_of(child)) == (None, {"more": 2})
    before = digest(proxy), digest(child)
    proxy.level, child.more = 2, 3
    assert not {digest(proxy), digest(child)} & {*before}


def test_who_says_that_it_is_of_another_class_is_asked_as_what_it_is():
    class Pretender:
        __class__ = threading.local

    assert dictionary_of(Pretender()) == {}


def test_classes_have_their_members():
    assert dictionary_of(Other) == vars(Other)
