"""The daemon's state: values survive, and no fault of the disk is an error."""

import contextlib
import json
import logging
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest
from nbtest import disks

from nbcache.daemon import state as states
from nbcache.daemon.state import State

VERSION = 3


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "state")


@pytest.fixture
def made(path):
    """A state with one value in it, closed."""
    state = State(path, VERSION)
    state.put({"a": [1, 2.5, "x"]})
    assert state.problem is None
    state.close()
    return path


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def serves(state):
    """Whether values can be kept at all."""
    state.put({"probe": 1, "other": {"k": None}})
    state.put({"other": None})
    return state.get("probe") == 1 and state.get("other") is None


def test_values_survive(made):
    state = State(made, VERSION)
    assert state.get("a") == [1, 2.5, "x"]
    assert state.get("b") is None
    state.put({"a": None, "b": "\ud800\0"})
    state.close()
    state = State(made, VERSION)
    assert (state.get("a"), state.get("b")) == (None, "\ud800\0")
    state.close()
    state.close()


def test_only_the_owner_may_look(path):
    os.umask(os.umask(0))
    State(path, VERSION).close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


def test_another_version_is_begun_again(made, caplog):
    state = State(made, VERSION + 1)
    assert state.get("a") is None
    assert serves(state)
    assert state.problem is None
    state.close()
    assert warnings(caplog) == [f"the daemon's state in {made} is of version 3 and not 4; starting with an empty state"]


def garbage(path):
    with open(f"{path}/cache.db", "wb") as file:
        file.write(b"\0garbage" * 5000)


def truncated(path):
    os.truncate(f"{path}/cache.db", 5000)


def no_version(path):
    with sqlite3.connect(f"{path}/cache.db") as db:
        db.execute("delete from Cache where key = 'version'")
    db.close()


def planted_pickle(path):
    with sqlite3.connect(f"{path}/cache.db") as db:
        db.execute("update Cache set mode = 4, value = ? where key = 'version'", (pickle.dumps(Bomb()),))
    db.close()


def planted_setting(path):
    with sqlite3.connect(f"{path}/cache.db") as db:
        db.execute("insert into Settings values ('disk_evil', 1)")
    db.close()


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


@pytest.mark.parametrize("damage", [garbage, truncated, no_version, planted_pickle, planted_setting])
def test_damage_is_begun_again(made, caplog, damage):
    damage(made)
    state = State(made, VERSION)
    assert state.get("a") is None
    assert serves(state)
    assert state.problem is None
    state.close()
    assert len(warnings(caplog)) == 1
    state = State(made, VERSION)
    assert state.get("probe") == 1
    state.close()


def test_damage_while_it_is_open_is_begun_again(made, caplog):
    state = State(made, VERSION)
    with sqlite3.connect(f"{made}/cache.db") as db:
        db.execute("update Cache set mode = 4, value = ? where key = 'a'", (pickle.dumps(Bomb()),))
    db.close()
    assert state.get("a") is None
    assert serves(state)
    assert state.problem is None
    state.close()
    assert len(warnings(caplog)) == 1


def test_a_value_that_is_not_json_is_none(made):
    with sqlite3.connect(f"{made}/cache.db") as db:
        db.execute("update Cache set value = '[1,' where key = 'a'")
    db.close()
    state = State(made, VERSION)
    assert state.get("a") is None
    state.close()


def a_file(path):
    with open(path, "w"):
        pass


