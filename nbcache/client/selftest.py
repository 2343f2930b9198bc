"""One function, asked of a daemon, loaded and called: what ``nbcache health`` runs in a process of its own.

The function is a new one each time (a number in it is random), so nothing but the whole path makes it a hit. The
process says on standard output, a JSON object a line, what it is about to do, and at last how it went; whoever started
it ends it when that takes too long. Nothing stays: no usage record (the process ends without its exit functions), no
request, and no entry where this user may remove it; elsewhere the daemon does (:mod:`nbcache.daemon.housekeeping`).
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from nbcache import config
from nbcache.config import Settings
from nbcache.one_line import one_line
from nbcache.protocol import heartbeats, spool
from nbcache.protocol.requests import Request
from nbcache.store import layout, reasons
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal
from nbcache.store.usage import SELF_TEST

TIDY_SECONDS: Final = 0.4
"""What is kept for saying what is wrong, and for cleaning up [s]."""
_ARGUMENT: Final = 41
_MOST_TEXT: Final = 300
_RECENT: Final = 60.0
_FILES: Final = ("nbcache.protocol.", "nbcache.store.")
_LONGER: Final = "try again, or give it longer with --timeout"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and what to do about it."""

    what: str
    advice: str


class _Attempt:
    """What is done in a thread, since it may never end."""

    def __init__(self, settings: Settings) -> None:
        self.stats: dict[str, Any] = {}
        self.result: int | None = None
        self.fault: str | None = None
        self.has_numba = False
        self._settings = settings
        self._number = random.randrange(1 << 40)  # noqa: S311  it only has to be new
        self.thread = threading.Thread(target=self._run, daemon=True)

    @property
    def right(self) -> bool:
        """Whether the result is what Python itself computes."""
        return self.result == _ARGUMENT + self._number

    def _run(self) -> None:
        try:
            import nbcache
            from nbcache.client import hook

            Store.journals = False
            hook.arm(self._settings)
            from nbcache.glue import health_function

            self.has_numba = True
            _say(stage="asking a daemon")
            self.result = int(health_function.adder(SELF_TEST, self._number)(_ARGUMENT))
            self.stats = nbcache.stats()
        except BaseException as error:  # noqa: BLE001  whatever it is, it is what is to be told
            self.fault = f"{type(error).__name__}: {error}"


def main() -> None:
    """Try it; the store and until when, by time.monotonic(), are in ``sys.argv``."""
    root, deadline = sys.argv[1], float(sys.argv[2]) - TIDY_SECONDS
    logging.getLogger("nbcache").addHandler(logging.NullHandler())
    try:
        _test(root, deadline)
    except Exception as error:  # noqa: BLE001  as above
        _tell(Problem(f"{reasons.INTERNAL}: {type(error).__name__}: {error}", "`nbcache doctor` says more"))
    # Without exit functions: no usage record, nothing tidied up.
    os._exit(0)


def _test(root: str, deadline: float) -> None:
    _say(stage="opening the store")
    if not os.path.isdir(f"{root}/{layout.OBJECTS}") and (os.path.isdir(root) or not os.path.lexists(root)):
        _tell(Problem(f"no cache in {root} yet", f"start a daemon: nbcache serve --dir {root}"))
        return
    settings = config.load()._replace(
        dir=root, disable=False, recache=False, readonly=True, on_miss="wait", record=None, count=None,
        log="CRITICAL", log_file=None, sources={},
    )  # fmt: skip
    store = Store.open(settings)
    if isinstance(store, Refusal):
        _tell(Problem(store.reason, f"`nbcache doctor --dir {root}` says more"))
        return
    _say(stage="looking for a daemon")
    problem = _no_daemon(store)
    if problem is not None:
        _tell(problem)
        return
    _say(stage="importing Numba")
    # Whoever waits in vain compiles for itself then; that takes a while too, and is of no use here.
    patience = max(0.1, deadline - time.monotonic())
    attempt = _Attempt(settings._replace(wait_seconds=patience, wait_budget=patience))
    attempt.thread.start()
    attempt.thread.join(max(0.1, deadline - time.monotonic()))
    # Told first: what hangs may hang whoever cleans up.
    _tell(_judge(store, attempt, patience))
    _clean(settings, attempt)


def _no_daemon(store: Store) -> Problem | None:
    found = heartbeats.read(store.path, store.trust)
    alive = [each for each in found if each.alive]
    if not alive:
        return _none_alive(store, found)
    awake = [each for each in alive if not each.draining]
    if not awake:
        return Problem("the daemon is about to stop", "wait until it is started again")
    uid = os.geteuid()
    if not any(each.hears(uid) for each in awake):
        advice = f"run this as root or as the daemon's user, or put {uid} into the daemon's NBCACHE_TRUSTED_UIDS"
        return Problem(f"no daemon takes requests of uid {uid}", advice)
    return None


