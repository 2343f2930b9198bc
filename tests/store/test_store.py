"""The store as its users see it: find, publish, slots, refusal, verify, clear, and a state machine against a dict."""

import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from nbtest import users
from nbtest.samples import BY_REFERENCE
from storekit import SECTIONS, find, header, key, leftovers, mode, open_store

from nbcache import process
from nbcache.config import Settings
from nbcache.errors import BadKeyError, EntryError, NbcacheError, StoreRefusedError
from nbcache.protocol import spool
from nbcache.store import directory, entry, layers, layout, locks
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal
from nbcache.store.slots import ALREADY_THERE, PUBLISHED

NOBODY = 54321
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "cache")


def publish(store, name="a", **fields):
    done = store.publish(header(name, **fields), SECTIONS)
    assert done.ok, done
    return done


def as_nobody(work):
    """Do something in a forked child of an unprivileged uid, which may not be able to read this Python."""
    import filelock  # noqa: F401

    import nbcache.store.locks
    import nbcache.store.slots
    import nbcache.store.usage  # noqa: F401

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, repr(work()).encode())
        except BaseException as error:
            os.write(writer, f"raised {error!r}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


# Opening


FOLDERS = ("", "v1", "v1/objects", "v1/failed", "v1/leases", "v1/daemon", f"v1/objects/{key()[:2]}")
DROPS = ("v1/requests", "v1/trials", "v1/usage")


@contextmanager
def umask(mask):
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    ("mask", "setting", "folder", "drop", "file"),
    [
        (0o022, None, 0o755, 0o1777, 0o644),
        (0o002, None, 0o755, 0o1777, 0o644),
        (0, None, 0o755, 0o1777, 0o644),
        (0o027, None, 0o750, 0o1770, 0o640),
        (0o077, None, 0o700, 0o1700, 0o600),
        (0o077, 0o022, 0o755, 0o1777, 0o644),
        (0o077, 0o027, 0o750, 0o1770, 0o640),
        (0o022, 0o077, 0o700, 0o1700, 0o600),
        (0, 0, 0o755, 0o1777, 0o644),
    ],
)
def test_a_new_store_has_the_shape_and_permissions_that_the_umask_says(
    tmp_path, monkeypatch, mask, setting, folder, drop, file
):
    monkeypatch.setattr(layout.UMASK, "value", None)
    with umask(mask):
        store = open_store(tmp_path / "a" / "b" / "cache", umask=setting)
        done = publish(store)
        lease = store.lease(key("other"))
        lock = mode(*(tmp_path / "a/b/cache/v1/leases").iterdir())
        lease.release()
        usage = store.write_usage({"hits": {key(): 1}})
    assert store.writable
    assert store.path == str(tmp_path / "a" / "b" / "cache")
    assert {name: mode(f"{store.path}/{name}") for name in FOLDERS} == dict.fromkeys(FOLDERS, folder)
    assert {name: mode(f"{store.path}/{name}") for name in DROPS} == dict.fromkeys(DROPS, drop)
    assert mode(done.path) == mode(f"{store.path}/CACHEDIR.TAG") == mode(usage) == file
    assert lock == 0o600 if locks.lock_kind(store.path) == locks.FLOCK else lock == file
    assert mode(tmp_path / "a") == folder
    tag = (tmp_path / "a" / "b" / "cache" / "CACHEDIR.TAG").read_bytes()
    assert tag.startswith(b"Signature: 8a477f597d28d172789f06886806bc55")


@root_only
def test_a_umask_keeps_strangers_from_reading(place, monkeypatch):
    """In a directory that lets everybody in, as a shared store's may."""
    monkeypatch.setattr(layout.UMASK, "value", None)
    (place / "store").mkdir(mode=0o755)
    with umask(0o077):
        store = open_store(place / "store")
        path = publish(store).path
        lent = spool.submit(store.path, BY_REFERENCE)
    for each in (path, lent):
        with pytest.raises(AssertionError, match="PermissionError"):
            users.become(lambda: open(each).close(), NOBODY, NOBODY)
    with umask(0o077):
        path = publish(open_store(place / "store", umask=0o022), "b").path
    assert mode(path) == 0o644


