"""The spool on a real filesystem: what lies there is looked at through the open descriptor, and by the rule of trust."""

import errno
import os
import time

import pytest
from nbtest.samples import BY_REFERENCE

from nbcache import process
from nbcache.config import Settings
from nbcache.file_trust import Trust
from nbcache.protocol import spool
from nbcache.store import user_directories
from nbcache.store.directory import Store

TRUST = Trust()


@pytest.fixture
def root(tmp_path):
    store = Store.open(Settings(dir=str(tmp_path / "store")))
    assert isinstance(store, Store)
    return store.path


def only(root):
    (waiting,) = spool.scan(root, TRUST)
    return waiting


def reason(root, trust=TRUST):
    found = spool.take(only(root), trust)
    assert isinstance(found, str)
    return found


def test_a_request_goes_in_and_comes_out(root):
    path = spool.submit(root, BY_REFERENCE)
    assert spool.waits(path)
    assert spool.take(only(root), TRUST) == BY_REFERENCE._replace(uid=os.geteuid())
    spool.withdraw(path)
    assert not spool.waits(path)
    assert not spool.scan(root, TRUST)


def test_a_file_in_the_spool_is_never_replaced(root):
    first, second = spool.submit(root, BY_REFERENCE), spool.submit(root, BY_REFERENCE._replace(pid=5))
    assert first != second
    assert {spool.take(waiting, TRUST).pid for waiting in spool.scan(root, TRUST)} == {BY_REFERENCE.pid, 5}


def test_without_a_spool_there_is_no_request(tmp_path):
    assert spool.submit(str(tmp_path / "nothing"), BY_REFERENCE) is None
    assert spool.scan(str(tmp_path / "nothing"), TRUST) == []


def test_a_request_under_another_key_s_name(root):
    path = spool.submit(root, BY_REFERENCE)
    os.rename(path, path.replace("ab" * 32, "cd" * 32))
    assert "its name" in reason(root)


def link(path, tmp_path):
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)


def fifo(path, _):
    os.unlink(path)
    os.mkfifo(path)


def folder(path, _):
    os.unlink(path)
    os.mkdir(path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("become", "said"),
    [(link, "can't be opened"), (fifo, "not a regular file"), (folder, "not a regular file")],
    ids=["link", "fifo", "folder"],
)
def test_what_is_no_file_is_not_listed_and_not_read(root, tmp_path, become, said):
    path = spool.submit(root, BY_REFERENCE)
    before = only(root)
    become(path, tmp_path)
    assert spool.scan(root, TRUST) == []
    # It may have become so since it was listed.
    assert said in spool.take(before, TRUST)


def test_a_directory_is_its_user_s(root):
    path = spool.submit(root, BY_REFERENCE)
    drop = os.path.dirname(path)
    assert os.path.basename(drop) == str(os.geteuid())
    before = only(root)
    os.chmod(drop, 0o777)
    assert spool.scan(root, TRUST) == []
    assert spool.take(before, TRUST) is None
    os.chmod(drop, 0o755)
    assert only(root) == before
    os.rename(drop, f"{root}/elsewhere")
    os.symlink(f"{root}/elsewhere", drop)
    assert spool.take(before, TRUST) is None
    assert spool.submit(root, BY_REFERENCE) != path
    # One of another name was made, and belongs to the same user.
    assert [os.path.dirname(waiting.path) for waiting in spool.scan(root, TRUST)] != [drop]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_name_that_somebody_else_has_taken(root):
    os.mkdir(f"{root}/v1/requests/{os.geteuid()}")
    os.chown(f"{root}/v1/requests/{os.geteuid()}", 4321, 4321)
    paths = {spool.submit(root, BY_REFERENCE), spool.submit(root, BY_REFERENCE)}
    assert {waiting.path for waiting in spool.scan(root, TRUST)} == paths
    assert len({os.path.dirname(path) for path in paths}) == 1


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_another_user_s_file_in_a_directory(root):
    path = spool.submit(root, BY_REFERENCE)
    os.chown(path, 4321, 4321)
    (waiting,) = spool.scan(root, TRUST)
    assert "lies in the directory of uid 0" in spool.take(waiting, Trust(frozenset({4321})))


def test_an_answer_where_the_request_can_not_be_removed(root, monkeypatch):
    path = spool.submit(root, BY_REFERENCE)
    monkeypatch.setattr(spool.folders, "remove", lambda _path: False)
    assert spool.waits(path)
    assert spool.answer(path)
    assert os.path.exists(path)
    assert not spool.waits(path)
    assert spool.is_answered(path)
    assert spool.sweep_answers(root, time.time()) == 0
    assert spool.sweep_answers(root, time.time() + 3 * spool.MAX_AGE) == 1
    assert not spool.is_answered(path)


@pytest.mark.parametrize("call", ["open", "fstat", "read"])
def test_what_can_not_be_looked_at_now_is_looked_at_again(root, monkeypatch, call):
    """A filesystem that breaks for a moment is no reason to reject what somebody waits for."""
    path = spool.submit(root, BY_REFERENCE)
    waiting, open_now = only(root), len(os.listdir("/proc/self/fd"))

    def broken(*_args, **_more):
        raise OSError(errno.EIO, "Input/output error")

    real = getattr(os, call)
    monkeypatch.setattr(process.os, call, broken)
    found = spool.take(waiting, TRUST)
    monkeypatch.setattr(process.os, call, real)
    assert found is None
    assert len(os.listdir("/proc/self/fd")) == open_now
    assert spool.waits(path)
    assert spool.take(waiting, TRUST).key == BY_REFERENCE.key


