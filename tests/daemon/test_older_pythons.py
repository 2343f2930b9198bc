"""A Python that was built with a C library and a kernel of 2012, as conda's are: it has no names for what is younger."""

import pytest
from nbtest import daemons, denials, proc, usage
from nbtest.kinds import LIB, MAIN

PUBLISHES = """
import nbcache, numba
@numba.vectorize(["float64(float64, float64)"])
def scaled(x, by):
    return x * by
nbcache.publish("scaled", scaled)
"""
LOADS = "import nbcache, sys; print(nbcache.load('scaled')(2.0, 3.0), 'numba' in sys.modules)"
A_FILE = """
import fcntl, os, signal
from nbcache import memory_files
from nbcache.daemon import channel, linux_calls
fd = memory_files.memory_file("some")
os.write(fd, b"this")
assert os.pread(fd, 9, 0) == b"this" and fcntl.fcntl(fd, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
assert os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:some")
with channel.sealed(b"that") as sealed:
    assert channel.is_in_memory(sealed) and channel.unsealed([os.dup(sealed)], 4) == b"that"
pid = os.fork()
if not pid:
    signal.pause()
linux_calls.pidfd_kill(linux_calls.pidfd_open(pid))
print(os.WTERMSIG(os.waitpid(pid, 0)[1]))
"""


@pytest.fixture
def older(place):
    (place / "older").mkdir()
    return denials.older_python(place / "older")


def test_a_daemon_builds_and_the_next_process_hits(place, older):
    for name, text in (("lib", LIB), ("main", MAIN)):
        (place / f"{name}.py").write_text(text)
    main, store = place / "main.py", place / "store"
    expected = proc.run([main])
    with daemons.daemon(store, python=older) as daemon:
        for _ in range(2):
            before = usage.read(store)
            assert proc.run([main], store, daemons.WAITING, python=older).said == expected.said
            daemon.settle()
        assert not daemons.failures(store)
    again = usage.read(store).since(before)
    assert again.hits
    assert not again.builds
    builders = {record["pid"] for record in usage.records(store) if record["builds"]}
    assert not builders & {record["pid"] for record in usage.records(store) if record["argv0"].endswith("main.py")}


def test_what_is_published_is_proven_and_loaded(place, older):
    (place / "publishes.py").write_text(PUBLISHES)
    published = proc.run([place / "publishes.py"], place / "store", python=older)
    assert (published.status, published.stderr) == (0, "")
    assert proc.run(["-c", LOADS], place / "store", python=older).stdout == "6.0 False\n"


def test_files_in_memory_and_descriptors_of_processes(older):
    assert proc.run(["-c", A_FILE], python=older).stdout == "9\n"
