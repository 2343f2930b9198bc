"""Heartbeats: what a client concludes from them."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from nbtest.samples import SIGN

from nbcache import other_processes
from nbcache.config import Settings
from nbcache.file_trust import Trust
from nbcache.protocol import heartbeats
from nbcache.protocol.heartbeats import DEAD_SECONDS
from nbcache.store import layout
from nbcache.store.directory import Store


@pytest.fixture
def root(tmp_path):
    return Store.open(Settings(dir=str(tmp_path / "store"))).path


def what_is_told(root):
    """All heartbeats, but when their files were written."""
    return [each._replace(written=0.0) for each in heartbeats.read(root, Trust())]


def test_what_is_written_is_read_again(root):
    other = SIGN._replace(name="two")
    heartbeats.write(root, SIGN)
    heartbeats.write(root, other)
    assert what_is_told(root) == [SIGN, other]


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
def test_alive(ago, alive, monkeypatch):
    monkeypatch.setattr(heartbeats.time, "time", lambda now=time.time(): now)
    assert SIGN._replace(beat=time.time() - ago).alive is alive


def leave(root, count, **fields):
    """Heartbeats of daemons that nobody hears of any more."""
    for number in range(count):
        heartbeats.write(root, SIGN._replace(name=f"a{number:03}", beat=1.0, **fields))
        os.utime(heartbeats.path_of(root, f"a{number:03}"), (1, 1))


def test_the_living_one_is_seen_behind_many_dead_ones(root):
    leave(root, heartbeats.MAX_DAEMONS)
    ahead = time.time() + 365 * 86400
    for number in range(heartbeats.MAX_DAEMONS):
        os.utime(heartbeats.path_of(root, f"a{number:03}"), (ahead, ahead))
    heartbeats.write(root, SIGN._replace(name="z"))
    found = heartbeats.read(root, Trust())
    assert len(found) == heartbeats.MAX_DAEMONS
    assert [each.name for each in found if each.alive] == ["z"]


def test_what_is_long_dead_is_removed(root):
    leave(root, 5)
    heartbeats.write(root, SIGN._replace(name="lately", beat=time.time() - 2 * DEAD_SECONDS))
    heartbeats.write(root, SIGN._replace(name="wrong clock", beat=1.0))
    for name in ("older version", "wrong date"):
        heartbeats.write(root, SIGN._replace(name=name))
        os.utime(heartbeats.path_of(root, name), (1, 1))
    with open(heartbeats.path_of(root, "older version"), "w") as file:
        file.write("{}")
    os.utime(heartbeats.path_of(root, "older version"), (1, 1))
    assert heartbeats.sweep(root, Trust()) == 6
    assert [each.name for each in heartbeats.read(root, Trust())] == ["lately", "wrong clock", "wrong date"]


def test_whose_clock_jumped_removes_nobody_s(root, monkeypatch):
    heartbeats.write(root, SIGN)
    now = time.time()
    monkeypatch.setattr(heartbeats.time, "time", lambda: now + 365 * 86400)
    assert heartbeats.sweep(root, Trust(), now) == 0
    assert heartbeats.sweep(root, Trust()) == 1


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_what_a_stranger_left_is_not_touched(root):
    leave(root, 1)
    os.chown(heartbeats.path_of(root, "a000"), 4321, 4321)
    assert heartbeats.sweep(root, Trust()) == 0


@pytest.mark.parametrize("char", ["\N{SNOWMAN}", "\N{PILE OF POO}", "\x1b", "\n", "\\", chr(0xD800)])
def test_what_jobs_are_called_does_not_make_it_unreadable(root, char):
    jobs = tuple((char * 5000, 1.0, 2.0, char * 5000) for _ in range(heartbeats.MAX_JOBS))
    heartbeats.write(root, SIGN._replace(jobs=jobs))
    (found,) = heartbeats.read(root, Trust())
    assert found.jobs
    assert all(text.isprintable() for job in found.jobs for text in (job[0], job[3]))
    with open(heartbeats.path_of(root, "one"), "rb") as file:
        assert file.read().isascii()


IN_ANOTHER_NAMESPACE = """
import sys
from nbcache.protocol import heartbeats
from nbcache.file_trust import Trust
(found,) = heartbeats.read(sys.argv[1], Trust())
print(found.alive, found.gone)
"""


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_pids_of_another_namespace_say_nothing(root):
    """Sidecars of a pod: one hostname, and pids that mean something else to each."""
    here = os.getpid()
    sign = SIGN._replace(host=layout.host(), pid=here, place=other_processes.place(), beat=time.time())
    heartbeats.write(root, sign._replace(born=other_processes.birth(here)))
    command = [sys.executable, "-c", IN_ANOTHER_NAMESPACE, root]
    outside = subprocess.run(command, capture_output=True, text=True, check=True)
    assert outside.stdout == "True False\n"
    inside = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *command], capture_output=True, text=True, check=False
    )
    if inside.returncode:
        pytest.skip(f"no PID namespace can be made here: {inside.stderr.strip()}")
    assert inside.stdout == "True False\n"


YEAR = 365 * 86400


@pytest.mark.parametrize(
    ("said", "dated", "alive"),
    [(YEAR, 0, True), (-YEAR, 0, True), (0, YEAR, True), (0, -YEAR, True), (YEAR, YEAR, False), (YEAR, -YEAR, False)],
)
def test_one_of_two_clocks_may_be_wrong(root, said, dated, alive):
    """What a daemon says of the time, and when its file was written."""
    heartbeats.write(root, SIGN._replace(beat=time.time() + said))
    os.utime(heartbeats.path_of(root, "one"), (time.time() + dated,) * 2)
    assert heartbeats.read(root, Trust())[0].alive is alive


def test_a_pid_that_is_another_process_s_now():
    pid = os.getpid()
    mine = SIGN._replace(place=other_processes.place(), pid=pid, born=other_processes.birth(pid), beat=time.time())
    assert mine.alive
    assert mine._replace(born=0).alive
    assert not mine._replace(born=mine.born + 1).alive
    assert mine._replace(born=mine.born + 1, place="elsewhere").alive
    assert mine._replace(pid=1 << 40, place="").alive
    assert not mine._replace(pid=1 << 40).alive
    assert other_processes.birth(1 << 40) == 0


@pytest.mark.parametrize(
    ("workers", "busy", "queue", "delay"), [(2, 0, 0, 0), (2, 1, 0, 0), (2, 2, 0, 1.5), (2, 2, 3, 6), (1, 1, 9, 30)]
)
def test_how_long_a_request_waits(workers, busy, queue, delay):
    assert SIGN._replace(workers=workers, busy=busy, queue=queue).delay(1000) == delay


def test_users_take_turns():
    sign = SIGN._replace(workers=1, busy=0, queue=1003, queues={1000: 3, 1001: 1000})
    assert sign.delay(1000) == (3 + 4) * 3
    assert sign.delay(1002) == 2 * 3


def test_what_is_told_of_users_is_all_or_nothing(root):
    many = range(heartbeats.MAX_UIDS + 1)
    told = SIGN._replace(
        trusts=(0, 5), queues={5: 3}, finished=7, working={"ab" * 8: 1.5}, jobs=(("f", 1.0, 2.0, "built"),)
    )
    heartbeats.write(root, told)
    assert what_is_told(root) == [told]
    heartbeats.write(root, told._replace(trusts=tuple(many), queues=dict.fromkeys(many, 1)))
    (found,) = heartbeats.read(root, Trust())
    assert (found.trusts, found.queues) == (None, {})
    assert found.hears(1)
    assert told.hears(5)
    assert not told.hears(6)
