"""Files that are saved: what of it is noticed, whose profiles are built then, and that the next run compiles nothing."""

from __future__ import annotations

import os
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from nbtest import daemons, proc, programs, usage
from storekit import open_store

from nbcache.daemon import saved_files, whose_turn
from nbcache.daemon.saved_files import Lookout, Saves
from nbcache.daemon.shared_parts import Options, Problems
from nbcache.protocol import profiles, requests, sources
from nbcache.protocol.profiles import Head, Profile, Unit
from nbcache.store import layout

NAME = "ab" * 16
COLD = {"NBTEST_COLD": "600"}
FUNCTIONS = "".join(
    f"@njit\ndef f{at}(x):\n    return x + {at}{f' + f{at - 1}(x)' if at % 5 else ''}\n" for at in range(10)
)
LIB = f"from numba import njit\n{FUNCTIONS}ALL = [{', '.join(f'f{at}' for at in range(10))}]\n"
EDITED = LIB.replace("x + 3 ", "x + 33 ")
"""One function is another one, and so is what calls it."""
AGAIN = f"{programs.FORBID}\nforbid()\n{programs.caller('lib')}"


def asked(**more):
    return requests.Request(
        key=layout.reserved("1"), kind=requests.PROFILE, function="profile:main.py", signature="",
        types={"uid": os.geteuid(), "package": "", "lane": 0}, source=NAME, value=None, modules=(), path=("/src",),
        interpreter="/python", settings={"NUMBA_X": "1"}, toolchain="", components=(), created=1.0, host="h", pid=1,
        **more,
    )  # fmt: skip


def unit(name, seconds):
    return Unit("dispatcher", f"lib:{name}", "()", {"version": 1}, (), None, "0" * 64, seconds)


def leave(store, files, lanes=2, name=NAME, since=1e10):
    """Leave a profile whose program has imported these files."""
    profile = Profile(Head("main.py", {}, "", 1.0), [unit("f", 5.0), unit("g", 5.0)])
    assert profiles.write(store.path, name, profile, sources.line(asked(), list(map(str, files)), lanes, since))


class Looked:
    """A user's files, and what was told of them."""

    def __init__(self, store, *places):
        self.told = []
        options = Options(watched=tuple(map(str, places)))
        commons = SimpleNamespace(store=store, heard=store.trust, options=options, problems=Problems())
        self.lookout = Lookout(commons, os.geteuid(), lambda found, paths: self.told.append((found, sorted(paths))))

    def look(self):
        """What is told next, file names alone."""
        self.told.clear()
        self.lookout.look()
        return [[os.path.basename(path) for path in paths] for _, paths in self.told]


@pytest.fixture
def store(place):
    return open_store(place / "store")


@pytest.fixture
def files(place):
    found = [place / f"{name}.py" for name in "abc"]
    for each in found:
        each.write_text("1")
    return found


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(saved_files, "SETTLE_SECONDS", 0.0)


def rename_over(path):
    path.with_suffix(".new").write_text("2")
    os.rename(path.with_suffix(".new"), path)


def rename_away(path):
    os.rename(path, path.with_suffix(".bak"))
    path.write_text("1")


@pytest.mark.parametrize(
    "save", [lambda path: path.write_text("other"), rename_over, rename_away, lambda path: path.unlink()],
    ids=["written", "renamed over", "renamed away", "removed"],
)  # fmt: skip
def test_however_a_file_is_saved_it_is_told_once(store, files, at_once, save):
    leave(store, files)
    looked = Looked(store)
    assert looked.look() == []
    save(files[0])
    assert looked.look() == [["a.py"]]
    assert looked.look() == []


def test_files_are_told_of_once_they_are_left_alone(store, files, monkeypatch):
    leave(store, files)
    looked = Looked(store)
    looked.look()
    monkeypatch.setattr(saved_files, "SETTLE_SECONDS", 600.0)
    for at, each in enumerate(files):
        each.write_text("x" * (at + 2))
        assert looked.look() == []
    monkeypatch.setattr(saved_files, "SETTLE_SECONDS", 0.0)
    assert looked.look() == [["a.py", "b.py", "c.py"]]
    assert looked.look() == []


def test_what_was_saved_while_nobody_looked_is_told(store, files, at_once):
    for at, each in enumerate(files):
        os.utime(each, (at, at))
    leave(store, files[:2], since=1.0)
    looked = Looked(store)
    assert looked.look() == [["b.py"]]
    # A run that writes its profile anew has imported what there was when it began.
    leave(store, files, since=2.0)
    assert looked.look() == [["c.py"]]
    leave(store, files, name="cd" * 16, since=2.0)
    assert looked.look() == [["c.py"]]
    assert looked.look() == []


def test_profiles_come_and_go(store, files, at_once):
    looked = Looked(store)
    assert looked.look() == []
    leave(store, files)
    leave(store, files[:1], name="cd" * 16)
    assert looked.look() == []
    for each in files:
        each.write_text("2222")
    assert sorted(looked.look()) == [["a.py"], ["a.py", "b.py", "c.py"]]
    profiles.remove(store.path, NAME, store.trust, os.geteuid())
    files[1].write_text("3")
    assert looked.look() == []


