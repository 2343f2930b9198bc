"""Looking through the spool: a little at a time, whatever its size, and at once at what has just arrived.

A *pass* goes through the names in one directory, in slices of :data:`SLICE_SECONDS`; no file is looked into, nor its
status asked for, before somebody has room for another request. What there is no room for is forgotten again, but for
the newest: these are offered at the end of the pass, because only those who asked lately still wait. A pass that took
long is made less often, so that a spool of a million requests takes a fifth of one processor and no more.

Only directories of trusted users are looked into, and no stranger can put anything into one
(:mod:`nbcache.protocol.spool`). Those that have their users' plain names are known beforehand, and each second it is
seen to that their users can have them (:func:`nbcache.store.user_directories.keep`). Others are found as they are made,
and among the first :data:`MAX_OUTSIDE` things in ``requests/`` itself, where everybody may put any number.

That the kernel tells when something arrives (:mod:`nbcache.daemon.intake`) is a convenience, never a need.
"""

from __future__ import annotations

import heapq
import os
import time
from collections import defaultdict, deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

from nbcache.one_line import log
from nbcache.protocol import spool
from nbcache.protocol.spool import Waiting
from nbcache.store import layout, locks, user_directories
from nbcache.store.folders import Folder, is_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbcache.file_trust import Trust

    Offer = Callable[[Waiting, bool], bool]
    """Told of a request that waits, and whether it insists; answers whether there was room for it."""

SLICE_SECONDS: Final = 0.05
"""How long a pass goes on in one turn [s]."""
MAX_NEWS_SECONDS: Final = 0.5
"""How long arrivals are gone through in one turn [s]."""
SHARE: Final = 0.2
"""Which part of the time may be spent on passes."""
PASS_SECONDS: Final = 1.0
"""How often a directory is passed through [s], where that takes no longer."""
NEWEST: Final = 1000
"""How many names a pass remembers that there was no room for."""
MAX_NEWS: Final = 10_000
"""How many arrivals are remembered between two turns; a pass finds the others."""
MAX_DROPS: Final = 10_000
"""How many directories are passed through."""
MAX_OUTSIDE: Final = 10_000
"""How much of what lies in ``requests/`` itself is looked at in one pass."""
MAX_ODD: Final = 100
"""How many odd things are told of in one pass."""
STALE_SECONDS: Final = 3600.0
"""From this age, what was being written and still is won't be finished [s]."""


