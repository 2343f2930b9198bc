"""Every kind of program: the second process runs no type inference and no LLVM, and says the same."""

import importlib.util

import pytest
import reach


def _parameter(program):
    marks = [pytest.mark.long] if program.name in reach.LONG else []
    if program.name in reach.GAPS:
        marks.append(pytest.mark.xfail(reason=reach.GAPS[program.name], strict=True))
    needed = reach.NEEDS.get(program.name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        marks.append(pytest.mark.skip(reason=f"this Numba has no {needed}"))
    return pytest.param(program, id=program.name, marks=marks)


@pytest.mark.parametrize("program", [_parameter(program) for program in reach.programs()])
def test_the_second_process_compiles_nothing(program, tmp_path):
    tmp_path.chmod(0o755)
    problems = reach.measure(program, tmp_path).problems
    assert not problems, "\n".join(problems)


def test_gaps_and_long_ones_are_programs():
    names = {program.name for program in reach.programs()}
    assert len(names) >= 70
    assert set(reach.GAPS) | set(reach.NEEDS) | reach.LONG <= names
