"""Names with an age: there until it is over, and then given up by whoever evicts; files of names count."""

import contextlib
import os

import pytest
from storekit import SECTIONS, header, key, open_store

from nbcache import process
from nbcache.cli import doctor
from nbcache.cli.main import main
from nbcache.client import publications
from nbcache.errors import PublicationError
from nbcache.store import layout, pins

MANIFEST = b"{}"
HOUR = 3600.0


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "cache", max_size=1)
    for number in range(4):
        store.publish(header(number), SECTIONS, durable=False)
    store.names.write("queries.b", MANIFEST, [key(0)], expires=2 * HOUR)
    store.names.write("queries.a", MANIFEST, [key(1)], expires=HOUR)
    store.names.write("kept", MANIFEST, [key(2)])
    return store


@pytest.fixture
def later(monkeypatch):
    """Sets the clock forward."""

    def at(seconds):
        now = process.time.time()
        monkeypatch.setattr(pins.time, "time", lambda: now + seconds)

    return at


def left(store):
    return [number for number in range(4) if store.exists(key(number))]


def test_a_name_is_there_and_pins_until_its_age_is_over(store, later):
    store.gc()
    assert left(store) == [0, 1, 2]
    later(1.5 * HOUR)
    # Nobody has looked.
    assert store.names.read("queries.a").entries == (key(1),)
    store.gc(dry_run=True)
    assert store.names.known() == ["kept", "queries.a", "queries.b"]
    store.gc()
    assert store.names.known() == ["kept", "queries.b"] and left(store) == [0, 2]
    later(1000 * HOUR)
    store.gc()
    assert store.names.known() == ["kept"] and left(store) == [2]


@pytest.mark.parametrize("evict", [lambda store: store.clear(), lambda store: store.gc()], ids=["clear", "gc"])
def test_whoever_evicts_gives_them_up(store, later, evict):
    later(1.5 * HOUR)
    evict(store)
    assert "queries.a" not in store.names.known()


def test_who_collects_is_told_how_many_there_are(store, later, capsys):
    words = "1 versions of published names"
    assert main(["gc", "--dir", store.path]) == 0
    assert words not in capsys.readouterr().out
    later(1.5 * HOUR)
    assert main(["gc", "--dry-run", "--dir", store.path]) == 0
    assert f"{words} would be given up: they expired\n" in capsys.readouterr().out
    assert main(["gc", "--dir", store.path]) == 0
    assert f"{words} given up: they expired\n" in capsys.readouterr().out
    assert store.names.known() == ["kept", "queries.b"]


def test_the_oldest_go_first(store, later):
    later(1000 * HOUR)
    assert pins.read(store.path, store.trust).expired == ("queries.a.json", "queries.b.json")
    with pins.held(store.lease, store.path, store.trust, deadline=0.0) as pinned:
        assert pinned.problem is not None
    assert len(store.names.known()) == 3


def test_its_older_versions_go_with_a_name_and_alone_when_they_expired(store, later):
    store.names.write("queries.a", MANIFEST, [key(3)], expires=3 * HOUR)
    later(1.5 * HOUR)
    store.gc()
    assert store.names.versions("queries.a") == [2] and 1 not in left(store)
    store.names.write("queries.b", MANIFEST, [key(2)])
    later(2.5 * HOUR)
    store.gc()
    assert store.names.versions("queries.b") == [2]
    later(1000 * HOUR)
    store.gc()
    assert store.names.known() == ["kept", "queries.b"]


def test_a_version_that_has_not_expired_is_the_newest_when_a_newer_one_is_given_up(store, later):
    store.names.write("kept", MANIFEST, [key(3)], expires=3 * HOUR)
    store.names.write("kept", MANIFEST, [key(1)], expires=HOUR)
    later(1.5 * HOUR)
    store.gc()
    found = store.names.read("kept")
    assert (found.version, found.entries, store.names.versions("kept")) == (2, (key(3),), [1, 2])
    later(1000 * HOUR)
    store.gc()
    found = store.names.read("kept")
    assert (found.version, found.entries, store.names.versions("kept")) == (1, (key(2),), [1])
    assert left(store) == [2]


def test_all_versions_that_expired_go_at_once_in_whatever_order_they_did(store, later):
    store.names.write("queries.b", MANIFEST, [key(3)], expires=HOUR)
    later(1000 * HOUR)
    store.gc()
    assert store.names.known() == ["kept"]
    assert os.listdir(f"{store.path}/{layout.NAMES}") == ["kept.json"]


