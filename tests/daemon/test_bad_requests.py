"""What may lie in a spool that anybody can write to: the daemon says what it is, and goes on."""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading

import pytest
from nbtest import daemons, fuzzing, proc
from nbtest.kinds import LIB

from nbcache import config
from nbcache.client import logs
from nbcache.daemon import building, shared_parts
from nbcache.protocol import spool
from nbcache.protocol.requests import Request

KEY = "ab" * 32
UNHURRIED = ("--job-seconds", "3600")
"""What is wrong with a request is found out however slow the machine is."""
numbers = itertools.count()


def request(**fields):
    """A well-formed request, for something that isn't there, with some fields replaced."""
    plain = Request(
        key=KEY,
        kind="dispatcher",
        function="no_such_module:f",
        signature="(int64)",
        types={"version": 1, "args": ["int64"], "returns": None},
        source="0" * 32,
        value=None,
        modules=(),
        path=(),
        interpreter=sys.executable,
        settings={},
        toolchain="",
        components=(),
        created=1.0,
        host="here",
        pid=1,
    )
    return plain._replace(**fields)


def put(store, data, name=""):
    """Lay something into the spool, by a name that no other has had, as clients do.

    A daemon that has just removed one looks whether it is gone, and would take the next for the same.
    """
    name = name or f"{KEY}.request{next(numbers)}.json"
    drop = store / "v1/requests" / str(os.geteuid())
    drop.mkdir(exist_ok=True)
    path, temporary = drop / name, drop / ".tmp"
    temporary.write_bytes(data)
    temporary.rename(path)
    return path