def test_a_hard_link(root, tmp_path):
    path = spool.submit(root, BY_REFERENCE)
    os.link(path, tmp_path / "second")
    assert "2 names" in reason(root)


def test_an_enormous_file(root):
    path = spool.submit(root, BY_REFERENCE)
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    assert "longer than" in reason(root)


def test_not_json(root):
    path = spool.submit(root, BY_REFERENCE)
    with open(path, "wb") as file:
        file.write(b"#!/bin/sh\n")
    assert "not JSON" in reason(root)


def test_writable_by_others(root):
    os.chmod(spool.submit(root, BY_REFERENCE), 0o666)
    assert "writable by others" in reason(root)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_stranger_s_request(root):
    path = spool.submit(root, BY_REFERENCE)
    os.chown(path, 4321, 4321)
    assert "owned by uid 4321" in reason(root)
    theirs = f"{root}/v1/requests/4321"
    os.rename(os.path.dirname(path), theirs)
    os.chown(theirs, 4321, 4321)
    assert spool.scan(root, TRUST) == []
    trusting = Trust(frozenset({4321}))
    (waiting,) = spool.scan(root, trusting)
    assert spool.take(waiting, trusting) == BY_REFERENCE._replace(uid=4321)


def test_a_file_that_vanished(root):
    spool.submit(root, BY_REFERENCE)
    waiting = only(root)
    os.unlink(waiting.path)
    assert spool.take(waiting, TRUST) is None


def test_failures(root):
    assert spool.failure(root, BY_REFERENCE.key) is None
    spool.failed(root, BY_REFERENCE, "it was killed by SIGSEGV", 2)
    found = spool.failure(root, BY_REFERENCE.key)
    assert (found.reason, found.attempts, found.function) == ("it was killed by SIGSEGV", 2, BY_REFERENCE.function)
    assert spool.failures(root) == [found]
    spool.forget_failure(root, BY_REFERENCE.key)
    assert spool.failure(root, BY_REFERENCE.key) is None


def test_failures_are_forgotten_after_a_while(root, monkeypatch):
    spool.failed(root, BY_REFERENCE, "no memory", 2)
    now = time.time()
    monkeypatch.setattr(process.time, "time", lambda: now + spool.FAILURE_SECONDS + 1)
    assert spool.failure(root, BY_REFERENCE.key) is None


def test_a_rejected_file_keeps_nobody_from_asking(root):
    spool.submit(root, BY_REFERENCE)
    spool.rejected(root, only(root), "it is owned by a stranger")
    assert spool.failure(root, BY_REFERENCE.key) is None
    assert [each.reason for each in spool.failures(root)] == ["it is owned by a stranger"]


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff", b'{"nbcache": "failure", "version": 99}'])
def test_a_failure_of_another_version_is_none(root, text):
    spool.failed(root, BY_REFERENCE, "x", 1)
    path = f"{root}/v1/failed/{BY_REFERENCE.key}.json"
    with open(path, "wb") as file:
        file.write(text)
    assert spool.failure(root, BY_REFERENCE.key) is None


def test_failures_do_not_pile_up(root, monkeypatch):
    monkeypatch.setattr(spool, "MAX_FAILURES", 3)
    for number in range(5):
        key = f"{number:064x}"
        spool.failed(root, BY_REFERENCE._replace(key=key), "x", 1)
        os.utime(f"{root}/v1/failed/{key}.json", (number, number))
    assert spool.sweep_failures(root) == 2
    assert {each.key for each in spool.failures(root)} == {f"{number:064x}" for number in (2, 3, 4)}


def test_a_failure_of_one_environment(root):
    elsewhere = BY_REFERENCE._replace(path=("/elsewhere",))
    spool.failed(root, BY_REFERENCE, "no such module", scope=BY_REFERENCE.scope)
    assert spool.failure(root, BY_REFERENCE.key, BY_REFERENCE.scope).reason == "no such module"
    assert spool.failure(root, elsewhere.key, elsewhere.scope) is None
    spool.failed(root, BY_REFERENCE, "it crashes")
    assert spool.failure(root, elsewhere.key, elsewhere.scope).reason == "it crashes"
    spool.forget_failure(root, BY_REFERENCE.key, BY_REFERENCE.scope)
    assert spool.failures(root) == []


def test_strangers_directories_are_not_all_listed(root, monkeypatch):
    spool.submit(root, BY_REFERENCE)
    monkeypatch.setattr(user_directories, "MAX_OTHERS", 5)
    for number in range(50):
        os.mkdir(f"{root}/v1/requests/{number + 5000}")
        os.mkdir(f"{root}/v1/requests/{os.geteuid()}-{number:08x}")
    assert len(spool.scan(root, TRUST)) == 1
    assert len(list(user_directories._names(root, "v1/requests", TRUST))) == len(TRUST.uids) + 5


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_stranger_s_directories_of_a_user_s_name_hide_none_of_that_user(root, monkeypatch):
    """Also the plain name may be taken before the user comes."""
    monkeypatch.setattr(user_directories, "MAX_OTHERS", 5)
    for name in (str(os.geteuid()), *(f"{os.geteuid()}-{number:08x}" for number in range(50))):
        os.mkdir(f"{root}/v1/requests/{name}")
        os.chown(f"{root}/v1/requests/{name}", 4321, 4321)
    assert spool.submit(root, BY_REFERENCE)
    assert len(spool.scan(root, TRUST)) == 1
