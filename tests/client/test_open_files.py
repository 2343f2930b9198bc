"""Files that stay open while a program does with descriptors what it likes, and the record of a process in one."""

import errno
import os
import resource
import signal
import threading

import pytest
from nbtest.usage import load, paths
from storekit import key, open_store

from nbcache.client import open_files as keeping
from nbcache.client.open_files import Journal, KeptFile
from nbcache.counting import Counters
from nbcache.store import layout, usage, usage_sums

FLAGS = os.O_RDWR | os.O_CREAT


@pytest.fixture
def kept(tmp_path):
    file = KeptFile(str(tmp_path / "kept"), FLAGS, 0o600)
    yield file
    file.close()


def test_it_is_out_of_the_way_and_not_inherited(kept):
    assert kept.fd() >= 40
    assert not os.get_inheritable(kept.fd())
    os.write(kept.fd(), b"ours")
    assert kept.status().st_size == 4


@pytest.mark.parametrize("theirs", [False, True])
def test_what_a_program_closed_is_not_used_and_what_it_opened_instead_is_left_alone(kept, tmp_path, theirs):
    number = kept.fd()
    os.close(number)
    if theirs:
        with open(tmp_path / "theirs", "wb") as file:
            os.dup2(file.fileno(), number)
    for use in (kept.fd, kept.status):
        with pytest.raises(OSError) as raised:
            use()
        assert raised.value.errno == errno.EBADF
    kept.close()
    if theirs:
        os.write(number, b"theirs")
        os.close(number)
        assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_what_can_not_be_opened_raises_and_leaves_nothing_open(tmp_path):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        KeptFile(str(tmp_path / "none" / "kept"), FLAGS, 0o600)
    assert os.listdir("/proc/self/fd") == before


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


@pytest.fixture
def journal(store):
    return Journal(store.path)


@pytest.fixture
def counters(journal):
    return Counters(journal.note)


def record(store):
    """The sum of all that was written."""
    return usage.merge(usage.read(store.path))


def told(store):
    found = record(store)
    return found["processes"], found["hit_count"]


def test_what_is_counted_is_in_the_record_at_once(store, counters):
    counters.hit(key("a"), 0.5, "layer")
    assert told(store) == (1, 1)
    counters.hit(key("a"), 0.5)
    counters.hit(key("b"), 1.0)
    counters.miss("new")
    counters.uncacheable("a pointer", "m:p")
    counters.built(key("c"), "m:h", 0.25)
    counters.published()
    counters.waited(0.05, came=False)
    counters.error("publish")
    (path,) = paths(store.path)
    found = load(path)
    counted = counters.snapshot()
    assert found["end"] == 0.0
    del counted["end"], counted["start"]
    assert {name: found[name] for name in counted} == counted


def test_the_end_is_told_once_there_is_something_to_tell(store, journal, counters):
    journal.end()
    assert paths(store.path) == []
    counters.miss("new")
    journal.end()
    (path,) = paths(store.path)
    assert load(path)["end"] > 0
    counters.miss("new")
    assert record(store)["misses"] == {"new": 2}


def test_what_is_closed_or_removed_goes_on_in_another_file_of_the_same_process(store, journal, counters):
    counters.hit(key("a"), 1.0)
    os.close(journal._file.fd())
    counters.hit(key("a"), 1.0)
    assert told(store) == (1, 2)
    usage_sums.fold(store.path, lambda _: True, age=-1)
    assert paths(store.path) == []
    counters.hit(key("a"), 1.0)
    assert told(store) == (1, 3)
    assert len(paths(store.path)) == 1


def test_a_record_that_is_full_goes_on_in_another_file(store, counters, monkeypatch):
    monkeypatch.setattr(layout, "MAX_RECORD", 1000)
    for number in range(50):
        counters.hit(key(number), 1.0)
    assert told(store) == (1, 50)
    assert len(paths(store.path)) > 3
    assert all(os.path.getsize(path) <= 1000 for path in paths(store.path))


def test_after_so_many_writes_what_is_counted_waits(store, journal, counters, monkeypatch):
    monkeypatch.setattr(keeping, "AT_ONCE", 10)
    journal._begin()
    for _ in range(10):
        counters.hit(key("a"), 1.0)
    assert told(store) == (1, 10)
    (path,) = paths(store.path)
    size = os.path.getsize(path)
    for number in range(500):
        counters.hit(key(number % 3), 1.0)
    counters.miss("new")
    monkeypatch.setattr(journal, "_next", 0.0)
    counters.hit(key("a"), 1.0)
    assert told(store) == (1, 511)
    assert record(store)["misses"] == {"new": 1}
    assert os.path.getsize(path) - size < 700
    counters.hit(key("a"), 1.0)
    journal.end()
    assert told(store) == (1, 512)


def test_where_nothing_can_be_written_the_program_goes_on_and_it_is_told_later(store, journal, counters, monkeypatch):
    directory = f"{store.path}/{layout.USAGE}"
    os.rename(directory, f"{directory}-away")
    for _ in range(100):
        counters.hit(key("a"), 1.0)
    os.rename(f"{directory}-away", directory)
    counters.hit(key("a"), 1.0)
    assert told(store) == (0, 0)  # only once a minute
    monkeypatch.setattr(journal, "_next", 0.0)
    counters.hit(key("a"), 1.0)
    assert told(store) == (1, 102)


def test_a_link_in_the_place_of_the_directory_is_not_followed(store, counters, tmp_path):
    directory = f"{store.path}/{layout.USAGE}"
    os.rmdir(directory)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", directory)
    counters.hit(key("a"), 1.0)
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL, lambda *_: os._exit(1)])
def test_a_limit_of_file_sizes_or_a_full_disk_is_no_matter(store, counters, handler):
    counters.hit(key("a"), 1.0)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, handler)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        for _ in range(5):
            counters.hit(key("a"), 1.0)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert told(store) == (1, 1)
    assert len(paths(store.path)) == 1


def test_a_line_that_was_cut_off_spoils_no_other(store, counters):
    counters.hit(key("a"), 1.0)
    (path,) = paths(store.path)
    with open(path, "ab") as file:
        file.write(b'\n{"hits": {"')
    counters.hit(key("b"), 1.0)
    assert told(store) == (1, 2)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_record_of_its_own(store, journal, counters):
    counters.hit(key("a"), 1.0)
    with journal._lock:
        child = os.fork()
        if child == 0:
            counters.hit(key("b"), 1.0)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    counters.hit(key("a"), 1.0)
    hits = sorted((sorted(found["hits"].values()), found["pid"]) for found in usage.read(store.path))
    assert hits == [([1], child), ([2], os.getpid())]


def test_threads_lose_nothing(store, counters):
    def work():
        for number in range(200):
            counters.hit(key(number), 1.0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told(store) == (1, 1600)


def test_what_is_counted_while_it_is_written_is_not_lost(store, journal, counters, monkeypatch):
    """As when the garbage collector runs a finalizer that compiles."""
    real = KeptFile.append
    again = [1]

    def append(self, data):
        if again:
            again.pop()
            counters.hit(key("b"), 1.0)
        real(self, data)

    monkeypatch.setattr(KeptFile, "append", append)
    counters.hit(key("a"), 1.0)
    counters.hit(key("a"), 1.0)
    assert told(store) == (1, 3)
