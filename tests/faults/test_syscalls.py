"""System calls that fail in programs, daemons and commands: a few here, 100,000 by ``syscalls.py``."""

from __future__ import annotations

import errno
import random
import subprocess
import sys

import pytest
from nbtest import faulted, injecting, proc

ERRORS = [pytest.param(error, id=errno.errorcode[error]) for error in injecting.FAULTS]


@pytest.fixture
def ground(place):
    """A few functions, so that it doesn't take long."""
    return faulted.Ground(place, functions=4, burst=100, seconds=3)


@pytest.mark.every(6)
@pytest.mark.parametrize("error", ERRORS)
def test_a_program_says_what_it_says_without_nbcache(ground, error):
    chance, store = random.Random(error), ground.store()
    for turn in (faulted.TURNS[0], faulted.TURNS[-1]):
        round_ = ground.client(chance, ground.functions, store, error, turn)
        assert not round_.problems, (round_.title, round_.problems)


@pytest.mark.long
@pytest.mark.parametrize("error", ERRORS[::3])
def test_a_daemon_lives_on_and_answers(ground, error):
    chance = random.Random(error)
    with faulted.Faulted(ground, chance) as daemon:
        round_ = daemon.round(chance, error)
        assert not round_.problems, (round_.title, round_.problems)
        assert not daemon.gone


@pytest.mark.long
def test_commands_show_no_traceback(ground):
    commands = ground.commands(random.Random(1))
    for round_ in (next(commands) for _ in faulted.COMMANDS):
        assert not round_.problems, (round_.title, round_.problems)


def test_what_is_made_to_fail_fails_and_nothing_else(place):
    """The injector itself: it would prove nothing if it did nothing."""
    program = injecting.compiled(place)
    broken = place / "broken"
    broken.mkdir()
    (broken / "file").write_text("x")
    code = (
        "import os, sys\nfound = []\nfor path in sys.argv[1:]:\n    try:\n        found.append(open(path).read())\n"
        "    except OSError as error:\n        found.append(error.errno)\nprint(found)\n"
    )
    (place / "file").write_text("y")
    injector = injecting.Injector(program, place / "control", 1)
    argv = injector.command([sys.executable, "-c", code, str(broken / "file"), str(place / "file")])
    with injector.failing(injecting.Plan(errno.EIO, 1, (broken,))):
        done = subprocess.run(argv, env=proc.environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"[{errno.EIO}, 'y']\n"), done.stderr
    assert injector.failed() == {(injecting.OWN, "openat"): 1}
    done = subprocess.run(argv, env=proc.environment(), capture_output=True, text=True, check=False)
    assert done.stdout == "['x', 'y']\n"


@pytest.mark.long
@pytest.mark.timeout(7000)
def test_100000_of_them():
    done = subprocess.run(
        [sys.executable, str(proc.ROOT / "tests/faults/syscalls.py"), "--count", "100000"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
