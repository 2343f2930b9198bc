"""The accumulator: takes queries, has each one compiled and published once, asks the workers, and adds up.

A query is published under its digest. So the second time, also after a restart or on another accumulator, it is there.
"""

from __future__ import annotations

import argparse
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import queries
import serving
import table


class Accumulator:
    """The workers' ports, and the queries that are known to be published."""

    def __init__(self, workers: list[int], publishes: bool) -> None:
        self._workers = workers
        self._publishes = publishes
        self._published: set[str] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(8 * len(workers))
        self._clients = threading.local()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the sum over all rows; None if that is no finite number."""
        query = queries.parse(asked.get("expression"), table.COLUMNS)
        if self._publishes and query.name not in self._published:
            self._publish(query)
        parts = list(self._pool.map(lambda port: self._ask(port, query), self._workers))
        sums = [part["sum"] for part in parts]
        total = None if None in sums else serving.number(sum(sums))
        return {"sum": total, "rows": sum(part["rows"] for part in parts)}

    def _publish(self, query: queries.Query) -> None:
        import nbcache

        with self._lock:
            if query.name in self._published:
                return
            if query.name not in nbcache.names():
                nbcache.publish(query.name, queries.fuse(query))
            self._published.add(query.name)

    def _ask(self, port: int, query: queries.Query) -> dict[str, Any]:
        # A connection for each thread and worker: they are kept open.
        clients = vars(self._clients).setdefault("by_port", {})
        if port not in clients:
            clients[port] = serving.Client(port)
        part: dict[str, Any] = clients[port].ask("/partial", expression=query.expression)
        return part


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workers", type=int, nargs="+", help="the workers' ports")
    parser.add_argument("--leave-it-to-workers", action="store_true", help="compile and publish nothing")
    args = parser.parse_args()
    if not args.leave_it_to_workers:
        import numba  # noqa: F401  before the first query, as a service would
    accumulator = Accumulator(args.workers, not args.leave_it_to_workers)
    serving.serve({"/query": accumulator.answer})


if __name__ == "__main__":
    main()
