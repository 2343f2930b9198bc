"""A worker: answers for its partitions of the table. It has NumPy, and no Numba: what it runs was compiled elsewhere.

With ``--compile`` it does without the accumulator's help, and compiles each query for itself: what the service would
have to do if nothing were published, for comparison.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from typing import Any

import numpy as np
import queries
import serving
import table


class Worker:
    """Partitions, and the functions of the queries that were asked so far."""

    def __init__(self, folder: Path, numbers: list[int], compiles: bool) -> None:
        self._partitions = [table.read(folder, number) for number in numbers]
        self._compiles = compiles
        self._functions: dict[str, Any] = {}
        self._lock = threading.Lock()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the sum over this worker's rows; None if that is no finite number."""
        query = queries.parse(asked.get("expression"), table.COLUMNS)
        fused = self._functions.get(query.name) or self._get(query)
        # One partition after the other, by the order of their numbers: the sum is the same each time.
        total = sum(float(np.add.reduce(fused(*map(rows.__getitem__, query.columns)))) for rows in self._partitions)
        return {"sum": serving.number(total), "rows": sum(len(rows["price"]) for rows in self._partitions)}

    def _get(self, query: queries.Query) -> Any:
        with self._lock:
            if query.name not in self._functions:
                self._functions[query.name] = queries.fuse(query) if self._compiles else _loaded(query)
            return self._functions[query.name]


def _loaded(query: queries.Query) -> Any:
    import nbcache

    return nbcache.load(query.name)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the table is")
    parser.add_argument("partitions", type=int, nargs="*", help="numbers of the partitions")
    parser.add_argument("--compile", action="store_true", help="compile each query here, with Numba")
    args = parser.parse_args()
    if args.compile:
        import numba  # noqa: F401  before the first query, as a service would
    worker = Worker(args.folder, args.partitions, args.compile)
    serving.serve({"/partial": worker.answer})


if __name__ == "__main__":
    main()
