"""Publishing under faults: killed, or out of space, at each system call. A reader sees the old state or the new one."""

import contextlib
import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import pytest
from nbtest import disks
from storekit import SECTIONS, find, header, key, leftovers, open_store

from nbcache import process
from nbcache.store import atomic, listing
from nbcache.store.slots import PUBLISHED

SITUATIONS = ("new shard", "empty slot", "damaged", "recache")
BEFORE, AFTER = "before", "after"

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class Faulty:
    """The system calls of writing, where the nth of all calls fails in some way."""

    def __init__(self, number, act, when=BEFORE):
        self.number = number
        self.act = act
        self.when = when
        self.calls = []

    def __getattr__(self, name):
        real = getattr(atomic.Syscalls, name)

        def call(*args):
            self.calls.append(name)
            mine = len(self.calls) == self.number
            if mine and self.when == BEFORE:
                self.act(name, args)
            try:
                return real(*args)
            finally:
                if mine and self.when == AFTER:
                    self.act(name, args)

        return call


class Half(Faulty):
    """Like Faulty, but a failing write leaves half of the bytes behind."""

    def __getattr__(self, name):
        if name != "write":
            return super().__getattr__(name)

        def call(fd, data):
            self.calls.append(name)
            if len(self.calls) == self.number:
                os.write(fd, bytes(data[: len(data) // 2]))
                self.act(name, (fd, data))
            return os.write(fd, data)

        return call


def prepare(path, situation):
    """A store in some situation, the header to publish, and the build that is found before."""
    store = open_store(path)
    old, new = header(build="old"), header(build="new")
    if situation == "new shard":
        return store, new, None
    done = store.publish(old, SECTIONS)
    if situation == "empty slot":
        os.unlink(done.path)
        return store, new, None
    if situation == "damaged":
        os.truncate(done.path, 300)
        return store, new, None
    return store, new, "old"


def publish(store, head, situation):
    return store.publish(head, SECTIONS, recache=situation == "recache")


def builds(store):
    """The builds found, each read to the last byte."""
    found, _ = find(store)
    assert all(item.section(name) == SECTIONS[name] for item in found for name in SECTIONS)
    return [item.header.build for item in found]


def count_calls(path, situation, monkeypatch):
    store, new, _ = prepare(path, situation)
    counter = Faulty(0, None)
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "SYS", counter)
        assert publish(store, new, situation).reason == PUBLISHED
    shutil.rmtree(path)
    return counter.calls


def killed(store, head, situation, syscalls):
    """Publish in a child that gets killed on the way; return whether it was."""
    child = os.fork()
    if child == 0:
        atomic.SYS = syscalls
        try:
            publish(store, head, situation)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.every(2)
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", [Faulty, Half])
@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_killed_at_each_step(tmp_path, monkeypatch, situation, kind, when):
    path = tmp_path / "cache"
    for number in range(1, len(count_calls(path, situation, monkeypatch)) + 1):
        store, new, old = prepare(path, situation)
        assert killed(store, new, situation, kind(number, lambda *_: os.kill(os.getpid(), signal.SIGKILL), when))
        assert builds(store) in ([old] if old else [], ["new"])
        assert len(leftovers(path)) <= 1
        # The next one isn't hindered, and what was left over is swept once it is old.
        assert publish(store, new, situation).ok
        assert builds(store) == ["new"]
        listing.sweep(str(path), now=float("inf"))
        assert leftovers(path) == []
        assert list(store.verify()) == []
        shutil.rmtree(path)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", [Faulty, Half])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.ENOENT, errno.EIO])
def test_an_error_at_each_step(tmp_path, monkeypatch, situation, kind, error):
    def fail(name, _args):
        raise OSError(error, os.strerror(error))

    path = tmp_path / "cache"
    for number, name in enumerate(count_calls(path, situation, monkeypatch), 1):
        store, new, old = prepare(path, situation)
        with monkeypatch.context() as patch:
            patch.setattr(atomic, "SYS", kind(number, fail))
            done = publish(store, new, situation)
        assert "\n" not in done.reason
        assert builds(store) in ([old] if old else [], ["new"])
        if done.ok:
            assert builds(store) == ["new"]
        # Only a failing removal may leave something to remove.
        assert len(leftovers(path)) <= (name == "unlink"), name
        assert publish(store, new, situation).ok
        assert builds(store) == ["new"]
        shutil.rmtree(path)


@pytest.mark.parametrize(
    "error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO]
)
def test_a_lasting_error_has_a_reason(tmp_path, monkeypatch, error):
    store = open_store(tmp_path)

    class Broken(atomic.Syscalls):
        @staticmethod
        def write(*_):
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(atomic, "SYS", Broken())
    done = store.publish(header(), SECTIONS)
    assert not done.ok
    assert done.reason.startswith(("no ", "the "))
    assert leftovers(tmp_path) == []
    assert store.write_usage({"hits": {key(): 1}}) is None


def churn(store, seed):
    """Publish, look up and remove at random until killed; end with status 1 on anything wrong."""
    rng = random.Random(seed)
    while True:
        name, guard = rng.randrange(5), f"g{rng.randrange(3)}"
        done = store.publish(header(name, guard=guard), SECTIONS, recache=rng.random() < 0.3)
        for item in store.find(key(name), lambda _: os._exit(1)):
            # None is right too: what was found may be gone or replaced by now, but never something else.
            if any(item.section(part) not in {SECTIONS[part], None} for part in SECTIONS):
                os._exit(1)
            if rng.random() < 0.05:
                store.remove(item.path)
        if not done.ok and done.reason != "too many writers at once":
            os._exit(1)


def test_many_processes_killed_at_random(tmp_path):
    store = open_store(tmp_path)
    rng = random.Random(7)
    for round_number in range(4):
        children = []
        for number in range(8):
            child = os.fork()
            if child == 0:
                try:
                    churn(store, (round_number, number).__hash__())
                finally:
                    os._exit(1)
            children.append(child)
        for child in children:
            time.sleep(rng.random() / 20)
            os.kill(child, signal.SIGKILL)
        statuses = [os.waitpid(child, 0)[1] for child in children]
        assert all(os.WIFSIGNALED(status) for status in statuses)
        assert list(store.verify()) == []
    for number in range(5):
        for guard in range(3):
            assert store.publish(header(number, guard=f"g{guard}"), SECTIONS).ok
    assert all({item.header.guard for item in find(store, number)[0]} >= {"g0", "g1", "g2"} for number in range(5))


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK])
def test_without_hard_links(tmp_path, monkeypatch, error):
    class NoLinks(atomic.Syscalls):
        @staticmethod
        def link(*_):
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(atomic, "SYS", NoLinks())
    store = open_store(tmp_path)
    for guard in ("", "x"):
        assert store.publish(header(guard=guard), SECTIONS).reason == PUBLISHED
    assert len(find(store)[0]) == 2
    assert leftovers(tmp_path) == []


