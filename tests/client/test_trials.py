"""What a process has in the table of first calls, and when it is gone from there."""

import contextlib
import faulthandler
import gc
import os
import signal
import threading
import time
import traceback
from types import SimpleNamespace

import pytest

from nbcache.client import trials as module
from nbcache.client.trials import Trials
from nbcache.config import Settings
from nbcache.store import first_calls, quarantine
from nbcache.store.directory import Store
from nbcache.store.entry import DIGEST_OFFSET


@pytest.fixture
def store(tmp_path):
    return Store.open(Settings(dir=str(tmp_path / "store")))


@pytest.fixture
def entries(tmp_path):
    """Two files with a digest where an entry has it, in one row of the table."""
    found = []
    for number in (1, 2):
        digest = bytes(15) + bytes([number])
        path = tmp_path / f"{number}.nbo"
        path.write_bytes(bytes(DIGEST_OFFSET) + digest)
        path.chmod(0o644)
        header = SimpleNamespace(key=f"{number}" * 64, function=f"lib:f{number}")
        found.append(SimpleNamespace(digest=digest.hex(), layer="", path=str(path), header=header))
    return found


@pytest.fixture
def entry(entries):
    return entries[0]


def ended(child):
    """The status of a child that runs *child*, which no test's own faulthandler takes part in."""
    pid = os.fork()
    if not pid:
        try:
            faulthandler.disable()
            child()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def proven(entries):
    return [bool(os.stat(each.path).st_mode & quarantine.PROVEN) for each in entries]


def path_of(store):
    return f"{store.path}/v1/trials/{os.geteuid()}/{first_calls.FILE}"


def states(store):
    try:
        fd = os.open(path_of(store), os.O_RDONLY)
    except FileNotFoundError:
        return []
    with contextlib.closing(os.fdopen(fd)):
        return [call.state for _, call in first_calls.read(fd)]


def suspects(store):
    quarantine.settle(store.path, store.trust)
    return {each.function: each.crashes for each in quarantine.read(store.path, store.trust).values()}


def dies_inside(store, entry, by=signal.SIGSEGV, before=lambda: None):
    def child():
        trials = Trials(store)
        assert trials.begin(entry, waits=True)
        before()
        trials.call(lambda: os.kill(os.getpid(), by))()

    assert os.WTERMSIG(ended(child)) == by


