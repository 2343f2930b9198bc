"""``nbcache health``: whether a function that a program asks for is built, loaded and runs, for probes.

Everything that touches the store is done by another process (:mod:`nbcache.client.selftest`), since a filesystem that
hangs may hang whoever looks at it for ever, out of reach of any signal: this one waits as long as it was told to, and
not a moment for that one's end.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nbcache import other_processes
from nbcache.cli.commands import HEALTH_SECONDS
from nbcache.cli.store_option import settings_of
from nbcache.cli.text import UsageError, duration, print_json, printable

_RESERVE = 0.3
"""What is kept for ending the other process, and for printing [s]."""
_ADVICE = {
    "opening the store": "its filesystem doesn't answer: see the mount, and the file server",
    "looking for a daemon": "its filesystem doesn't answer: see the mount, and the file server",
    "importing Numba": "this Python is slow to start: try again, or give it longer with --timeout",
    "asking a daemon": "`nbcache status`; restart the daemon if that doesn't change",
}


@dataclass(slots=True)
class Outcome:
    """How the test went."""

    stage: str = "starting Python"
    healthy: bool = False
    problem: str = ""
    advice: str = ""
    noise: str = ""
    """The last line that the other process said and that was no report."""

    def take(self, line: bytes) -> None:
        """Learn from a line that it said."""
        try:
            said: Any = json.loads(line)
            self.stage = str(said.get("stage", self.stage))
            self.healthy = said.get("healthy", self.healthy) is True
            self.problem, self.advice = str(said.get("problem", self.problem)), str(said.get("advice", self.advice))
        except (ValueError, AttributeError):
            self.noise = line.decode("utf-8", "replace").strip() or self.noise


def health(args: argparse.Namespace) -> int:
    """Try the whole path, and say in one line how that went."""
    began = time.monotonic() - _age()
    if not 1 <= args.timeout <= 3600:
        raise UsageError("--timeout: from 1 to 3600 seconds")
    settings = settings_of(args)
    if settings.dir is None:
        outcome = Outcome(problem="no cache directory", advice="set NBCACHE_DIR or pass --dir DIR")
    else:
        outcome = _try(settings.dir, began + args.timeout - _RESERVE)
    seconds = time.monotonic() - began
    if args.json:
        said = {"healthy": outcome.healthy, "problem": outcome.problem, "advice": outcome.advice}
        print_json({**said, "seconds": seconds, "dir": settings.dir})
    elif outcome.healthy:
        print(printable(f"healthy: built by a daemon, loaded and called in {duration(seconds)} ({settings.dir})"))
    else:
        print(printable(f"unhealthy: {outcome.problem}: {outcome.advice}"))
    sys.stdout.flush()
    return 0 if outcome.healthy else 1


def _try(root: str, deadline: float) -> Outcome:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # What this one was told not to heed, that one doesn't either.
    flags = ["-I"] if sys.flags.isolated else ["-E"] if sys.flags.ignore_environment else []
    # Not how long: that one would count it from its own start, and be ended while it tidies up.
    until = f"{max(deadline, time.monotonic() + 0.5):.3f}"
    argv = [sys.executable, *flags, "-m", "nbcache.client.selftest", root, until]
    outcome = Outcome()
    try:
        child = subprocess.Popen(  # noqa: S603  this very Python
            argv, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        outcome.problem, outcome.advice = f"no process can be started: {error.strerror}", "see the limits of this user"
        return outcome
    said, in_time = _heard(child, deadline)
    for line in said.split(b"\n"):
        if line:
            outcome.take(line)
    if outcome.problem or outcome.healthy:
        return outcome
    if in_time:
        words = f", saying {outcome.noise!r:.200}" if outcome.noise else ""
        outcome.problem = f"the test ended with status {child.returncode} while {outcome.stage}{words}"
        outcome.advice = "`nbcache doctor` looks at this Python and its Numba"
    else:
        outcome.problem = f"no end of {outcome.stage} in time"
        outcome.advice = _ADVICE.get(outcome.stage, "see how busy this machine is")
    return outcome


def _heard(child: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool]:
    """Return what it says until then, and whether it has ended; end it with all that it started.

    Its end isn't waited for: it may hang where no signal reaches it.
    """
    try:
        said, in_time = child.communicate(timeout=max(0.0, deadline - time.monotonic()))[0], True
    except subprocess.TimeoutExpired as late:
        said, in_time = late.output or b"", False
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    assert child.stdout is not None
    child.stdout.close()
    # Popen would complain of a process that is still there.
    child.returncode = child.returncode if child.returncode is not None else -signal.SIGKILL
    return said, in_time


def _age() -> float:
    """How long this process has lived [s]; 0 if that can't be known. What Python needs to start counts as well."""
    with suppress(OSError, AttributeError, ValueError):
        born = other_processes.birth(os.getpid()) / os.sysconf("SC_CLK_TCK")
        return max(0.0, min(HEALTH_SECONDS, time.clock_gettime(time.CLOCK_BOOTTIME) - born)) if born else 0.0
    return 0.0
