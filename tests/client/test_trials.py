"""What a process notes of the entries that nobody is known to have used well."""

import faulthandler
import os
import signal
import traceback
from types import SimpleNamespace

import pytest

from nbcache.client.trials import Trials
from nbcache.config import Settings
from nbcache.store import quarantine
from nbcache.store.directory import Store
from nbcache.store.entry import DIGEST_OFFSET


@pytest.fixture
def store(tmp_path):
    return Store.open(Settings(dir=str(tmp_path / "store")))


@pytest.fixture
def entries(tmp_path):
    """Two files with a digest where an entry has it."""
    found = []
    for number in (1, 2):
        digest = bytes([number]) * 16
        path = tmp_path / f"{number}.nbo"
        path.write_bytes(bytes(DIGEST_OFFSET) + digest)
        path.chmod(0o644)
        header = SimpleNamespace(key=f"{number}" * 64, function=f"lib:f{number}")
        found.append(SimpleNamespace(digest=digest.hex(), layer="", path=str(path), header=header))
    return found


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


def notes(store):
    folder = f"{store.path}/v1/trials/{os.geteuid()}"
    return {name: os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder)}


def test_what_was_used_is_proven_when_the_process_ends_and_nothing_stays(store, entries):
    def child():
        trials = Trials(store)
        assert all(trials.begin(each, called=True) for each in entries)
        trials.go_on()
        trials.finish()

    assert ended(child) == 0
    assert (proven(entries), notes(store)) == ([True, True], {})


def test_what_could_not_be_loaded_is_not_proven(store, entries):
    def child():
        trials = Trials(store)
        assert all(trials.begin(each, called=True) for each in entries)
        assert trials.has_begun(entries[1].digest)
        trials.withdraw(entries[1].digest)
        assert not trials.has_begun(entries[1].digest)
        trials.finish()

    assert ended(child) == 0
    assert (proven(entries), notes(store)) == ([True, False], {})


def test_a_crash_is_told_though_the_program_closed_all_descriptors(store, entries, tmp_path):
    theirs = tmp_path / "theirs"

    def child():
        trials = Trials(store)
        assert trials.begin(entries[0], called=True)
        trials.go_on()
        fd = os.open(theirs, os.O_WRONLY | os.O_CREAT)
        os.closerange(500, 600)
        for number in range(500, 510):
            os.dup2(fd, number)
        assert trials.begin(entries[1], called=True)
        os.kill(os.getpid(), signal.SIGSEGV)

    assert os.WTERMSIG(ended(child)) == signal.SIGSEGV
    assert theirs.read_bytes() == b""
    assert [each.digest for each in quarantine.read(store.path, store.trust).values()] == [entries[1].digest]
    assert proven(entries) == [False, False]


def test_a_forked_child_closes_what_its_parent_notes_in(store, entries):
    def child():
        trials = Trials(store)
        assert trials.begin(entries[0], called=True)
        before = len(os.listdir("/proc/self/fd"))

        # Nothing that was noted before is lost by what the child of a child does.
        pid = os.fork()
        if not pid:
            assert trials.begin(entries[1], called=True)
            assert len(os.listdir("/proc/self/fd")) <= before
            trials.finish()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        trials.finish()

    assert ended(child) == 0
    assert (proven(entries), notes(store)) == ([True, True], {})
