"""Each trap program under nbcache gives what it gives with no cache, at each step and once more at the end.

Three things are asserted beside equality, so that neither a fake trap nor a cache that never hits can pass: the
program's two versions really differ without a cache; what has to hit compiles nothing; and the last step, repeated
unchanged, compiles nothing (see `Program`).

`NBTEST_EVERY_STEP=1` compares version 1, a cold run on an empty cache, with no cache too, which programs otherwise ask
for (`cold`); that costs a fifth more time, and the control checks the programs anyway.

`pending.txt` lists the programs that spring on the version at hand. They are expected to fail, so whoever mends one
takes its line out.
"""

import difflib
import os
from collections import defaultdict
from typing import Any

import pytest
from nbtest import hitcheck

from . import programs
from .harness import HERE, Outcome, Program, Run

PROGRAMS = programs.load()
PENDING = frozenset((HERE / "pending.txt").read_text(encoding="utf-8").split())
EVERY_STEP = bool(os.environ.get("NBTEST_EVERY_STEP"))


FEW = 1
"""How many programs of a family run before a merge: they show the family; the longer suite runs all, and those that are
pending. A program takes four processes or more, 5 s of processor time."""

SLOW = frozenset({
    "06-symbols-closures", "06-symbols-closures-crossed", "06-symbols-spawned-workers", "08-index-signatures-all-at-once",
    "08-index-signatures-from-several-processes", "09-damage-truncated-to-half", "12-address-closure-as-a-value",
    "12-address-closure-reads-a-global", "26-mutable-record",
})  # fmt: skip
"""Programs that take twice that: others of their families are chosen."""


def _few() -> frozenset[str]:
    """The first ones of each family, in two steps at most and not about hits alone if there are such."""
    families = defaultdict[int, list[Program]](list)
    for program in PROGRAMS:
        if program.label not in PENDING | SLOW:
            families[program.family].append(program)
    return frozenset(
        program.label
        for family in families.values()
        for program in sorted(family, key=lambda each: (len(each.steps) > 2, each.hit))[:FEW]
    )


def _parameters() -> list[Any]:
    few = _few()
    parameters = []
    for program in PROGRAMS:
        if program.label in PENDING:
            # Where hits are compiled all the same (nbtest.hitcheck), Numba loads the plug-ins that the gap is about.
            gap = pytest.mark.xfail(reason="pending.txt lists it", strict=not hitcheck.WANTED)
            marks = [pytest.mark.long, gap]
        else:
            marks = [] if program.label in few else [pytest.mark.long]
        parameters.append(pytest.param(program, id=program.label, marks=marks))
    return parameters


def test_what_is_pending_exists() -> None:
    """No line of `pending.txt` outlives its program."""
    assert {program.label for program in PROGRAMS} >= PENDING


@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", _parameters())
def test_same_as_no_cache(program: Program, tmp_path) -> None:
    """Output and exit status of each step after version 1 are those of a process with no cache."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "cached").mkdir()
    plain = Run(program, "oracle", tmp_path / "plain")
    cached = Run(program, "nbcache", tmp_path / "cached")
    for number, step in enumerate(program.steps):
        got = cached.step(step)
        if number == 0 and program.differs and not program.cold and not EVERY_STEP:
            first = got
            plain.prepare(step)
            continue
        want = plain.step(step)
        assert_same(f"step {number + 1}", want, got)
        if number == 0:
            first = got
    different = hitcheck.problems(cached.cache, program.label)
    assert not different, different
    if program.differs:
        assert first.visible != want.visible, "this trap can't spring: its versions print the same"
    if program.hit:
        assert_hit("the last step", got)
        return

    again = cached.process(program.steps[-1])
    assert_same("the last step, repeated", want, again)
    if program.rerun == "hit":
        assert_hit("the last step, repeated", again)


def assert_same(which: str, want: Outcome, got: Outcome) -> None:
    """Fail with a diff when two outcomes are visibly different."""
    if want.visible == got.visible:
        return
    diff = difflib.unified_diff(
        want.visible.splitlines(), got.visible.splitlines(), "no cache", "nbcache", lineterm="", n=1
    )
    pytest.fail(f"{which}:\n" + "\n".join(diff) + f"\n\nstderr with nbcache:\n{got.stderr[-3000:]}", pytrace=False)


def assert_hit(which: str, got: Outcome) -> None:
    """Fail when a process compiled anything."""
    if got.compiled and not hitcheck.WANTED:
        pytest.fail(f"{which} compiled:\n" + "\n".join(got.compiled) + f"\n{got.stderr[-3000:]}", pytrace=False)
