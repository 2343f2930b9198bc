"""Each trap program under nbcache gives what it gives with no cache, at every step and once more at the end.

Three things are asserted beside equality, so that neither a fake trap nor a cache that never hits can pass: the
program's two versions really differ without a cache; what has to hit compiles nothing; and the last step, repeated
unchanged, compiles nothing (see `Program`). `NBTEST_REACH=1` asks that last thing also of the kinds marked "later".
"""

import difflib
import os

import pytest

from . import programs
from .harness import Outcome, Program, Run

PROGRAMS = programs.load()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", PROGRAMS, ids=[f"{p.family:02d}-{p.name}" for p in PROGRAMS])
def test_same_as_no_cache(program: Program, tmp_path) -> None:
    """Output and exit status of every step are those of a process with no cache."""
    (tmp_path / "oracle").mkdir()
    (tmp_path / "nbcache").mkdir()
    expected = Run(program, "oracle", tmp_path / "oracle").steps()
    if program.differs:
        assert expected[0].visible != expected[-1].visible, "this trap can't spring: its versions print the same"

    cached = Run(program, "nbcache", tmp_path / "nbcache")
    for number, (step, want) in enumerate(zip(program.steps, expected, strict=True), 1):
        got = cached.step(step)
        assert_same(f"step {number}", want, got)
    if program.hit:
        assert_hit("the last step", got)

    again = cached.process(program.steps[-1])
    assert_same("the last step, repeated", expected[-1], again)
    if program.rerun == "hit" or (program.rerun == "later" and os.environ.get("NBTEST_REACH")):
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
    if got.compiled:
        pytest.fail(f"{which} compiled:\n" + "\n".join(got.compiled) + f"\n{got.stderr[-3000:]}", pytrace=False)
