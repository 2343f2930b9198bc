"""Exceptions of signal handlers go through nbcache's code to the program; its own are misses."""

import signal

import pytest
from nbtest import proc

from nbcache.passing_exceptions import let_pass, suppressed

# A handler that raises in the middle of nbcache: when the named function of it is called.
PROGRAM = """
import importlib, os, signal
from numba import njit

class Stop(Exception): ...
def handler(signum, frame):
    raise {kind}("time is over")
signal.signal(signal.SIGUSR1, handler)

@njit
def f(x):
    return x + 1

f.compile("f8(f8)")
module, name = {place!r}.split(":")
owner = importlib.import_module(module)
*path, last = name.split(".")
for each in path:
    owner = getattr(owner, each)
original, rung = getattr(owner, last), []

def ring(*args, **kwargs):
    if not rung:
        rung.append(True)
        {act}
    return original(*args, **kwargs)
setattr(owner, last, ring)
try:
    print("no exception", f(1))
except {kind} as error:
    print("stopped", error)
print(f(1), f(2.5), bool(rung))
"""
PLACES = [
    "nbcache.client.session:ClientSession._identify",
    "nbcache.client.lookup:Lookup.overload",
    "nbcache.client.saving:Saving._publish",
    "nbcache.store.entry:encode",
    "nbcache.glue.entries.pack:pack",
    "nbcache.glue.overloads.uses:uses_of",
    "nbcache.store.directory:Store.lease",
]


@pytest.mark.every(9)
@pytest.mark.parametrize("place_of_call", PLACES)
@pytest.mark.parametrize("kind", ["Stop", "TimeoutError"])
def test_a_handlers_exception_reaches_the_program(place, place_of_call, kind):
    main = place / "main.py"
    main.write_text(PROGRAM.format(kind=kind, place=place_of_call, act="os.kill(os.getpid(), signal.SIGUSR1)"))
    outcome = proc.run([main], place / "store")
    assert outcome.stdout == "stopped time is over\n2 3.5 True\n", outcome.stderr


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", ["MemoryError", "RecursionError", "OSError"])
def test_what_fails_in_nbcache_is_a_miss(place, kind):
    main = place / "main.py"
    main.write_text(PROGRAM.format(kind=kind, place=PLACES[0], act=f"raise {kind}"))
    outcome = proc.run([main], place / "store")
    assert outcome.stdout == "no exception 2\n2 3.5 True\n", outcome.stderr


def passes(error):
    """Whether an exception that was raised and caught goes on."""
    try:
        let_pass(error)
    except type(error):
        return True
    return False


def interrupted(handler):
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        signal.raise_signal(signal.SIGUSR1)
    except Exception as error:
        return error
    finally:
        signal.signal(signal.SIGUSR1, before)
    raise AssertionError


def raising(*_args):
    raise OSError


class Handler:
    def __call__(self, signum, frame):
        signal.signal(signum, signal.SIG_DFL)
        raise OSError


def test_handlers_of_every_kind():
    for handler in (raising, lambda *args: raising(), lambda _signum, _frame: raising(), Handler(), Handler().__call__):
        assert passes(interrupted(handler)), handler


def test_a_functions_own_exception_does_not_pass():
    with suppressed(OSError):
        raising(1, 2)
    with pytest.raises(ValueError, match="other"), suppressed(OSError):
        raise ValueError("other")
