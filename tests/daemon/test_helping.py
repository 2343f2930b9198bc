"""A helper belongs to a program that knows nothing of it: it is in nobody's way, and goes with the store."""

import os
import socket
import subprocess
import sys

import pytest
from nbtest import daemons, proc

from nbcache.config import Settings
from nbcache.store.directory import Store


@pytest.fixture
def store(place):
    return place / "store"


def helper(store, **extra):
    return subprocess.Popen(
        [sys.executable, "-m", "nbcache", "serve", "--dir", str(store), "--helper", "--workers", "1", "--idle", "600"],
        env=proc.environment(None, extra), cwd="/", stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.long  # it has to get a processor when nobody else wants one
def test_a_helper_takes_nothing_of_its_programs_unit_and_goes_with_the_store(place, store):
    Store.open(Settings(dir=str(store)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(place / "manager"))
        running = helper(
            store, NOTIFY_SOCKET=str(place / "manager"), STATE_DIRECTORY=str(place / "state"), WATCHDOG_USEC="1000000"
        )
        try:
            daemons.wait_for(lambda: list((store / "v1/daemon").glob("*.json")))
            with open(f"/proc/{running.pid}/oom_score_adj", encoding="ascii") as file:
                assert int(file.read()) == 1000
            assert os.getpriority(os.PRIO_PROCESS, running.pid) == 19
            os.rename(store, place / "aside")
            assert running.wait(daemons.MUCH) == 0
        finally:
            running.kill()
            running.wait()
        with pytest.raises(BlockingIOError):
            manager.recv(100, socket.MSG_DONTWAIT)
    assert not store.exists()
    assert not (place / "state").exists()


def test_a_helper_whose_store_was_removed_before_it_began_makes_none(store):
    running = helper(store)
    assert running.wait(daemons.MUCH) == 0
    assert not store.exists()