class Intake:
    """The spool of one store, as its daemon sees it. `arrived` may be called by any thread."""

    def __init__(self, odd: Callable[[str], None]) -> None:
        """Look at nothing yet; *odd* is told the name of each thing in ``requests/`` that isn't for requests."""
        self._odd = odd
        self._news: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=MAX_NEWS))
        """What arrived in each directory: reading a thousand requests of one user takes a while."""
        self._passes: dict[str, _Pass] = {}
        self._rest_until = 0.0
        self._kept = -PASS_SECONDS

    def arrived(self, path: str) -> None:
        """Something of this name appeared in the spool."""
        self._news[path.rpartition("/")[0]].append(path)

    @property
    def drops(self) -> list[str]:
        """The directories that were found worth looking into."""
        return [name for name in self._passes if name]

    @property
    def pause(self) -> float:
        """How long nothing is to be done, but for what arrives [s]."""
        if any(self._news.values()):
            return 0.0
        under_way = any(each.under_way for each in self._passes.values())
        return max(0.0, self._rest_until - time.monotonic()) if under_way else PASS_SECONDS

    def look_again(self, name: str) -> None:
        """Pass through one directory with the next turn: nobody was told of what arrived before it was watched."""
        self._passes[name].begin_anew()
        self._rest_until = 0.0

    def turn(self, root: str, trust: Trust, offer: Offer) -> None:
        """Tell *offer* of what arrived, and of some of what lies there."""
        began = time.monotonic()
        if began - self._kept >= PASS_SECONDS:
            self._kept = began
            for where in (layout.REQUESTS, layout.TRIALS, layout.PROFILES):
                user_directories.keep(root, where, trust.uids)
        while time.monotonic() - began < MAX_NEWS_SECONDS:
            # One of each directory, then another one of each.
            paths = [news.popleft() for news in list(self._news.values()) if news]
            if not paths:
                break
            for path in paths:
                self._look_at(root, path, trust, offer)
        if began < self._rest_until:
            return
        for name in ("", *map(str, trust.uids)):
            self._passes.setdefault(name, _Pass(root, name))
        for name in list(self._passes):
            each = self._passes[name]
            if each.root != root:
                each.end()
                each = self._passes[name] = _Pass(root, name)
            if name:
                each.go_on(trust, offer)
            else:
                self._go_on_outside(each, trust)
        self._rest_until = time.monotonic() + (time.monotonic() - began) * (1 / SHARE - 1)

    def _look_at(self, root: str, path: str, trust: Trust, offer: Offer) -> None:
        """Tell *offer* of what arrived under this path, if it is a request."""
        waiting = _arrival(root, path)
        if waiting is not None:
            offer(waiting, True)
        elif path.rpartition("/")[0] == f"{root}/{layout.REQUESTS}":
            with suppress(OSError):
                self._know(root, path.rpartition("/")[2], os.lstat(path), trust)

    def close(self) -> None:
        """Leave no directory open."""
        for each in self._passes.values():
            each.end()

    def _know(self, root: str, name: str, status: os.stat_result, trust: Trust) -> bool:
        """Take note of what may be a trusted user's directory; return whether it is one."""
        if user_directories.owner(name, status) not in trust.uids:
            return False
        if len(self._passes) < MAX_DROPS:
            self._passes.setdefault(name, _Pass(root, name))
        return True

    def _go_on_outside(self, outer: _Pass, trust: Trust) -> None:
        """Go on in ``requests/`` itself, where there are directories for requests and what else people put there."""
        for item in outer.slice(lambda: Folder(outer.root, layout.REQUESTS), MAX_OUTSIDE):
            with suppress(OSError):
                status = item.stat(follow_symlinks=False)
                if self._know(outer.root, item.name, status, trust):
                    continue
                if not is_regular(item):
                    # A directory of somebody who isn't trusted is no news, nor is what was moved away.
                    if user_directories.named(item.name) is None and not item.name.startswith("."):
                        outer.odd += 1
                        if outer.odd <= MAX_ODD:
                            self._odd(item.name)
                elif not item.name.startswith(".") or time.time() - status.st_mtime > STALE_SECONDS:
                    # From the time when requests lay here, or a stranger's.
                    outer.remove(item.name)


class _Pass:
    """One directory, gone through again and again. Its name is "" for ``requests/`` itself."""

    def __init__(self, root: str, name: str) -> None:
        self.root = root
        self._name = name
        self._folder: Folder | None = None
        self._items: Iterator[os.DirEntry[str]] = iter(())
        self._newest: list[tuple[str, str]] = []
        self._took = 0.0
        self._next = 0.0
        self.odd = 0
        """How many odd things were found in this pass."""

    @property
    def under_way(self) -> bool:
        return self._folder is not None

    def slice(self, opened: Callable[[], Folder | None], most: int | None = None) -> Iterator[os.DirEntry[str]]:
        """Yield some of what lies there, in all slices of a pass *most* at most; nothing if it isn't time yet, or
        nothing can be looked at.
        """
        began = time.monotonic()
        if self._folder is None:
            if began < self._next:
                return
            with suppress(OSError):
                self._folder = opened()
            if self._folder is None:
                self._next = began + PASS_SECONDS
                return
            self._took, self.odd = 0.0, 0
            self._items = islice(self._folder.items(), most)
        try:
            for item in self._items:
                yield item
                # After each: whoever is told of one may have read 16 MiB.
                if time.monotonic() - began > SLICE_SECONDS:
                    self._took += time.monotonic() - began
                    return
        except OSError:
            pass  # gone meanwhile: the next pass begins anew
        self.end()
        self._took += time.monotonic() - began
        self._next = time.monotonic() + max(PASS_SECONDS, self._took * (1 / SHARE - 1))

    def go_on(self, trust: Trust, offer: Offer) -> None:
        """Go on in a directory of requests."""
        uid = int(self._name.partition("-")[0])
        directory = f"{self.root}/{layout.REQUESTS}/{self._name}/"
        for item in self.slice(lambda: user_directories.opened(self.root, layout.REQUESTS, self._name, trust)):
            name = item.name
            if name.startswith("."):
                self._tidy(item)
            elif name.endswith(spool.SUFFIX) and not offer(Waiting(directory + name, uid), False):
                self._remember(name)
        if not self.under_way:
            newest, self._newest = self._newest, []
            for _, name in sorted(newest, reverse=True):
                offer(Waiting(directory + name, uid), True)

    def _remember(self, name: str) -> None:
        what = (name.partition(".")[2], name)
        if len(self._newest) < NEWEST:
            heapq.heappush(self._newest, what)
        elif what > self._newest[0]:
            heapq.heapreplace(self._newest, what)

    def _tidy(self, item: os.DirEntry[str]) -> None:
        with suppress(OSError):
            if time.time() - item.stat(follow_symlinks=False).st_mtime > STALE_SECONDS:
                self.remove(item.name)

    def remove(self, name: str) -> None:
        """Remove something found by a slice."""
        if self._folder is not None:
            self._folder.remove(name)

    def begin_anew(self) -> None:
        """Begin a pass as soon as there is a turn."""
        self.end()
        self._next = 0.0

    def end(self) -> None:
        """Leave the directory; the next pass opens it again."""
        folder, self._folder = self._folder, None
        self._items = iter(())
        if folder is not None:
            folder.close()


