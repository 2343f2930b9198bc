"""How much processor time a process has had: whoever waits for it can tell from that whether it gets on."""

from __future__ import annotations

import os

from nbcache.passing import let_pass


def processor_time(pid: int, *, children: bool = True) -> float | None:
    """Return it, with that of its ended ``children`` [s]; None if it can't be known. Never raises."""
    return _time(f"/proc/{pid}/stat", 15 if children else 13)


def thread_time(tid: int) -> float | None:
    """Return how much a thread has had, known by its id in the kernel [s]; None if it can't be known. Never raises."""
    return _time(f"/proc/{tid}/task/{tid}/stat", 13)


def _time(path: str, end: int) -> float | None:
    try:
        with open(path, "rb") as file:
            # proc_pid_stat(5): the 14th to 17th fields; the second is a name in brackets, which may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        return sum(map(int, fields[11:end])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError) as raised:
        let_pass(raised)
        return None


def parent(pid: int) -> int:
    """Return the pid of a process's parent; 0 if it can't be known. Never raises."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError) as raised:
        let_pass(raised)
        return 0
