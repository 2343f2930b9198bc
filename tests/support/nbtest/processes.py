"""What is done to processes from outside, and beside them."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that do nothing; they may be ended meanwhile, and some of several may have ended before."""
    try:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                # Of the processes that somebody started, one may have ended since they were listed.
                if len(pids) == 1:
                    raise
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{entry}/stat") as file:
            parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
    found = [child for child, parent in parents.items() if parent == pid]
    return found + [each for child in found for each in descendants(child)]


class Lost:
    """How long a thread that only sleeps was kept from going on, in all [s]: what a busy machine adds to any waiting."""

    seconds = 0.0


@contextmanager
def lost() -> Iterator[Lost]:
    """Measure that meanwhile; what is less than a thirtieth of a second at a time is left out."""
    found, last = Lost(), [time.monotonic()]

    def look() -> None:
        now = time.monotonic()
        over = now - last[0] - 0.01
        found.seconds += over if over > 1 / 30 else 0.0
        last[0] = now

    with meanwhile(look, 0.01):
        yield found


@contextmanager
def meanwhile(work: Callable[[], None], every: float) -> Iterator[None]:
    """Do something again and again."""
    done = threading.Event()

    def loop() -> None:
        while not done.wait(every):
            work()

    thread = threading.Thread(target=loop)
    work()
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
