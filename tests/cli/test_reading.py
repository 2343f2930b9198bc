"""stats, ls and show: what they print of a store, and that they change nothing."""

import json
import os
import shutil

import pytest


def snapshot(path):
    """Every name below a folder with its size and modification time."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = (status.st_size, status.st_mtime_ns)
    return found


def test_stats_sums_up_records_and_entries(filled, nbcache):
    one = filled.add()
    filled.record(hits={one.key: 3}, saved_seconds=4.5, misses={"absent": 1})
    filled.record(
        misses={"absent": 1, "damaged": 1},
        uncacheable={"a ctypes pointer": {"count": 2, "functions": ["pkg:h"]}},
        errors={"unpickle": 1},
        builds=[{"key": one.key, "function": one.function, "seconds": 0.5}],
        built_seconds=0.5,
        published=1,
    )
    done = nbcache("stats", "--dir", filled.path)
    assert done.status == 0
    assert f"{filled.path}: 1 entries" in done.out
    rows = {line.split("  ")[0].strip() or line.split("  ")[1]: line for line in done.out.splitlines()[1:]}
    for name, number in [("hits", "3"), ("misses", "3"), ("absent", "2"), ("errors", "1"), ("processes", "2")]:
        assert number in rows[name].split()
    assert "50.0% of look-ups" in done.out
    assert "4.5 s" in rows["compilation saved"]
    assert "such as pkg:h" in done.out

    told = nbcache("stats", "--dir", filled.path, "--json").json
    assert (told["hits"], told["missed"], told["entries"], told["saved_seconds"]) == (3, 3, 1, 4.5)
    assert told["misses"] == {"absent": 2, "damaged": 1}
    assert told["uncacheable"]["a ctypes pointer"]["count"] == 2


def test_stats_of_an_unused_store(filled, nbcache):
    done = nbcache("stats", "--dir", filled.path)
    assert done.status == 0
    assert "none has used it yet" in done.out


def test_ls_shows_each_entry_and_filters(filled, nbcache):
    filled.add("pkg:alpha", created=1.0)
    filled.add("pkg:beta", kind="ufunc")
    done = nbcache("ls", "--dir", filled.path)
    assert done.status == 0
    assert done.out.splitlines()[0].split() == ["KEY", "KIND", "CPU", "SIZE", "AGE", "USED", "FUNCTION", "SIGNATURE"]
    assert "pkg:alpha" in done.out
    assert "pkg:beta" in done.out
    assert "pkg:alpha" not in nbcache("ls", "--dir", filled.path, "beta").out
    assert [row["function"] for row in nbcache("ls", "--dir", filled.path, "ufunc", "--json").json] == ["pkg:beta"]


def test_ls_has_the_most_recently_used_last(filled, nbcache):
    first, second = filled.add("pkg:first"), filled.add("pkg:second")
    filled.age(first, 1000)
    filled.age(second, 2000)
    order = [row["function"] for row in nbcache("ls", "--dir", filled.path, "--json").json]
    assert order == ["pkg:second", "pkg:first"]
    filled.record(hits={second.key: 1})
    order = [row["function"] for row in nbcache("ls", "--dir", filled.path, "--json").json]
    assert order == ["pkg:first", "pkg:second"]


def test_ls_shows_a_damaged_entry_as_such(filled, nbcache):
    header = filled.add()
    with open(filled.path_of(header), "r+b") as file:
        file.truncate(40)
    done = nbcache("ls", "--dir", filled.path)
    assert done.status == 0
    assert "(damaged or of another version)" in done.out


def test_names_with_control_characters_cannot_reach_the_terminal(filled, nbcache):
    header = filled.add("pkg:\x1b]0;owned\x07f", components=[("global f: x", "\x1b[2J")])
    for command in (["ls"], ["show", header.key], ["why", header.function]):
        assert "\x1b" not in nbcache(*command, "--dir", filled.path).out


def test_show_takes_a_unique_beginning(filled, nbcache):
    header = filled.add(components=[("global pkg.mod:f: K", "3")])
    done = nbcache("show", header.key[:7], "--dir", filled.path)
    assert done.status == 0
    for part in (header.key, "pkg.mod:f", "(int64,)", "numba 0.68.1", "250 ms", "global pkg.mod:f: K", "object"):
        assert part in done.out
    (told,) = nbcache("show", header.key, "--dir", filled.path, "--json").json["entries"]
    assert told["components"]["global pkg.mod:f: K"] == "3"
    assert told["sections"]["object"] == 100


def test_show_lists_variants_and_says_what_is_not_used(filled, nbcache):
    header = filled.add(guard="one")
    filled.add(guard="two")
    told = nbcache("show", header.key, "--dir", filled.path, "--json").json
    assert sorted(entry["guard"] for entry in told["entries"]) == ["one", "two"]
    with open(told["entries"][0]["path"], "r+b") as file:
        file.write(b"garbage!")
    done = nbcache("show", header.key, "--dir", filled.path)
    assert done.status == 1
    assert "not used: damaged" in done.out


@pytest.mark.parametrize(
    ("key", "status", "said"), [("xyz", 2, "hexadecimal"), ("", 2, "hexadecimal"), ("0" * 64, 1, "no entry")]
)
def test_show_of_what_is_not_there(filled, nbcache, key, status, said):
    filled.add()
    done = nbcache("show", key, "--dir", filled.path)
    assert done.status == status
    assert said in done.err
    assert done.err.count("\n") == 1


def test_show_of_an_ambiguous_beginning(filled, nbcache):
    keys = [filled.add(f"pkg:f{number}").key for number in range(40)]
    shared = next(key[:1] for key in keys if sum(other[:1] == key[:1] for other in keys) > 1)
    done = nbcache("show", shared, "--dir", filled.path)
    assert done.status == 1
    assert f"keys begin with {shared}" in done.err


@pytest.mark.parametrize("command", ["stats", "ls", "verify", "doctor", "why f", "gc --dry-run", "config"])
def test_reading_changes_nothing(filled, nbcache, command):
    filled.add()
    filled.record(misses={"absent": 1})
    before = snapshot(filled.path)
    nbcache(*command.split(), "--dir", filled.path)
    assert snapshot(filled.path) == before


@pytest.mark.parametrize("command", ["stats", "ls", "show ab", "why f", "verify", "gc", "clear --yes"])
def test_without_a_directory_the_command_says_what_to_do(nbcache, command):
    done = nbcache(*command.split())
    assert (done.status, done.out) == (1, "")
    assert done.err == "nbcache: no cache directory: set NBCACHE_DIR or pass --dir DIR\n"


@pytest.mark.parametrize("command", ["stats", "ls", "show ab", "why f", "verify", "gc", "clear --yes"])
def test_a_directory_without_a_store_is_left_alone(nbcache, tmp_path, command):
    (tmp_path / "precious").mkdir()
    for name in ("precious", "absent"):
        done = nbcache(*command.split(), "--dir", tmp_path / name)
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith(f"nbcache: no cache in {tmp_path / name} yet")
    assert os.listdir(tmp_path / "precious") == []
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("command", ["stats", "ls", "verify"])
def test_a_file_and_an_untrusted_directory_are_refused_in_one_line(filled, nbcache, tmp_path, command):
    (tmp_path / "file").write_text("")
    done = nbcache(command, "--dir", tmp_path / "file")
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert "is not a directory" in done.err
    os.chmod(filled.path, 0o777)
    done = nbcache(command, "--dir", filled.path)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert "writable by others" in done.err


def test_the_directory_comes_from_the_environment_and_then_from_the_cache_folder(
    filled, nbcache, monkeypatch, tmp_path
):
    filled.add()
    monkeypatch.setenv("NBCACHE_DIR", filled.path)
    assert nbcache("stats", "--json").json["entries"] == 1
    monkeypatch.delenv("NBCACHE_DIR")
    shutil.copytree(filled.path, tmp_path / "home" / ".cache" / "nbcache")
    told = nbcache("stats", "--json").json
    assert (told["dir"], told["entries"]) == (str(tmp_path / "home" / ".cache" / "nbcache"), 1)


def test_components_that_are_not_json_are_not_shown(filled, nbcache):
    header = filled.add()
    assert json.loads(nbcache("show", header.key, "--dir", filled.path, "--json").out)["entries"]