def _judge(store: Store, attempt: _Attempt, waited: float) -> Problem | None:
    if attempt.fault is not None:
        return Problem(f"the test raised {attempt.fault}", "`nbcache doctor` looks at this Python and its Numba")
    if attempt.result is not None and not attempt.right:
        return Problem("the daemon's code computes something else", "stop using this store; `nbcache verify`")
    stats = attempt.stats
    if stats.get("hit_count") and not stats.get("builds_count"):
        return None
    if not attempt.has_numba:
        return Problem(f"Numba isn't imported within {waited:.1f} s", f"{_load()}: {_LONGER}")
    asked = _asked(store)
    if asked:
        return _unanswered(store, waited)
    if attempt.result is None and _is_about_files(attempt.thread):
        advice = "its filesystem is slow or hangs: see the mount, and the file server"
        return Problem(f"no request could be written within {waited:.1f} s", advice)
    if attempt.result is None:
        return Problem(f"nothing was asked for within {waited:.1f} s", f"{_load()}: {_LONGER}")
    built = {build["key"] for build in stats.get("builds", ())}
    refused = next((failure.reason for failure in spool.failures(store.path) if failure.key in built), None)
    if refused is not None:
        return Problem(f"the daemon could not build: {refused}", "its log says more; see `nbcache status`")
    unused = [reason for reason in stats.get("misses", {}) if reason != "new"]
    if unused:
        advice = "trust the daemon's user (NBCACHE_TRUSTED_UIDS)" if "untrusted" in unused else "`nbcache verify`"
        return Problem(f"what the daemon built can't be used here: {unused[0]}", advice)
    if stats.get("uncacheable"):
        return Problem(f"Numba's code can't be cached: {next(iter(stats['uncacheable']))}", "`nbcache doctor`")
    if not os.access(f"{store.path}/{layout.REQUESTS}", os.W_OK | os.X_OK):
        return Problem(f"this user can't ask: no permission to write {layout.REQUESTS}", "run this as who may")
    return Problem(
        "the daemon gave no reason and published nothing", "see `nbcache status`, its log, and whether the disk is full"
    )


def _is_about_files(thread: threading.Thread) -> bool:
    """Whether a thread is at this moment in what reads and writes the store's files."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  documented, and the only way
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_FILES):
            return True
        frame = frame.f_back
    return False


def _none_alive(store: Store, found: list[heartbeats.Heartbeat]) -> Problem:
    silent = [time.time() - each.beat for each in found if not each.gone]
    if silent:
        advice = "see whether its process hangs or is stopped, and its filesystem; restart it"
        return Problem(f"a daemon has given no sign of life for {min(silent):.0f} s", advice)
    return Problem("no daemon is alive", f"start one: nbcache serve --dir {store.path}")


def _unanswered(store: Store, waited: float) -> Problem:
    found = heartbeats.read(store.path, store.trust)
    alive = [each for each in found if each.alive]
    if not alive:
        return _none_alive(store, found)
    busy, workers = sum(each.busy for each in alive), sum(each.workers for each in alive)
    queue = max(each.queue for each in alive)
    advice = "`nbcache status`; restart the daemon if that doesn't change"
    if busy >= workers:
        advice = "more workers, or another daemon; `nbcache status` shows what takes so long"
    elif busy and not queue:
        advice = f"it is being built, and {_load()}: {_LONGER}; if that doesn't change, restart the daemon"
    return Problem(
        f"no answer within {waited:.1f} s: {busy} of {workers} workers are busy, {queue} requests wait", advice
    )


def _load() -> str:
    return f"this machine has a load of {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors"


def _asked(store: Store) -> list[str]:
    """The requests of this process that still wait."""
    found = []
    for waiting in spool.scan(store.path, store.trust):
        if abs(time.time() - waiting.asked) < _RECENT:
            request = spool.take(waiting, store.trust)
            if isinstance(request, Request) and request.function == SELF_TEST and request.pid == os.getpid():
                found.append(waiting.path)
    return found


def _clean(settings: Settings, attempt: _Attempt) -> None:
    """Take back what was asked, and remove what was built, as far as this user may."""
    with suppress(Exception):
        if not attempt.thread.is_alive():
            from nbcache.client import activation

            activation.forget()
        store = Store.open(settings._replace(readonly=False))
        if isinstance(store, Refusal):
            return
        for path in _asked(store):
            spool.withdraw(path)
        for key in (*attempt.stats.get("hits", ()), *(build["key"] for build in attempt.stats.get("builds", ()))):
            spool.forget_failure(store.path, key)
            for entry in store.find(key):
                if entry.header.function == SELF_TEST:
                    store.remove(entry.path)


def _tell(problem: Problem | None) -> None:
    if problem is None:
        _say(healthy=True)
    else:
        _say(healthy=False, problem=problem.what, advice=problem.advice)


def _say(**said: object) -> None:
    text = {name: one_line(value)[:_MOST_TEXT] if isinstance(value, str) else value for name, value in said.items()}
    os.write(1, json.dumps(text).encode("ascii") + b"\n")


if __name__ == "__main__":
    main()
