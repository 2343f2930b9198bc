"""``nbcache watch [DIR ...] -- CMD``: run a command, and have its functions built again whenever a file is saved.

The command runs once, beside a daemon in this very process that hears its own user alone and lets all else go first.
The daemon builds what profiles list whose files are saved (:mod:`nbcache.daemon.saved_files`), until Ctrl-C, which the
terminal sends to the command as well. What is saved, and what is ready, is told on standard error if that is a
terminal.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading

from nbcache.cli import command
from nbcache.cli.serve import insist_on_python
from nbcache.cli.store_option import DEFAULT, settings_of
from nbcache.cli.text import UsageError, printable
from nbcache.client import logs
from nbcache.client.cold_start import workers_for
from nbcache.config import AUTO_JOBS, Settings
from nbcache.daemon import presence
from nbcache.daemon.pool import Limits
from nbcache.daemon.service import Service
from nbcache.daemon.shared_parts import Options


def watch(args: argparse.Namespace) -> int:
    """Run the command and watch; return its exit status, 0 if there is none."""
    places, argv = _given(args)

    def read_settings() -> Settings:
        settings = settings_of(args)
        return settings._replace(dir=settings.dir or os.path.expanduser(DEFAULT), readonly=False, recache=False)

    settings = read_settings()
    insist_on_python(settings)
    logs.configure(settings)
    os.makedirs(os.path.dirname(settings.dir or ""), exist_ok=True)
    service = Service(settings, _options(settings, places), read_settings)
    service.handle_signals()
    child = _start(argv, service) if argv else None
    presence.give_way()
    service.run(presence.Notifier({}))
    status = 0 if child is None else child.wait()
    return status if status >= 0 else 128 - status


def _given(args: argparse.Namespace) -> tuple[tuple[str, ...], list[str]]:
    """Return the directories, as they are named and as they really are, and the command. Raises UsageError."""
    named, argv = command.behind(args, "watch: no command given: nbcache watch -- python program.py")
    for each in named:
        if each.startswith("-"):
            raise UsageError(f"watch: {each} must come before the folders: nbcache watch --dir DIR src -- python x.py")
        if not os.path.isdir(each):
            raise UsageError(f"watch: {each} is no directory; the command follows --: nbcache watch src -- python x.py")
    return tuple({path for each in named for path in (os.path.abspath(each), os.path.realpath(each))}), argv


def _options(settings: Settings, places: tuple[str, ...]) -> Options:
    # What the log says of it, a terminal needn't be told.
    shows = sys.stderr.isatty() and not logs.log.isEnabledFor(logging.INFO)
    return Options(
        f"{presence.name_of_helper()}-watch", max(1, workers_for(settings.jobs or AUTO_JOBS)), Limits(result=0),
        alone=True, watched=places, told=_tell if shows else None,
    )  # fmt: skip


def _tell(text: str) -> None:
    print(f"nbcache: {printable(text)}", file=sys.stderr, flush=True)


def _start(argv: list[str], service: Service) -> subprocess.Popen[bytes]:
    """Start the command. Raises CommandError."""
    with command.starting(argv, "watch"):
        child = subprocess.Popen(argv, env={**os.environ, "NBCACHE_DIR": service.store.path})  # noqa: S603  as asked

    def end(_number: int, _frame: object) -> None:
        child.terminate()
        service.stop()

    signal.signal(signal.SIGTERM, end)
    # Or it would stay a zombie for as long as files are watched.
    threading.Thread(target=child.wait, name="nbcache waits for the command", daemon=True).start()
    return child
