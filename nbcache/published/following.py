"""Following a name: a new version is taken while the process runs, without a torn call.

What :func:`follow` returns is called like the function that was published, and calls the newest version that could be
loaded. A call runs one version from its beginning to its end: which one is decided by a single read of a pointer, and
the new pointer is put there when everything behind it was loaded. Calls that run at that moment finish in the old
code, which stays in the process as all published code does. Functions of one namespace are replaced one after the
other.

What is followed once is followed as long as the process lives. One thread looks at all of it, every
:data:`LOOK_SECONDS`, with one ``stat`` for each: a notification of the kernel would not tell of what another host
writes. It ends with the process, begins anew in a forked child, and no fork happens while it loads something.

A version that can't be loaded here is said once, in the log, and tried again at each look; the old one stays
meanwhile. So it does when a name is taken back.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import nbcache.published.realize  # noqa: F401  before a fork its lock is taken behind this one's, as by who looks
from nbcache.errors import NbcacheError
from nbcache.passing_exceptions import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Load = Callable[[], tuple[str, Any]]
    """Loads what is published now: its digest, and a function or a namespace of functions."""
    Stamp = Callable[[], tuple[object, ...] | None]
    """Returns what is another value when something else is published, in no more than some ``stat``; None for none."""

_log = logging.getLogger("nbcache")
LOOK_SECONDS: Final = 1.0
"""How often names are looked at [s]."""
_END_SECONDS: Final = 5.0


class Following(functools.partial):  # type: ignore[type-arg]  # of what is called there is no type
    """Calls what is published now, at a cost of some 30 ns; whatever else is asked of it is asked of that, too."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return what the function of now has under this name, such as a ufunc's ``reduce``."""
        return getattr(self.func, name)

    def __repr__(self) -> str:
        """Say what is followed."""
        return f"<following {self.func!r}>"

    def __reduce__(self) -> Any:
        """Refuse: machine code doesn't travel."""
        raise TypeError("a followed function can't be pickled: load it by its name where it is needed")


class _Followed:
    """One followed name."""

    def __init__(self, stamp: Stamp, name: str, load: Load) -> None:
        self.stamp = stamp
        self._name = name
        self._load = load
        # Before it is loaded: what is published meanwhile is then taken at the next look.
        self._stamp = self._said = stamp()
        self._digest, loaded = load()
        self._past: list[Any] = [loaded]
        """Every version: a call that runs holds no reference to what it calls."""
        self._current = {attribute: Following(function) for attribute, function in _functions(loaded).items()}
        alone = not isinstance(loaded, SimpleNamespace)
        self.given: Any = self._current[""] if alone else SimpleNamespace(**self._current)
        """What users hold."""

    def look(self, stamp: tuple[object, ...] | None) -> None:
        """Take a new version if the ``stamp`` of now is another one."""
        if stamp == self._stamp:
            return
        problem = "it isn't published any more" if stamp is None else self._take()
        if problem is None:
            self._stamp = stamp
        elif stamp != self._said:
            _log.warning("%s: %s; this process goes on with the version that it has", self._name, problem)
        self._said = stamp

    def _take(self) -> str | None:
        """Use what is published now; return why that can't be."""
        try:
            digest, loaded = self._load()
        except NbcacheError as error:
            let_pass(error)
            return str(error)
        fresh = _functions(loaded)
        gone = self._current.keys() - fresh.keys()
        if gone:
            return f"its new version has no {' and no '.join(sorted(gone))}" if all(gone) else "it is a namespace now"
        if digest != self._digest:
            self._past.append(loaded)
            self._digest = digest
            for attribute, following in self._current.items():
                following.__setstate__((fresh[attribute], (), {}, None))
            _log.info("%s: a new version is in use", self._name)
        return None


class _Watcher:
    """The thread, and what it looks at."""

    def __init__(self) -> None:
        self._followed: dict[tuple[object, ...], _Followed] = {}
        self.lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, key: tuple[object, ...], stamp: Stamp, name: str, load: Load) -> Any:
        """Return what calls the newest version of a name, and follows it: the same object for the same key.

        ``stamp`` tells whether there is another version, ``load`` loads it. Raises what loading raises.
        """
        with self.lock:
            followed = self._followed.get(key)
            if followed is None:
                followed = self._followed[key] = _Followed(stamp, name, load)
            self._start()
            return followed.given

    def _start(self) -> None:
        if self._thread is None and not self._stopped.is_set():
            self._thread = threading.Thread(target=self._run, name="nbcache: followed names", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Look at every name."""
        for followed in list(self._followed.values()):
            try:
                # Not under the lock: a filesystem that hangs is to stop nobody who forks.
                stamp = followed.stamp()
                with self.lock:
                    followed.look(stamp)
            except Exception as error:  # noqa: BLE001  one name's fault is not the others'
                let_pass(error)
                _log.error("internal error while following a published name: %r; its old version stays in use", error)

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stopped.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_SECONDS)

    def in_child(self) -> None:
        """In the child, which has no thread yet."""
        self._begin()
        self.lock.release()
        if self._followed:
            self._start()


def _functions(loaded: Any) -> Mapping[str, Any]:
    return vars(loaded) if isinstance(loaded, SimpleNamespace) else {"": loaded}


_watcher: Final = _Watcher()
follow: Final = _watcher.follow
atexit.register(_watcher.stop)
# Nothing is loaded while a process is copied: the child would have half of it.
os.register_at_fork(
    before=_watcher.lock.acquire, after_in_parent=_watcher.lock.release, after_in_child=_watcher.in_child
)
