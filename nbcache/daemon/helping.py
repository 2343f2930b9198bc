"""A daemon that a program started for itself (``NBCACHE_JOBS``): one for each user, host and store.

It hears nobody but its user, takes only the time that nobody else on this host wants, and ends when nothing was asked
for in a while (`nbcache serve --helper --idle`). Being the only one is a lease: the kernel drops that with its process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from nbcache.protocol import heartbeats
from nbcache.store import layout

LOWEST: Final = 19
"""The priority of a helper and of its workers."""
FIRST_TO_GO: Final = 1000
"""What the kernel goes by to choose whom it kills (proc_pid_oom_score_adj(5)), for both."""


def name() -> str:
    """Return what a helper is called among the daemons of a store."""
    return heartbeats.helper_name(os.geteuid())


def key() -> str:
    """Return the key whose lease a helper holds while it is there."""
    return layout.reserved(f"the helper {name()}")


def give_way() -> None:
    """Let all other processes go first, for this one and those that it starts."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    # Where sessions share the processors equally (sched_autogroup), this is one of its own, of which priorities say
    # nothing to others.
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write(str(LOWEST))
    # Where memory runs out, it isn't the program that has to go.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(FIRST_TO_GO))
