"""Files that are saved: the profiles that refer to them are built again, before their programs run.

Each user's files are looked at in a thread of their own, since they may lie on a filesystem that hangs. A file was
saved when its time stamp, size or inode is another one, however an editor writes it. Nothing is begun before the files
of a profile have been left alone for :data:`SETTLE_SECONDS`; then lanes go through it, as if its program had asked
(:mod:`nbcache.daemon.lanes`), in the name of the profile's owner. If a file is saved again meanwhile, they end after
what they are compiling, and others begin.

Nobody waits for any of this, so it gives way to whatever somebody has asked for.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from nbcache.daemon import whose_turn
from nbcache.daemon.intake import MAX_WATCHED, Watch
from nbcache.daemon.shared_parts import Commons
from nbcache.daemon.whose_turn import Job
from nbcache.one_line import log
from nbcache.protocol import sources
from nbcache.protocol.sources import Sources
from nbcache.store import layout

LOOK_SECONDS: Final = 1.0
"""How often files are looked at, whatever the kernel tells [s]."""
SETTLE_SECONDS: Final = 0.3
"""For how long files were left alone when building begins [s]: a branch that is switched writes hundreds."""
SHARE: Final = 0.2
"""Which part of the time may be spent on looking."""
MAX_NAMED: Final = 3
"""How many of the files that were saved are named."""


@dataclass(slots=True)
class _Build:
    """What is done about one profile since its files were saved last."""

    program: str
    jobs: list[Job]
    began: float = field(default_factory=time.monotonic)


class Saves:
    """Those of all users whom a daemon hears. Its loop calls :meth:`turn`."""

    def __init__(self, commons: Commons, wake: Callable[[], None]) -> None:
        """Look at nothing yet; *wake* is called, in any thread, when there is something to do."""
        self._commons = commons
        self._wake = wake
        self._lookouts: dict[int, Lookout] = {}
        self._saved: deque[tuple[Sources, list[str]]] = deque()
        self._wanted: dict[tuple[int, str], Job] = {}
        """What is to begin once the one of the same key has ended."""
        self._builds: dict[tuple[int, str], _Build] = {}

    def turn(self) -> None:
        """Take in what was saved, and tell what is ready."""
        commons = self._commons
        uids = {os.geteuid()} if commons.options.alone else commons.heard.uids
        for uid in uids - self._lookouts.keys() if commons.options.watched is not None else ():
            self._lookouts[uid] = Lookout(commons, uid, self._tell)
            self._lookouts[uid].start()
        while self._saved:
            self._take(*self._saved.popleft())
        for each in list(self._wanted):
            before = commons.jobs.get(each)
            if before is not None and before.future is not None:
                before.superseded = True
            else:
                commons.jobs.begin(self._wanted.pop(each))
        for which, build in list(self._builds.items()):
            if not any(self._is_to_do(job) for job in build.jobs):
                del self._builds[which]
                self._say_ready(build)

    def stop(self) -> None:
        """Look no more."""
        for each in self._lookouts.values():
            each.stop()

    def _tell(self, found: Sources, paths: list[str]) -> None:
        """In the thread of a user's files: some of a profile were saved."""
        self._saved.append((found, paths))
        self._wake()

    def _take(self, found: Sources, paths: list[str]) -> None:
        # Nobody waits for it: to others it is older than whatever somebody may wait for.
        asked = time.monotonic() - whose_turn.FRESH_SECONDS
        made = [Job(request, set(), asked, unasked=True) for request in found.lanes(self._commons.workers)]
        self._wanted.update({(job.uid, job.request.key): job for job in made})
        self._builds[made[0].uid, found.name] = _Build(found.program, made)
        more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
        self._say("saved: %s%s; building for %s", ", ".join(sorted(paths)[:MAX_NAMED]), more, found.program)

    def _is_to_do(self, job: Job) -> bool:
        each = job.uid, job.request.key
        return self._wanted.get(each) is job or self._commons.jobs.get(each) is job

    def _say_ready(self, build: _Build) -> None:
        built, left = sum(job.built for job in build.jobs), max(job.left for job in build.jobs)
        seconds = time.monotonic() - build.began
        rest = f"; {left} can't be built" if left else ""
        self._say("ready: %d functions built for %s in %.1f s%s", built, build.program, seconds, rest)

    def _say(self, message: str, *args: object) -> None:
        log.info(message, *args)
        if self._commons.options.told is not None:
            self._commons.options.told(message % args)