def a_file_above(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.rename(os.path.dirname(path), os.path.dirname(path) + ".moved")
    a_file(os.path.dirname(path))


def others_may_write(path):
    os.mkdir(path)
    os.chmod(path, 0o777)


def a_directory_in_its_place(path):
    os.makedirs(f"{path}/cache.db")


@pytest.mark.parametrize("fault", [a_file, a_file_above, others_may_write, a_directory_in_its_place])
def test_a_directory_that_cannot_be_used_is_memory(path, caplog, fault):
    fault(path)
    state = State(path, VERSION)
    assert state.problem
    assert serves(state)
    state.close()
    assert len(warnings(caplog)) == 1
    assert path in warnings(caplog)[0]


def test_a_filesystem_that_is_not_local_is_memory(path, monkeypatch):
    monkeypatch.setattr(states.locks, "filesystem_kind", lambda _: "nfs4")
    state = State(path, VERSION)
    assert "nfs4" in state.problem
    assert not os.path.exists(f"{path}/cache.db")


HOLD = """
import sys, time
from nbcache.daemon.state import State
state = State(sys.argv[1], 3)
state.put({"a": 1})
print(state.problem, flush=True)
sys.stdin.read()
"""


def test_another_process_has_it(path, monkeypatch):
    monkeypatch.setattr(states, "RETRY_SECONDS", 0.0)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "None\n"
        state = State(path, VERSION)
        assert state.problem == "is in use by another process"
        assert serves(state)
        holder.kill()
    # Gone by SIGKILL: the next attempt has it, and brings what was kept meanwhile.
    state.put({"b": 2})
    assert state.problem is None
    assert (state.get("a"), state.get("b"), state.get("probe")) == (1, 2, 1)
    state.close()


@pytest.fixture
def small_disk(tmp_path):
    with disks.small_disk(tmp_path / "small", "512k") as point:
        yield point


def test_a_full_disk_and_the_way_back(small_disk, caplog, monkeypatch):
    path = str(small_disk / "state")
    state = State(path, VERSION)
    state.put({"before": "kept"})
    state.put({f"big{n}": "x" * 50_000 for n in range(40)})
    assert "full" in state.problem
    assert state.get("before") == "kept"
    assert all(state.get(f"big{n}") == "x" * 50_000 for n in range(40))
    assert len(warnings(caplog)) == 1
    # Still full: nothing is said again, nothing is lost.
    monkeypatch.setattr(states, "RETRY_SECONDS", 0.0)
    state._next_try = 0.0
    state.put({"meanwhile": 1})
    assert state.problem
    assert len(warnings(caplog)) == 1
    # Now there is room: what is in memory goes back, removals included.
    state.put({**dict.fromkeys(f"big{n}" for n in range(40)), "before": None})
    assert state.problem is None
    state.close()
    state = State(path, VERSION)
    assert (state.get("before"), state.get("meanwhile"), state.get("big0")) == (None, 1, None)
    state.close()


def test_a_disk_that_is_full_from_the_start(small_disk):
    (small_disk / "filler").write_bytes(b"x" * 500_000)
    state = State(str(small_disk / "state"), VERSION)
    assert state.problem
    assert serves(state)
    state.close()


def test_a_full_disk_deletes_no_history(small_disk):
    path = str(small_disk / "state")
    state = State(path, VERSION)
    state.put({"a": 1})
    state.close()
    with open(small_disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    state = State(path, VERSION)
    assert serves(state)
    state.close()
    os.unlink(small_disk / "filler")
    state = State(path, VERSION)
    assert state.get("a") == 1
    state.close()


def test_deleted_under_it(made):
    state = State(made, VERSION)
    shutil.rmtree(made)
    assert serves(state)
    seen = []
    # Another thread has a connection of its own, which finds nothing there.
    thread = threading.Thread(target=lambda: seen.append(serves(state)))
    thread.start()
    thread.join()
    assert seen == [True]
    state.close()


CRASH = """
import os, sys
from nbcache.daemon.state import State
state = State(sys.argv[1], 3)
number = 0
while True:
    number += 1
    state.put({"left": number, "right": number, "fill": "x" * 20000})
    print(number, flush=True)
"""


def test_sigkill_at_any_time_leaves_one_whole_state(path, tmp_path):
    last = 0
    for puts, pause in enumerate((0.0, 0.01, 0.02, 0.05), 1):
        with subprocess.Popen([sys.executable, "-c", CRASH, path], stdout=subprocess.PIPE, text=True) as process:
            for _ in range(puts):
                process.stdout.readline()
            threading.Event().wait(pause)
            process.kill()
        state = State(path, VERSION)
        assert state.problem is None
        assert state.get("left") == state.get("right")
        last = max(last, state.get("left") or 0)
        state.close()
    assert last > 0


def test_many_threads(path):
    state = State(path, VERSION)

    def work(number):
        for turn in range(20):
            state.put({f"t{number}": turn})
            assert state.get(f"t{number}") == turn

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [state.get(f"t{number}") for number in range(8)] == [19] * 8
    assert state.problem is None
    state.close()


def test_what_is_stored_is_json(made):
    db = sqlite3.connect(f"{made}/cache.db")
    rows = dict(db.execute("select key, value from Cache"))
    db.close()
    assert {name: json.loads(value) for name, value in rows.items()} == {"version": VERSION, "a": [1, 2.5, "x"]}


def test_a_link_that_is_changed_once_it_was_judged(tmp_path, monkeypatch):
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    link = tmp_path / "link"
    link.symlink_to("ours")
    judged = states.locks.filesystem_kind

    def swap(path):
        link.unlink(missing_ok=True)
        link.symlink_to("theirs")
        return judged(path)

    monkeypatch.setattr(states.locks, "filesystem_kind", swap)
    state = State(str(link), VERSION)
    assert serves(state) and state.problem is None
    state.close()
    assert (tmp_path / "ours/cache.db").exists()
    assert not os.listdir(tmp_path / "theirs")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_stranger_s_link_leads_to_no_state(place):
    """Where it leads to may be ours, and what is in it a stranger's: unpacked from an archive."""
    (place / "unpacked").mkdir()
    (place / "link").symlink_to("unpacked")
    os.chown(place / "link", 4321, 4321, follow_symlinks=False)
    state = State(str(place / "link"), VERSION)
    assert f"lies behind the link {place}/link, which is owned by uid 4321" in state.problem
    assert serves(state)
    state.close()
    assert not os.listdir(place / "unpacked")
