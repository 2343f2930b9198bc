"""Running a written program: in a child of a zygote, or in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbtest import proc

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Job:
    """One run of a program."""

    main: Path
    cwd: Path
    env: Mapping[str, str]


class Pending:
    """A run that has been started; ``result`` waits for it."""

    def __init__(self, wait: object, out: Path | None = None, err: Path | None = None) -> None:
        self._wait, self._out, self._err, self._started = wait, out, err, time.perf_counter()

    def result(self) -> proc.Outcome:
        """Return how the run ended."""
        if self._out is None or self._err is None:
            return proc.finish(self._wait)
        status = json.loads(self._wait.readline())["status"]
        seconds = time.perf_counter() - self._started
        return proc.Outcome(
            status, self._out.read_text(encoding="utf-8"), self._err.read_text(encoding="utf-8"), seconds
        )


class Zygote:
    """A zygote process; one run at a time."""

    def __init__(self, name: str, scratch: Path, store: Path | None, *, warm: bool = False) -> None:
        script = Path(__file__).with_name("zygote.py")
        argv = [sys.executable, str(script), *(["--warm"] if warm else [])]
        self._process = subprocess.Popen(
            argv, env=proc.environment(store), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._out, self._err = scratch / f"{name}.out", scratch / f"{name}.err"

    def start(self, job: Job) -> Pending:
        """Start ``job``."""
        request = {
            "main": str(job.main),
            "cwd": str(job.cwd),
            "env": dict(job.env),
            "out": str(self._out),
            "err": str(self._err),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Pending(self._process.stdout, self._out, self._err)

    def close(self) -> None:
        """End the zygote."""
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def start_fresh(job: Job, store: Path | None) -> Pending:
    """Start ``job`` in a new interpreter."""
    return Pending(proc.start([job.main], store, job.env, job.cwd))