class Lookout:
    """The thread that looks at one user's files."""

    def __init__(self, commons: Commons, uid: int, saved: Callable[[Sources, list[str]], None]) -> None:
        """*saved* is called with a profile and those of its files that were saved."""
        self._commons = commons
        self._uid = uid
        self._saved = saved
        self._known: dict[str, Sources] = {}
        self._seen: dict[str, Any] = {}
        """What is compared of each file."""
        self._pending: dict[str, dict[str, float]] = {}
        """By profile, which of its files were saved, and when by the monotonic clock [s]."""
        self._stopped = False
        self._event = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"nbcache saves of uid {uid}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True
        self._event.set()

    def _run(self) -> None:
        where, trust = f"{self._commons.store.path}/{layout.PROFILES}", self._commons.heard
        most, about = MAX_WATCHED // len(trust.uids), f"saves of uid {self._uid}"
        watch = Watch(where, self._noticed, of_writing=True, most=most)
        while not self._stopped:
            self._event.clear()
            began = time.monotonic()
            try:
                if not watch.alive:
                    watch.restart(where)
                self.look()
                watch.follow([f"{where}/{self._uid}", *{os.path.dirname(path) for path in self._seen}])
                self._commons.problems.report(about, None)
            except Exception as error:  # noqa: BLE001  it must not end
                self._commons.problems.report(about, f"internal error while looking at files: {error!r}", error)
            took = time.monotonic() - began
            # A few writes in a row are one.
            time.sleep(SETTLE_SECONDS / 4 + took * (1 / SHARE - 1))
            self._event.wait(SETTLE_SECONDS / 4 if self._pending else LOOK_SECONDS)
        watch.close()

    def _noticed(self, path: str) -> None:
        """In the observer's thread: something was written, such as the program's own results."""
        if path in self._seen or path.endswith(layout.GROWING):
            self._event.set()

    def look(self) -> None:
        """Look at all files once, and tell of the profiles whose files were saved and left alone since."""
        before = self._known
        self._known = sources.read(self._commons.store.path, self._commons.heard, self._uid, before)
        now, seen = time.monotonic(), self._seen
        self._seen = {path: _state(path) for each in self._known.values() for path in each.files if self._is_in(path)}
        changed = {path for path, state in self._seen.items() if path in seen and state != seen[path]}
        for which, found in self._known.items():
            unseen = found.files if which not in before else found.files - seen.keys()
            # What was saved while nobody looked.
            missed = {path for path in self._seen.keys() & unseen if _is_newer(self._seen[path], found.since)}
            if changed & found.files or missed:
                self._pending.setdefault(which, {}).update(dict.fromkeys(changed & found.files | missed, now))
        for which, times in list(self._pending.items()):
            if which not in self._known:
                del self._pending[which]
            elif now - max(times.values()) >= SETTLE_SECONDS:
                self._saved(self._known[which], list(self._pending.pop(which)))

    def _is_in(self, path: str) -> bool:
        """Whether it lies in one of the directories that were named."""
        places = self._commons.options.watched
        return not places or any(path.startswith(f"{place}/") for place in places)


def _state(path: str) -> tuple[int, int, int] | None:
    """What is another one once a file was written; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_newer(state: tuple[int, int, int] | None, than: float) -> bool:
    return state is not None and state[0] >= than * 1e9
