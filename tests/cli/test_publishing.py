"""names, unpublish and fetch."""

import os
import textwrap
import time
from types import SimpleNamespace

import pytest

from nbcache.cli import text
from nbcache.store import layout


@pytest.fixture
def published(filled):
    filled.header = filled.add("pkg:good")
    filled.store.names.write("pricing.good", b"1", [filled.header.key])
    filled.store.names.write("pricing.good", b"2", [filled.header.key], [filled.store.names.files.add(b"image")])
    filled.store.names.write("Other", b"3")
    return filled


def test_names_lists_what_is_published(published, nbcache, monkeypatch):
    created = min(each["created"] for each in nbcache("names", "--json", "--dir", published.path).json)
    # By a clock that stands still, however long it takes until they are listed.
    monkeypatch.setattr(text, "time", SimpleNamespace(time=lambda: created))
    done = nbcache("names", "--dir", published.path)
    assert done.status == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["NAME", "VERSION", "AGE", "ENTRIES", "FILES"],
        ["Other", "1", "now", "0", "0"],
        ["pricing.good", "2", "now", "1", "1"],
    ]
    done = nbcache("names", "pric", "--json", "--dir", published.path)
    (only,) = done.json
    assert only["name"] == "pricing.good" and only["versions"] == [1, 2] and only["entries"] == [published.header.key]
    assert abs(only["created"] - time.time()) < 600


def test_names_of_an_empty_store(filled, nbcache):
    done = nbcache("names", "--dir", filled.path)
    assert (done.status, done.out.split()) == (0, ["NAME", "VERSION", "AGE", "ENTRIES", "FILES"])


def test_names_says_which_can_not_be_used(published, nbcache):
    with open(f"{published.path}/{layout.NAMES}/!other.json", "w") as file:
        file.write("{}")
    done = nbcache("names", "--dir", published.path)
    assert done.status == 1
    assert "!other.json is damaged: publish it again" in done.out and "pricing.good" in done.out
    assert nbcache("names", "--json", "--dir", published.path).json[0]["problem"].endswith("publish it again")


def test_unpublish_takes_names_back(published, nbcache):
    done = nbcache("unpublish", "pricing.good", "Other", "--dir", published.path)
    assert (done.status, done.out) == (0, "pricing.good is not published any more\nOther is not published any more\n")
    assert published.store.names.known() == []
    nbcache("gc", "--max-size", "1B", "--dir", published.path)
    assert not published.store.exists(published.header.key)


@pytest.mark.parametrize("command", ["unpublish", "fetch"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pricing.goof", "nothing is published as pricing.goof in {}: did you mean pricing.good?"),
        ("zzz", "nothing is published as zzz in {}: `nbcache names` lists what is published"),
        ("../x", "not a name to publish under: '../x' (letters, digits, _ and -, in parts joined by dots"),
    ],
)
def test_a_name_that_is_none_or_not_there_is_one_line(published, nbcache, tmp_path, command, name, said):
    more = ["--to", tmp_path / "node"] if command == "fetch" else []
    done = nbcache(command, name, *more, "--dir", published.path)
    assert done.status == 1
    assert done.err.startswith(f"nbcache: {said.format(published.path)}") and done.err.count("\n") == 1


def test_fetch_makes_a_copy_that_is_complete(published, nbcache, tmp_path):
    node = tmp_path / "node"
    done = nbcache("fetch", "pricing.good", "--to", node, "--dir", published.path)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("pricing.good, version 2: ") and done.out.endswith(f" are in {node}\n")
    listed = nbcache("names", "--json", "--dir", node).json
    assert [each["name"] for each in listed] == ["pricing.good"]
    assert nbcache("verify", "--dir", node).out == "1 entries checked, 0 wrong\n"


def test_fetch_takes_the_user_s_own_store_when_none_is_named(published, nbcache):
    assert nbcache("fetch", "Other", "--dir", published.path).status == 0
    assert nbcache("names", "--json", "--dir", os.path.expanduser("~/.cache/nbcache")).json[0]["name"] == "Other"


