"""Bad input, and what it gets: plain Numba's output, exit status 0, one clear line, never a traceback."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from nbtest import disks, proc, usage

from nbcache.store import usage as records

PROGRAM = """
import os, shutil
from numba import njit, vectorize
import numpy as np

@njit
def scale(x):
    return x * 3 + 1

@njit
def total(a):
    s = 0.0
    for v in a:
        s += scale(v)
    return s

@vectorize
def halve(x):
    return x / 2

print(scale(2))
{between}
print(total(np.arange(5.0)), halve(np.arange(3.0)))
print(scale(2.5))
"""
OTHER_UID = 12345


def write(place: Path, between: str = "") -> Path:
    """Write the program, with a statement between its first and its later calls."""
    main = place / "main.py"
    main.write_text(PROGRAM.format(between=between))
    return main


@functools.cache
def without_nbcache(text: str) -> proc.Outcome:
    """Return what a program says without nbcache; it says the same wherever it lies."""
    with tempfile.TemporaryDirectory() as folder:
        main = Path(folder) / "main.py"
        main.write_text(text)
        plain = proc.run([main])
    assert plain.status == 0, plain.stderr
    return plain


def check(
    main: Path,
    store: Path | str,
    *,
    lines: int = 1,
    says: str | None = None,
    **how: object,
) -> proc.Outcome:
    """Assert that the program says what plain Numba says, with at most ``lines`` lines more on stderr.

    ``says``: what must stand in the first of them; without it, silence is accepted too. ``how``: as for ``proc.run``.
    """
    plain = without_nbcache(Path(main).read_text())
    outcome = proc.run([main], store, **how)
    assert outcome.said == plain.said, outcome.stderr
    more = [line for line in outcome.stderr.splitlines() if line not in plain.stderr.splitlines()]
    assert "Traceback" not in outcome.stderr
    assert len(more) <= lines, outcome.stderr
    if says is not None:
        assert more, f"not a word about {says}"
        assert says in more[0], outcome.stderr
    return outcome


def entries(store: Path) -> list[Path]:
    """Return all entry files."""
    return sorted(store.glob("v1/objects/**/*.nbo"))


def fill(main: Path, store: Path) -> None:
    """Run once; assert that the store has entries and the next run builds nothing."""
    check(main, store, lines=0)
    before = usage.read(store)
    assert before.builds
    check(main, store, lines=0)
    assert not usage.read(store).since(before).builds
    assert entries(store)


class TestDirectory:
    """NBCACHE_DIR itself."""

    def test_is_a_file(self, place):
        target = place / "store"
        target.write_text("not a directory")
        check(write(place), target, says=str(target))
        assert target.read_text() == "not a directory"

    @pytest.mark.long
    def test_not_creatable(self, place):
        check(write(place), "/proc/nowhere/store", says="/proc/nowhere/store")

    @pytest.mark.long
    def test_not_creatable_by_this_user(self, place, nobody):
        check(write(place), place / "store", **nobody, says=str(place / "store"))

    def test_not_writable_and_empty(self, place, nobody):
        (place / "store").mkdir(mode=0o755)
        check(write(place), place / "store", **nobody)

    def test_not_writable_and_full_is_used(self, place, nobody):
        main, store, events = write(place), place / "store", place / "events"
        check(main, store, lines=0, python=nobody["python"], extra=nobody["extra"])
        events.touch()
        events.chmod(0o666)
        nobody["extra"]["NBTEST_EVENTS"] = str(events)
        check(main, store, **nobody)
        assert '"functions": []' in events.read_text()

    def test_owned_by_someone_else(self, place, filled, as_root):
        shutil.copytree(filled / "store", place / "store")
        main, store = write(place), place / "store"
        for path in [store, *store.rglob("*")]:
            os.chown(path, OTHER_UID, OTHER_UID)
        before = usage.read(store)
        check(main, store, says=str(store))
        assert not usage.read(store).since(before).hits

    def test_writable_by_others(self, place, filled):
        shutil.copytree(filled / "store", place / "store")
        main, store = write(place), place / "store"
        store.chmod(0o777)
        before = usage.read(store)
        outcome = check(main, store, says=str(store))
        assert "chmod" in outcome.stderr or "writable" in outcome.stderr
        assert not usage.read(store).since(before).hits

    @pytest.mark.long
    def test_objects_writable_by_others(self, place, filled):
        shutil.copytree(filled / "store", place / "store")
        main, store = write(place), place / "store"
        (store / "v1" / "objects").chmod(0o777)
        before = usage.read(store)
        check(main, store)
        assert not usage.read(store).since(before).hits

    @pytest.mark.long
    def test_deleted_while_running(self, place):
        main, store = (
            write(place, "shutil.rmtree(os.environ.get('NBCACHE_DIR', '/nowhere'), ignore_errors=True)"),
            place / "store",
        )
        check(main, store)
        check(main, store)

    @pytest.mark.long
    def test_replaced_by_a_file_while_running(self, place):
        between = "d = os.environ.get('NBCACHE_DIR')\nif d:\n    shutil.rmtree(d)\n    open(d, 'w').close()"
        check(write(place, between), place / "store")

    @pytest.mark.long
    def test_relative_path_and_a_change_of_directory(self, place):
        (place / "elsewhere").mkdir()
        main = write(place, f"os.chdir({str(place / 'elsewhere')!r})")
        plain = proc.run([main], cwd=place)
        for _ in range(2):
            assert proc.run([main], "store", cwd=place).said == plain.said
        assert entries(place / "store")
        assert not (place / "elsewhere" / "store").exists()

    @pytest.mark.long
    def test_odd_names(self, place):
        fill(write(place), place / "a b 'c' \u00e9 %s {} \\n")

    @pytest.mark.every(3)
    @pytest.mark.parametrize("size", ["8k", "64k", "96k"])
    def test_full_disk(self, place, as_root, size):
        with disks.small_disk(place / "disk", size) as disk:
            for _ in range(3):
                check(write(place), disk / "store")
            left = [path for path in disk.rglob("*") if path.is_file() and ".tmp" in path.name]
            assert not left


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path, part: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(part * (len(data) - 1))] ^= 0x10
    replace(path, bytes(data))


def replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)
    path.chmod(0o644)


def version(path: Path) -> None:
    """The format version stands right after the magic; the first bytes are all that a reader of another version knows."""
    data = path.read_bytes()
    replace(path, data[:4] + bytes([data[4] ^ 0x7F, *data[5:8]]) + data[8:])


def foreign(path: Path) -> None:
    """Code of another function under this name."""
    other = next(candidate for candidate in entries(path.parents[3]) if candidate != path and candidate.is_file())
    replace(path, other.read_bytes())


def link(path: Path) -> None:
    moved = path.with_suffix(".moved")
    path.rename(moved)
    path.symlink_to(moved)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def enormous(path: Path) -> None:
    os.truncate(path, 20 << 30)


def enormous_zeros(path: Path) -> None:
    replace(path, b"")
    os.truncate(path, 20 << 30)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = {
    "truncated": truncate,
    "emptied": empty,
    "flipped in its head": lambda path: flip(path, 0.01),
    "flipped early": lambda path: flip(path, 0.15),
    "flipped in the middle": lambda path: flip(path, 0.5),
    "flipped near the end": lambda path: flip(path, 0.9),
    "flipped at the end": lambda path: flip(path, 1.0),
    "other version": version,
    "other key": foreign,
    "symlink": link,
    "fifo": fifo,
    "enormous": enormous,
    "enormous zeros": enormous_zeros,
    "a folder": folder,
}


TWINS = {"flipped early", "flipped near the end", "flipped at the end", "enormous zeros", "emptied"}
"""Those that the longer suite has beside their like."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A program and its store, to be copied and damaged."""
    base = tmp_path_factory.mktemp("filled")
    main = write(base)
    fill(main, base / "store")
    return base