def test_what_is_damaged_is_not_taken_for_expired(store, later):
    path = f"{store.path}/{layout.NAMES}/kept.json"
    store.names.write("kept", MANIFEST, [key(2)], expires=10 * HOUR)
    with open(path, "r+b") as file:
        data = file.read()
        at = data.index(b'"expires":') + len(b'"expires":')
        file.seek(at + 1)
        file.write(b"0")
    later(0.5 * HOUR)
    store.gc()
    assert "kept" in store.names.known() and left(store) == [0, 1, 2]


def test_what_was_published_again_meanwhile_stays(store, later, monkeypatch):
    later(1.5 * HOUR)
    read = pins.read

    def and_another_host_publishes(*args):
        found = read(*args)
        store.names.write("queries.a", MANIFEST)
        return found

    monkeypatch.setattr(pins, "read", and_another_host_publishes)
    # Where no lease can be had.
    with pins.held(lambda _key: contextlib.nullcontext(), store.path, store.trust):
        pass
    assert store.names.read("queries.a").expires is None


@pytest.mark.parametrize("expires", [True, "3600", float("nan"), 0, -1.0, 10**400, [1]], ids=repr)
def test_what_is_no_number_of_seconds_is_no_age(expires):
    with pytest.raises(PublicationError, match="is no number of seconds above 0"):
        publications.publish("name", None, None, numba="forbid", expires=expires)


def test_publishing_it_again_makes_it_younger(store, later):
    store.names.write("queries.a", MANIFEST, [key(1)], expires=9 * HOUR)
    later(3 * HOUR)
    store.gc()
    assert store.names.known() == ["kept", "queries.a"] and left(store) == [1, 2]


def test_files_of_names_count_and_those_of_nobody_do_not(tmp_path):
    store = open_store(tmp_path / "other")
    entry = store.publish(header(0), SECTIONS, durable=False)
    size = os.path.getsize(entry.path)
    digest = store.names.files.add(bytes(10_000))
    store.names.files.add(b"1" * 10_000)
    assert store.gc(size + 5000).remove == ()
    store.names.write("named", MANIFEST, [], [digest])
    plan = store.gc(size + 5000)
    assert [each.path for each in plan.remove] == [entry.path] and plan.total == size + 10_000


def test_a_program_that_ends_counts_them_as_well(tmp_path):
    store = open_store(tmp_path / "other", max_size=20_000)
    store.publish(header(0), SECTIONS, durable=False)
    store.names.write("named", MANIFEST, [], [store.names.files.add(bytes(30_000))])
    store.tidy(30.0)
    os.utime(f"{store.path}/{layout.STAMP}", (1, 1))
    assert store.tidy(30.0)
    assert not store.exists(key(0))


def test_doctor_says_when_they_fill_the_store(tmp_path):
    store = open_store(tmp_path / "other")
    store.names.write("named", MANIFEST, [], [store.names.files.add(bytes(10_000))])
    (fine,) = doctor.check_names(store, list(store.scan()), 1_000_000)
    (full,) = doctor.check_names(store, list(store.scan()), 15_000)
    assert (fine.level, full.level) == ("ok", "remark")
    assert "1 name, 9.8 KiB" in full.value and "expires=" in full.advice


@pytest.mark.parametrize(
    ("words", "there"),
    [
        (["queries.*"], ["kept"]),
        (["queries.*", "--older-than", "1d"], ["kept", "queries.a", "queries.b"]),
        (["*", "--older-than", "0s"], []),
        (["kept", "--older-than", "0.0h"], ["queries.a", "queries.b"]),
        (["nothing.*"], ["kept", "queries.a", "queries.b"]),
    ],
    ids=" ".join,
)
def test_patterns_and_ages_are_taken_back_on_the_command_line(store, words, there, capsys):
    assert main(["unpublish", *words, "--dir", store.path]) == 0
    assert store.names.known() == there
    assert len(capsys.readouterr().out.splitlines()) == 3 - len(there)


def test_what_can_not_be_read_is_of_no_age_and_stays(store, capsys):
    path = f"{store.path}/{layout.NAMES}/queries.a.json"
    with open(path, "r+b") as file:
        file.write(b'{"nbcache-name":2')
    assert main(["unpublish", "*", "--older-than", "0s", "--dir", store.path]) == 0
    assert store.names.known() == ["queries.a"]
    (line,) = capsys.readouterr().err.splitlines()
    assert "queries.a" in line and "nobody knows how old it is" in line


def test_an_age_that_is_none_is_said(store, capsys):
    assert main(["unpublish", "kept", "--older-than", "soon", "--dir", store.path]) == 2
    assert "not a duration: 'soon' (such as 90s, 15m, 12h or 1d)" in capsys.readouterr().err
    assert "kept" in store.names.known()


def test_names_are_listed_with_what_is_left_of_them(store, capsys):
    assert main(["names", "queries.a", "--dir", store.path]) == 0
    assert "expires in 60 min" in capsys.readouterr().out
