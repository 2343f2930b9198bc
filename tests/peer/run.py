"""Numba's own tests without nbcache, with an empty store, and with the store just filled, compared test by test.

    python tests/peer/run.py                            # the modules of modules.txt, whole
    python tests/peer/run.py --sample 10                # every tenth test, always the same ones
    python tests/peer/run.py --modules test_closure test_dispatcher.TestDispatcher.test_fold
    python tests/peer/run.py --workdir DIR --resume     # keep what has finished in DIR
    python tests/peer/run.py --simulator                # numba-cuda's tests instead, under its simulator of a GPU

Each module runs in a process of its own in each of the three modes, and has a store of its own. A test that crashes its
process or exceeds ``--limit`` gets that as its outcome, and a new process goes on after it. Tests that are known to
differ, with the reason, are listed in differences.txt and reported apart. Exit status 1 when any other test differs, or
nbcache counted an error of its own, or a hit that is compiled to something else (``NBTEST_CHECK=all``, nbtest.hitcheck).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from nbtest import hitcheck, proc  # noqa: E402

OFF, COLD, WARM = MODES = ("off", "cold", "warm")


@dataclass(frozen=True)
class Settings:
    """What holds for a whole run. ``package`` is what the names of tests are shown without."""

    package: str
    folder: Path
    sample: int
    limit: float
    resume: bool
    simulator: bool


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a results file; a last line that was being written is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def running(records: list[dict[str, Any]]) -> str | None:
    """Return the test that has started and not ended."""
    ended = {record.get("test") for record in records}
    return next((r["start"] for r in records if "start" in r and r["start"] not in ended), None)


def environment(store: Path | None, *, simulator: bool = False) -> dict[str, str]:
    """Return the environment of a run: nothing of ours but the switch, so that it differs in nothing else."""
    env = proc.environment(store, {"NUMBA_ENABLE_CUDASIM": "1"} if simulator else {})
    del env["NUMBA_NUM_THREADS"]
    return env


def run_process(name: str, results: Path, store: Path | None, settings: Settings) -> str:
    """Run one process until it ends or makes no progress for the limit; return how it ended."""
    argv = [sys.executable, str(HERE / "child.py"), name, str(results), str(settings.sample)]
    scratch = results.with_suffix(".cwd")
    scratch.mkdir(exist_ok=True)
    with results.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            argv, env=environment(store, simulator=settings.simulator), cwd=scratch, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        size, since = -1, time.monotonic()
        try:
            while True:
                try:
                    status = process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    now = results.stat().st_size if results.exists() else 0
                    if now != size:
                        size, since = now, time.monotonic()
                    if time.monotonic() - since < settings.limit:
                        continue
                    return f"no end in {settings.limit:.0f} s"
                return f"crash: {signal.Signals(-status).name}" if status < 0 else f"exit with status {status}"
        finally:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever its tests have started and left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def run_mode(name: str, mode: str, settings: Settings) -> list[dict[str, Any]]:
    """Run one module in one mode; return the records of its results."""
    folder = settings.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / f"{mode}.jsonl"
    plan = {"plan": [name, settings.sample]}
    records = read(results)
    if settings.resume and records and records[0] == plan and "end" in records[-1]:
        return records
    results.write_text(json.dumps(plan) + "\n", encoding="utf-8")
    results.with_suffix(".log").unlink(missing_ok=True)
    store = None if mode == OFF else folder / "store"
    if mode == COLD:
        shutil.rmtree(folder / "store", ignore_errors=True)
        (folder / "warm.jsonl").unlink(missing_ok=True)  # it belongs to the store that was there
    while True:
        before = len(read(results))
        how = run_process(name, results, store, settings)
        records = read(results)
        if "end" in records[-1]:
            return records
        test = running(records)
        with results.open("a", encoding="utf-8") as file:
            if test is not None:
                file.write(json.dumps({"test": test, "outcome": how, "message": ""}) + "\n")
            elif len(records) == before:
                # Not one test more: loading them is what fails, and would fail again.
                file.write(json.dumps({"test": f"{name} (loading)", "outcome": how, "message": ""}) + "\n")
                file.write(json.dumps({"end": True}) + "\n")


def listed_in(path: Path) -> list[str]:
    """Return the lines of a list, without comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def modules_of_simulator() -> list[str]:
    """Return the modules of numba-cuda's tests, below their package: it installs them as `numba.cuda.tests`."""
    # Without what they import, no module could be loaded in any mode, and none would differ.
    missing = [name for name in ("numba_cuda", "filecheck", "cffi") if importlib.util.find_spec(name) is None]
    package = importlib.util.find_spec("numba_cuda")
    if missing or package is None or package.origin is None:
        sys.exit(f"--simulator runs the tests of numba-cuda; what they need isn't installed here: {', '.join(missing)}")
    tests = Path(package.origin).parent / "numba" / "cuda" / "tests"
    return sorted(".".join(path.relative_to(tests).with_suffix("").parts) for path in tests.rglob("test_*.py"))


