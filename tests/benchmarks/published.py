"""Measure published functions: nodes with an image, nodes with LLVM, NumPy alone, Numba, and ordinary warm hits.

    python tests/benchmarks/published.py [--repeat 9] [--functions 100]

The sides take turns, in fresh processes. Every cell is a median with the least and the greatest value. Wants an idle
machine; where others use it as well, the ratios say more than the times.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from nbbench import table  # noqa: E402
from nbbench.sides import NBCACHE, PLAIN, Bench  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

IMAGE, LLVM, BYTES, NUMPY, HIT = "image", "LLVM", "bytes", "NumPy alone", "warm hit"
WAYS = (IMAGE, LLVM)
Samples = dict[str, dict[str, list[float]]]  # what was measured -> side -> values


class Published:
    """A bench with one store for each way of loading."""

    def __init__(self, folder: Path, functions: int) -> None:
        self.functions = functions
        self.bench = Bench(folder, 0)
        self.bench.generate(functions)
        no_linker = folder / "no-linker"
        no_linker.mkdir()
        self.extra = {way: {"NBCACHE_DIR": str(folder / f"store-{way}")} for way in WAYS}
        self.without_linker = {**self.extra[LLVM], "PATH": str(no_linker)}
        self.bytes = str(folder / "bytes")
        for extra, more in ((self.extra[IMAGE], [self.bytes]), (self.without_linker, [])):
            self.bench.run(PLAIN, "published_publish", str(functions), *more, extra=extra)

    def run(self, side: str, child: str, *arguments: str) -> dict[str, float]:
        """Run a child as a node of one way, or plain."""
        return self.bench.run(PLAIN, child, *arguments, extra=self.extra.get(side, {}))


def start(published: Published, repeat: int) -> Samples:
    """From the start of a process to its first result."""
    arguments = {IMAGE: "published", LLVM: "published", NUMPY: "numpy", PLAIN: "numba"}
    samples: Samples = defaultdict(lambda: defaultdict(list))
    for side in (NBCACHE, NBCACHE):
        published.bench.run(side, "published_start", "numba")
    for _ in range(repeat):
        for side, argument in arguments.items():
            _add(samples, side, published.run(side, "published_start", argument))
        _add(samples, BYTES, published.run(BYTES, "published_start", "bytes", published.bytes))
        _add(samples, HIT, published.bench.run(NBCACHE, "published_start", "numba"))
    return samples


def further(published: Published, repeat: int) -> Samples:
    """Each further function, and the memory of all of them."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    for _ in range(repeat):
        for way in WAYS:
            _add(samples, way, published.run(way, "published_further", str(published.functions)))
    return samples


def calls(published: Published, repeat: int) -> Samples:
    """A call, against Numba's dispatcher in the same process."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    for _ in range(max(1, repeat // 3)):
        for way in WAYS:
            for name, value in published.run(way, "published_calls").items():
                function, _, side = name.rpartition(" ")
                if side == "published" or (side == "numba" and way == IMAGE):
                    samples[function][way if side == "published" else PLAIN].append(value)
    return samples


def cost(published: Published, repeat: int) -> Samples:
    """Publishing against compiling, of a small function and of one that calls much of Numba's NumPy."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    for number in range(max(1, repeat // 3)):
        for name in ("scaled", "ranked"):
            store = {"NBCACHE_DIR": str(published.bench.folder / f"cost-{name}-{number}")}
            no_linker = {"NBCACHE_DIR": store["NBCACHE_DIR"] + "-llvm", "PATH": published.without_linker["PATH"]}
            for side, way, extra in ((IMAGE, "publish", store), (LLVM, "publish", no_linker), (PLAIN, "compile", {})):
                measured = published.bench.run(PLAIN, "published_cost", name, way, extra=extra)
                samples[name][side].append(measured["ms"])
    return samples


def _add(samples: Samples, side: str, measured: dict[str, float]) -> None:
    for name, value in measured.items():
        samples[name][side].append(value)


def _print(title: str, values: dict[str, list[float]], base: str | None, sides: Iterable[str]) -> None:
    print(title)
    for side in sides:
        ratio = f"{statistics.median(values[side]) / statistics.median(values[base]):8.2f}" if base else ""
        print(f"    {side:14} {table.cell(values[side]):>26} {ratio}", flush=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--functions", type=int, default=100)
    options = parser.parse_args()
    print(table.machine())
    with tempfile.TemporaryDirectory(prefix="nbcache-bench-") as folder:
        published = Published(Path(folder), options.functions)
        found = start(published, options.repeat)
        order = (IMAGE, LLVM, BYTES, NUMPY, HIT, PLAIN)
        _print("process start to first result, function of an array [ms]", found["process ms"], NUMPY, order)
        _print("    the same, processor time [ms]", found["CPU ms"], NUMPY, order)
        _print("    after importing NumPy [ms]", found["after NumPy ms"], None, order)
        found = further(published, options.repeat)
        _print("each further function, manifest in hand [us]", found["us in hand"], None, WAYS)
        _print("    the same by name [us]", found["us"], None, WAYS)
        _print(f"memory of {options.functions} functions above NumPy's, resident [MiB]", found["Rss MiB"], None, WAYS)
        _print("    the same, in proportion to its users [MiB]", found["Pss MiB"], None, WAYS)
        words = {"added": "two numbers", "total": "an array to a number", "scaled": "an array to an array"}
        for call, values in calls(published, options.repeat).items():
            function, comma, how = call.partition(",")
            _print(f"a call, {words[function]}{comma}{how} [ns]", values, PLAIN, (*WAYS, PLAIN))
        for function, values in cost(published, options.repeat).items():
            _print(f"publishing `{function}` against compiling it [ms]", values, PLAIN, (*WAYS, PLAIN))
    return 0


if __name__ == "__main__":
    sys.exit(main())
