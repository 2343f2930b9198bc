"""Programs, daemons and commands of which system calls fail: rounds of each, and what went wrong in them.

``tests/faults/syscalls.py`` runs many, ``tests/faults/test_syscalls.py`` a few.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbtest import daemons, injecting, kinds, proc, showcase
from nbtest.injecting import CHILDREN, Injector, Plan

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping

WHO = ("client", "daemon", "command")
SHARES = {"client": 0.5, "daemon": 0.46, "command": 0.04}
"""How the faults are shared out."""
FUNCTIONS = 80
REQUESTS = 25
RARE = (1, 1, 1, 2, 2, 2, 3, 5, 10, 30)
"""One of so many calls fails."""
TURNS = ("cold", "warm", "second", "third", "fourth", "last")
LOOKED_AFTER = ("cold", "last")
"""The turns after which nothing fails any more: a process with that store is right then, and leaves nothing to be built."""
HANGS_AFTER = 900.0
"""How long a program may take that plain Numba is done with in seconds, on a busy machine [s]."""
SETTLED_AFTER = 900.0
"""How long a daemon may take to be as it was once nothing fails any more [s]."""
BURST = 2500
"""So many calls of a daemon fail, then it is looked at,"""
BURST_SECONDS = 15.0
"""after so long at the latest [s]."""
COMMANDS = (
    ["ls"], ["stats"], ["status"], ["verify"], ["doctor"], ["quarantine"], ["gc", "--max-size", "1TB"], ["config"],
    ["ls", "--json"], ["stats", "--json"], ["health"], ["metrics"],
)  # fmt: skip
FAULT = "a fault of nbcache"
OFF = "nbcache stays off: "
_PYTHONS = (Path(sys.prefix), Path(sys.base_prefix), *map(Path, ("/usr", "/lib", "/lib64", "/etc", "/dev", "/sys")))


@dataclass
class Round:
    """What ran once while something failed, and what is wrong with that."""

    who: str
    error: int
    title: str
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By who (one that a daemon started is a "job") and system call."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    modules: bool = False
    """Whether opening nbcache's own modules failed as well."""

    def count(self, before: Mapping[tuple[int, str], int], after: Mapping[tuple[int, str], int]) -> None:
        """Add what failed between two counts."""
        for (whose, call), count in after.items():
            who = "job" if whose == CHILDREN and self.who == "daemon" else self.who
            self.failed[who, call] += count - before.get((whose, call), 0)
        self.failed = +self.failed

    def blame(self, kind: str, what: str) -> None:
        """Note something that is wrong."""
        self.problems.append((kind, what))

    def look_through(self, log: Path, since: int = 0) -> None:
        """Note what a log says that shouldn't be in any."""
        self.logs.append(log)
        text = log.read_text()[since:] if log.exists() else ""
        for line in text.splitlines():
            # A module that can't be opened is one.
            if FAULT in line and not self.modules:
                self.blame("fault", line.strip()[:300])
                return


@dataclass(frozen=True)
class Program:
    """A program, and what it says without nbcache."""

    name: str
    main: Path
    said: tuple[int, str]
    errors: str


