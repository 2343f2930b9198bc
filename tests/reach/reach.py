"""The programs of `programs/`, and what it takes to find again everything that Numba compiles for them.

A program's first line is a docstring, "kind: what it does". It is run three times in processes of its own: without
nbcache, over an empty store, and over the store that the second run filled. `NBCACHE_COUNT` counts what was compiled.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nbtest import proc

from nbcache import tally

PROGRAMS = Path(__file__).parent / "programs"
NOT_PROGRAMS = {"shown"}
BOXED = "what boxes a jitclass instance has the address of its class built in"
MEMBER = "copyreg writes __slotnames__ onto classes whose instances were pickled, and the key takes it for a member"
FIRST_CLASS = "a Dispatcher that becomes a value has its address built in"
STENCIL = "a stencil called from Python has no Dispatcher: its types and its code are made anew"
LIFTED = "the body of an objmode block is a Dispatcher of a kind of its own, which is not looked up"
GAPS: dict[str, str] = {
    "extending_type": MEMBER,
    "functions_closures": FIRST_CLASS,
    "functions_returned": FIRST_CLASS,
    "globals_large": "a large array among the globals is reached through its address",
    "jitclass_annotations": BOXED,
    "jitclass_argument": BOXED,
    "jitclass_basic": BOXED,
    "jitclass_dict": BOXED + "; the type of a container of instances is named by an address",
    "jitclass_inheritance": BOXED,
    "jitclass_list": BOXED + "; the type of a container of instances is named by an address",
    "jitclass_nested": BOXED + "; LLVM ends the process: a hit leaves the deferred type without a body",
    "jitclass_operators": BOXED,
    "jitclass_properties": BOXED,
    "literally": "the run of the compiler that finds out that an argument has to be a literal is repeated",
    "mix_particles": BOXED,
    "mix_pipeline": "objmode in a function that also calls a stencil has the address of with_objectmode built in",
    "objmode_block": LIFTED,
    "objmode_callee": LIFTED,
    "objmode_forced": "lifted loops are refused",
    "parallel_arrays": "set_parallel_chunksize and get_num_threads have the address of a ctypes function built in",
    "stencil_options": STENCIL,
    "stencil_python": STENCIL,
    "structref_basic": MEMBER,
    "structref_methods": MEMBER,
    "typed_dict_njit": "a secret of hashing is missing as a symbol, and what then registers all symbols compiles the runtime",
}
"""Programs for which something is compiled in the second process too, and why. Closing a gap means taking it out here."""
LONG = {
    "array_methods",
    "linalg_decompositions",
    "linalg_solve",
    "mix_text",
    "njit_numpy",
    "parallel_arrays",
    "parallel_expressions",
    "reflected_list",
    "strings",
    "typed_list_njit",
}
"""Programs that take too long for the suite that runs before every merge."""


@dataclass(frozen=True)
class Program:
    name: str
    kind: str
    path: Path


@dataclass(frozen=True)
class Ran:
    """One process with its children: how it ended, and what was compiled in it."""

    outcome: proc.Outcome
    processes: list[tally.Process]

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Compile events, pipelines, LLVM runs."""
        totals = tally.totals(self.processes)
        return totals[tally.COMPILE], totals[tally.PIPELINE], totals[tally.LLVM]

    @property
    def compiled(self) -> list[str]:
        """What was compiled, a line for each name, with the kind of event."""
        return [f"{kind} {name}" for kind in tally.KINDS for name in tally.names(self.processes, kind)]


@dataclass(frozen=True)
class Result:
    """A program's three runs."""

    program: Program
    plain: Ran
    first: Ran
    second: Ran

    @property
    def problems(self) -> list[str]:
        """What is not as it must be; empty when all is well."""
        found = []
        if self.plain.outcome.status != 0:
            found.append(f"fails without nbcache:\n{self.plain.outcome.stderr}")
        if not sum(self.plain.counts):
            found.append("compiles nothing without nbcache")
        for label, ran in (("first", self.first), ("second", self.second)):
            if ran.outcome.said != self.plain.outcome.said:
                found.append(
                    f"the {label} process says:\n{ran.outcome.stdout}{ran.outcome.stderr}\n"
                    f"and without nbcache:\n{self.plain.outcome.stdout}"
                )
        if self.second.counts != (0, 0, 0):
            found.append("the second process compiles:\n  " + "\n  ".join(self.second.compiled))
        return found


def programs() -> list[Program]:
    """Return all programs, by name."""
    return [_program(path) for path in sorted(PROGRAMS.glob("*.py")) if path.stem not in NOT_PROGRAMS]


def _program(path: Path) -> Program:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text is not None and ":" in text, f"{path.name} has no docstring of the form 'kind: what it does'"
    return Program(path.stem, text.split(":", 1)[0], path)


def measure(program: Program, folder: Path, log: str = "warning") -> Result:
    """Run a program three times, with its store and its counts in an empty folder; `log` is the level on stderr."""
    store = folder / "store"

    def run(label: str, *, cached: bool) -> Ran:
        counts = folder / label
        counts.mkdir()
        # Programs that ask for Numba's own cache get it without nbcache, and must find it empty.
        extra = {"NBCACHE_COUNT": str(counts), "NBCACHE_LOG": log, "NUMBA_CACHE_DIR": str(folder / "numba")}
        outcome = proc.run([program.path], store if cached else None, extra, cwd=folder)
        return Ran(outcome, tally.read(str(counts)))

    return Result(program, run("plain", cached=False), run("first", cached=True), run("second", cached=True))
