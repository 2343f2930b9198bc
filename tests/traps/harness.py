"""Runs a trap program in separate processes, under no cache, nbcache or Numba's own cache.

A `Program` is a list of `Step`s over one source tree and one cache. A step changes something (files, environment,
the place of the tree, the cache itself) and then runs one process. The tree, the home directory and the cache
directory belong to one run of one program, so runs never meet.

What is compared is an `Outcome`: standard output, where the root of the tree is written `<ROOT>`, and the exit
status. Temporary paths elsewhere are left as they are: a line that names one is a difference, as it should be.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nbtest import hitcheck, proc

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
INJECT = HERE / "inject"
TIMEOUT = 500.0  # [s] for one process; a hang is an outcome too

Mode = Literal["oracle", "nbcache", "numba"]
Rerun = Literal["hit", "same"]

HEAD = "from probe import show\nimport numpy as np\nimport numba\nfrom numba import njit\n"


def py(text: str) -> str:
    """Return `text` as a module of its own."""
    return textwrap.dedent(text).lstrip("\n")


def main(text: str) -> str:
    """Return `text` as a main program, after the imports nearly all of them share (four lines)."""
    return HEAD + py(text)


@dataclass(frozen=True)
class Step:
    """One change and one process. Changes happen in the order of the fields.

    files:  path below the tree -> content; None deletes it.
    copy:   continue in a copy of the tree under this name, a second checkout.
    move:   continue in the same tree under this name.
    touch:  files that get a new modification time, nothing else.
    tamper: called with the cache directory, if there is one.
    env:    added to the environment of the process. `{root}` and `{home}` are filled in.
    argv:   what follows `python`.
    cwd:    below the tree.
    stderr: whether standard error is compared too.
    """

    files: Mapping[str, str | None] = field(default_factory=dict)
    copy: str | None = None
    move: str | None = None
    touch: tuple[str, ...] = ()
    tamper: Callable[[Path], None] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ("main.py",)
    stdin: str | None = None
    cwd: str = "."
    stderr: bool = False


@dataclass(frozen=True)
class Program:
    """A trap.

    differs: without a cache, the first and the last step print different things; otherwise the trap is a fake.
    hit:     the last step must compile nothing ("never hits" traps); it is not repeated then.
    cold:    the first step, which fills an empty cache, is compared with no cache too.
    rerun:   what is asked of the last step when it is repeated with nothing changed, besides the same output:
             "hit": nothing is compiled; "same": nothing (what can't be cached, what is compiled to be
             looked at, a cache that can't be written).
    """

    name: str
    family: int
    steps: tuple[Step, ...]
    differs: bool = True
    hit: bool = False
    cold: bool = False
    rerun: Rerun = "hit"

    @property
    def label(self) -> str:
        """How tests and lists call it: `NN-name`."""
        return f"{self.family:02d}-{self.name}"


def trap(name: str, family: int, *steps: Step | Mapping[str, str | None], **options) -> Program:
    """Return a program of these steps, the first one being version 1; a mapping is a step that writes its files."""
    return Program(name, family, tuple(s if isinstance(s, Step) else Step(files=s) for s in steps), **options)


def replaced(files: Mapping[str, str], path: str, *pairs: tuple[str, str]) -> dict[str, str]:
    """Return the one changed file of an edit that replaces text in `files[path]`; each old text must be there."""
    text = files[path]
    for old, new in pairs:
        if old not in text:
            raise ValueError(f"{old!r} is not in {path}")
        text = text.replace(old, new)
    return {path: text}


@dataclass(frozen=True)
class Outcome:
    """What one process did. `compiled` lists what it compiled; `stderr` is for people."""

    stdout: str
    status: str
    compiled: tuple[str, ...] = ()
    stderr: str = ""

    @property
    def visible(self) -> str:
        """The part that has to be equal."""
        return f"{self.stdout}[{self.status}]\n"


_ORACLE: dict[object, Outcome] = {}  # answers of processes without a cache: many programs share a first version


class Run:
    """One run of a program in one mode, in a directory of its own that must be empty."""

    def __init__(self, program: Program, mode: Mode, workdir: Path) -> None:
        self.program = program
        self.mode = mode
        self.tree = workdir / "checkout"
        self.cache = workdir / "cache"
        self.home = workdir / "home"
        self._events = workdir / "events"
        self.tree.mkdir()
        self.home.mkdir()

    def steps(self) -> list[Outcome]:
        """Run all steps in order."""
        return [self.step(step) for step in self.program.steps]

    def step(self, step: Step) -> Outcome:
        """Apply the changes of one step and run its process."""
        self.prepare(step)
        return self.process(step)

    def process(self, step: Step) -> Outcome:
        """Run the process of a step, with nothing changed."""
        return self._memoised(step) if self.mode == "oracle" else self._process(step)

    def _memoised(self, step: Step) -> Outcome:
        """Run a process that no cache takes part in, or return what it did before: the tree and the step decide it."""
        before = self._content()
        question = (before, tuple(sorted(step.env.items())), step.argv, step.stdin, step.cwd, step.stderr)
        if question not in _ORACLE:
            outcome = self._process(step)
            if self._content() != before:  # it left files behind, for later steps
                return outcome
            _ORACLE[question] = outcome
        return _ORACLE[question]

    def _content(self) -> tuple[tuple[str, bytes], ...]:
        paths = sorted(path for path in self.tree.rglob("*") if path.is_file())
        return tuple((str(path.relative_to(self.tree)), path.read_bytes()) for path in paths)

    def _process(self, step: Step) -> Outcome:
        self._events.write_text("")
        environment = self._environment(step)
        try:
            done = subprocess.run(
                [sys.executable, *step.argv],
                cwd=self.tree / step.cwd,
                env=environment,
                input=step.stdin,
                stdin=subprocess.DEVNULL if step.stdin is None else None,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome("", f"no end after {TIMEOUT:.0f} s")
        stdout = self._normalised(done.stdout)
        if step.stderr:
            stdout += self._normalised(done.stderr)
        status = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
        return Outcome(stdout, status, tuple(self._events.read_text().splitlines()), done.stderr)

    def prepare(self, step: Step) -> None:
        """Apply the changes of one step and run nothing."""
        for path, content in step.files.items():
            target = self.tree / path
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        if step.copy:
            copy = self.tree.parent / step.copy
            shutil.copytree(self.tree, copy)
            self.tree = copy
        if step.move:
            self.tree = self.tree.rename(self.tree.parent / step.move)
        for path in step.touch:
            os.utime(self.tree / path, (1e9, 1e9))
        if step.tamper and self.mode != "oracle":
            step.tamper(self.cache)

    def _environment(self, step: Step) -> dict[str, str]:
        """Return a bare environment: nothing of the caller's but the search path for programs."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join([str(INJECT), str(REPOSITORY)]),
            "PYTHONDONTWRITEBYTECODE": "1",  # two versions within a second of one size share a .pyc
            "NBTEST_EVENTS": str(self._events),
        }
        texts = [text for each in self.program.steps for text in each.files.values() if text is not None]
        environment |= {**proc.DEFAULTS, **proc.scipy_for(*texts)}
        if self.mode == "nbcache":
            environment["NBCACHE_DIR"] = str(self.cache)
            environment |= hitcheck.settings()
        elif self.mode == "numba":
            environment["NUMBA_CACHE_DIR"] = str(self.cache)
            environment["NBTEST_NUMBA_CACHE"] = "1"
        given = {k: v.format(root=self.tree, home=self.home) for k, v in step.env.items()}
        if "PYTHONPATH" in given:
            given["PYTHONPATH"] += os.pathsep + environment["PYTHONPATH"]
        return environment | given

    def _normalised(self, text: str) -> str:
        text = text.replace(f"{self.tree}{os.sep}", "<ROOT>/").replace(f"{self.tree}\n", "<ROOT>\n")
        return re.sub(r"0x[0-9a-f]{6,}", "<ADDRESS>", text)
