"""How an interpreter of the daemon's begins: confined, and judging, before it imports what isn't Python's own.

Run as ``python -S -s -B -c "…; boot.main()" ORDERS ASKING MODULES SCRATCH ROOT CONFINED``, with nbcache found in
MODULES, which is the daemon's own, at the end of ``sys.path``. Python's standard library, and what decides where that
is, was judged by the daemon (:mod:`nbcache.daemon.interpreters`). Then, in this order:

1. into namespaces, or under Landlock, as the kernel allows it; the process that was started stays outside and waits;
2. the finder that judges (:mod:`nbcache.importing`) stands before all others;
3. ``site`` runs, and so what ``.pth`` files import, judged like everything else;
4. nbcache as that interpreter has it is imported, and makes it a :mod:`nbcache.daemon.zygote`.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Final

from nbcache import environ, importing
from nbcache.daemon import confinement, job_side, linux_calls
from nbcache.daemon.channel import Channel

HIDDEN_VARIABLE: Final = "NBCACHE_JOB_HIDDEN"
"""The file that jobs shall not see: the key that signs what goes to remote tiers."""
UNCONFINED, WANTED, REQUIRED = "0", "1", "2"
"""Whether it confines itself: not at all; as far as it can; or else ends."""
PATH_VARIABLE: Final = "NBCACHE_JOB_PATH"
"""PYTHONPATH, which is not to be looked at before the finder is there."""


def main() -> None:
    """Never returns, but by an exception."""
    orders, asking, modules, scratch, root, wanted = sys.argv[1:]
    sys.argv[1:] = []
    # Ends with the thread that started it, at the latest.
    with suppress(OSError):
        linux_calls.prctl(linux_calls.PARENT_DEATH_SIGNAL, signal.SIGKILL)
    # The one who ends it is the daemon, by closing the channel; a terminal's signals reach the whole group.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end = Channel.of(int(asking))
    confined = wanted != UNCONFINED
    namespaces = confined and _enter(job_side.connect(end), scratch)
    guarded = confined and not namespaces
    if guarded:
        confinement.fork_guarded()
    landlock = guarded and _restrict(scratch)
    if not namespaces and not landlock:
        if wanted == REQUIRED:
            sys.exit("the kernel allows neither namespaces nor Landlock, so jobs can't be confined")
        confinement.settle_alone()
    # Anew: this may be another process.
    job_side.connect(end).say({"namespaces": namespaces, "landlock": landlock, "guarded": guarded})
    importing.guard(job_side.rule())
    given = environ.inherited((PATH_VARIABLE,))
    places = [place for place in given.get(PATH_VARIABLE, "").split(os.pathsep) if os.path.isabs(place)]
    sys.path[:] = [*places, *(place for place in sys.path if place not in {"", modules})]
    import site

    site.main()
    # From here on, the interpreter's own nbcache, which need not be the daemon's. It has the same descriptors.
    for name in [name for name in sys.modules if name.partition(".")[0] in {"nbcache", "_nbcache"}]:
        del sys.modules[name]
    if not any(_has_nbcache(place) for place in sys.path):
        sys.path.append(modules)
    from nbcache.daemon import zygote

    zygote.main(int(orders), int(asking), root, scratch, namespaces=namespaces)


def _enter(link: job_side.Link, scratch: str) -> bool:
    """Whether this is a process in namespaces now. The one outside waits for it, and ends as it does."""
    hidden = environ.inherited((HIDDEN_VARIABLE,)).get(HIDDEN_VARIABLE, "")
    problem = confinement.problem(scratch, hidden)
    if problem is not None:
        link.say({"problem": problem})
        return False
    pid = confinement.fork_interpreter(scratch, hidden)
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
    return True


def _restrict(scratch: str) -> bool:
    """Whether this process, and what it starts, writes nothing but its scratch directory now."""
    try:
        confinement.settle_alone(scratch)
    except OSError:
        return False
    os.environ[job_side.LANDLOCK_VARIABLE] = "1"
    return True


def _has_nbcache(place: str) -> bool:
    return os.path.isdir(os.path.join(place, "nbcache", "daemon"))
