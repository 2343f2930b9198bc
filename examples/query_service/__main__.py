"""Starts everything on this machine, loads it, and prints what it did: once with publishing, once without.

    python examples/query_service

Everything lives in a temporary folder and ends with this process. See docs/published.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import load
import serving
import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    StartWorker = Callable[[int], int]
    """Starts a worker for a share of the table; returns its port."""

HERE = Path(__file__).resolve().parent
NODE_PACKAGES = ("numpy", "numpy.libs", "nbcache", "_nbcache.py", "llvmlite", "llvmlite.libs", "tomli")
"""What a worker's environment consists of besides Python. Of llvmlite, only LLVM's library is used, and only where
there was no linker at the accumulator.
"""


def main() -> None:
    """Do it twice, and print a table."""
    args = parse()
    with tempfile.TemporaryDirectory(prefix="query-service-") as temporary:
        folder = Path(temporary)
        (folder / "table").mkdir()
        table.write(folder / "table", args.rows, args.partitions)
        if args.stay:
            with service(args, folder, publishes=True) as (port, _workers, _start_worker):
                print(f"the service is at http://127.0.0.1:{port}/ until Ctrl-C is pressed", flush=True)
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                with suppress(KeyboardInterrupt):
                    signal.pause()
            return
        measured = {"published": run(args, folder, publishes=True), "compiled": run(args, folder, publishes=False)}
    if measured["published"]["sums"] != measured["compiled"]["sums"]:
        raise SystemExit("the answers differ")
    if args.json:
        print(json.dumps(measured))
        return
    show(args, measured["published"], measured["compiled"])


def parse() -> argparse.Namespace:
    """Return what is asked for on the command line."""
    parser = argparse.ArgumentParser(prog="query_service", description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=4, help="processes that answer (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=16, help="of the table (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table (default: %(default)s)")
    parser.add_argument("--new", type=int, default=10, help="how many different queries (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=4, help="who ask at once (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long they ask (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--stay", action="store_true", help="measure nothing, and serve queries and a page until Ctrl-C is pressed"
    )
    parser.add_argument("--port", type=int, default=0, help="where queries are answered (default: any that is free)")
    parser.add_argument(
        "--node",
        metavar="PYTHON",
        type=os.path.abspath,
        help="run workers with this Python, which has nbcache-node (default: links to packages that are here)",
    )
    return parser.parse_args()


def make_node(site: Path) -> None:
    """Make the workers' environment: a folder with NumPy and nbcache, taken from this Python's, and without Numba."""
    site.mkdir()
    for name in NODE_PACKAGES:
        for parent in {Path(place).parent for package in ("numpy", "nbcache") for place in _places(package)}:
            if (parent / name).exists():
                (site / name).symlink_to(parent / name)
                break


def _places(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec is not None else []


@contextmanager
def service(args: argparse.Namespace, folder: Path, *, publishes: bool) -> Iterator[tuple[int, list[int], StartWorker]]:
    """Start workers and an accumulator; give its port, theirs, and what starts one more. They end with the block."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NBCACHE_", "PYTHON"))}
    store = {"NBCACHE_DIR": str(folder / "store")} if publishes else {}
    node = dict(store)
    if not publishes:
        command = [sys.executable, "worker.py", "--compile"]
    elif args.node:
        command = [args.node, "worker.py"]
    else:
        make_node(folder / "node")
        node["PYTHONPATH"] = str(folder / "node")
        # -S: nothing of site-packages is there but what the folder has.
        command = [sys.executable, "-S", "worker.py"]
    numbers = table.partitions(folder / "table")
    leave = [] if publishes else ["--leave-it-to-workers"]

    with ExitStack() as processes:

        def start(command: list[str], environment: dict[str, str]) -> int:
            return port_of(processes.enter_context(started(command, {**plain, **environment})))

        def start_worker(share: int) -> int:
            return start([*command, str(folder / "table"), *map(str, numbers[share :: args.workers])], node)

        workers = [start_worker(share) for share in range(args.workers)]
        accumulator = [sys.executable, "accumulator.py", *map(str, workers), "--port", str(args.port), *leave]
        yield start(accumulator, store), workers, start_worker


def run(args: argparse.Namespace, folder: Path, *, publishes: bool) -> dict[str, Any]:
    """Load a service, and return what was measured."""
    with service(args, folder, publishes=publishes) as (accumulator, workers, start_worker):
        groups = {serving.Client(port).ask("/describe")["group"] for port in (accumulator, *workers)}
        asked = load.expressions(1 + args.new)
        used = [processor_time(groups)]
        # The first query of all: whoever compiles it starts its compiler.
        _, first = load.ask_new(accumulator, asked[:1])
        used.append(processor_time(groups))
        took, others = load.ask_new(accumulator, asked[1:])
        used.append(processor_time(groups))
        sums = first | others
        rate = load.ask_known(accumulator, sums, args.clients, args.seconds)
        begun = time.perf_counter()
        serving.Client(start_worker(0)).ask("/partial", expression=next(iter(sums)))
        fresh = time.perf_counter() - begun
        described = [serving.Client(port).ask("/describe") for port in workers]
    if publishes and any(each["numba"] for each in described):
        raise SystemExit("a worker could import Numba: it was to have none")
    memory = max(each["memory"] for each in described)
    return {
        "sums": sums, "took": took, "rate": rate, "fresh": fresh, "memory": memory,
        "processor_first": used[1] - used[0], "processor": (used[2] - used[1]) / args.new,
    }  # fmt: skip


def processor_time(groups: set[int]) -> float:
    """Return how much all processes of these groups have used [s]."""
    return sum(used for group, used in serving.processor_times().items() if group in groups)


@contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a program here, and end it: it ends when its standard input does."""
    # In a session of its own: Ctrl-C is not for it, and what it starts is counted with it.
    process = subprocess.Popen(
        command, cwd=HERE, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.stdin.close()
        if process.wait(600):
            raise SystemExit(f"{command} ended with status {process.returncode}")


def port_of(process: subprocess.Popen[str]) -> int:
    """Wait until a server listens; return its port."""
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args} did not start")
    return int(line)


def show(args: argparse.Namespace, published: dict[str, Any], compiled: dict[str, Any]) -> None:
    """Print both runs side by side."""
    print(f"{args.rows} rows in {args.partitions} partitions, {args.workers} workers, {args.clients} clients\n")
    both = (published, compiled)
    rows = [
        ("", "published", "compiled by each worker"),
        ("new query to its first answer", *(f"{1e3 * statistics.median(run['took']):.0f} ms" for run in both)),
        ("processor time of that, all processes", *(f"{1e3 * run['processor']:.0f} ms" for run in both)),
        ("that of the very first query", *(f"{1e3 * run['processor_first']:.0f} ms" for run in both)),
        ("known queries a second", *(f"{run['rate']:.0f}" for run in both)),
        ("a new worker's first answer", *(f"{1e3 * run['fresh']:.0f} ms" for run in both)),
        ("memory of a worker, at most", *(f"{run['memory'] / 2**20:.0f} MiB" for run in both)),
    ]
    for what, *values in rows:
        print(f"{what:44}" + "".join(f"{value:>26}" for value in values))


if __name__ == "__main__":
    main()