def outcome_of(store, path, key=KEY):
    """What the daemon says of a file in the spool."""
    daemons.wait_for(lambda: not path.exists(), lambda: f"{path.name} still waits")
    names = {key, path.name}
    (reason,) = [each["reason"] for each in daemons.failures(store) if {each["key"], each["function"]} & names]
    return reason


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store and one daemon for all of them: it has to survive each."""
    folder = tmp_path_factory.mktemp("bad") / "store"
    with daemons.daemon(folder, *UNHURRIED) as daemon:
        yield folder
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.log


@pytest.fixture(autouse=True)
def nothing_failed_yet(request):
    """Tests share a store, in any order."""
    if "store" in request.fixturenames:
        for each in (request.getfixturevalue("store") / "v1/failed").glob("*.json"):
            each.unlink()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "importing no_such_module fails"),
        ({"function": "json:no_such_function"}, "the source of json is not the client's"),
        ({"modules": ("no_such_extension",)}, "importing no_such_extension fails"),
        ({"interpreter": "/no/such/python"}, "the interpreter /no/such/python can't be used"),
        ({"interpreter": "python"}, "is no absolute path"),
        ({"value": b"not a pickle", "source": None}, "it can't be unpickled"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_requests_that_can_t_be_carried_out(store, fields, reason):
    assert reason in outcome_of(store, put(store, request(**fields).line()))


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ({"version": 99, "args": []}, "version 99"),
        ({"version": 1}, "no list of types"),
        ({"version": 1, "args": ["os.system"]}, "os.system"),
        ({"version": 1, "args": [["Dispatcher", "os:system"]]}, "os:system"),
        ({"version": 1, "args": [[[[[[]]]]]]}, ""),
    ],
    ids=["version", "none", "name", "reference", "nest"],
)
def test_types_off_the_allow_list(store, place, types, reason):
    import hashlib

    (place / "some.py").write_text(LIB)
    source = hashlib.blake2b(LIB.encode(), digest_size=16).hexdigest()
    line = request(function="some:f", source=source, path=(str(place),), types=types).line()
    assert reason in outcome_of(store, put(store, line))


def test_another_toolchain(store, place):
    """The key says so, and the components say what."""
    import hashlib

    (place / "other.py").write_text(LIB)
    source = hashlib.blake2b(LIB.encode(), digest_size=16).hexdigest()
    line = request(
        function="other:f",
        source=source,
        path=(str(place),),
        components=(("toolchain/numba", "0.1"), ("target/cpu", "z80")),
    ).line()
    said = outcome_of(store, put(store, line))
    assert "toolchain/numba: 0.1 → " in said
    assert "target/cpu: z80 → " in said


def test_odd_files(store, tmp_path):
    requests = store / "v1/requests" / str(os.geteuid())
    requests.mkdir(exist_ok=True)
    (tmp_path / "target").write_bytes(request().line())
    os.link(tmp_path / "target", requests / f"{KEY}.hard.json")
    with (requests / ".large").open("wb") as file:
        file.truncate(1 << 40)
    (requests / ".large").rename(requests / f"{KEY}.large.json")
    (requests / "a..%2f..%2fetc.json").write_bytes(b"{}")
    (requests / "no suffix").write_bytes(b"")
    os.mkfifo(requests / f"{KEY}.fifo.json")
    (requests / f"{KEY}.link.json").symlink_to(tmp_path / "target")
    daemons.wait_for(lambda: os.listdir(requests) == ["no suffix"], lambda: f"left: {os.listdir(requests)}")
    reasons = {each["function"]: each["reason"] for each in daemons.failures(store)}
    assert "2 names" in reasons[f"{KEY}.hard.json"]
    assert "longer than" in reasons[f"{KEY}.large.json"]
    assert (tmp_path / "target").read_bytes() == request().line()


def until_a_pass(daemon):
    """Wait until the daemon has come upon something new in ``requests/`` itself: a file there is removed."""
    left = daemon.store / "v1/requests/left"
    left.touch()
    daemons.wait_for(lambda: not left.exists(), lambda: daemon.log)


@pytest.mark.long
def test_what_is_no_file_is_said_once_and_left_alone(tmp_path):
    """However many there are, and however often they change: a stranger must not fill the log, or failed/."""
    store = tmp_path / "store"
    with daemons.daemon(store) as daemon:
        requests = store / "v1/requests"
        (tmp_path / "target").write_bytes(request().line())
        os.mkfifo(requests / f"{KEY}.fifo.json")
        os.symlink(tmp_path / "target", requests / f"{KEY}.link.json")
        folders = [requests / f"{KEY}.{number}.json" for number in range(300)]
        for turn in range(3):
            for folder in folders:
                folder.mkdir(exist_ok=True)
                (folder / str(turn)).mkdir()
            path = put(store, request(function=f"no_such_module:f{turn}").line(), f"{KEY}.turn{turn}.json")
            daemons.wait_for(lambda path=path: not path.exists(), lambda: daemon.log)
            until_a_pass(daemon)
        # The one that removed the last file may have begun before the last folders changed.
        until_a_pass(daemon)
        assert daemon.log.count("is not a user's directory") == 1, daemon.log
        assert [each["key"] for each in daemons.failures(store)] == [KEY] * 3  # a function each
        assert all(folder.is_dir() for folder in folders)
        assert daemon.stop() == 0


@pytest.mark.long
def test_strangers_do_not_fill_the_log(tmp_path):
    store = tmp_path / "store"
    with daemons.daemon(store) as daemon:
        for number in range(300):
            put(store, b"no request", f"one of many {number}.json")
            put(store, b'{"nbcache": "request", "version": "%d"}' % number, f"another {number}.json")
        daemons.wait_for(lambda: not daemons.spool(store), lambda: daemon.log)
        assert daemon.log.count("it is not JSON") == 1
        assert daemon.log.count("rejected the request") <= shared_parts.MOST
        assert "suppressing further ones" in daemon.log
        assert daemon.stop() == 0


SURROGATE = chr(0xD800)


@pytest.mark.parametrize(
    "fields",
    [
        {"interpreter": f"/no/such/{SURROGATE}"},
        {"settings": {"NUMBA_X": SURROGATE}},
        {"path": (SURROGATE,)},
        {"signature": SURROGATE},
        {"function": f"json:{SURROGATE}"},
        {"components": ((SURROGATE, SURROGATE),)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_text_that_cannot_be_encoded(store, fields):
    """The daemon lives on (the fixture says so), and who asked is answered."""
    assert "must be text that can be part of an environment" in outcome_of(store, put(store, request(**fields).line()))


def test_names_and_texts_of_any_bytes(store):
    path = put(store, request(path=(os.fsdecode(b"/caf\xe9"),)).line(), os.fsdecode(b"caf\xe9\x1b[31m\n.json"))
    daemons.wait_for(lambda: not path.exists())


def test_a_fault_over_a_request_ends_that_request_alone(tmp_path, caplog, monkeypatch):
    """Whatever it is that nobody thought of: here, an executor that raises something odd."""
    store = tmp_path / "store"
    (store / "v1/requests").mkdir(parents=True)

    class Odd(Exception):
        pass

    def make_pool(_self, _interpreter, _settings, _kernels):
        raise Odd("no\x1b[31m pool\n2026 forged")

    monkeypatch.setattr(building.Building, "_make_pool", make_pool)
    settings = config.Settings(dir=str(store))
    logs.configure(settings)
    running, thread = daemons.in_thread(settings, tmp_path / "state")
    try:
        for number in range(3):
            path = put(store, request().line(), f"{KEY}.{number}.json")
            daemons.wait_for(lambda path=path: not path.exists())
        assert thread.is_alive()
    finally:
        running.stop()
        thread.join()
    (said,) = (each for each in caplog.records if each.levelno >= 30 and "internal error" in each.getMessage())
    assert said.getMessage() == "internal error while handling no_such_module:f: Odd: no\\x1b[31m pool\\n2026 forged"
    assert not os.listdir(store / "v1/failed")
    assert not os.listdir(store / "v1/leases")


def test_what_can_not_be_answered_is_answered_later(tmp_path, monkeypatch):
    """A filesystem that takes no change for a while: a request that was done with then doesn't lie there for ever."""
    store, broken = tmp_path / "store", threading.Event()
    (store / "v1/requests").mkdir(parents=True)
    answer = spool.answer
    monkeypatch.setattr(spool, "answer", lambda path: answer(path) if not broken.is_set() else False)
    settings = config.Settings(dir=str(store))
    broken.set()
    running, thread = daemons.in_thread(settings, tmp_path / "state")
    try:
        path = put(store, b"no request")
        daemons.wait_for(lambda: daemons.failures(store))
        broken.clear()
        daemons.wait_for(lambda: not path.exists())
    finally:
        running.stop()
        thread.join()


