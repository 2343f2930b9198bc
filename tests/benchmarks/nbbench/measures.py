"""What is measured. Each measure runs its sides in turn, ``repeat`` times, so that a busy machine hits all alike."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from nbtest import daemons, proc

from nbbench import environments
from nbbench.sides import NBCACHE, PLAIN, SIDES
from nbcache.protocol import requests, spool

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nbbench.sides import Bench

Samples = dict[str, dict[str, list[float]]]  # row -> side -> values


def _collect(rows: dict[str, str], samples: Samples, side: str, measured: dict[str, float]) -> None:
    for name, row in rows.items():
        if name in measured:
            samples[row][side].append(measured[name])


def _new() -> Samples:
    return defaultdict(lambda: defaultdict(list))


def _warm(
    bench: Bench,
    child: str,
    repeat: int,
    rows: dict[str, str],
    sides: Iterable[str] = SIDES,
    arguments: tuple[str, ...] = (),
) -> Samples:
    """Fill every side's cache, then measure."""
    samples = _new()
    bench.empty()
    for side in sides:
        bench.run(side, child, *arguments)
    for _ in range(repeat):
        for side in sides:
            _collect(rows, samples, side, bench.run(side, child, *arguments))
    return samples


def first_hit(bench: Bench, repeat: int) -> Samples:
    """First hit of a process after ``import numba``."""
    return _warm(bench, "first_hit", repeat, {"ms": "first hit [ms]"})


def waking(bench: Bench, repeat: int) -> Samples:
    """What a process waits for in all: its first decorator, which wakes nbcache, and its first hit."""
    samples = _warm(bench, "first_hit", repeat, {"with waking ms": "waking and first hit [ms]"})
    rows = {"with waking ms": "waking and first hit, nothing collected [ms]"}
    return samples | _warm(bench, "first_hit", repeat, rows, arguments=("off",))


def further_hits(bench: Bench, repeat: int) -> Samples:
    """Each further hit, over 200 distinct small functions; and the memory of such a process."""
    bench.generate(200)
    rows = {
        "ms": "each further hit, median of 200 [ms]",
        "sum ms": "200 further hits [ms]",
        "rss MiB": "peak memory, 200 functions [MiB]",
    }
    return _warm(bench, "further_hits", repeat, rows)


def cold(bench: Bench, repeat: int) -> Samples:
    """A run with an empty store, publishing included, against plain Numba."""
    bench.generate(60)
    samples = _new()
    rows = {"ms": "cold, 60 functions [ms]", "process ms": "cold, the whole process [ms]"}
    for _ in range(repeat):
        for side in SIDES:
            bench.empty()
            _collect(rows, samples, side, bench.run(side, "cold"))
    return samples


def extensions(bench: Bench, repeat: int) -> Samples:
    """200 small functions where rocket-fft, vector, awkward and sparse are installed and unused, and where they aren't."""
    bench.generate(200)
    samples = _new()
    there = bench.environments or environments.make(bench.folder / "environments")
    places = (("with extensions", there.with_extensions), ("without", there.without))
    children = (("first hit", "first_hit"), ("each further hit", "further_hits"))
    bench.empty()
    for _where, python in places:
        for _row, child in children:
            bench.run(NBCACHE, child, python=python)
    for _ in range(repeat):
        for where, python in places:
            for row, child in children:
                for side in (NBCACHE, PLAIN):
                    measured = bench.run(side, child, python=python)
                    _collect({"ms": f"{row}, {where} [ms]"}, samples, side, measured)
    for row, _child in children:
        with_them, without = samples[f"{row}, with extensions [ms]"], samples[f"{row}, without [ms]"]
        for side in (NBCACHE, PLAIN):
            ratios = [one / other for one, other in zip(with_them[side], without[side], strict=True)]
            samples[f"{row}, with / without"][side] += ratios
    return samples


def big_array(bench: Bench, repeat: int) -> Samples:
    """Ten functions over one global array of 480 MB, warm; the array is there before the clock starts."""
    rows = {"ms": "ten functions over 480 MB [ms]", "rss MiB": "peak memory, ten functions over 480 MB [MiB]"}
    return _warm(bench, "big_array", repeat, rows, (NBCACHE, PLAIN))


def import_numba(bench: Bench, repeat: int) -> Samples:
    """``import numba`` with and without the hook."""
    return _warm(bench, "import_numba", repeat * 2, {"ms": "import numba [ms]"}, (NBCACHE, PLAIN))