def known_differences() -> dict[str, str]:
    """Return test -> why its outcome is another with nbcache."""
    pairs = (line.split(None, 1) for line in listed_in(HERE / "differences.txt"))
    return {test: reason.strip() for test, reason in pairs}


def outcomes(records: list[dict[str, Any]], package: str) -> dict[str, tuple[str, str]]:
    """Return test, named without the package -> (outcome, message)."""
    prefix = package + "."
    return {r["test"].removeprefix(prefix): (r["outcome"], r["message"]) for r in records if "test" in r}


def differing(of: dict[str, dict[str, tuple[str, str]]]) -> list[str]:
    """Return the tests whose outcome is not the same in every mode."""
    tests = dict.fromkeys(test for mode in MODES for test in of[mode])
    return [test for test in tests if len({of[mode].get(test, ("not run", ""))[0] for mode in MODES}) > 1]


def describe(test: str, of: dict[str, dict[str, tuple[str, str]]]) -> str:
    """Return the outcomes of one test, and the last line of what it said in each mode where it said anything."""
    said = {mode: of[mode].get(test, ("not run", "")) for mode in MODES}
    lines = [f"  {test}: " + ", ".join(f"{mode} {said[mode][0]}" for mode in MODES)]
    lines += [
        f"      {mode}: {said[mode][1].strip().splitlines()[-1][:300]}" for mode in MODES if said[mode][1].strip()
    ]
    return "\n".join(lines)


def statistics(store: Path) -> dict[str, Any]:
    """Return what ``nbcache stats`` says of a store: all processes of its module, the tests' children included."""
    if not store.exists():
        return {"hits": 0, "missed": 0, "errors": {}}
    argv = [sys.executable, "-m", "nbcache", "stats", "--json", "--dir", str(store)]
    done = subprocess.run(argv, env=environment(None), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def compare(name: str, settings: Settings) -> tuple[dict[str, dict[str, tuple[str, str]]], list[str]]:
    """Run one module in all modes and print its line; return mode -> test -> outcome, and what went wrong with it."""
    full = f"{settings.package}.{name}" if settings.package else name
    records = {mode: run_mode(full, mode, settings) for mode in MODES}
    of = {mode: outcomes(records[mode], settings.package) for mode in MODES}
    counts = Counter(outcome for outcome, _ in of[OFF].values())
    seconds = {mode: sum(r.get("seconds", 0) for r in records[mode]) for mode in MODES}
    store = settings.folder / full / "store"
    counted = statistics(store)
    wrong = [f"{count} {error}" for error, count in counted["errors"].items()] + hitcheck.problems(store, name)
    print(
        f"{name}: {len(of[OFF])} tests ({', '.join(f'{n} {o}' for o, n in counts.most_common())}), "
        f"{len(differing(of))} differ; " + ", ".join(f"{mode} {seconds[mode]:.0f} s" for mode in MODES)
        + f"; {counted['hits']} hits, {counted['missed']} misses",
        flush=True,
    )  # fmt: skip
    return of, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", nargs="+", metavar="NAME", help="modules, classes or tests (default: modules.txt)")
    parser.add_argument("--package", default="numba.tests", metavar="NAME", help="where the modules are")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth test, by a hash of its name")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="the longest a test may take")
    parser.add_argument("--workdir", type=Path, help="where results and stores go (default: a temporary folder)")
    parser.add_argument("--resume", action="store_true", help="keep what has finished in the work directory")
    parser.add_argument("--simulator", action="store_true", help="numba-cuda's tests, under its simulator of a GPU")
    options = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of `finally`, which ends the tests
    folder = options.workdir or Path(tempfile.mkdtemp(prefix="nbcache-peer-"))
    package = "numba.cuda.tests" if options.simulator else options.package
    settings = Settings(package, folder.resolve(), options.sample, options.limit, options.resume, options.simulator)
    modules = modules_of_simulator() if options.simulator else listed_in(HERE / "modules.txt")
    known = known_differences()
    total: Counter[str] = Counter()
    new, listed, needless, errors = [], [], [], []
    for name in options.modules or modules:
        of, wrong = compare(name, settings)
        errors += [f"  {name}: {each}" for each in wrong]
        total.update({mode: len(of[mode]) for mode in MODES})
        needless += [f"  {test}" for test in of[OFF] if test in known and test not in differing(of)]
        for test in differing(of):
            reason = known.get(test)
            if reason is None:
                new.append(describe(test, of))
            else:
                listed.append(f"{describe(test, of)}\n      why: {reason}")
    print("tests run: " + ", ".join(f"{mode} {total[mode]}" for mode in MODES))
    print(f"differ as listed: {len(listed)}", *listed, sep="\n")
    print(f"listed, but the same here: {len(needless)}", *needless, sep="\n")
    print(f"differ: {len(new)}", *new, sep="\n")
    print(f"modules in which nbcache counted errors: {len(errors)}", *errors, sep="\n")
    print(f"results: {settings.folder}")
    return 1 if new or errors else 0


if __name__ == "__main__":
    sys.exit(main())
