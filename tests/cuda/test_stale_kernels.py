"""No kernel is stale: what a second process gets is what it would compile, whatever numba-cuda's own cache misses."""

import pytest
from nbtest.kernels import needs_numba_cuda, run
from stale_programs import SETTINGS, STALE

pytestmark = needs_numba_cuda

QUICK = ["global-of-callee", "fastmath", "max-registers", "linked-file", "overload"]


def check(names, folder):
    """Store what the first versions compile; the second versions do the same with that as without."""
    before = {name: STALE[name][0] for name in names}
    after = {name: STALE[name][1] for name in names}
    first = run(before, folder / "tree", store=folder / "store")
    plain = run(after, folder / "tree")
    second = run(after, folder / "tree", store=folder / "store")
    for report in (first, second):
        assert not report["stats"]["errors"]
    problems = []
    for name in names:
        old, expected, found = (each["programs"][name] for each in (first, plain, second))
        if old["failure"] or expected["failure"]:
            problems.append(f"{name} fails: {old['failure'] or expected['failure']}")
        if old["launched"] == expected["launched"]:
            problems.append(f"{name} doesn't differ")
        if found["failure"] or found["launched"] != expected["launched"] or found["arrays"] != expected["arrays"]:
            problems.append(f"{name} is stale: {found['failure']}")
    assert not problems, "\n".join(problems)


def test_some_programs_that_change(tmp_path):
    check(QUICK, tmp_path)


# With debug information, what earlier programs of the process used becomes part of the code, without a cache.
ALONE = ["debug", "exception", "line-of-exception"]


@pytest.mark.long
def test_all_programs_that_change(tmp_path):
    assert len(STALE) + len(SETTINGS) >= 30
    check([name for name in STALE if name not in ALONE], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ALONE)
def test_programs_that_change_alone(name, tmp_path):
    check([name], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_settings_that_change(name, tmp_path):
    text, settings = SETTINGS[name]
    first = run({name: text}, tmp_path / "tree", store=tmp_path / "store")["programs"][name]
    plain = run({name: text}, tmp_path / "tree", env=settings)["programs"][name]
    second = run({name: text}, tmp_path / "tree", env=settings, store=tmp_path / "store")["programs"][name]
    assert not plain["failure"], plain["failure"]
    assert first["launched"] != plain["launched"]
    assert second["launched"] == plain["launched"]
    back = run({name: text}, tmp_path / "tree", store=tmp_path / "store")["programs"][name]
    assert back["launched"] == first["launched"]
    assert not back["runs"]
