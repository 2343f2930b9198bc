"""Which program this is, and that nothing is in the way of storing what was compiled."""

import os
import pickle
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from nbcache.client import profiling
from nbcache.client.profiling import Profiler
from nbcache.client.saving import Saving
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.glue.requests.requested import UnaskableError, _by_value
from nbcache.store.directory import Store


@pytest.fixture
def main(monkeypatch):
    """What is `__main__` here."""
    found = SimpleNamespace(__spec__=None, __file__=None)
    monkeypatch.setitem(sys.modules, "__main__", found)
    return found


@pytest.mark.parametrize("spec", ["text", 3, SimpleNamespace(), SimpleNamespace(name=7)])
@pytest.mark.parametrize("file", ["/a/b\0c.py", 3, None, "/a/\ud800.py"])
def test_a_program_may_have_any_spec_and_file(main, spec, file):
    main.__spec__, main.__file__ = spec, file
    name, what = profiling.program()
    assert len(name) == profiling.profiles.NAME_SIZE
    assert what


def test_a_program_is_its_file_and_a_module_its_name_with_the_directory(main, tmp_path):
    main.__file__ = str(tmp_path / "main.py")
    assert profiling.program()[1] == os.path.realpath(main.__file__)
    main.__spec__ = SimpleNamespace(name="package.__main__")
    assert profiling.program()[1] == f"-m package.__main__ in {os.getcwd()}"


def test_a_launcher_of_an_environment_behind_a_link_is_told_by_the_directory(main, tmp_path, monkeypatch):
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to("env")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "link"))
    main.__file__ = str(tmp_path / "link/bin/pytest")
    assert profiling.program()[1].endswith(f"/env/bin/pytest in {os.getcwd()}")


def test_what_can_t_be_noted_is_stored_all_the_same(monkeypatch):
    from nbcache.glue import own_attributes

    monkeypatch.setattr(own_attributes, "belongs_to", lambda *_: None)
    stored = []
    publishing = Saving(
        None,
        None,
        None,
        None,
        counters=Counters(),
        lookup=SimpleNamespace(owners={}, libraries={}),
        writes_profile=True,
    )
    monkeypatch.setattr(publishing, "_finished", lambda _frame: (1.0, 1.0))
    monkeypatch.setattr(publishing, "_pack", lambda *_: "packed")
    monkeypatch.setattr(publishing, "_note", lambda *_: [].pop())
    monkeypatch.setattr(publishing, "_publish", lambda *said: stored.append(said[-1]))
    frame, unit = SimpleNamespace(build=""), SimpleNamespace(key="1" * 64, name="m:f")
    assert publishing.result(frame, unit, SimpleNamespace(library=None))
    assert stored == ["packed"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_was_forked_while_a_profile_was_written_ends(place):
    profiler = Profiler(Store.open(Settings(dir=str(place / "store"))), None, Counters())
    writing, over = threading.Event(), threading.Event()

    def write():
        with profiler._lock:
            writing.set()
            over.wait()

    thread = threading.Thread(target=write)
    thread.start()
    writing.wait()
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        profiler.write(at_end=True)
        os._exit(0)
    over.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0


def test_a_function_that_is_too_large_for_a_profile_is_not_pickled_to_the_end():
    written = []

    class Large:
        def __reduce__(self):
            for at in range(100):
                written.append(at)
            return bytes, (b"x" * 100_000,)

    def dump(wanted, file):
        for _ in range(100):
            pickle.dump(wanted, file)

    with pytest.raises(UnaskableError, match="too large"):
        _by_value(Large(), dump, 1000)
    assert len(written) == 100
    assert len(_by_value(b"x", dump, 10_000)) > 100
