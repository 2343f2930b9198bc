"""Measure published functions at a query service's scale: many names, and many loads in one worker.

    python tests/benchmarks/published_scale.py [--only names loads service] [--names 100000] [--loads 100000] [--repeat 5]

Publishing, loading, and finding out that a name is there or isn't, in a store with ten names and in one with many; the
stores take turns, in fresh processes, and a row is a median of medians. Then a worker that loads functions, calls them
and lets go of them, again and again: its memory and mappings after a tenth of the loads, and at the end. Then
examples/query_service with sixteen workers: what a new query takes of all processors until its first answer, published,
and compiled by each worker; the least of the repetitions. Wants an idle machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from nbbench import table  # noqa: E402
from nbtest import proc  # noqa: E402

FEW, FUNCTIONS = 10, 50
PARTS = ("names", "loads", "service")
SERVICE = "--workers 16 --new 10 --clients 1 --seconds 0.1 --json"
SOURCE = """
from numba import njit
def made(number):
    text = f"def f(x):\\n    return x * {number}.5 + {number}"
    space = {}
    exec(text, space)
    function = njit(space["f"])
    function(1.0)
    return function
"""
FILL = f"""{SOURCE}
import sys, nbcache
from nbcache import config
from nbcache.store.directory import Store
for number in range({FUNCTIONS}):
    nbcache.publish(f"base.b{{number}}", made(number))
names = Store.open(config.load()).names
found = names.read("base.b0")
for number in range(int(sys.argv[1])):
    names.write(f"queries.q{{number}}", found.manifest, found.entries, found.files)
"""
PUBLISH = f"""{SOURCE}
import json, statistics, sys, time, nbcache
functions, took = [made(1000 + number) for number in range(12)], []
for number, function in enumerate(functions):
    began = time.perf_counter()
    nbcache.publish(f"new.n{{number}}", function)
    took.append(time.perf_counter() - began)
for number in range(12):
    nbcache.unpublish(f"new.n{{number}}")
print(json.dumps({{"publish [ms]": statistics.median(took[1:]) * 1e3}}))
"""
NODE = """
import json, statistics, sys, time, nbcache
from nbcache import errors
sys.modules["numba"] = None
def median(action, names):
    took = []
    for name in names:
        began = time.perf_counter()
        action(name)
        took.append(time.perf_counter() - began)
    return statistics.median(took[1:]) * 1e6
def miss(name):
    try:
        nbcache.load(name)
    except errors.NotPublishedError:
        return
    raise SystemExit(f"{name} is published")
nbcache.load("base.b0")
there, absent = [f"queries.q{number}" for number in range(10)], [f"queries.none{number}" for number in range(50)]
print(json.dumps({
    "load [us]": median(nbcache.load, there), "load again [us]": median(nbcache.load, there),
    "exists: there [us]": median(nbcache.exists, there * 5), "exists: not there [us]": median(nbcache.exists, absent),
    "load: not there [us]": median(miss, absent),
}))
"""
WORKER = f"""
import json, sys, nbcache
def state():
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return {{"resident [MiB]": int(status["VmRSS"].split()[0]) / 1024, "mappings": sum(1 for _ in open("/proc/self/maps"))}}
loads, marks = int(sys.argv[1]), []
for number in range(loads):
    function = nbcache.load(f"base.b{{number % {FUNCTIONS}}}")
    assert function(2.0) == 2.0 * (number % {FUNCTIONS} + 0.5) + number % {FUNCTIONS}
    del function
    if number in (loads // 10, loads - 1):
        marks.append(state())
print(json.dumps(marks))
"""


def run(code: str, store: Path, *arguments: str) -> str:
    """Return what a child process prints."""
    outcome = proc.run(["-c", code, *arguments], store, timeout=7200)
    assert outcome.status == 0, outcome.stderr
    return outcome.stdout


def names(stores: dict[int, Path], repeat: int) -> None:
    """Publish, load and look for names where there are few, and where there are many."""
    samples: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(repeat):
        for count, store in stores.items():
            for each in (PUBLISH, NODE):
                for row, value in json.loads(run(each, store)).items():
                    samples[row][count].append(value)
    for row, values in samples.items():
        few, many = (statistics.median(values[count]) for count in stores)
        print(f"{row:28}{FEW} names {few:8.1f}   {max(stores)} names {many:8.1f}   {many / few:5.2f}", flush=True)


def loads(store: Path, count: int) -> None:
    """Load and let go in one worker."""
    early, late = json.loads(run(WORKER, store, str(count)))
    for row, value in early.items():
        print(f"{row:28}after {count // 10} loads {value:8.1f}   after {count} loads {late[row]:8.1f}", flush=True)


def service(repeat: int) -> None:
    """Ask new queries of sixteen workers."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(repeat):
        outcome = proc.run([proc.ROOT / "examples" / "query_service", *SERVICE.split()], timeout=7200)
        assert outcome.status == 0, outcome.stderr
        for side, measured in json.loads(outcome.stdout).items():
            samples["the very first query [ms]"][side].append(1e3 * measured["processor_first"])
            samples["each further query [ms]"][side].append(1e3 * measured["processor"])
    for row, values in samples.items():
        published, compiled = (min(values[side]) for side in ("published", "compiled"))
        print(
            f"{row:28}published {published:8.1f}   compiled {compiled:8.1f}   {published / compiled:5.2f}", flush=True
        )


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--loads", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    proc.compile_sources()
    print(table.machine())
    with tempfile.TemporaryDirectory(prefix="nbcache-scale-") as name:
        counts = [FEW, args.names] if "names" in args.only else [FEW] if "loads" in args.only else []
        stores = {count: Path(name) / f"store-{count}" for count in counts}
        for count, store in stores.items():
            run(FILL, store, str(count))
        if "names" in args.only:
            names(stores, args.repeat)
        if "loads" in args.only:
            loads(stores[FEW], args.loads)
    if "service" in args.only:
        service(args.repeat)


if __name__ == "__main__":
    main()