def test_a_store_s_directories_that_are_links(tmp_path):
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    drop = elsewhere / str(os.geteuid())
    drop.mkdir(parents=True)
    (drop / f"{KEY}.0.json").write_bytes(request().line())
    (store / "v1").mkdir(parents=True)
    for name in ("requests", "failed", "leases"):
        (store / "v1" / name).symlink_to(elsewhere)
    with daemons.daemon(store) as daemon:
        daemons.wait_for(lambda: "ignoring symbolic links" in daemon.log, lambda: daemon.log)
        assert daemon.stop() == 0
        assert daemon.log.count("must be directories: v1/failed, v1/leases, v1/requests\n") == 1
    assert os.listdir(elsewhere) == [drop.name]
    assert os.listdir(drop) == [f"{KEY}.0.json"]


def others(folder):
    """What lies there beside the store, the daemon's state and its log."""
    return sorted(path for path in folder.rglob("*") if not path.relative_to(folder).parts[0].startswith("store"))


@pytest.mark.parametrize("count", [1200, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.timeout(3600)
def test_fuzzed_requests(place, count):
    """The daemon still serves, and nothing outside of the spool and the store was touched."""
    rng = random.Random(11)
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    store = place / "store"
    lines = [request().line(), request(value=b"\x80\x04N.", source=None, function="<dynamic>:f").line()]
    with daemons.daemon(store, *UNHURRIED) as daemon:
        before = others(place)
        for number in range(count):
            put(
                store, fuzzing.mutated(rng, lines), f"{KEY[:-5]}{number:05d}.0.json" if number % 3 else f"{number}.json"
            )
        daemons.wait_for(lambda: not daemons.spool(store), lambda: daemon.log[-2000:])
        outcome = proc.run([place / "main.py"], store, daemons.WAITING)
        assert outcome.stdout == "40\n"
        assert "not built" not in outcome.stderr
        daemon.says("built lib:f (int64)")
        assert "Traceback" not in daemon.log
        assert daemon.stop() == 0
    assert others(place) == before
    assert len(list((store / "v1/failed").glob("*.json"))) <= 1000


CLOSED = """
import os, sys
sys.path.insert(0, {folder!r})
os.setuid(65533)
from nbcache.glue.requests import carrying_out
try:
    carrying_out.resolve("some", "f")
except carrying_out.RefusedError as refused:
    print(refused)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_jobs_may_not_read_is_named(place):
    """A daemon that is root has other users' functions built as a user without rights."""
    folder = place / "closed"
    folder.mkdir(mode=0o700)
    (folder / "some.py").write_text(LIB)
    done = proc.run(["-c", "import numba, nbcache.glue.requests.requested\n" + CLOSED.format(folder=str(folder))], None)
    assert f"uid 65533, as which this is built, may not read {folder}" in done.stdout, done.stderr
