"""verify, gc and clear."""

import os

import pytest


def damage(path):
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))


def test_verify_finds_damage_and_removes_it_when_asked(filled, nbcache):
    filled.add("pkg:good")
    bad = filled.add("pkg:bad")
    damage(filled.path_of(bad))
    done = nbcache("verify", "--dir", filled.path)
    assert done.status == 1
    assert f"{bad.key[:12]}  damaged" in done.out
    assert "2 entries checked, 1 wrong" in done.out
    done = nbcache("verify", "--remove", "--dir", filled.path)
    assert done.status == 0
    assert "2 entries checked, 1 wrong, 1 removed" in done.out
    done = nbcache("verify", "--dir", filled.path)
    assert (done.status, done.out) == (0, "1 entries checked, 0 wrong\n")


def test_gc_evicts_the_least_recently_used(filled, nbcache):
    for number in range(10):
        filled.age(filled.add(f"pkg:f{number}", size=10_000), 1000 - number)
    done = nbcache("gc", "--max-size", "50kB", "--dry-run", "--dir", filled.path)
    assert "would be evicted" in done.out
    assert sum(1 for _ in filled.store.scan()) == 10
    done = nbcache("gc", "--max-size", "50kB", "--dir", filled.path)
    assert done.status == 0
    left = {info.header.function for info in filled.store.scan()}
    assert left
    assert left == {f"pkg:f{number}" for number in range(10 - len(left), 10)}
    assert sum(info.size for info in filled.store.scan()) <= 50_000


def test_gc_sweeps_leftovers(filled, nbcache):
    header = filled.add()
    leftover = os.path.join(os.path.dirname(filled.path_of(header)), ".x.tmp")
    with open(leftover, "w"):
        pass
    os.utime(leftover, (1, 1))
    assert "1 leftovers" in nbcache("gc", "--dir", filled.path).out
    assert not os.path.exists(leftover)


@pytest.mark.parametrize("text", ["", "lots", "-1", "1e400"])
def test_gc_of_a_size_that_is_none(filled, nbcache, text):
    filled.add()
    done = nbcache("gc", f"--max-size={text}", "--dir", filled.path)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("nbcache: --max-size: not a size")
    assert sum(1 for _ in filled.store.scan()) == 1


def test_clear_asks_first(filled, nbcache, process):
    filled.add()
    done = process("clear", "--dir", filled.path)
    assert (done.status, done.out) == (2, "")
    assert "pass --yes" in done.err
    assert nbcache("stats", "--dir", filled.path, "--json").json["entries"] == 1
    done = nbcache("clear", "--yes", "--dir", filled.path)
    assert done.status == 0
    assert done.out.startswith("1 entries removed")
    assert nbcache("stats", "--dir", filled.path, "--json").json["entries"] == 0


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_clear_heeds_the_answer(filled, nbcache, monkeypatch, answer, left):
    class Terminal:
        def isatty(self):
            return True

        def readline(self):
            return answer

    filled.add()
    monkeypatch.setattr("sys.stdin", Terminal())
    done = nbcache("clear", "--dir", filled.path)
    assert done.status == left
    assert sum(1 for _ in filled.store.scan()) == left


@pytest.mark.parametrize("command", ["verify --remove", "gc", "clear --yes"])
def test_a_read_only_store_is_not_changed(filled, nbcache, monkeypatch, command):
    filled.add()
    monkeypatch.setenv("NBCACHE_READONLY", "1")
    done = nbcache(*command.split(), "--dir", filled.path)
    assert (done.status, done.out) == (1, "")
    assert "NBCACHE_READONLY is set" in done.err
    assert sum(1 for _ in filled.store.scan()) == 1