def _arrival(root: str, path: str) -> Waiting | None:
    """Return the request that a path in the spool is the name of, if it is one's."""
    directory, _, name = path.rpartition("/")
    above, _, drop = directory.rpartition("/")
    if above != f"{root}/{layout.REQUESTS}" or name.startswith(".") or not name.endswith(spool.SUFFIX):
        return None
    owner = drop.partition("-")[0]
    return Waiting(path, int(owner)) if owner.isdecimal() else None


MAX_WATCHED: Final = 30
"""How many directories are watched besides the first; a user has 128 watches on most systems."""


class _Teller(FileSystemEventHandler):
    def __init__(self, tell: Callable[[str], None], *, of_writing: bool) -> None:
        self._tell = tell
        self._of_writing = of_writing

    def on_moved(self, event: Any) -> None:
        self._tell(os.fsdecode(event.dest_path))

    def on_created(self, event: Any) -> None:
        self._tell(os.fsdecode(event.src_path))

    def on_modified(self, event: Any) -> None:
        if self._of_writing:
            self._tell(os.fsdecode(event.src_path))


class Watch:
    """Calls *tell* with a path, from a thread of its own, when that appears in a directory; if it is to tell *of
    writing*, also when something is written there.

    Without inotify, or with all of its watches used up, nobody is told anything: one line says so. On a network
    filesystem nobody is either, since events there tell of this host's changes only.
    """

    def __init__(
        self, path: str, tell: Callable[[str], None], *, of_writing: bool = False, most: int = MAX_WATCHED
    ) -> None:
        """Begin at once with the directory *path*, and follow so many others at *most*."""
        self._teller = _Teller(tell, of_writing=of_writing)
        self._most = most
        self._observer: Any = None
        self._watched: set[str] = set()
        self.restart(path)

    @property
    def alive(self) -> bool:
        """Whether somebody still watches, as far as anybody ever did."""
        return self._observer is None or all(emitter.is_alive() for emitter in self._observer.emitters)

    @property
    def watches(self) -> bool:
        """Whether anybody watches at all."""
        return self._observer is not None

    def restart(self, path: str) -> None:
        """Watch anew: the directory may be another one than before."""
        self.close()
        if locks.filesystem_kind(path) not in locks.LOCAL:
            return
        observer = Observer()
        try:
            observer.schedule(self._teller, path, recursive=False)
            observer.start()
        except OSError as error:
            log.warning("%s can't be watched (%s); listing it every second instead", path, error.strerror)
            return
        self._observer = observer

    def follow(self, paths: Iterable[str]) -> list[str]:
        """Watch these directories as well, those that are there; return which are new among them."""
        new: list[str] = []
        for path in paths if self._observer is not None else ():
            if path not in self._watched and len(self._watched) < self._most and os.path.isdir(path):
                self._watched.add(path)
                with suppress(OSError):
                    self._observer.schedule(self._teller, path, recursive=False)
                    new.append(path)
        return new

    def close(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        self._watched.clear()
        if observer is not None:
            with suppress(RuntimeError):
                observer.stop()
                observer.join(5)