class Ground:
    """A folder with nbcache as a wheel installs it, programs, and stores."""

    def __init__(
        self, folder: Path, functions: int = FUNCTIONS, burst: int = BURST, seconds: float = BURST_SECONDS
    ) -> None:
        """Compile the injector, and run a program without nbcache; skips where no call can be made to fail."""
        self.folder = folder
        self.errors = tuple(injecting.FAULTS)
        """What the rounds have system calls fail with, in turn."""
        self.burst = burst
        self.seconds = seconds
        self.site = proc.installed(folder / "site")
        # What a wheel's .pth does, where none is read.
        shutil.copy(proc.ROOT / "nbcache/nbcache.pth", self.site / "sitecustomize.py")
        self.injector = injecting.compiled(folder)
        self._stores = 0
        work = "".join(f"@njit\ndef f{n}(x):\n    return x + {n}\n" for n in range(functions))
        call = "".join(f"print(work.f{n}(1))\n" for n in range(functions))
        self.functions = self._program("functions", f"from numba import njit\n{work}", f"import work\n{call}", "work")

    @functools.cached_property
    def kinds(self) -> Program:
        """One with a function of each kind."""
        return self._program("kinds", kinds.LIB, kinds.MAIN, "lib")

    def _program(self, name: str, module: str, main: str, called: str) -> Program:
        folder = self.folder / name
        folder.mkdir()
        (folder / f"{called}.py").write_text(module)
        (folder / "main.py").write_text(main)
        outcome = proc.run([folder / "main.py"], extra=self.environment(), cwd=folder)
        assert outcome.status == 0, outcome.stderr
        return Program(name, folder / "main.py", outcome.said, outcome.stderr)

    def environment(self, **more: str) -> dict[str, str]:
        """What the environment of a program adds."""
        return {"PYTHONPATH": str(self.site), **more}

    def store(self) -> Path:
        """A place for a store that nobody has used."""
        self._stores += 1
        return self.folder / f"stores/{self._stores}/store"

    def plan(
        self, chance: random.Random, error: int, *broken: Path, modules: float = 0.0, left: int = injecting.EVERYTHING
    ) -> Plan:
        """Something to fail; with some probability, opening nbcache's own modules is part of it."""
        calls = injecting.FAULTS[error]
        # Where all fails, nothing is reached that comes after the first call.
        some = frozenset(call for call in sorted(calls) if chance.random() < 0.4) if chance.random() < 0.5 else calls
        own = (self.site / "nbcache",) if error == errno.EMFILE and chance.random() < modules else ()
        return Plan(error, chance.choice(RARE), (*broken, *own), (*_PYTHONS, self.folder), left=left, calls=some)

    def rounds(self, chance: random.Random, who: Iterable[str]) -> Iterator[Round]:
        """Rounds without an end, those of whom fewest calls failed first."""
        makers = {"client": self.clients, "daemon": self.daemons, "command": self.commands}
        going = {each: makers[each](chance) for each in who}
        done = dict.fromkeys(going, 0)
        while True:
            next_one = min(going, key=lambda each: done[each] / SHARES[each])
            round_ = next(going[next_one])
            done[next_one] += sum(round_.failed.values()) + 1
            yield round_

    # -- programs --------------------------------------------------------------------------------

    def clients(self, chance: random.Random) -> Iterator[Round]:
        """Programs over a store that breaks while they fill it, and again while they use it."""
        number = 0
        while True:
            for error in self.errors:
                number += 1
                program = self.kinds if number % 6 == 0 else self.functions
                store = self.store()
                with ExitStack() as stack:
                    stack.callback(shutil.rmtree, store.parent, ignore_errors=True)
                    for turn in TURNS:
                        yield self.client(chance, program, store, error, turn)

    def client(self, chance: random.Random, program: Program, store: Path, error: int, turn: str) -> Round:
        """One run of a program while calls fail, and, now and then, one when all is well."""
        plan = self.plan(chance, error, store, modules=0.3)
        round_ = Round("client", error, f"{program.name}, {turn}, {describe(plan)}")
        round_.modules = len(plan.broken) > 1
        store.parent.mkdir(parents=True, exist_ok=True)
        before = entries(store)
        log = store.parent / "client.log"
        log.unlink(missing_ok=True)
        injector = Injector(self.injector, store.parent / "control", chance.getrandbits(64))
        # The list lies in the store, so it breaks with it.
        extra = {"NBCACHE_RECORD": str(store / "list")} if chance.random() < 0.3 else {}
        extra |= {"NBCACHE_LOG": "debug", "NBCACHE_LOG_FILE": str(log)}
        with injector.failing(plan):
            outcome = self.run(program, store, extra, injector)
        round_.count({}, injector.failed())
        judge(round_, program, outcome)
        round_.look_through(log)
        lost = before - entries(store)
        if lost:
            round_.blame("lost", f"{len(lost)} of {len(before)} entries")
        if turn in LOOKED_AFTER:
            judge(round_, program, self.run(program, store), "afterwards: ")
            self.verify(round_, store)
        return round_

    def run(
        self, program: Program, store: Path, extra: Mapping[str, str] | None = None, injector: Injector | None = None
    ) -> proc.Outcome:
        """Run a program with a store."""
        argv = [sys.executable, str(program.main)]
        environment = proc.environment(store, self.environment(**(extra or {})))
        return execute(argv if injector is None else injector.command(argv), environment, program.main.parent)

    def verify(self, round_: Round, store: Path) -> None:
        """Have every byte of a store checked."""
        argv = [sys.executable, "-m", "nbcache", "verify"]
        outcome = execute(argv, proc.environment(store, self.environment()), self.folder)
        if outcome.status != 0:
            round_.blame("lost", f"verify: {(outcome.stdout + outcome.stderr)[-300:]!r}")

    # -- commands --------------------------------------------------------------------------------

    def commands(self, chance: random.Random) -> Iterator[Round]:
        """Each command that looks at a store or tidies it up."""
        while True:
            for error in self.errors:
                store = self.store()
                showcase.build(store, days=20, seed=chance.randrange(1000))
                for command in COMMANDS:
                    yield self.command(chance, command, store, error)
                shutil.rmtree(store.parent)

    def command(self, chance: random.Random, command: list[str], store: Path, error: int) -> Round:
        """One command while calls fail."""
        plan = self.plan(chance, error, store)
        round_ = Round("command", error, f"nbcache {' '.join(command)}, {describe(plan)}")
        before = entries(store)
        injector = Injector(self.injector, store.parent / "control", chance.getrandbits(64))
        argv = [sys.executable, "-m", "nbcache", *command]
        environment = proc.environment(store, self.environment(NBCACHE_LOG_FILE=str(store.parent / "command.log")))
        with injector.failing(plan):
            outcome = execute(injector.command(argv), environment, self.folder)
        round_.count({}, injector.failed())
        if "Traceback" in outcome.stderr:
            round_.blame("traceback", outcome.stderr[-600:])
        if outcome.status not in {0, 1}:
            round_.blame("hang" if outcome.status == -9 else "wrong", f"status {outcome.status}")
        lost = before - entries(store)
        if lost:
            round_.blame("lost", f"{len(lost)} of {len(before)} entries")
        return round_

    # -- daemons ---------------------------------------------------------------------------------

    def daemons(self, chance: random.Random) -> Iterator[Round]:
        """A daemon that is asked for everything, again and again, while calls of its own and of its jobs fail."""
        while True:
            for error in self.errors:
                with Faulted(self, chance) as daemon:
                    for _ in range(4):
                        yield daemon.round(chance, error)
                        if daemon.gone:
                            break


