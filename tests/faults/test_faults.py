"""Whatever is broken around a program: it says what it says without nbcache, and gives up waiting once.

``table.py`` prints how long that takes.
"""

from __future__ import annotations

import pytest
from nbtest import breakage

FUNCTIONS = 6
GETTING_ON = (
    "a healthy daemon", "a daemon that just began", "a queue of 10000 requests", "workers that crash",
    "workers that leave something behind", "workers that stop", "a place for requests that a stranger has",
)  # fmt: skip
"""Where a daemon finishes jobs, so that it is asked again: what bounds the waiting then is the account alone."""
TWINS = ("leases of a process that does nothing", "workers that sleep", "workers in uninterruptible sleep")
"""Like the same of a process that is stopped, and of workers that are."""
GIVEN_UP = ("no daemon answered in time", "stopped waiting")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the program of every scene says without nbcache."""
    outcome = breakage.Scene(tmp_path_factory.mktemp("plain"), FUNCTIONS).plain()
    assert outcome.status == 0, outcome.stderr
    return outcome


@pytest.mark.every(28)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in TWINS else []) for name in breakage.FAULTS]
)
def test_nobody_waits_twice_for_what_does_not_get_on(place, name, expected):
    scene = breakage.Scene(place, FUNCTIONS)
    with breakage.FAULTS[name](scene) as environment:
        outcome = scene.run({"NBCACHE_LOG": "info", **environment})
    assert outcome.said == expected.said, outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "internal error" not in outcome.stderr
    if name not in GETTING_ON and "NBCACHE_LOG_FILE" not in environment:
        for said in GIVEN_UP:
            assert outcome.stderr.count(said) <= 1, outcome.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", ["a stopped daemon", "workers that stop", "signs of life and no daemon"])
def test_who_would_rather_wait_does_so_for_a_share_of_his_time(place, name, expected):
    scene = breakage.Scene(place, FUNCTIONS)
    with breakage.FAULTS[name](scene) as environment:
        outcome = scene.run({"NBCACHE_ON_MISS": "wait", **environment})
    assert outcome.said == expected.said, outcome.stderr
    waited = breakage.waited_seconds(outcome)
    # Jobs that were seen to work are waited for, as long as they would have taken here.
    assert waited <= 0.6 * outcome.seconds
