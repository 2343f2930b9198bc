"""Daemons of tests: started for real, and ended by their process ids."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nbtest import proc
from nbtest.processes import meanwhile, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nbcache.config import Settings
    from nbcache.daemon.service import Service

MUCH = 600.0
"""How long anything is waited for that may take a while on a busy machine [s]: what doesn't happen takes for ever."""
WAITING = {
    "NBCACHE_READONLY": "1",
    "NBCACHE_ON_MISS": "wait",
    "NBCACHE_WAIT_SECONDS": "300",
    "NBCACHE_WAIT_BUDGET": "3600",
    "NBCACHE_LOG": "info",
    "NBTEST_PATIENT": "1",
}
"""The environment of a client that can't write, and would rather wait than compile."""


class Daemon:
    """A running ``nbcache serve``; its log is a file. It gives up nobody who is only slow, unless *extra* says so."""

    def __init__(
        self,
        store: Path,
        *options: str,
        extra: Mapping[str, str] | None = None,
        name: str = "one",
        user: int | None = None,
        python: str = sys.executable,
        logs: Path | None = None,
    ) -> None:
        """Start it and wait for its heartbeat. Its log and state lie in *logs*, beside the store if that is None."""
        self.store = store
        self.name = name
        beside = store.parent if logs is None else logs
        self.log_path = beside / f"{store.name}-{name}.log"
        state = str(beside / f"{store.name}-{name}.state")
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                [python, "-m", "nbcache", "serve", "--dir", str(store), "--name", name, "--state", state, *options],
                env=proc.environment(None, {"NBTEST_PATIENT": "1", **(extra or {})}),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        wait_for(self.is_serving, lambda: f"the daemon doesn't serve:\n{self.log}")

    @property
    def log(self) -> str:
        """All that it said so far."""
        return self.log_path.read_text()

    def heartbeat(self) -> dict[str, object]:
        """What it says of itself; empty if it says nothing."""
        with suppress(OSError, ValueError):
            return json.loads((self.store / "v1/daemon" / f"{self.name}.json").read_text())
        return {}

    def is_serving(self) -> bool:
        """Whether this very process gives signs of life."""
        assert self.process.poll() is None, self.log
        return self.heartbeat().get("pid") == self.process.pid

    def says(self, text: str) -> None:
        """Wait until *text* is in its log: a client that finds the entry may have ended before."""
        wait_for(lambda: text in self.log, lambda: f"it doesn't say {text!r}:\n{self.log}")

    def settle(self) -> None:
        """Wait until every request is answered and no job runs, so that all that was used is written down."""
        wait_for(lambda: not spool(self.store) and self.heartbeat().get("busy") == 0, lambda: self.log)

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait()

    def stop(self, within: float = MUCH) -> int:
        """Ask it to end; return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)


@contextmanager
def daemon(store: Path, *options: str, **more: object) -> Iterator[Daemon]:
    """A daemon that is ended at the end."""
    running = Daemon(store, *options, **more)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()


@contextmanager
def hung(running: Daemon) -> Iterator[None]:
    """A daemon that does nothing, and gives signs of life for however long its clients take to start."""
    heartbeat = running.store / "v1/daemon" / f"{running.name}.json"

    def beat() -> None:
        with suppress(OSError):
            os.utime(heartbeat)

    with stopped(running.process.pid), meanwhile(beat, 0.5):
        yield


def wait_for(condition, complaint=lambda: "it didn't happen in time"):
    """Wait until *condition* returns something true, and return that."""
    deadline = time.monotonic() + MUCH
    while not (found := condition()):
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.05)
    return found


def spool(store: Path) -> list[Path]:
    """The requests that wait."""
    return sorted(path for path in (store / "v1/requests").glob("*/*.json"))


def failures(store: Path) -> list[dict[str, object]]:
    """What the daemons could not build, or would not."""
    return [json.loads(path.read_text()) for path in sorted((store / "v1/failed").glob("*.json"))]


def in_thread(settings: Settings, state: Path) -> tuple[Service, threading.Thread]:
    """Run a service in a thread of this process, which closes the connection to the state that it alone can close."""
    from nbcache.daemon import service, shared_parts
    from nbcache.daemon.presence import Notifier

    made: queue.SimpleQueue[Service] = queue.SimpleQueue()

    def run() -> None:
        running = service.Service(settings, shared_parts.Options(state=str(state)), lambda: settings)
        made.put(running)
        running.run(Notifier({}))

    thread = threading.Thread(target=run)
    thread.start()
    return made.get(), thread