def test_fetch_into_the_same_store_is_wrong_usage(published, nbcache):
    done = nbcache("fetch", "Other", "--to", published.path, "--dir", published.path)
    assert done.status == 2 and f"--to: not another store than {published.path}" in done.err


def test_fetch_into_what_is_no_store(published, nbcache, tmp_path):
    (tmp_path / "file").touch()
    done = nbcache("fetch", "Other", "--to", tmp_path / "file", "--dir", published.path)
    assert done.status == 1 and "is not a directory" in done.err


MODULE = """
from numba import njit, objmode

@njit
def twice(x):
    return 2 * x

@njit
def both(x):
    return x, x

@njit
def leaving(x):
    with objmode(y="float64"):
        y = x + 1
    return y

here = {"twice": twice, "both": both}
text = "text"
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_publish_show_and_load_by_name(module, process, tmp_path):
    store = tmp_path / "cache"
    done = process("publish", "pricing.twice", "mine:twice", "float64(float64)", "(int64,)", "--dir", store)
    assert (done.status, done.err) == (0, "")
    assert done.out == f"pricing.twice, version 1: published in {store}\n"
    done = process("show", "pricing.twice", "--dir", store)
    assert done.status == 0
    assert "1 (there are: 1)" in done.out and "njit twice(x): (float64) -> float64; (int64) -> int64" in done.out
    assert "mine:twice (float64)" in done.out
    shown = process("show", "pricing.twice", "--json", "--dir", store).json
    assert shown["problem"] is None and shown["manifest"]["functions"][""]["name"] == "twice"
    assert "1 published names" in process("stats", "--dir", store).out
    assert "what they refer to is not evicted" in process("doctor", "--dir", store).out


@pytest.mark.long
def test_publish_takes_a_dict_of_functions(module, process, tmp_path):
    done = process("publish", "mine", "mine:here", "(float64,)", "--dir", tmp_path / "cache")
    assert (done.status, done.err) == (0, "")
    out = process("show", "mine", "--dir", tmp_path / "cache").out
    assert "twice  njit twice(x): (float64)" in out and "both   njit both(x): (float64)" in out


@pytest.mark.long
def test_what_needs_numba_is_published_for_those_who_have_it(module, process, tmp_path):
    options = ["leaving", "mine:leaving", "(float64,)", "--dir", tmp_path / "cache"]
    done = process("publish", *options)
    assert done.status == 1 and "leaving can't be published: " in done.err and done.err.count("\n") == 1
    assert process("publish", *options, "--numba", "allow").status == 0
    assert "numba leaving: " in process("show", "leaving", "--dir", tmp_path / "cache").out


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["f", "mine"], 2, "not MODULE:FUNCTION: 'mine'"),
        (["f", "nowhere_at_all:f"], 1, "nowhere_at_all:f can't be imported: ModuleNotFoundError: No module named"),
        (["f", "mine:thrice"], 1, "mine:thrice can't be imported: AttributeError: module 'mine' has no attribute"),
        (["../f", "mine:twice", "(float64,)"], 1, "not a name to publish under: '../f'"),
        (["f", "mine:text"], 1, "can't be published: it is a str"),
        (["f", "mine:twice", "(nonsense,)"], 1, "mine:twice can't be compiled: "),
        (["f", "mine:twice", "(none,)"], 1, "mine:twice can't be compiled: TypingError: No implementation of function"),
    ],
)
def test_what_can_not_be_published_is_one_line(module, process, tmp_path, arguments, status, said):
    done = process("publish", *arguments, "--dir", tmp_path / "cache")
    assert done.status == status
    assert said in done.err and done.err.count("\n") == 1, done.err


def test_what_is_not_there_any_more_shows(published, nbcache):
    os.unlink(published.path_of(published.header))
    done = nbcache("show", "pricing.good", "--json", "--dir", published.path)
    assert done.status == 1
    assert done.json["problem"].startswith(f"its entry {published.header.key} is not in {published.path} (any more)")
    out = nbcache("doctor", "--dir", published.path).out
    assert "! published" in out and f"pricing.good: its entry {published.header.key}" in out
