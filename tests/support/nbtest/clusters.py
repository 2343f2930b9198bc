"""Dask clusters of tests: a scheduler and workers that are processes, on loopback, ended by their process ids."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from nbtest import proc, programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FUNCTIONS = (
    """
import json, sys
import numpy as np
from numba import njit

K = 3

@njit
def callee(x):
    return x * K

@njit
def main_function(a):
    s = 0.0
    for x in a:
        s += callee(x)
    return s

def make(k):
    @njit
    def closure(a):
        return callee(a.sum()) + k
    return closure

FUNCTIONS = [main_function, make(1), njit(lambda a: a.max() + K)]
"""
    + programs.FORBID
    + """
def use(functions, forbidden=False):
    import nbcache
    nbcache.stats()
    if forbidden:
        forbid()
    results = [np.asarray(function(np.arange(5.0))).tolist() for function in functions]
    return results, nbcache.stats()["misses"], len(nbcache.stats()["hits"])
"""
)
"""A program that is sent to workers begins with this: functions of `__main__`, closures and lambdas, and their use there."""

_SCHEDULER = """
import asyncio, json, sys
import dask
from distributed import Nanny, Scheduler, Worker

async def main():
    dask.config.set({"distributed.scheduler.allowed-failures": int(sys.argv[2])})
    async with Scheduler(host="127.0.0.1", port=int(sys.argv[3]), dashboard_address=None) as scheduler:
        nannies = [
            await Nanny(scheduler.address, nthreads=1, host="127.0.0.1", dashboard_address=None, memory_limit=0)
            for _ in range(int(sys.argv[1]))
        ]
        print(scheduler.address, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            told = {}
            for nanny in nannies:
                state = scheduler.workers.get(nanny.worker_address)
                if state is not None:
                    told[nanny.worker_address] = [nanny.pid, [str(task.key) for task in state.processing]]
            print(json.dumps(told), flush=True)
        for nanny in nannies:
            await nanny.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def needed() -> None:
    """Skip where Dask isn't installed."""
    pytest.importorskip("distributed", reason="needs the package distributed")


class Cluster:
    """A scheduler with some workers, each with a nanny."""

    def __init__(
        self, folder: Path, workers: int, failures: int = 3, port: int = 0, extra: Mapping[str, str] | None = None
    ) -> None:
        """Start it and wait until all workers are there. A task is given up after so many *failures* of workers."""
        program = folder / "cluster_of_test.py"
        program.write_text(_SCHEDULER)
        self._log = (folder / "cluster.log").open("a")
        extra = {"DASK_TEMPORARY_DIRECTORY": str(folder / "scratch"), **(extra or {})}
        # Whatever a function needs is on the path of whoever asks for it.
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(workers), str(failures), str(port)],
            env=proc.environment(None, extra), cwd="/", text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, (folder / "cluster.log").read_text()

    @property
    def workers(self) -> dict[str, Any]:
        """Each worker's address with its pid and the names of the tasks that it has."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End it, workers first."""
        if self.process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.process.communicate("", timeout=120)
        if self.process.returncode is None:
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End the scheduler without a word; nannies and workers end with their parent."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def cluster(folder: Path, workers: int, **more: Any) -> Iterator[Cluster]:
    """A cluster that is ended at the end."""
    running = Cluster(folder, workers, **more)
    try:
        yield running
    finally:
        running.close()
