"""The table that is queried: orders with price, discount, tax, quantity and day, in partitions of a file for each
column.

The columns, their ranges and what is asked of them are those of ``lineitem`` in the TPC-H benchmark
(https://www.tpc.org/tpch/); each worker has some partitions, mapped into memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

COLUMNS: Final = ("day", "discount", "price", "quantity", "tax")
DAYS: Final = 2526
"""Days are from 0 up to this."""
PERIODS: Final = 28
"""An answer has a sum for each of so many equal parts of these days: about the quarters of seven years."""


def write(folder: Path, rows: int, partitions: int) -> None:
    """Write a table with so many rows, the same for the same numbers."""
    for number, count in enumerate(np.diff(np.linspace(0, rows, partitions + 1).astype(int))):
        rng = np.random.default_rng(number)
        quantity = rng.integers(1, 51, count).astype(float)
        columns = {
            "day": rng.integers(0, DAYS, count).astype(float),
            "discount": rng.integers(0, 11, count) / 100,
            "price": np.round(quantity * rng.uniform(900.0, 2100.0, count), 2),
            "quantity": quantity,
            "tax": rng.integers(0, 9, count) / 100,
        }
        for name, values in columns.items():
            np.save(folder / f"{number:04}.{name}.npy", values)


def partitions(folder: Path) -> list[int]:
    """Return the numbers of the partitions in a folder."""
    return sorted(int(path.name[:4]) for path in folder.glob("*.price.npy"))


def read(folder: Path, number: int) -> dict[str, np.ndarray]:
    """Return the columns of one partition, mapped: pages are read when they are used, and shared between processes."""
    return {name: np.load(folder / f"{number:04}.{name}.npy", mmap_mode="r") for name in COLUMNS}


def periods(days: np.ndarray) -> np.ndarray:
    """Return the number of the period that each day is in."""
    return (days * PERIODS // DAYS).astype(np.intp)
