"""The accumulator: takes queries, has each one compiled and published once, asks the workers, and adds up.

A query is published under its digest. So the second time, also after a restart or on another accumulator, it is there.
It also has a page for people, and ``/health`` for whoever keeps services up.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import queries
import serving
import table
from figures import Figures

EXPIRES: Final = 7 * 86400
"""How long a query stays published [s]; who asks it later has it compiled again."""
PATIENCE: Final = 5
"""A worker that doesn't say in this time how it is [s] counts as one that doesn't answer."""


class Accumulator:
    """The workers' ports, and what is told of the service."""

    def __init__(self, workers: list[int], publishes: bool) -> None:
        self._workers = workers
        self._publishes = publishes
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(8 * len(workers))
        self._watching = ThreadPoolExecutor(len(workers))
        self._clients = threading.local()
        self._figures = Figures()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the sum over all rows, and that of each period; None for what is no finite number."""
        begun = time.perf_counter()
        query = queries.parse(asked.get("expression"), table.COLUMNS)
        new = self._publishes and self._publish(query)
        parts = list(self._pool.map(lambda port: self._ask(port, query), self._workers))
        sums = [_sum(each) for each in zip(*(part["sums"] for part in parts), strict=True)]
        seconds = time.perf_counter() - begun
        self._figures.add(query.expression, seconds, new=new)
        rows = sum(part["rows"] for part in parts)
        return {"sum": _sum(sums), "sums": sums, "rows": rows, "seconds": seconds, "new": new}

    def health(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return how many workers answer; raise UnavailableError if one doesn't."""
        described = self._described()
        silent = [str(port) for port, each in described.items() if each is None]
        if silent:
            raise serving.UnavailableError(f"of {len(described)} workers, nobody answers at port {', '.join(silent)}")
        return {"healthy": True, "workers": len(described)}

    def status(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return what the page shows: queries, and processes with their processor time [s] and memory [bytes]."""
        described = {"accumulator": serving.describe({})}
        described |= {f"worker {port}": each for port, each in self._described().items()}
        used = serving.processor_times()
        processes = [
            {"process": name, "answers": False}
            if each is None
            else {"process": name, "answers": True, **each, "processor": used.get(each["group"])}
            for name, each in described.items()
        ]
        known = {"columns": table.COLUMNS, "functions": list(queries.FUNCTIONS), "days": table.DAYS}
        return {**known, **self._figures.show(), "processes": processes}

    def _publish(self, query: queries.Query) -> bool:
        """Have it published; return whether it had to be compiled."""
        import nbcache

        if nbcache.exists(query.name):
            return False
        with self._lock:
            if nbcache.exists(query.name):
                return False
            nbcache.publish(query.name, queries.fuse(query), expires=EXPIRES)
            return True

    def _described(self) -> dict[int, dict[str, Any] | None]:
        """Return what each worker says of itself; None for one that doesn't answer."""

        def describe(port: int) -> dict[str, Any] | None:
            try:
                return serving.Client(port, timeout=PATIENCE).ask("/describe")
            except (serving.UnavailableError, RuntimeError):
                return None

        return dict(zip(self._workers, self._watching.map(describe, self._workers), strict=True))

    def _ask(self, port: int, query: queries.Query) -> dict[str, Any]:
        # A connection for each thread and worker: they are kept open.
        clients = vars(self._clients).setdefault("by_port", {})
        if port not in clients:
            clients[port] = serving.Client(port)
        part: dict[str, Any] = clients[port].ask("/partial", expression=query.expression)
        return part


def _sum(numbers: Sequence[float | None]) -> float | None:
    return None if None in numbers else serving.number(sum(numbers))


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workers", type=int, nargs="+", help="the workers' ports")
    parser.add_argument("--leave-it-to-workers", action="store_true", help="compile and publish nothing")
    parser.add_argument("--port", type=int, default=0, help="where to answer (default: any that is free)")
    args = parser.parse_args()
    if not args.leave_it_to_workers:
        import numba  # noqa: F401  before the first query, as a service would
    accumulator = Accumulator(args.workers, not args.leave_it_to_workers)
    answers = {"/query": accumulator.answer, "/health": accumulator.health, "/status": accumulator.status}
    serving.serve(answers, Path(__file__).with_name("page"), args.port)


if __name__ == "__main__":
    main()
