"""What installed distributions define counts by the distribution, and by what a program may set in it."""

import base64
import hashlib
import importlib
import os
import sys
import threading
import time

import pytest

from nbcache.glue.identity import distributions
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker

FILES = {
    "paket/__init__.py": "from paket.settings import DEPTH\nimport paket.settings as settings\n",
    "paket/settings.py": "DEPTH = 3\nTABLE = {}\nHOOKS = []\n",
    "paket/code.py": """
import functools, threading
import paket
from paket.settings import TABLE, HOOKS
_lock = threading.RLock()
_calls = threading.local()
class Base:
    level = 1
    def lower(self):
        return deepest() + self.level
def deepest():
    return paket.settings.DEPTH, TABLE, HOOKS
def helper():
    return Base().lower()
def lowering(context):
    with _lock:
        _calls.last = context
        return helper()
def make(value):
    def inner():
        with _lock:
            return value
    return inner
class cached:
    def __init__(self, work_out):
        self.work_out = work_out
    def __get__(self, instance, owner):
        vars(instance)[self.work_out.__name__] = value = self.work_out(instance)
        return value
class Lazy:
    def __init__(self, level):
        self.level = level
    @functools.cached_property
    def lock(self):
        return threading.RLock()
    @cached
    def other(self):
        return threading.RLock()
lazy = Lazy(1)
def is_lazy():
    return lazy
@functools.lru_cache
def remembers(x):
    return x
def asks():
    return remembers(1)
""",
}


def record(site, name="paket-1.0"):
    rows = [f"{name}.dist-info/RECORD,,"]
    for path in sorted(site.glob("paket/*.py")):
        content = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path.relative_to(site)},sha256={digest},{len(content)}")
    (site / f"{name}.dist-info").mkdir(exist_ok=True)
    (site / f"{name}.dist-info" / "RECORD").write_text("\n".join([*rows, ""]))


class Place:
    """A directory of ``sys.path`` with an installed package, which `load` imports anew as another process would."""

    def __init__(self, site):
        self.site = site
        for name, text in FILES.items():
            self.write(name, text)
        record(site)

    def write(self, name, text):
        path = self.site / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def load(self):
        self.unload()
        importlib.invalidate_caches()
        return importlib.import_module("paket.code")

    def unload(self):
        for name in [name for name in sys.modules if name.partition(".")[0] == "paket"]:
            del sys.modules[name]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(distributions, "STARTED", time.time_ns() + 10**12)
    made = Place(tmp_path)
    yield made
    made.unload()


def digest(*objects):
    return KeyMaker().engine.digest([*objects])


def test_a_lock_is_no_reason_against_it(place):
    assert digest(place.load().lowering) == digest(place.load().lowering)


def test_without_a_record_all_of_it_counts_as_ever(place):
    (place.site / "paket-1.0.dist-info" / "RECORD").unlink()
    with pytest.raises(Unidentifiable):
        digest(place.load().lowering)


def test_what_was_installed_after_the_process_began_counts_as_ever(place, monkeypatch):
    monkeypatch.setattr(distributions, "STARTED", time.time_ns() - 10**12)
    with pytest.raises(Unidentifiable):
        digest(place.load().lowering)


def another_level():
    return 2


def another_deepest():
    return 3


CHANGES = {
    "a setting two calls away": lambda code: setattr(sys.modules["paket.settings"], "DEPTH", 4),
    "an item of a table": lambda code: code.TABLE.update(key=1),
    "a function of the program in a list": lambda code: code.HOOKS.append(another_level),
    "a function in the place of another": lambda code: setattr(code, "deepest", another_deepest),
    "one of the package's in the place of another": lambda code: setattr(code, "deepest", code.asks),
    "an attribute of a class": lambda code: setattr(code.Base, "level", 2),
    "a method": lambda code: setattr(code.Base, "lower", another_level),
    "the code of a function": lambda code: setattr(code.deepest, "__code__", another_deepest.__code__),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_program_sets_counts(place, change):
    before = digest(place.load().lowering)
    code = place.load()
    change(code)
    assert digest(code.lowering) != before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_program_sets_is_noticed_later(place, change):
    code, maker = place.load(), KeyMaker()
    digest_before, scope = maker.engine.scoped([code.lowering])
    assert scope.unchanged()
    change(code)
    maker.installation.look_again()
    assert not scope.unchanged()
    assert maker.engine.digest([code.lowering]) != digest_before


def test_a_function_of_the_program_counts_by_its_content(place):
    found = set()
    for constant in (1, 2):
        code, scope = place.load(), {"__name__": "__main__"}
        exec(f"def hook():\n    return {constant}", scope)
        code.HOOKS.append(scope["hook"])
        found.add(digest(code.lowering))
    assert len(found) == 2


def test_another_content_is_another_distribution(place):
    before = digest(place.load().lowering)
    place.write("paket/settings.py", FILES["paket/settings.py"] + "\n")
    edited = digest(place.load().lowering)
    assert edited != before
    record(place.site)
    assert digest(place.load().lowering) == edited


def test_what_the_package_remembers_does_not_count(place):
    code = place.load()
    before = digest(code.asks)
    code.remembers(7)
    assert digest(code.asks) == before


def test_what_it_made_at_run_time_counts_by_what_that_was_made_with(place):
    code = place.load()
    assert digest(code.make(1)) == digest(code.make(1))
    assert digest(code.make(1)) != digest(code.make(2))
    with pytest.raises(Unidentifiable):
        digest(code.make(threading.Lock()))


def test_what_an_instance_has_worked_out_follows_from_the_rest(place):
    code = place.load()
    made, held, found = code.Lazy(2), digest(code.is_lazy), digest(code.Lazy(2))
    for each in (made, code.lazy):
        assert each.lock is each.lock
        assert each.other is each.other
    assert digest(code.is_lazy) == held
    assert digest(made) == found
    code.lazy.level = made.level = 3
    assert digest(code.is_lazy) != held
    assert digest(made) != found


def test_whose_a_file_is(place, tmp_path):
    found = distributions.Distributions()
    path = os.fspath(place.site / "paket" / "code.py")
    assert found.owner(path).startswith("paket-1.0 ")
    beside = tmp_path / "paket" / "beside.py"
    beside.write_text("")
    assert found.owner(os.fspath(beside)) is None
    assert found.owner(os.fspath(tmp_path.parent / "elsewhere.py")) is None


def test_a_package_of_another_name_than_its_distribution(place):
    (place.site / "paket-1.0.dist-info").rename(place.site / "named_otherwise-2.0.dist-info")
    found = distributions.Distributions()
    assert found.owner(os.fspath(place.site / "paket" / "code.py")).startswith("named_otherwise-2.0 ")