def test_a_directory_that_holds_other_things_is_not_kept_from_backups(tmp_path):
    (tmp_path / "thesis.tex").touch()
    open_store(tmp_path)
    assert not (tmp_path / "CACHEDIR.TAG").exists()
    assert (tmp_path / "v1" / "CACHEDIR.TAG").exists()


def test_an_empty_directory_that_was_there_is_marked(tmp_path):
    (tmp_path / "cache").mkdir()
    open_store(tmp_path / "cache")
    assert (tmp_path / "cache" / "CACHEDIR.TAG").exists()


def refusal(path, **settings):
    refused = Store.open(Settings(dir=None if path is None else str(path), **settings))
    assert isinstance(refused, Refusal)
    assert "\n" not in refused.reason
    return refused.reason


def test_refusals(tmp_path):
    assert refusal(None) == "NBCACHE_DIR is not set"
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file").endswith("file is not a directory")
    assert "Not a directory" in refusal(tmp_path / "file" / "below")
    assert "does not exist and NBCACHE_READONLY is set" in refusal(tmp_path / "none", readonly=True)
    assert "null" in refusal("a\0b")
    assert "File name too long" in refusal(tmp_path / ("x" * 300))
    assert "can't be used" in refusal("/proc/nbcache")
    (tmp_path / "loop").symlink_to("loop")
    assert "can't be used" in refusal(tmp_path / "loop") or "not a directory" in refusal(tmp_path / "loop")