def test_a_link_whose_answer_was_lost(tmp_path, monkeypatch):
    class Lost(atomic.Syscalls):
        @staticmethod
        def link(*args):
            os.link(*args)
            raise FileExistsError(errno.EEXIST, "exists")

    monkeypatch.setattr(atomic, "SYS", Lost())
    store = open_store(tmp_path)
    assert store.publish(header(), SECTIONS).reason == PUBLISHED


def test_a_slot_taken_meanwhile(tmp_path, monkeypatch):
    store = open_store(tmp_path)

    class Faster(atomic.Syscalls):
        @staticmethod
        def link(*args):
            monkeypatch.setattr(atomic, "SYS", atomic.Syscalls())
            assert store.publish(header(guard="other"), SECTIONS).ok
            os.link(*args)

    monkeypatch.setattr(atomic, "SYS", Faster())
    assert store.publish(header(), SECTIONS).path.endswith(".1.nbo")
    assert [item.header.guard for item in find(store)[0]] == ["other", ""]


@pytest.mark.parametrize("call", ["open", "fstat", "pread"])
def test_what_can_not_be_looked_at_now_is_not_replaced(tmp_path, monkeypatch, call):
    """Another variant that the filesystem doesn't show for a moment is there again afterwards."""
    store = open_store(tmp_path)
    assert store.publish(header(guard="other"), SECTIONS).ok
    real = getattr(os, call)

    def broken(what, *args, **more):
        name = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else what
        if name.endswith(".nbo"):
            raise OSError(errno.EIO, "Input/output error")
        return real(what, *args, **more)

    monkeypatch.setattr(process.os, call, broken)
    store.publish(header(), SECTIONS)
    monkeypatch.setattr(process.os, call, real)
    assert "other" in [item.header.guard for item in find(store)[0]]


def test_a_key_everybody_fights_for_is_given_up(tmp_path, monkeypatch):
    store = open_store(tmp_path)

    class Never(atomic.Syscalls):
        @staticmethod
        def link(*args):
            raise FileExistsError(errno.EEXIST, "exists")

    monkeypatch.setattr(atomic, "SYS", Never())
    assert store.publish(header(), SECTIONS).reason == "too many writers at once"


def test_a_file_size_limit(tmp_path):
    """A real fault of the kernel's, without root: a child that may write no file over 1000 bytes."""
    store = open_store(tmp_path)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        done = store.publish(header(), SECTIONS)
        os._exit(0 if not done.ok and "too large" in done.reason else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert find(store) == ([], [])
    assert leftovers(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of 256 KiB."""
    with disks.small_disk(tmp_path / "disk", "256k") as point:
        yield point


def test_a_full_disk(small_disk):
    store = open_store(small_disk / "cache")
    assert store.writable
    published = []
    for number in range(400):
        done = store.publish(header(number), SECTIONS)
        if done.ok:
            published.append(number)
        else:
            assert done.reason == "no space left in the store"
    assert 5 < len(published) < 100
    assert leftovers(small_disk) == []
    assert list(store.verify()) == []
    assert all(len(find(store, number)[0]) == 1 for number in published)
    assert store.write_usage({"argv0": "x" * 200}) is None
    # What is there is still used, also by a process that starts now.
    assert len(find(open_store(small_disk / "cache"), published[0])[0]) == 1
    assert store.gc(20_000).freed > 0
    assert store.publish(header("room again"), SECTIONS).ok


def test_a_disk_full_before_the_store_is_made(small_disk):
    with open(small_disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    store = open_store(small_disk)
    assert find(store) == ([], [])
    assert not store.publish(header(), SECTIONS).ok
    os.unlink(small_disk / "filler")
    assert store.publish(header(), SECTIONS).ok


def test_a_read_only_filesystem(small_disk):
    store = open_store(small_disk / "cache")
    assert store.publish(header(), SECTIONS).ok
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert store.publish(header("b"), SECTIONS).reason == "the store is on a read-only filesystem"
    reader = open_store(small_disk / "cache")
    assert not reader.writable
    assert len(find(reader)[0]) == 1
    assert reader.write_usage({}) is None