class Faulted:
    """A daemon whose calls can be made to fail, and requests for it."""

    def __init__(self, ground: Ground, chance: random.Random) -> None:
        """Start it, and have everything built once, so that there is something to ask for."""
        self._ground = ground
        self.store = ground.store()
        self.store.parent.mkdir(parents=True)
        self.state = self.store.parent / "state"
        self.log = self.store.parent / "daemon.log"
        warm = self.store.parent / "list"
        outcome = ground.run(ground.functions, self.store, {"NBCACHE_RECORD": str(warm)})
        assert outcome.status == 0, outcome.stderr
        self._lines = warm.read_bytes().splitlines()[:REQUESTS]
        self._injector = Injector(ground.injector, self.store.parent / "control", chance.getrandbits(64))
        argv = [sys.executable, "-m", "nbcache", "serve", "--dir", str(self.store), "--state", str(self.state)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._injector.command([*argv, "--name", "one", "--workers", "2"]),
                env=proc.environment(None, ground.environment(NBCACHE_LOG="info")), cwd="/",
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        daemons.wait_for(lambda: self._heartbeat().get("pid") == self._injector.pid, self.log.read_text)

    def __enter__(self) -> Faulted:  # noqa: PYI034
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        if not self.gone:
            with suppress(ProcessLookupError):
                os.kill(self._injector.pid, signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.store.parent, ignore_errors=True)

    @property
    def gone(self) -> bool:
        """Whether it ended."""
        return self._process.poll() is not None

    def _heartbeat(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return dict(json.loads((self.store / "v1/daemon/one.json").read_text()))
        return {}

    def round(self, chance: random.Random, error: int) -> Round:
        """Ask for everything while calls fail; then, when none fails, it has to be there."""
        plan = self._ground.plan(chance, error, self.store, self.state, modules=1.0, left=self._ground.burst)
        round_ = Round("daemon", error, describe(plan))
        round_.modules = len(plan.broken) > 2
        said = len(self.log.read_text())
        before = self._injector.failed()
        keys = self._forget(chance)
        kept = entries(self.store)
        with self._injector.failing(plan):
            program = self._ground.functions
            if chance.random() < 0.3:
                judge(round_, program, self._ground.run(program, self.store), "a client meanwhile: ")
            deadline = time.monotonic() + self._ground.seconds
            while time.monotonic() < deadline and self._injector.left and not self.gone:
                self._ask()
                time.sleep(0.2)
        round_.count(before, self._injector.failed())
        self._settle(round_, keys)
        lost = kept - entries(self.store)
        if lost:
            round_.blame("lost", f"{len(lost)} of {len(kept)} entries")
        self._ground.verify(round_, self.store)
        text = self.log.read_text()[said:]
        # What an interpreter says that can't even be started is told, line by line.
        own = "\n".join(line for line in text.splitlines() if " says: " not in line)
        if "Traceback" in own:
            round_.blame("traceback", own[own.index("Traceback") :][:1500])
        round_.look_through(self.log, said)
        return round_

    def _forget(self, chance: random.Random) -> set[str]:
        """Remove some entries, so that they have to be built; return the keys of all."""
        from nbcache.protocol import requests

        keys = {requests.read(line).key for line in self._lines}
        for key in sorted(keys):
            if chance.random() < 0.4:
                for path in (self.store / "v1/objects" / key[:2]).glob(f"{key[2:]}*.nbo"):
                    path.unlink()
        return keys

    def _ask(self) -> None:
        from nbcache.protocol import requests, spool

        for line in self._lines:
            spool.submit(str(self.store), requests.read(line))

    def _settle(self, round_: Round, keys: set[str]) -> None:
        """Wait until all is answered and built."""
        # What couldn't be published was answered all the same.
        self._ask()
        failed = [each["reason"] for each in daemons.failures(self.store) if each["key"] in keys]
        if failed:
            round_.blame("lost", f"{len(failed)} are kept from being asked for: {failed[0]}")
            for path in (self.store / "v1/failed").glob("*.json"):
                path.unlink()
        deadline = time.monotonic() + SETTLED_AFTER
        while not self.gone:
            # In this order: an entry is there before its request is answered.
            waiting = len(daemons.spool(self.store))
            there = {entry[0] for entry in entries(self.store)}
            if not waiting and keys <= there and self._heartbeat().get("pid") == self._injector.pid:
                break
            if not waiting and keys - there:
                reasons = [each["reason"] for each in daemons.failures(self.store)]
                round_.blame("lost", f"{len(keys - there)} requests came to nothing: {reasons[:2]}")
                return
            if time.monotonic() > deadline:
                round_.blame(
                    "hang", f"{waiting} requests wait, {len(keys - there)} entries are missing, {self._heartbeat()}"
                )
                return
            time.sleep(0.2)
        if self.gone:
            round_.blame("lost", f"the daemon ended: {self.log.read_text()[-1500:]}")


Entry = tuple[str, str]


def entries(store: Path) -> set[Entry]:
    """Key and variant of every whole entry of a store."""
    from nbcache.store import entry

    found = set()
    for path in store.glob("v1/objects/??/*.nbo"):
        with suppress(FileNotFoundError):
            parsed = entry.parse(path.read_bytes())
            if parsed is not None and all(parsed.section(name) is not None for name in parsed.section_sizes):
                found.add((parsed.header.key, parsed.header.guard))
    return found


def describe(plan: Plan) -> str:
    """What fails, in a few words."""
    which = "" if plan.calls == injecting.FAULTS[plan.error] else f" of {', '.join(sorted(plan.calls))}"
    return f"{errno.errorcode[plan.error]} for one of {plan.every}{which}"


def judge(round_: Round, program: Program, outcome: proc.Outcome, when: str = "") -> None:
    """Compare what a program said with what it says without nbcache."""
    if "killed after" in outcome.stderr and outcome.status == -9:
        round_.blame("hang", f"{when}{outcome.seconds:.0f} s")
    elif outcome.said != program.said:
        round_.blame("wrong", f"{when}{outcome.said!r} {outcome.stderr[-1500:]}")
    elif "Traceback" in outcome.stderr:
        round_.blame("traceback", when + outcome.stderr[-1500:])
    else:
        # Where its own modules can't be opened, it can't know where to log either.
        lines = outcome.stderr.splitlines(keepends=True)
        if "".join(line for line in lines if not (round_.modules and line.startswith(OFF))) != program.errors:
            round_.blame("said more", when + outcome.stderr[-600:])


def execute(argv: list[str], environment: dict[str, str], folder: Path) -> proc.Outcome:
    """Run a command to its end, or to that of patience."""
    started = time.perf_counter()
    process = subprocess.Popen(
        argv, env=environment, cwd=folder, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return proc.finish(process, HANGS_AFTER, started)
