"""Entries that are there and can't be used are built again, also for those who can't write."""

import os

import pytest
from nbtest import daemons, proc, usage

from nbcache.store import entry

LIB = "from numba import njit\n@njit\ndef f(x):\n    return x + 41\n"


def broken_header(data):
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


def broken_object(data):
    at = data.index(b"\x7fELF") + 200
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def cut_off(data):
    return data[:-10]


@pytest.mark.every(4)
@pytest.mark.parametrize("damage", [broken_header, broken_object, cut_off, lambda _: b""])
def test_damage(place, damage):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    main, store = place / "main.py", place / "store"
    assert proc.run([main], store).stdout == "42\n"
    (path,) = (
        path
        for path in (store / "v1/objects").glob("??/*.nbo")
        if entry.parse(path.read_bytes()).header.function == "lib:f"
    )
    path.write_bytes(damage(path.read_bytes()))
    with daemons.daemon(store) as daemon:
        for _ in range(2):
            before = usage.read(store)
            outcome = proc.run([main], store, daemons.WAITING)
            assert outcome.stdout == "42\n", outcome.stderr
            # What a job missed is written down after its entry, which is all that a client needs.
            daemon.settle()
        assert not usage.read(store).since(before).misses
        daemon.says("built lib:f")
        assert daemon.stop() == 0
    assert entry.parse(path.read_bytes()).header.function == "lib:f"
    assert os.listdir(store / "v1/failed") == []
    proc.verify(store)