class TestEntries:
    """Files in the store. The program says what it should, and the store heals."""

    @pytest.mark.every(12)
    @pytest.mark.parametrize(
        "name", [pytest.param(name, marks=[pytest.mark.long] if name in TWINS else []) for name in DAMAGE]
    )
    def test_damaged(self, place, filled, name):
        shutil.copytree(filled / "store", place / "store")
        main, store = shutil.copy(filled / "main.py", place), place / "store"
        damaged = entries(store)
        for path in damaged:
            DAMAGE[name](path)
        check(main, store, lines=len(damaged))
        check(main, store, lines=len(damaged))
        if name not in {"a folder", "symlink", "fifo"}:
            before = usage.read(store)
            check(main, store, lines=len(damaged))
            assert not usage.read(store).since(before).builds, "the store did not heal"

    @pytest.mark.every(3)
    def test_unreadable(self, place, filled, nobody):
        shutil.copytree(filled / "store", place / "store")
        main, store = shutil.copy(filled / "main.py", place), place / "store"
        for path in entries(store):
            path.chmod(0)
        check(main, store, lines=len(entries(store)), **nobody)

    def test_owned_by_someone_else(self, place, filled, as_root):
        shutil.copytree(filled / "store", place / "store")
        main, store = shutil.copy(filled / "main.py", place), place / "store"
        damaged = entries(store)
        for path in damaged:
            os.chown(path, OTHER_UID, OTHER_UID)
        before = usage.read(store)
        check(main, store, lines=len(damaged))
        assert not usage.read(store).since(before).hits

    @pytest.mark.long
    def test_garbage_beside_them(self, place, filled):
        shutil.copytree(filled / "store", place / "store")
        main, store = shutil.copy(filled / "main.py", place), place / "store"
        for relative in (
            "v1/objects/zz",
            "v1/objects/ab/junk",
            "v1/leases/junk",
            "v1/usage/junk.json",
            "v1/usage/x.json",
            "v1/strange",
        ):
            (store / relative).parent.mkdir(parents=True, exist_ok=True)
            (store / relative).write_bytes(b"\x00\xff{")
        check(main, store, lines=0)
        outcome = proc.run(["-m", "nbcache", "stats"], store)
        assert outcome.status == 0, outcome.stderr


