"""Heartbeats: what a client concludes from them."""

import dataclasses
import os
import time

import pytest

from nbcache.config import Settings
from nbcache.protocol import heartbeats
from nbcache.protocol.heartbeats import DEAD_SECONDS, Heartbeat
from nbcache.store import atomic
from nbcache.store.directory import Store
from nbcache.trust import Trust

SIGN = Heartbeat("one", "host", 12, 1.0, time.time(), workers=2, busy=1, queue=0, seconds=3.0, draining=False)


@pytest.fixture
def root(tmp_path):
    return Store.open(Settings(dir=str(tmp_path / "store"))).path


def test_what_is_written_is_read_again(root):
    other = dataclasses.replace(SIGN, name="two")
    heartbeats.write(root, SIGN)
    heartbeats.write(root, other)
    assert heartbeats.read(root, Trust()) == [SIGN, other]


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"\xff", b'{"nbcache": "heartbeat", "version": 99}'])
def test_what_is_no_heartbeat_is_none(root, text):
    with open(heartbeats.path_of(root, "one"), "wb") as file:
        file.write(text)
    assert heartbeats.read(root, Trust()) == []


@pytest.mark.timeout(20)
def test_a_fifo_is_none(root):
    os.mkfifo(heartbeats.path_of(root, "one"))
    assert heartbeats.read(root, Trust()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_stranger_s_is_none(root):
    heartbeats.write(root, SIGN)
    os.chown(heartbeats.path_of(root, "one"), 4321, 4321)
    assert heartbeats.read(root, Trust()) == []


@pytest.mark.parametrize(
    ("ago", "alive"), [(0, True), (DEAD_SECONDS - 3, True), (DEAD_SECONDS + 3, False), (-DEAD_SECONDS - 3, False)]
)
def test_alive(ago, alive):
    assert dataclasses.replace(SIGN, beat=time.time() - ago).alive is alive


YEAR = 365 * 86400


@pytest.mark.parametrize(
    ("said", "dated", "alive"),
    [(YEAR, 0, True), (-YEAR, 0, True), (0, YEAR, True), (0, -YEAR, True), (YEAR, YEAR, False), (YEAR, -YEAR, False)],
)
def test_one_of_two_clocks_may_be_wrong(root, said, dated, alive):
    """What a daemon says of the time, and when its file was written."""
    heartbeats.write(root, dataclasses.replace(SIGN, beat=time.time() + said))
    os.utime(heartbeats.path_of(root, "one"), (time.time() + dated,) * 2)
    assert heartbeats.read(root, Trust())[0].alive is alive


def test_a_pid_that_is_another_process_s_now():
    pid = os.getpid()
    mine = dataclasses.replace(SIGN, host=atomic.host(), pid=pid, born=heartbeats.birth(pid), beat=time.time())
    assert mine.alive
    assert dataclasses.replace(mine, born=0).alive
    assert not dataclasses.replace(mine, born=mine.born + 1).alive
    assert dataclasses.replace(mine, born=mine.born + 1, host="elsewhere").alive
    assert not dataclasses.replace(mine, pid=1 << 40).alive
    assert heartbeats.birth(1 << 40) == 0


@pytest.mark.parametrize(
    ("workers", "busy", "queue", "delay"), [(2, 0, 0, 0), (2, 1, 0, 0), (2, 2, 0, 1.5), (2, 2, 3, 6), (1, 1, 9, 30)]
)
def test_how_long_a_request_waits(workers, busy, queue, delay):
    assert dataclasses.replace(SIGN, workers=workers, busy=busy, queue=queue).delay == delay