@pytest.mark.parametrize("way", [int, lambda: 1 // 0, lambda: exec("raise SystemExit")])
def test_a_first_call_that_came_back_leaves_nothing_and_proves_its_entries(store, entries, way):
    trials = Trials(store)
    assert all(trials.begin(each, waits=True) for each in entries)
    assert states(store) == [b"I", b"I"]
    with contextlib.suppress(ZeroDivisionError, SystemExit):
        trials.call(way)()
    gc.collect()
    assert (states(store), proven(entries)) == ([], [True, True])
    trials.finish()
    assert not os.path.exists(path_of(store))


def test_what_is_loaded_and_not_called_is_proven_when_the_process_ends(store, entries):
    trials = Trials(store)
    assert all(trials.begin(each) for each in entries)
    trials.withdraw(entries[1].digest)
    assert trials.has_begun(entries[0].digest) and not trials.has_begun(entries[1].digest)
    trials.loaded()
    assert (states(store), proven(entries)) == ([], [False, False])
    trials.finish()
    assert proven(entries) == [True, False]
    assert not os.listdir(os.path.dirname(path_of(store)))


def test_after_two_deaths_inside_an_entry_is_passed_over(store, entry):
    dies_inside(store, entry)
    assert suspects(store) == {"lib:f1": 1}
    dies_inside(store, entry)
    assert not Trials(store).begin(entry)
    assert suspects(store) == {"lib:f1": 2}
    assert quarantine.clear(store.path, store.trust, {"0" * 32}) == 0
    assert quarantine.clear(store.path, store.trust, {entry.digest}) == 2
    assert not os.path.exists(path_of(store))
    assert Trials(store).begin(entry)


def test_a_death_is_known_though_the_program_closed_all_descriptors_and_put_its_own_there(store, entry, tmp_path):
    theirs = tmp_path / "theirs"

    def close():
        fd = os.open(theirs, os.O_WRONLY | os.O_CREAT)
        os.closerange(500, 600)
        for number in range(500, 510):
            os.dup2(fd, number)

    dies_inside(store, entry, before=close)
    assert theirs.read_bytes() == b""
    assert suspects(store) == {"lib:f1": 1}


def test_who_lost_its_lock_and_lives_is_not_taken_for_dead(store, entry):
    def child():
        trials = Trials(store)
        assert trials.begin(entry)
        first = trials.call(int)
        os.closerange(500, 600)
        assert ended(lambda: os._exit(suspects(store) != {} or states(store) != [b"I"])) == 0
        first()
        del first
        assert states(store) == [] and proven([entry]) == [True]

    assert ended(child) == 0


def test_who_worked_for_long_was_killed_and_did_not_crash(store, entry):
    dies_inside(store, entry, signal.SIGKILL)
    # What the table says of when it began is a minute earlier.
    fd = os.open(path_of(store), os.O_RDWR)
    ((at, call),) = first_calls.read(fd)
    os.pwrite(fd, first_calls.encode(call._replace(began=time.time() - 60.0, segment=-1)), at)
    os.close(fd)
    assert suspects(store) == {}
    assert states(store) == []


def test_a_forked_child_has_nothing_of_its_parents(store, entries):
    trials = Trials(store)
    assert trials.begin(entries[0])
    first = trials.call(int)

    def child():
        nonlocal first
        first()
        del first
        assert states(store) == [b"I"]
        assert trials.begin(entries[1])
        assert states(store) == [b"I", b"I"]
        os.kill(os.getpid(), signal.SIGSEGV)

    assert os.WTERMSIG(ended(child)) == signal.SIGSEGV
    assert suspects(store) == {"lib:f2": 1}
    first()
    del first
    assert proven(entries) == [True, False]


def test_a_child_that_lives_on_hides_no_death(store, entry):
    ready, told = os.pipe()

    def before():
        pid = os.fork()
        if not pid:
            signal.alarm(100)
            time.sleep(600)
        os.write(told, b"%d" % pid)

    dies_inside(store, entry, before=before)
    pid = int(os.read(ready, 20))
    try:
        assert suspects(store) == {"lib:f1": 1}
    finally:
        os.kill(pid, signal.SIGKILL)


def inside(store, entry):
    """A child that is inside when this returns."""
    ready, told = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            trials = Trials(store)
            trials.begin(entry)
            os.write(told, b"1")
            signal.alarm(100)
            time.sleep(600)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(told)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    return pid


def kill(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_third_waits_for_one_of_two_and_goes_on_without_a_place_in_the_end(store, entry, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    children = inside(store, entry), inside(store, entry)
    trials = Trials(store)
    assert trials.begin(entry, waits=True)
    assert trials._patience <= 0 and not trials.taken
    trials.withdraw(entry.digest)
    began = time.monotonic()
    assert trials.begin(entry, waits=True)  # all patience is gone
    assert time.monotonic() - began < 60
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 600.0)
    kill(children[0])
    # One died, so there is no place beside the other one.
    trials = Trials(store)
    timer = threading.Timer(0.1, lambda: quarantine.approve(entry.path, entry.digest))
    timer.start()
    assert trials.begin(entry, waits=True) and not trials.taken
    timer.join()
    assert proven([entry]) == [True]
    kill(children[1])
    assert suspects(store) == {"lib:f1": 2}


def test_entries_in_one_row_are_in_nobodys_way(store, entries):
    for _ in range(2):
        dies_inside(store, entries[0])
    trials = Trials(store)
    assert trials.begin(entries[1], waits=True)
    assert trials._patience > 0 and not trials.taken
    assert not trials.begin(entries[0])


@pytest.mark.parametrize("content", [b"x", b"I" * 5000, b"D" * 5000, os.urandom(1 << 20)])
def test_a_table_that_says_nothing_is_in_nobodys_way(store, entry, content):
    trials = Trials(store)
    assert trials.begin(entry)
    trials.finish()
    os.makedirs(os.path.dirname(path_of(store)), exist_ok=True)
    with open(path_of(store), "wb") as file:
        file.write(content)
    entry.digest = entry.digest[::-1]
    assert Trials(store).begin(entry)
    quarantine.settle(store.path, store.trust)
    quarantine.read(store.path, store.trust)
    quarantine.clear(store.path, store.trust)
    quarantine.sweep(store.path, store.trust)


def test_where_there_can_be_no_table_everybody_goes_on(store, entry):
    os.makedirs(path_of(store))
    trials = Trials(store)
    assert trials.begin(entry, waits=True)
    assert trials.call(int)() == 0
    trials.finish()


def test_the_table_goes_with_the_last_and_whoever_comes_has_a_new_one(store, entries):
    child, trials = inside(store, entries[0]), Trials(store)
    assert trials.begin(entries[1])
    trials.finish()
    assert states(store) == [b"I"]
    kill(child)
    assert suspects(store) == {"lib:f1": 1}
    assert quarantine.clear(store.path, store.trust) == 1
    one, other = Trials(store), Trials(store)
    assert one.begin(entries[1])
    one.loaded()
    assert ended(lambda: Trials(store).finish() or quarantine.settle(store.path, store.trust)) == 0
    assert not os.path.exists(path_of(store))
    assert other.begin(entries[1])
    assert states(store) == [b"I"]
    one.finish()
    other.finish()
