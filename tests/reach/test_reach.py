"""Every kind of program: the second process runs no type inference and no LLVM, and says the same."""

import importlib.util

import pytest
import reach


def _parameter(program):
    marks = []
    if program.name in reach.GAPS:
        marks.append(pytest.mark.xfail(reason=reach.GAPS[program.name], strict=True))
    needed = reach.NEEDS.get(program.name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        marks.append(pytest.mark.skip(reason=f"this Numba has no {needed}"))
    return pytest.param(program, id=program.name, marks=marks)


PROGRAMS = reach.programs()


@pytest.mark.parametrize("program", [_parameter(each) for each in PROGRAMS if each.name not in reach.LONG])
def test_the_second_process_compiles_nothing(program, tmp_path):
    check(program, tmp_path, plain=False)


@pytest.mark.long
@pytest.mark.parametrize("program", [_parameter(each) for each in PROGRAMS])
def test_both_processes_say_what_plain_numba_says(program, tmp_path):
    check(program, tmp_path, plain=True)


def check(program, folder, *, plain):
    folder.chmod(0o755)
    problems = reach.measure(program, folder, plain=plain).problems
    assert not problems, "\n".join(problems)


def test_gaps_and_long_ones_are_programs():
    names = {program.name for program in PROGRAMS}
    assert len(names) >= 70
    assert set(reach.GAPS) | set(reach.NEEDS) | reach.LONG <= names


def test_every_kind_has_a_program_that_runs_before_a_merge():
    assert {each.kind for each in PROGRAMS} == {each.kind for each in PROGRAMS if each.name not in reach.LONG}
