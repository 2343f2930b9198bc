"""A worker: answers for its partitions of the table. It has NumPy, and no Numba: what it runs was compiled elsewhere.

With ``--compile`` it does without the accumulator's help, and compiles each query for itself: what the service would
have to do if nothing were published, for comparison.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import queries
import serving
import table

MOST: Final = 1024
"""How many functions a worker keeps at hand."""


class Worker:
    """Partitions, and the functions of the queries that were asked lately."""

    def __init__(self, folder: Path, numbers: list[int], compiles: bool) -> None:
        self._partitions = [table.read(folder, number) for number in numbers]
        self._periods = [table.periods(rows["day"]) for rows in self._partitions]
        self._function = lru_cache(MOST)(queries.fuse if compiles else _loaded)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the sum over this worker's rows of each period; None for what is no finite number."""
        query = queries.parse(asked.get("expression"), table.COLUMNS)
        fused = self._function(query)
        sums = np.zeros(table.PERIODS)
        with np.errstate(all="ignore"):  # the answer says where there is no number
            # One partition after the other, by the order of their numbers: the sums are the same each time.
            for rows, periods in zip(self._partitions, self._periods, strict=True):
                values = fused(*map(rows.__getitem__, query.columns))
                sums += np.bincount(periods, weights=values, minlength=table.PERIODS)
        return {"sums": [serving.number(float(each)) for each in sums], "rows": sum(map(len, self._periods))}


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