def test_directories_that_are_named_are_the_only_ones(store, place, at_once):
    (place / "in").mkdir()
    (place / "inside.py").write_text("1")
    (place / "in/x.py").write_text("1")
    leave(store, [place / "inside.py", place / "in/x.py"])
    looked = Looked(store, place / "in")
    looked.look()
    (place / "inside.py").write_text("22")
    assert looked.look() == []
    (place / "in/x.py").write_text("22")
    assert looked.look() == [["x.py"]]


def test_what_is_asked_for_is_the_profile_that_says_so_in_its_owners_name(store, files):
    forged = asked()._replace(source="cd" * 16, types={"uid": 12345, "package": "lib", "lane": 7})
    profile = Profile(Head("main.py", {}, "", 1.0), [unit("f", 5.0)])
    profiles.write(store.path, NAME, profile, sources.line(forged, [str(files[0])], 99, 1.0))
    [found] = sources.read(store.path, store.trust, os.geteuid(), {}).values()
    lanes = found.lanes(3)
    assert [(each.uid, each.source) for each in lanes] == [(os.geteuid(), NAME)] * 3
    assert [each.types for each in lanes] == [{"uid": os.geteuid(), "package": "", "lane": at} for at in range(3)]
    assert len({each.key for each in lanes} - {forged.key}) == 3
    assert (lanes[0].path, lanes[0].settings) == (forged.path, forged.settings)
    assert len(found.lanes(1000)) == profiles.MAX_LANES
    assert sources.read(store.path, store.trust, 12345, {}) == {}


@pytest.mark.parametrize(
    "said", [b"{}", b"[]", b"", b"{" * 1000, b'{"request":{},"files":[],"lanes":1,"since":1}', b'{"files":["\\u0000"]}']
)  # fmt: skip
def test_a_profile_that_says_nothing_of_use_is_one_all_the_same(store, said):
    profile = Profile(Head("main.py", {}, "", 1.0), [unit("f", 5.0)])
    profiles.write(store.path, NAME, profile, said)
    assert sources.read(store.path, store.trust, os.geteuid(), {}) == {}
    assert profiles.read(store.path, NAME, store.trust).units


def test_a_line_is_of_a_size_whatever_was_imported(store):
    long = [f"/{'x' * 1000}/{number}.py" for number in range(2000)]
    said = sources.line(asked(), long, 1, 1.0)
    assert len(said) <= sources.MAX_LINE
    assert sources.line(asked()._replace(path=tuple(long)), [], 1, 1.0) == profiles.NO_SOURCES


class Daemon:
    """The part of a daemon that begins lanes."""

    def __init__(self, store, watched=()):
        self.said = []
        self.commons = SimpleNamespace(
            store=store, heard=store.trust, options=Options(watched=watched, told=self.said.append),
            problems=Problems(), jobs=whose_turn.Jobs(), workers=2,
        )  # fmt: skip
        self.saves = Saves(self.commons, lambda: None)
        self.saves._lookouts = dict.fromkeys(store.trust.uids)

    def save(self, found, *paths):
        self.saves._tell(found, list(paths))
        self.saves.turn()

    def run(self):
        """Have all lanes run, and return them."""
        jobs = list(self.commons.jobs.values())
        for each in jobs:
            each.future = each.future or Future()
        return jobs


@pytest.fixture
def found(store, files):
    leave(store, files)
    return sources.read(store.path, store.trust, os.geteuid(), {})[NAME]


def test_lanes_of_what_is_saved_give_way_and_are_told_of_once_they_are_over(store, found):
    daemon = Daemon(store)
    daemon.save(found, "/a.py", "/b.py", "/c.py", "/d.py")
    lanes = daemon.run()
    assert [each.uid for each in lanes] == [os.geteuid()] * 2
    assert all(each.unasked and not whose_turn.is_fresh(each) for each in lanes)
    assert daemon.commons.jobs.awaited == 0
    assert daemon.said == ["saved: /a.py, /b.py, /c.py and 1 more; building for main.py"]
    lanes[0].built, lanes[1].built, lanes[1].left = 3, 4, 2
    daemon.commons.jobs.over(lanes[0])
    daemon.saves.turn()
    assert len(daemon.said) == 1
    daemon.commons.jobs.over(lanes[1])
    daemon.saves.turn()
    assert daemon.said[1].startswith("ready: 7 functions built for main.py in ")
    assert daemon.said[1].endswith("; 2 can't be built")


def test_what_was_superseded_is_given_up_and_what_superseded_it_waits_for_its_end(store, found):
    daemon = Daemon(store)
    daemon.save(found, "/a.py")
    first = daemon.run()
    for _ in range(3):
        daemon.save(found, "/a.py")
    assert all(each.superseded for each in first)
    assert list(daemon.commons.jobs.values()) == first
    for each in first:
        each.future = None  # it would go on
    daemon.saves.turn()
    second = daemon.run()
    assert len(second) == 2
    assert not any(each in first or each.superseded for each in second)
    for each in second:
        daemon.commons.jobs.over(each)
    daemon.saves.turn()
    assert [line.partition(":")[0] for line in daemon.said] == ["saved"] * 4 + ["ready"]


