"""A disk that becomes read-only while a program runs, a file server that is lost then, and one that shows others as owners.

The file server is FUSE's: it needs root, Debian's package libfuse3-3 and ``pip install mfusepy``.
"""

import subprocess
import sys
import threading
import time

import pytest
from nbtest import daemons, disks, fusefs, proc

PROGRAM = """
import sys
from numba import njit

for i in range(6):
    exec(f"@njit\\ndef f{i}(x):\\n    return x + {i}")
for i in range(6):
    if i == 3:
        print("ready", flush=True)
        sys.stdin.readline()
    print(globals()[f"f{i}"](1), flush=True)
"""
EXPECTED = ["1", "2", "3", "ready", "4", "5", "6"]


@pytest.fixture
def run(place):
    """Runs the program, and something in the middle of it; returns what it printed, and what nbcache said."""
    program = place / "program.py"
    program.write_text(PROGRAM)

    def run(store, meanwhile=lambda: None, **extra):
        process = subprocess.Popen(
            [sys.executable, program],
            env=proc.environment(store, extra),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        head = [process.stdout.readline().strip() for _ in range(4)]
        meanwhile()
        rest, said = process.communicate("\n")
        assert process.returncode == 0, said
        return head + rest.split(), said.splitlines()

    return run


@pytest.fixture
def server(place):
    (place / "source").mkdir()
    with fusefs.mounted(place, place / "source") as made:
        yield made


def remount(point, how):
    subprocess.run(["mount", "-o", f"remount,{how}", point], check=True)


@pytest.mark.every(2)
@pytest.mark.parametrize("filled", [False, True])
def test_a_disk_on_which_the_kernel_finds_an_error_in_mid_run_is_said_once(place, run, filled):
    """It makes it read-only, whoever has files open there to write to."""
    with disks.failing_disk(place / "disk") as (disk, trigger):
        if filled:
            assert run(disk / "store") == (EXPECTED, [])
        printed, said = run(disk / "store", lambda: trigger.write_text("1"))
        assert printed == EXPECTED
        # Who only reads needs no word about it.
        assert len(said) == (0 if filled else 1), said
        assert filled or "could not be stored: the store is on a read-only filesystem" in said[0]
        assert run(disk / "store")[0] == EXPECTED


def serves_again(place, daemon):
    """Wait until a daemon gives signs of life, and have it build something."""
    beat = time.time()
    daemons.wait_for(lambda: daemon.heartbeat().get("beat", 0.0) > beat)
    (place / "other.py").write_text("from numba import njit\n@njit\ndef g(x):\n    return x + 1\n")
    (place / "main.py").write_text("import other\nprint(other.g(1))\n")
    assert proc.run([place / "main.py"], daemon.store, daemons.WAITING).stdout == "2\n"
    daemon.says("built other:g")


@pytest.mark.long
def test_a_daemon_outlives_a_disk_that_is_read_only_for_a_while(place, run):
    with disks.small_disk(place / "disk", "64m") as disk, daemons.daemon(disk / "store", logs=place) as daemon:
        remount(disk, "ro")
        assert run(disk / "store", **daemons.WAITING)[0] == EXPECTED
        remount(disk, "rw")
        serves_again(place, daemon)


@pytest.mark.every(6)
@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("error", ["EIO", "ESTALE", "ENOTCONN", "ETIMEDOUT", "EROFS", "EACCES"])
def test_a_file_server_that_fails_in_mid_run_is_said_once(server, run, error, filled):
    store = server.point / "store"
    if filled:
        assert run(store) == (EXPECTED, [])
    printed, said = run(store, lambda: server.be(error))
    assert printed == EXPECTED
    assert len(said) == 1 and "could not be stored" in said[0], said


def test_a_file_server_that_hangs_in_mid_run_holds_a_program_up_for_as_long_as_that(server, run):
    """As it does whoever reads a file there. The program goes on with what it compiles and finds."""

    def hang():
        server.be("hang")
        threading.Timer(3.0, server.be, ("well",)).start()

    assert run(server.point / "store") == (EXPECTED, [])
    assert run(server.point / "store", hang) == (EXPECTED, [])


@pytest.mark.every(4)
@pytest.mark.parametrize("how", ["hang", "EIO", "ESTALE", "ENOTCONN"])
def test_a_daemon_outlives_a_file_server_that_is_lost_for_a_while(place, server, how):
    with daemons.daemon(server.point / "store", logs=place) as daemon:
        server.be(how)
        time.sleep(8.0)  # it looks every few seconds, and a heartbeat is written every two
        server.be("well")
        serves_again(place, daemon)


@pytest.mark.every(4)
@pytest.mark.parametrize("owner", [fusefs.NOBODY, 4321])
@pytest.mark.parametrize("when", ["from the beginning", "in mid-run"])
def test_a_file_server_that_shows_every_file_as_somebody_else_s(server, run, owner, when):
    """As NFS does with root (root_squash) or with everybody (all_squash): what is there is nobody's whom one trusts."""
    store = server.point / "store"
    if when == "in mid-run":
        assert run(store, lambda: server.be(f"uid {owner}"))[0] == EXPECTED
    server.be(f"uid {owner}")
    printed, said = run(store)
    assert printed == EXPECTED
    assert len(said) == 1 and f"is owned by uid {owner}" in said[0], said
