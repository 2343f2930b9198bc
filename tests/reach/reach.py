"""The programs of `programs/`, and what it takes to find again everything that Numba compiles for them.

A program's first line is a docstring, "kind: what it does". It is run three times in processes of its own: without
nbcache, over an empty store, and over the store that the second run filled. `NBCACHE_COUNT` counts what was compiled.
Before a merge, only the latter two are run and compared with one another: the first compiles everything once more.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nbtest import hitcheck, proc

from nbcache import count_record

PROGRAMS = Path(__file__).parent / "programs"
NOT_PROGRAMS = {"shown", "boxed"}
GAPS: dict[str, str] = {}
"""Programs for which something is compiled in the second process too, and why. Closing a gap means taking it out here."""
NEEDS = {"typed_set": "numba.typed.typedset"}
"""Programs about something that not every Numba has, and the module that it comes with."""
LONG = {
    "arguments_variable",
    "cfunc_carray",
    "exceptions_caught",
    "extending_boxing",
    "extending_functions_passed",
    "extending_intrinsic",
    "extending_methods",
    "extending_overload_numpy",
    "extending_symbols",
    "extending_table",
    "extending_type",
    "functions_dispatcher_argument",
    "functions_first_class",
    "functions_returned",
    "generators_python",
    "globals_mapped",
    "globals_small",
    "guvectorize_eager",
    "guvectorize_in_njit",
    "guvectorize_parallel",
    "guvectorize_writable",
    "jitclass_annotations",
    "jitclass_argument",
    "jitclass_dict",
    "jitclass_inheritance",
    "jitclass_list",
    "jitclass_nested",
    "jitclass_operators",
    "jitclass_properties",
    "linalg_solve",
    "literal_unroll",
    "mix_particles",
    "mix_text",
    "njit_callees",
    "njit_eager",
    "njit_inline",
    "njit_layouts",
    "njit_loops",
    "njit_numpy",
    "njit_options",
    "objmode_beside",
    "objmode_callee",
    "objmode_forced",
    "origins_cells",
    "origins_cloudpickle",
    "origins_exec",
    "origins_stdin",
    "parallel_arrays",
    "parallel_callee",
    "parallel_expressions",
    "processes_forkserver",
    "processes_spawn",
    "random_generator",
    "random_inside",
    "recursion_self",
    "recursion_types",
    "reflected_list",
    "stencil_njit",
    "stencil_options",
    "stencil_parallel",
    "strings",
    "structref_methods",
    "typed_dict",
    "typed_dict_njit",
    "typed_list",
    "typed_list_njit",
    "typed_set",
    "values_beside",
    "values_complex",
    "values_datetimes",
    "values_enums",
    "values_records",
    "vectorize_callees",
    "vectorize_dynamic_methods",
    "vectorize_eager",
    "vectorize_first_reduce",
    "vectorize_in_njit",
    "vectorize_methods",
    "vectorize_parallel",
}
"""Programs left to the longer suite: those that take long, and those of kinds that others show before every merge."""


@dataclass(frozen=True)
class Program:
    name: str
    kind: str
    path: Path


@dataclass(frozen=True)
class Ran:
    """One process with its children: how it ended, and what was compiled in it."""

    outcome: proc.Outcome
    processes: list[count_record.Process]

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Compile events, pipelines, LLVM runs."""
        totals = count_record.totals(self.processes)
        return totals[count_record.COMPILE], totals[count_record.PIPELINE], totals[count_record.LLVM]

    @property
    def compiled(self) -> list[str]:
        """What was compiled, a line for each name, with the kind of event."""
        return [f"{kind} {name}" for kind in count_record.KINDS for name in count_record.names(self.processes, kind)]


@dataclass(frozen=True)
class Result:
    """A program's runs; ``plain`` is None where it wasn't run without nbcache."""

    program: Program
    plain: Ran | None
    first: Ran
    second: Ran
    store: Path

    @property
    def problems(self) -> list[str]:
        """What is not as it must be; empty when all is well."""
        found = []
        label, expected = ("first", self.first) if self.plain is None else ("plain", self.plain)
        if expected.outcome.status != 0:
            found.append(f"the {label} process fails:\n{expected.outcome.stderr}")
        if not sum(expected.counts):
            found.append(f"the {label} process compiles nothing")
        for other, ran in (("first", self.first), ("second", self.second)):
            if ran.outcome.said != expected.outcome.said:
                found.append(
                    f"the {other} process says:\n{ran.outcome.stdout}{ran.outcome.stderr}\n"
                    f"and the {label} one:\n{expected.outcome.stdout}"
                )
        if hitcheck.WANTED:
            found += hitcheck.problems(self.store, self.program.name)
        elif self.second.counts != (0, 0, 0):
            found.append("the second process compiles:\n  " + "\n  ".join(self.second.compiled))
        return found


def programs() -> list[Program]:
    """Return all programs, by name."""
    return [_program(path) for path in sorted(PROGRAMS.glob("*.py")) if path.stem not in NOT_PROGRAMS]


def _program(path: Path) -> Program:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text is not None and ":" in text, f"{path.name} has no docstring of the form 'kind: what it does'"
    return Program(path.stem, text.split(":", 1)[0], path)


def measure(program: Program, folder: Path, log: str = "warning", *, plain: bool = True) -> Result:
    """Run a program three times, with its store and its counts in an empty folder; `log` is the level on stderr.

    plain: whether one of them is without nbcache; else it is two times.
    """
    store = folder / "store"

    def run(label: str, *, cached: bool) -> Ran:
        counts = folder / label
        counts.mkdir()
        # Programs that ask for Numba's own cache get it without nbcache, and must find it empty.
        extra = {"NBCACHE_COUNT": str(counts), "NBCACHE_LOG": log, "NUMBA_CACHE_DIR": str(folder / "numba")}
        extra |= proc.scipy_for(program.path.read_text(encoding="utf-8"))
        outcome = proc.run([program.path], store if cached else None, extra, cwd=folder)
        return Ran(outcome, count_record.read(str(counts)))

    without = run("plain", cached=False) if plain else None
    return Result(program, without, run("first", cached=True), run("second", cached=True), store)