def kernels(bench: Bench, repeat: int) -> Samples:
    """Eight kernels of numba-cuda's, warm, and importing it; by processor time, since they are short."""
    rows = {
        "ms": "eight kernels, processor time [ms]",
        "seven ms": "seven of them that numba-cuda caches [ms]",
        "decorators ms": "their decorators [ms]",
        "first ms": "the first kernel [ms]",
        "further ms": "each further kernel [ms]",
    }
    samples = _warm(bench, "eight_kernels", repeat, rows)
    imported = {"ms": "import numba.cuda, processor time [ms]"}
    return samples | _warm(bench, "import_numba_cuda", repeat, imported, (NBCACHE, PLAIN))


def start(bench: Bench, repeat: int) -> Samples:
    """What the .pth line adds to a Python that never imports Numba: NBCACHE_DIR set (as nbcache) and unset (as plain)."""
    samples = _new()
    line = bench.site / "nbcache" / "nbcache.pth"
    for _ in range(repeat * 3):
        for side in (NBCACHE, PLAIN):
            env = proc.environment(bench.store if side == NBCACHE else None, {"PYTHONPATH": ""})
            argv = [sys.executable, "-S", bench.folder / "switch.py", line, bench.site]
            output = subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout
            samples["Python start, NBCACHE_DIR set / unset [ms]"][side].append(json.loads(output)["ms"])
    return samples


def kinds(bench: Bench, repeat: int) -> Samples:
    """Eleven kinds in one process, warm."""
    return _warm(bench, "kinds", repeat, {"ms": "eleven kinds, sum [ms]", "rss MiB": "peak memory, eleven kinds [MiB]"})


def each_kind(bench: Bench, repeat: int) -> Samples:
    """Each of these kinds in a process of its own, warm: what one takes depends on what others have loaded before it."""
    names = [
        "njit",
        "vectorize eager",
        "vectorize dynamic",
        "vectorize parallel",
        "guvectorize",
        "parallel",
        "cfunc",
        "typed List",
        "typed Dict",
        "jitclass",
        "closures",
    ]
    samples = _new()
    for name in names:
        samples |= _warm(bench, "kinds", repeat, {name: f"first of its kind, {name} [ms]"}, arguments=(name,))
    return samples


def calls(bench: Bench, repeat: int) -> Samples:
    """A call of a loaded function."""
    return _warm(bench, "calls", repeat, {"ns": "a call [ns]", "ns under cProfile": "a call under cProfile [ns]"})


def new_code(bench: Bench, repeat: int) -> Samples:
    """A miss on code whose library parts are in the store."""
    samples = _new()
    bench.empty()
    bench.run(NBCACHE, "new_code", "0.5")
    for number in range(repeat):
        for side in (NBCACHE, PLAIN):
            _collect(
                {"ms": "new code, library parts known [ms]"},
                samples,
                side,
                bench.run(side, "new_code", str(number + 1)),
            )
    return samples


_ASKED = """
import numpy as np
from numba import njit

@njit
def trivial(x):
    return x + {number}

@njit
def sorting(a):
    b = np.sort(a) * {number}
    return np.median(b), np.histogram(b, 5)[0].sum()
"""


def daemon(bench: Bench, repeat: int) -> Samples:
    """From a miss to running code: asked of a daemon, against compiled here; and what a daemon does in a second."""
    samples = _new()
    bench.empty()
    rows = {
        "trivial ms": "miss to running code, trivial [ms]",
        "sorting ms": "miss to running code, sort, median… [ms]",
    }
    with daemons.daemon(bench.store, "--workers", "2"):
        for number in range(repeat + 1):
            (bench.folder / f"asked_{number}.py").write_text(_ASKED.format(number=number), encoding="utf-8")
            for side, extra in ((NBCACHE, {**daemons.WAITING, "NBCACHE_LOG": "warning"}), (PLAIN, {})):
                measured = bench.run(side, "asked", f"asked_{number}", extra=extra)
                if number:  # the first one waits for the daemon's interpreter, and brings the library's parts
                    _collect(rows, samples, side, measured)
        for number in range(repeat):
            samples["daemon: trivial requests in a second"][NBCACHE].append(_throughput(bench, f"many_{number}"))
    return samples