def test_refuses_a_directory_others_can_write(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "is writable by others (mode 0777)" in refusal(tmp_path / "open")
    (tmp_path / "open").chmod(0o1777)
    assert "is writable by others" in refusal(tmp_path / "open")
    (tmp_path / "open").chmod(0o777)
    said = refusal(tmp_path / "open" / "inner")
    assert "lies in" in said and "chmod +t" in said and "subPath" in said


def test_a_sticky_parent_is_fine(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    open_store(tmp_path / "tmp" / "cache")


@pytest.mark.parametrize("inner", ["v1", "v1/objects"])
def test_refuses_when_an_inner_directory_is_open(tmp_path, inner):
    open_store(tmp_path)
    (tmp_path / inner).chmod(0o777)
    assert f"its {inner} is writable by others" in refusal(tmp_path)


@root_only
def test_refuses_a_stranger_unless_trusted(tmp_path):
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 4242, 4242)
    assert "is owned by uid 4242" in refusal(tmp_path / "theirs")
    open_store(tmp_path / "theirs", trusted_uids=frozenset({4242}))


def test_readonly_neither_makes_nor_publishes(tmp_path):
    (tmp_path / "cache").mkdir()
    store = open_store(tmp_path / "cache", readonly=True)
    assert not store.writable
    assert os.listdir(tmp_path / "cache") == []
    done = store.publish(header(), SECTIONS)
    assert (done.ok, done.path) == (False, None)
    assert "read-only" in done.reason
    assert find(store) == ([], [])
    lease = store.lease(key())
    assert not lease.held
    lease.release()
    assert store.clear() == (0, 0)
    assert store.sweep() == 0
    assert store.tidy() is False


@root_only
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_somebody_else_reads_but_does_not_write():
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        store = open_store(directory + "/cache")
        publish(store)

        def work():
            theirs = open_store(store.path)
            (found,), reasons = find(theirs)
            done = theirs.publish(found.header, {})
            lease = theirs.lease(key())
            return theirs.writable, reasons, done.ok, lease.held, bool(theirs.write_usage({"hits": {key(): 1}}))

        assert as_nobody(work) == repr((False, [], False, False, True))


def test_exceptions_survive_pickling():
    for error in (BadKeyError("x"), EntryError("x"), StoreRefusedError("/x", "is a file")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
        assert isinstance(copy, NbcacheError)
    assert str(StoreRefusedError("/x", "is a file")) == "is a file"


# Finding and publishing


def test_what_was_published_is_found(store):
    assert not store.exists(key())
    assert find(store) == ([], [])
    done = publish(store)
    assert done.reason == PUBLISHED
    assert done.path == f"{store.path}/v1/objects/{key()[:2]}/{key()[2:]}.nbo"
    assert store.exists(key())
    (found,), reasons = find(store)
    assert reasons == []
    assert found.header == header()
    assert found.path == done.path
    assert found.section_sizes == {name: len(content) for name, content in SECTIONS.items()}
    assert {name: found.section(name) for name in SECTIONS} == SECTIONS
    assert found.section("none") is None
    assert leftovers(store.path) == []


def test_one_variant_is_written_once(store):
    before = os.stat(publish(store).path)
    assert publish(store).reason == ALREADY_THERE
    after = os.stat(publish(store).path)
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("how", ["argument", "setting"])
def test_recache_replaces(tmp_path, how):
    store = open_store(tmp_path, recache=how == "setting")
    first = publish(store)
    recache = True if how == "argument" else None
    again = store.publish(header(build="c" * 16), SECTIONS, recache=recache)
    assert (again.ok, again.reason, again.path) == (True, PUBLISHED, first.path)
    assert find(store)[0][0].header.build == "c" * 16
    if how == "setting":
        assert store.publish(header(), SECTIONS, recache=False).reason == ALREADY_THERE


def test_variants_lie_side_by_side_and_the_oldest_makes_room(store):
    paths = [publish(store, guard=f"g{number}").path for number in range(layout.MAX_SLOTS)]
    assert [os.path.basename(path)[62:] for path in paths] == list(layout.SUFFIXES)
    assert [found.header.guard for found in find(store)[0]] == [f"g{number}" for number in range(layout.MAX_SLOTS)]
    os.utime(paths[3], (1, 1))
    assert publish(store, guard="new").path == paths[3]
    assert [found.header.guard for found in find(store)[0]][3] == "new"
    assert publish(store, guard="g5").reason == ALREADY_THERE


def test_keys_are_checked_at_the_boundary(store):
    for bad in ("", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 65, "a" * 63 + "\n", key() + "\n", "٣" * 64, None):
        assert list(store.find(bad, pytest.fail)) == []
        assert store.exists(bad) is False
        assert store.lease(bad).held is False
        assert not store.publish(header(key=bad), SECTIONS).ok
        with pytest.raises(BadKeyError, match="not a key"):
            layout.slot_path("/", bad)


def test_what_cannot_be_encoded_is_not_published(store):
    assert "JSON" in store.publish(header(extra={"x": {1}}), SECTIONS).reason
    assert not store.publish(header(), {"meta": None}).ok
    assert not store.publish(header(), {"meta": "text"}).ok
    assert leftovers(store.path) == []


# What lies there is not what it should be


def spoil_truncated(path):
    os.truncate(path, 200)


def spoil_empty(path):
    os.truncate(path, 0)


def spoil_longer(path):
    with open(path, "ab") as file:
        file.write(b"x")


def spoil_enormous(path):
    os.truncate(path, 1 << 40)


def spoil_header(path):
    with open(path, "r+b") as file:
        file.seek(60)
        file.write(b"\0")


def spoil_version(path):
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"\xff")


def spoil_key(path):
    with open(path, "wb") as file:
        file.write(entry.encode(header("other"), SECTIONS))


def spoil_symlink(path):
    os.rename(path, path + ".real")
    os.symlink(path + ".real", path)


def spoil_dangling(path):
    os.unlink(path)
    os.symlink("nowhere", path)


def spoil_fifo(path):
    os.unlink(path)
    os.mkfifo(path)


def spoil_directory(path):
    os.unlink(path)
    os.mkdir(path)


def spoil_socket(path):
    os.unlink(path)
    server = socket.socket(socket.AF_UNIX)
    os.chdir(os.path.dirname(path))
    server.bind(os.path.basename(path))
    server.close()


def spoil_writable(path):
    os.chmod(path, 0o666)


def spoil_group_writable(path):
    os.chown(path, -1, 4242)
    os.chmod(path, 0o664)


def spoil_owner(path):
    os.chown(path, 4242, 4242)


SPOILS = {
    spoil_truncated: "damaged",
    spoil_empty: "damaged",
    spoil_longer: "damaged",
    spoil_enormous: "damaged",
    spoil_header: "damaged",
    spoil_version: "other-version",
    spoil_key: "other-key",
    spoil_symlink: "untrusted",
    spoil_dangling: "untrusted",
    spoil_fifo: "untrusted",
    spoil_directory: "untrusted",
    spoil_socket: "unreadable",
    spoil_writable: "untrusted",
    spoil_group_writable: "untrusted",
    spoil_owner: "untrusted",
}
NEEDS_ROOT = {spoil_group_writable, spoil_owner}


@pytest.fixture(params=SPOILS, ids=lambda spoil: spoil.__name__.removeprefix("spoil_"))
def spoil(request, monkeypatch):
    if request.param in NEEDS_ROOT and os.geteuid() != 0:
        pytest.skip("needs root")
    monkeypatch.chdir(os.getcwd())
    return request.param


def test_a_spoilt_entry_is_passed_over_verified_and_replaced(store, spoil):
    path = publish(store).path
    publish(store, guard="second")
    assert list(store.verify()) == []
    spoil(path)
    found, reasons = find(store)
    assert [item.header.guard for item in found] == ["second"]
    assert reasons == [SPOILS[spoil]]
    assert [(bad.path, bad.key, bad.reason, bad.removed) for bad in store.verify()] == [
        (path, key(), SPOILS[spoil], False)
    ]
    done = store.publish(header(), SECTIONS)
    if spoil is spoil_directory:
        assert not done.ok
    else:
        assert (done.ok, done.reason, done.path) == (True, PUBLISHED, path)
        assert [item.header.guard for item in find(store)[0]] == ["", "second"]
    assert leftovers(store.path) == []


def test_verify_removes_what_is_spoilt(store, spoil):
    paths = [publish(store, guard=f"g{number}").path for number in range(3)]
    spoil(paths[0])
    (bad,) = store.verify(remove=True)
    assert (bad.path, bad.reason) == (paths[0], SPOILS[spoil])
    if spoil is not spoil_directory:
        assert bad.removed
        assert sorted(item.header.guard for item in find(store)[0]) == ["g1", "g2"]
        assert list(store.verify()) == []


@pytest.mark.parametrize("name", SECTIONS)
def test_a_damaged_section_is_none_and_the_entry_is_bad(store, name):
    path = publish(store).path
    with open(path, "rb") as file:
        data = file.read()
    at = data.index(SECTIONS[name])
    with open(path, "r+b") as file:
        file.seek(at + 3)
        file.write(b"\0")
    (found,), reasons = find(store)
    assert reasons == []
    assert found.section(name) is None
    assert all(found.section(other) == SECTIONS[other] for other in SECTIONS if other != name)
    assert [bad.reason for bad in store.verify()] == ["damaged"]
    assert store.publish(header(), SECTIONS).reason == PUBLISHED
    assert find(store)[0][0].section(name) == SECTIONS[name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_entry(store):
    path = publish(store).path
    os.chmod(path, 0)
    assert find(store) == ([], ["unreadable"])


def test_an_open_shard_is_not_trusted(store):
    path = publish(store).path
    os.chmod(os.path.dirname(path), 0o777)
    assert find(open_store(store.path)) == ([], ["untrusted"])


LARGE = {"meta": b"m", "object": b"o", "bitcode": os.urandom(200_000)}


def test_late_sections_come_from_the_same_entry_or_not_at_all(store):
    store.publish(header(), LARGE)
    (found,), _ = find(store)
    assert found.section("bitcode") == LARGE["bitcode"]
    store.publish(header(build="c" * 16), {**LARGE, "bitcode": LARGE["bitcode"][::-1]}, recache=True)
    assert found.section("object") == b"o"
    assert found.section("bitcode") is None
    (found,), _ = find(store)
    os.unlink(found.path)
    assert found.section("bitcode") is None
    os.mkfifo(found.path)
    assert found.section("bitcode") is None


def test_of_an_entry_in_use_nothing_is_kept_and_what_is_asked_for_is_read_again(store):
    store.publish(header(), SECTIONS)
    (found,), _ = find(store)
    found.go_on_with()
    assert found.sections() == SECTIONS
    os.unlink(found.path)
    assert found.section("bitcode") is None


def test_nothing_is_read_beyond_what_a_hit_needs(store, monkeypatch):
    store.publish(header(), LARGE)
    opened, reads = [], []
    real_open, real_pread = os.open, os.pread
    monkeypatch.setattr(process.os, "open", lambda *args: opened.append(args) or real_open(*args))
    monkeypatch.setattr(process.os, "pread", lambda *args: reads.append(args) or real_pread(*args))
    found = next(store.find(key(), pytest.fail))
    assert (found.section("meta"), found.section("object")) == (b"m", b"o")
    assert (len(opened), len(reads)) == (1, 1)
    assert found.section("bitcode") == LARGE["bitcode"]
    assert len(opened) == 2


def test_descriptors_are_closed(store):
    publish(store)
    store.publish(header("b"), LARGE)
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        for item in find(store)[0] + find(store, "b")[0]:
            item.section("bitcode")
        next(store.find(key(), pytest.fail))
        list(store.verify())
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("error", [5, 116, 13, 2, 20, 40, 75])
def test_no_error_of_reading_gets_out(store, monkeypatch, error):
    publish(store)

    def fail(*args):
        raise OSError(error, "odd")

    for name in ("open", "fstat", "pread"):
        with monkeypatch.context() as patch:
            patch.setattr(directory.os, name, fail)
            found, reasons = find(store)
            assert found == []
            assert len(reasons) <= layout.MAX_SLOTS
    assert len(find(store)[0]) == 1


# Deleted, cleared, many at once


def test_deleted_while_running(store):
    publish(store)
    shutil.rmtree(store.path)
    assert find(store) == ([], [])
    assert store.lease(key()).held is False
    assert store.write_usage({}) is None
    assert list(store.scan()) == list(store.verify()) == []
    assert store.gc(1).total == store.sweep() == 0
    assert store.tidy() is False
    publish(store)
    assert len(find(store)[0]) == 1
    assert mode(store.path) == 0o755
    assert os.path.exists(f"{store.path}/CACHEDIR.TAG")


@pytest.mark.parametrize("gone", ["v1", "v1/objects"])
def test_partly_deleted_while_running(store, gone):
    publish(store)
    shutil.rmtree(f"{store.path}/{gone}")
    publish(store)
    assert len(find(store)[0]) == 1


def test_replaced_by_a_file_while_running(store):
    shutil.rmtree(store.path)
    with open(store.path, "w"):
        pass
    assert find(store) == ([], [])
    assert not store.publish(header(), SECTIONS).ok


@root_only
def test_made_again_by_a_stranger_while_running(store):
    shutil.rmtree(store.path)
    os.mkdir(store.path)
    os.chown(store.path, 4242, 4242)
    assert not store.publish(header(), SECTIONS).ok
    assert os.listdir(store.path) == []


def test_clear_leaves_nothing_to_find(store):
    for name in "abc":
        publish(store, name)
    publish(store, "a", guard="x")
    junk = os.path.dirname(publish(store).path) + "/.x.tmp"
    with open(junk, "w"):
        pass
    store.write_usage({"hits": {key(): 1}})
    count, size = store.clear()
    assert count == 4
    assert size > 4 * sum(map(len, SECTIONS.values()))
    assert list(store.scan()) == []
    assert not os.path.exists(junk)
    assert len(os.listdir(f"{store.path}/v1/usage")) == 1
    publish(store)


def test_scan_and_prefix(store):
    for name in "abc":
        publish(store, name)
    with open(os.path.dirname(publish(store).path) + "/junk", "w"):
        pass
    infos = {info.key: info for info in store.scan()}
    assert set(infos) == {key(name) for name in "abc"}
    assert infos[key("b")].header == header("b")
    assert infos[key("b")].size == os.stat(infos[key("b")].path).st_size
    assert [info.key for info in store.find_prefix(key("b")[:10])] == [key("b")]
    assert len(list(store.find_prefix(""))) == 3
    assert list(store.find_prefix("/../")) == []
    os.truncate(infos[key("a")].path, 3)
    os.unlink(infos[key("c")].path)
    assert infos[key("a")].header is infos[key("c")].header is None


def test_threads_that_publish_one_variant_leave_one(store):
    gate = threading.Barrier(8)

    def work(_):
        gate.wait()
        return store.publish(header(), SECTIONS)

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(work, range(8)))
    assert all(item.ok for item in done)
    assert sum(item.reason == PUBLISHED for item in done) >= 1
    assert len(find(store)[0]) == 1
    assert leftovers(store.path) == []


def test_threads_that_publish_many_variants_lose_none(store):
    gate = threading.Barrier(6)

    def work(number):
        gate.wait()
        return store.publish(header(guard=f"g{number}"), SECTIONS)

    with ThreadPoolExecutor(6) as pool:
        assert all(item.ok for item in pool.map(work, range(6)))
    assert sorted(item.header.guard for item in find(store)[0]) == [f"g{number}" for number in range(6)]


def test_a_hit_imports_nothing_heavy(store):
    publish(store)
    code = (
        "import sys\n"
        "from nbcache.config import load\n"
        "from nbcache.store.directory import Store\n"
        "store = Store.open(load({'NBCACHE_DIR': sys.argv[1]}))\n"
        "found = next(store.find(sys.argv[2], print))\n"
        "assert found.section('object') and found.section('bitcode')\n"
        "heavy = {'filelock', 'tempfile', 'uuid', 'subprocess', 'socket', 'asyncio', 'pathlib', 'sqlite3', 'http',\n"
        "         'numpy', 'numba', 'llvmlite', 'tomllib', 'pwd', 'grp', 'shutil', 'random', 'secrets', 'logging'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    # -S: what site and its .pth files import isn't ours.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, store.path, key()], capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout.strip() == "[]"


class StoreMachine(RuleBasedStateMachine):
    """The store against a dict of key to {guard: sections}."""

    keys = st.sampled_from("abc")
    guards = st.sampled_from(["", "g1", "g2", "g3"])
    contents = st.dictionaries(st.sampled_from(entry.SECTION_ORDER), st.binary(max_size=50), max_size=4)

    @initialize()
    def start(self):
        import tempfile

        self.directory = tempfile.mkdtemp()
        self.store = open_store(self.directory)
        self.model = {}

    def teardown(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    @rule(name=keys, guard=guards, sections=contents, recache=st.booleans())
    def publish(self, name, guard, sections, recache):
        done = self.store.publish(header(name, guard=guard), sections, recache=recache, durable=False)
        assert done.ok
        known = self.model.setdefault(name, {})
        assert (done.reason == ALREADY_THERE) == (guard in known and not recache)
        if done.reason == PUBLISHED:
            known[guard] = sections

    @rule(name=keys, guard=guards)
    def remove(self, name, guard):
        for found in self.store.find(key(name), pytest.fail):
            if found.header.guard == guard:
                assert self.store.remove(found.path)
                del self.model[name][guard]
                return

    @rule(name=keys, guard=guards, at=st.integers(0, 10**6))
    def damage(self, name, guard, at):
        for found in list(self.store.find(key(name), pytest.fail)):
            if found.header.guard == guard:
                os.truncate(found.path, at % os.stat(found.path).st_size)
                (bad,) = self.store.verify(remove=True)
                assert bad.removed
                del self.model[name][guard]

    @rule()
    def clear(self):
        self.store.clear()
        self.model = {}

    @rule()
    def evict_all(self):
        self.store.gc(1)
        self.model = {}

    @rule()
    def reopen(self):
        self.store = open_store(self.directory)

    @rule()
    def delete(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.model = {}

    @invariant()
    def same(self):
        if not hasattr(self, "store"):
            return
        for name in "abc":
            found = {item.header.guard: item for item in self.store.find(key(name), pytest.fail)}
            expected = self.model.get(name, {})
            assert set(found) == set(expected)
            assert self.store.exists(key(name)) == bool(expected)
            for guard, sections in expected.items():
                assert {part: found[guard].section(part) for part in found[guard].section_sizes} == sections
        assert len(list(self.store.scan())) == sum(map(len, self.model.values()))


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = hypothesis_settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_all_of_an_entry_goes_into_a_layer_but_how_to_ask_for_it(store, tmp_path):
    """What is left out would be missed by whoever loads it, such as the callees of a function with fastmath."""
    sections = {name: name.encode() for name in ("meta", "object", "components", "callees", "ir", "bitcode", "another")}
    assert store.publish(header(), {**sections, "request": b"asked"}).ok
    layers.fill(str(tmp_path / "layer"), store, lambda _header: True)
    (found,) = open_store(tmp_path / "layer").find(header().key)
    assert {name: found.section(name) for name in found.section_sizes} == sections
