"""How much processor time a process has had: whoever waits for it can tell from that whether it gets on."""

from __future__ import annotations

from typing import Final

from nbcache.passing import let_pass
from nbcache.process import opened, os

_AT_WORK: Final = frozenset({b"R", b"D"})
"""The states of a thread that runs, or waits for the kernel to have done something for it."""


def processor_time(pid: int, *, children: bool = True) -> float | None:
    """Return it, with that of its ended ``children`` [s]; None if it can't be known. Never raises."""
    return _seconds(_fields(f"/proc/{pid}/stat"), 15 if children else 13)


def thread(tid: int) -> tuple[bool, float] | None:
    """Return whether a thread, known by its id in the kernel, is at work, or would be if it had a processor or what it
    reads; and how much processor time it has had [s]. None if that can't be known. Never raises.

    Who is stopped, or sleeps until something happens, isn't at work.
    """
    fields = _fields(f"/proc/{tid}/task/{tid}/stat")
    seconds = _seconds(fields, 13)
    return None if seconds is None else (fields[0] in _AT_WORK, seconds)


def _fields(path: str) -> list[bytes]:
    try:
        with opened(path, "rb") as file:
            # proc_pid_stat(5) from the third field on; the second is a name in brackets, which may hold anything.
            return file.read().rpartition(b")")[2].split()
    except OSError as raised:
        let_pass(raised)
        return []


def _seconds(fields: list[bytes], end: int) -> float | None:
    # The 14th to 17th fields.
    try:
        return sum(map(int, fields[11:end])) / os.sysconf("SC_CLK_TCK") if fields else None
    except (OSError, ValueError) as raised:
        let_pass(raised)
        return None


def parent(pid: int) -> int:
    """Return the pid of a process's parent; 0 if it can't be known. Never raises."""
    try:
        return int(_fields(f"/proc/{pid}/stat")[1])
    except (ValueError, IndexError) as raised:
        let_pass(raised)
        return 0