def _throughput(bench: Bench, module: str, count: int = 100) -> float:
    """Requests a second, for functions that take next to no time to compile."""
    decorators = "from numba import njit\n"
    functions = "".join(f"@njit\ndef f{index}(x):\n    return x + {index}\n" for index in range(count))
    (bench.folder / f"{module}.py").write_text(f"{decorators}SALT = {module!r}\n{functions}", encoding="utf-8")
    record = bench.folder / f"{module}.jsonl"
    text = f"import {module} as m\nfor index in range({count}):\n    getattr(m, f'f{{index}}')(1)\n"
    (bench.folder / "record.py").write_text(text, encoding="utf-8")
    other = {"NBCACHE_RECORD": str(record)}
    outcome = proc.run([bench.folder / "record.py"], bench.folder / f"store-{module}", other, cwd=bench.folder)
    assert outcome.status == 0, outcome.stderr
    asked = [requests.read(line) for line in record.read_bytes().splitlines()]
    started = time.perf_counter()
    for request in asked:
        spool.submit(str(bench.store), request)
    daemons.wait_for(lambda: not daemons.spool(bench.store))
    seconds = time.perf_counter() - started
    assert not daemons.failures(bench.store)
    objects = bench.store / "v1" / "objects"
    assert all(any((objects / each.key[:2]).glob(f"{each.key[2:]}*")) for each in asked)
    return len(asked) / seconds


def identity(bench: Bench, repeat: int) -> Samples:
    """Whether a function is what it was: asked again, with nothing changed."""
    rows = {
        "us alone": "identity again, a function alone [µs]",
        "us chain": "identity again, behind it a chain of 300 [µs]",
    }
    samples = _new()
    for _ in range(repeat):
        _collect(rows, samples, NBCACHE, bench.run(NBCACHE, "identity"))
    return samples


def large_store(bench: Bench, repeat: int) -> Samples:
    """Hits in a store of a thousand entries and of ``bench.entries``; what an operator asks of it."""
    bench.generate(200)
    samples = _new()
    bench.empty()
    bench.run(NBCACHE, "further_hits")
    count = 0
    for size in (1_000, min(bench.entries, 100_000), bench.entries):
        _fill(bench.store, count, size)
        count = size
        for _ in range(repeat):
            measured = bench.run(NBCACHE, "further_hits")
            _collect({"ms": f"each further hit, {size:,} entries [ms]"}, samples, NBCACHE, measured)
        for name, command in (("stats", ["stats"]), ("plan of gc", ["gc", "--dry-run", "--max-size", "1MiB"])):
            outcome = proc.run(["-m", "nbcache", *command], bench.store, {"PYTHONPATH": proc.search_path(bench.site)})
            assert outcome.status == 0, outcome.stderr
            samples[f"nbcache {name}, {size:,} entries [ms]"][NBCACHE].append(outcome.seconds * 1e3)
    return samples


def _fill(store: Path, first: int, last: int) -> None:
    """Files with the names of entries, which nobody asks for."""
    objects = store / "v1" / "objects"
    for shard in range(256):
        (objects / f"{shard:02x}").mkdir(exist_ok=True)
    for number in range(first, last):
        name = hashlib.blake2b(b"%d" % number, digest_size=32).hexdigest()
        (objects / name[:2] / f"{name[2:]}.nbo").write_bytes(b"x" * 100)


def shared(bench: Bench, repeat: int) -> Samples:
    """Hits a second, of processes that load the same 200 functions at once."""
    bench.generate(200)
    samples = _new()
    bench.empty()
    bench.run(NBCACHE, "further_hits")
    for count in (1, os.cpu_count() or 1, 64):
        for _ in range(repeat):
            started = time.perf_counter()
            bench.run_at_once("further_hits", count)
            rate = count * 200 / (time.perf_counter() - started)
            samples[f"hits a second, {count} processes, start included"][NBCACHE].append(rate)
    return samples


MEASURES = {
    "first-hit": first_hit,
    "waking": waking,
    "further-hits": further_hits,
    "cold": cold,
    "big-array": big_array,
    "extensions": extensions,
    "import": import_numba,
    "start": start,
    "kinds": kinds,
    "each-kind": each_kind,
    "kernels": kernels,
    "calls": calls,
    "new-code": new_code,
    "daemon": daemon,
    "identity": identity,
    "large-store": large_store,
    "shared": shared,
}
NEED_REGISTRY = {"extensions"}
"""Those that install packages where nobody names environments that have them."""
NEED_PACKAGE = {"kernels": "numba_cuda"}
"""Those that are about a package that nbcache can do without."""