def test_a_daemon_that_was_not_told_to_looks_at_nothing(store):
    daemon = Daemon(store, watched=None)
    daemon.saves._lookouts.clear()
    daemon.saves.turn()
    assert daemon.saves._lookouts == {}


# -- real daemons, and programs that may not compile -------------------------------------------


@pytest.fixture
def lib(place):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text(programs.caller("lib"))
    return place / "lib.py"


def first_run(place):
    done = proc.run([place / "main.py"], place / "store", {**COLD, "SECRET_OF_MINE": "hunter2"})
    assert done.status == 0, done.stderr
    [path] = (place / "store/v1/profiles").glob("*/*.jsonl")
    assert b"hunter2" not in path.read_bytes()


def runs_without_compiling(place, expected):
    (place / "main.py").write_text(AGAIN)
    done = proc.run([place / "main.py"], place / "store")
    assert done.said == expected.said, done.stderr


def ready(daemon, count):
    daemons.wait_for(lambda: daemon.log.count(" ready: ") >= count, lambda: daemon.log)


def test_what_is_saved_is_built_and_the_next_run_compiles_nothing(lib, place):
    first_run(place)
    with daemons.daemon(place / "store", "--watch", "--workers", "2") as daemon:
        lib.write_text(EDITED)
        ready(daemon, 1)
        assert daemon.stop() == 0
        assert f"saved: {lib}; building for " in daemon.log
    expected = proc.run([place / "main.py"])
    assert "f4 " in expected.stdout
    runs_without_compiling(place, expected)
    assert usage.read(place / "store").built_twice == {}


@pytest.mark.long
def test_a_daemon_that_does_not_watch_builds_nothing(lib, place):
    first_run(place)
    with daemons.daemon(place / "store", "--workers", "1") as daemon:
        before = len(list((place / "store/v1/objects").glob("*/*.nbo")))
        lib.write_text(EDITED)
        beat = daemon.heartbeat()["beat"]
        daemons.wait_for(lambda: daemon.heartbeat().get("beat", beat) > beat + 2 * saved_files.LOOK_SECONDS)
        assert daemon.stop() == 0
        assert "saved" not in daemon.log
    assert len(list((place / "store/v1/objects").glob("*/*.nbo"))) == before


@pytest.mark.long
def test_a_syntax_error_for_a_moment_is_none_in_the_end(lib, place):
    first_run(place)
    with daemons.daemon(place / "store", "--watch", "--workers", "1") as daemon:
        lib.write_text(EDITED + "def broken(:\n")
        ready(daemon, 1)
        assert "; 10 can't be built" in daemon.log
        rename = lib.with_suffix(".swp")
        rename.write_text(EDITED)
        os.rename(rename, lib)
        ready(daemon, 2)
    runs_without_compiling(place, proc.run([place / "main.py"]))


@pytest.mark.long
def test_a_branch_that_is_switched_is_built_once_and_only_what_is_there_in_the_end(place):
    """A hundred modules, of which each run of the program needs all."""
    (place / "package").mkdir()
    names = [f"m{number}" for number in range(100)]

    def switch(branch):
        for number, name in enumerate(names):
            (place / f"package/{name}.py").write_text(
                f"from numba import njit\n@njit\ndef f(x):\n    return x * {number + branch}\n"
            )

    switch(0)
    (place / "lib.py").write_text(
        f"from package import {', '.join(names)}\nALL = [{', '.join(f'{each}.f' for each in names[:6])}]\n"
    )
    (place / "main.py").write_text(programs.caller("lib"))
    first_run(place)
    with daemons.daemon(place / "store", "--watch", "--workers", "2") as daemon:
        for branch in (1000, 2000, 3000):
            switch(branch)
        daemons.wait_for(lambda: " saved: " in daemon.log and _is_quiet(daemon), lambda: daemon.log)
        assert daemon.stop() == 0
    runs_without_compiling(place, proc.run([place / "main.py"]))
    assert usage.read(place / "store").built_twice == {}


def _is_quiet(daemon):
    """Whether nothing is being built, nor will be."""
    log, built = daemon.log, daemon.heartbeat()
    last = max(log.rfind(" saved: "), log.rfind(" ready: "))
    return log[last:].startswith(" ready: ") and built.get("busy") == 0


@pytest.mark.long
def test_a_hundred_saves_of_one_file_lead_to_what_was_saved_last(lib, place):
    first_run(place)
    with daemons.daemon(place / "store", "--watch", "--workers", "2") as daemon:
        for number in range(100):
            lib.write_text(EDITED.replace("x + 33 ", f"x + {1000 + number} "))
        daemon.says(" saved: ")
        lib.write_text(EDITED)
        daemons.wait_for(lambda: daemon.log.count(" saved: ") >= 2 and _is_quiet(daemon), lambda: daemon.log)
    runs_without_compiling(place, proc.run([place / "main.py"]))