class TestSettings:
    """Values that can't be read keep their default, and the line says which one."""

    @pytest.mark.every(7)
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("NBCACHE_MAX_SIZE", "banana"),
            ("NBCACHE_WAIT_SECONDS", "soon"),
            ("NBCACHE_ON_MISS", "perhaps"),
            ("NBCACHE_READONLY", "maybe"),
            ("NBCACHE_TRUSTED_UIDS", "no such user"),
            ("NBCACHE_LOG", "loud"),
            ("NBCACHE_RECACHE", "2"),
        ],
    )
    def test_unreadable(self, place, name, value):
        main, store = write(place), place / "store"
        check(main, store, says=name, extra={name: value})
        assert entries(store), "the other settings still hold"

    @pytest.mark.long
    def test_log_file_in_a_folder_that_does_not_exist(self, place):
        check(write(place), place / "store", extra={"NBCACHE_LOG_FILE": str(place / "no" / "log")})

    @pytest.mark.every(12)
    @pytest.mark.parametrize("odd", ["fifo", "fifo that is read", "socket", "device"])
    @pytest.mark.parametrize("name", ["NBCACHE_LOG_FILE", "NBCACHE_RECORD", "NBCACHE_COUNT"])
    def test_what_is_no_regular_file_is_not_waited_for(self, place, name, odd):
        main, store, path = write(place), place / "store", place / "odd"
        with ExitStack() as opened:
            if odd == "socket":
                opened.enter_context(socket.socket(socket.AF_UNIX)).bind(str(path))
            elif odd == "device":
                path = Path("/dev/full")
            else:
                os.mkfifo(path)
            if odd == "fifo that is read":
                opened.callback(os.close, os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            extra = {name: str(path), **({"NBCACHE_LOG": "debug"} if name == "NBCACHE_LOG_FILE" else {})}
            outcome = check(main, store, says=f"{name}={path}", extra=extra)
            # Whether it is refused, and not just full.
            assert "not a regular file" in outcome.stderr or "is not a directory" in outcome.stderr
        assert entries(store)

    def test_settings_file_that_is_no_toml(self, place):
        (place / "nbcache").mkdir()
        (place / "nbcache" / "nbcache.toml").write_text("dir = = [")
        main, store = write(place), place / "store"
        check(main, store, says="nbcache.toml", extra={"XDG_CONFIG_HOME": str(place)})
        assert entries(store)


class TestUsageRecords:
    """What others left for the end of a program."""

    @pytest.mark.long
    def test_a_program_that_only_hits_sums_up_what_trusted_users_left(self, place):
        main, store = write(place), place / "store"
        assert proc.run([main], store).status == 0
        left = [Path(records.write(str(store), {"hit_count": 1}) or "") for _ in range(20)]
        if os.geteuid() == 0:
            os.chown(left[0], OTHER_UID, OTHER_UID)
        for path in (*left, store / "v1/swept"):
            os.utime(path, (1, 1))
        check(main, store, extra={"NBTEST_PATIENT": "1"})
        kept = {path for path in left if path.exists()}
        assert kept == ({left[0]} if os.geteuid() == 0 else set())
        assert records.read_total(str(store))["processes"] == len(left) - len(kept)


class TestNumba:
    """A Numba that nbcache was not verified on."""

    @pytest.mark.every(4)
    @pytest.mark.parametrize("number", ["0.99.0", "0.50.1", "1.0.0rc1", "unknown"])
    def test_outside_the_verified_range(self, place, number):
        main, store = write(place), place / "store"
        outcome = check(main, store, extra={"NBTEST_FAKE_NUMBA": number}, says="")
        assert number in outcome.stderr
        assert not entries(store)
