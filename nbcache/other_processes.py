"""What the kernel tells of other processes, in ``/proc``: which ones they are, and how they get on. Nothing raises.

Whoever waits for a process can tell from :func:`processor_time` whether it gets on, and from :func:`kept_waiting` how
long others kept it from that.
"""

from __future__ import annotations

from nbcache.passing_exceptions import suppressed
from nbcache.process import opened, os


def birth(pid: int) -> int:
    """Return when a process of this host began [clock ticks since the host did]; 0 when that can't be known."""
    return _stat(pid, 19)


def place() -> str:
    """Return what pids of this process mean: equal texts, same processes. "" when that can't be known.

    The number of a PID namespace alone isn't enough: that of the first one is the same everywhere.
    """
    with suppressed(OSError, ValueError), opened("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read(40).strip()}/{os.stat('/proc/self/ns/pid').st_ino}"
    return ""


def processor_time(pid: int) -> float | None:
    """Return it, with that of its ended children [s]; None if it can't be known. Never raises."""
    with suppressed(OSError, ValueError):
        # The 14th to 17th fields.
        return sum(map(int, _fields(pid)[11:15])) / os.sysconf("SC_CLK_TCK")
    return None


def kept_waiting(pid: int) -> float | None:
    """Return for how long a process's first thread could have run, and had no processor [s]; None if nobody knows.

    Never raises.
    """
    with suppressed(OSError, ValueError, IndexError), opened(f"/proc/{pid}/schedstat", "rb") as file:
        return int(file.read(100).split()[1]) / 1e9
    return None


def _fields(pid: int) -> list[bytes]:
    """Return proc_pid_stat(5) from the third field on; the second is a name in brackets, which may hold anything.

    Raises OSError.
    """
    with opened(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def parent(pid: int) -> int:
    """Return the pid of a process's parent; 0 if it can't be known. Never raises."""
    return _stat(pid, 1)


def _stat(pid: int, at: int) -> int:
    """Return a number of :func:`_fields`; 0 if it can't be known."""
    with suppressed(OSError, ValueError, IndexError):
        return int(_fields(pid)[at])
    return 0
