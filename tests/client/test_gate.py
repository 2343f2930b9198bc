"""Two at a time begin with an entry that nobody is known to have got through."""

import os
import signal
import time

import pytest

from nbcache.client import gate

ENTRY, OTHER = "0123456789abcdef" * 2, "01234567" + "f" * 24
"""Two that share a row."""
MUCH = 120.0


class Known:
    """How many crashes are known, and how often somebody looked for more."""

    def __init__(self, count=0):
        self.count = count
        self.looks = 0

    def __call__(self, look):
        self.looks += look
        return self.count


@pytest.fixture
def gates(tmp_path):
    opened = gate.Gates(str(tmp_path / gate.FILE))
    yield opened
    opened.close()


def inside(gates, digest=ENTRY, end=None):
    """A child that is inside when this returns, and then ends by *end*."""
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        theirs = gate.Gates(gates._path)
        mine = gate.Gate(theirs, digest)
        os.write(told, b"1" if mine.enter(Known(), MUCH) else b"0")
        if end is None:
            time.sleep(MUCH)
        end(mine)
        os._exit(0)
    os.close(told)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    if end is not None:
        os.waitpid(child, 0)
    return child


def kill(child):
    os.kill(child, 9)
    os.waitpid(child, 0)


def enter(gates, known=None, digest=ENTRY, seconds=MUCH):
    mine = gate.Gate(gates, digest)
    began = time.monotonic()
    entered = mine.enter(known or Known(), seconds)
    return entered, mine, time.monotonic() - began >= seconds


def test_the_third_waits_until_one_of_two_is_through(gates, monkeypatch):
    monkeypatch.setattr(gate, "WORKED_SECONDS", MUCH)
    gates.still_seconds = MUCH
    one, other = inside(gates), inside(gates)
    assert enter(gates, seconds=0.2)[2]  # in vain, and then without a place
    kill(one)
    entered, mine, in_vain = enter(gates)
    assert entered and not in_vain
    mine.leave()
    kill(other)


def test_once_one_got_through_nobody_takes_a_place(gates):
    inside(gates, end=lambda theirs: theirs.leave())
    known = Known()
    entered, mine, _ = enter(gates, known)
    assert (entered, mine._taken, known.looks) == (True, [], 0)
    entered, mine, _ = enter(gates, digest=OTHER)
    assert entered and len(mine._taken) == 1
    mine.leave()


def test_who_finds_that_somebody_died_inside_looks_at_what_crashed(gates):
    kill(inside(gates))
    known = Known()
    entered, mine, _ = enter(gates, known)
    assert entered and known.looks == 1
    mine.leave()
    kill(inside(gates, OTHER))


def test_after_a_crash_there_is_one_place_and_after_two_there_is_none(gates, monkeypatch):
    monkeypatch.setattr(gate, "WORKED_SECONDS", MUCH)
    entered, mine, _ = enter(gates, Known(1))
    assert entered and len(mine._taken) == 2
    mine.leave()
    os.truncate(gates._path, 0)
    child = inside(gates)
    assert enter(gates, Known(1), seconds=0.2)[2]
    kill(child)
    assert enter(gates, Known(2))[0] is False


def test_whoever_has_worked_on_keeps_nobody_out(gates, monkeypatch):
    monkeypatch.setattr(gate, "WORKED_SECONDS", -1.0)
    children = inside(gates), inside(gates)
    entered, mine, in_vain = enter(gates)
    assert entered and not in_vain and not mine._taken[1:]
    for child in children:
        kill(child)


@pytest.mark.parametrize("seen", [True, False])
def test_who_does_not_get_on_is_not_waited_for_until_all_patience_is_gone(gates, monkeypatch, seen):
    children = inside(gates), inside(gates), inside(gates, OTHER[::-1]), inside(gates, OTHER[::-1])
    for child in children:
        os.kill(child, signal.SIGSTOP)
    if not seen:
        monkeypatch.setattr(gate, "_namespace", lambda: b"123")
    known = Known()
    entered, mine, in_vain = enter(gates, known)
    assert (entered, in_vain, mine._taken, known.looks) == (True, False, [], 1)
    assert gates.still_seconds == gate.STILL_SECONDS[1]
    # What crashed meanwhile is looked at all the same.
    assert enter(gates, Known(2), OTHER[::-1])[0] is False
    for child in children:
        kill(child)


def test_who_works_is_waited_for_however_long_that_takes(gates, monkeypatch):
    monkeypatch.setattr(gate, "WORKED_SECONDS", MUCH)
    monkeypatch.setattr(gate.effort, "thread", lambda _tid: (True, 0.0))
    gates.still_seconds = 0.05
    children = inside(gates), inside(gates)
    assert enter(gates, seconds=0.3)[2]
    for child in children:
        kill(child)


def test_the_file_goes_with_the_last_and_whoever_comes_has_a_new_one(gates):
    child = inside(gates)
    gates.opened()
    gates.remove()
    assert os.path.exists(gates._path)  # somebody is inside
    kill(child)
    gates.opened()
    gates.remove()
    assert os.path.exists(gates._path)  # somebody died inside
    os.truncate(gates._path, 0)
    gates.opened()
    other = gate.Gates(gates._path)
    other.opened()
    gates.remove()
    assert not os.path.exists(gates._path)
    entered, mine, _ = enter(other)
    assert entered and os.path.getsize(gates._path) > 0
    mine.leave()
    other.close()


def test_a_forked_child_gives_no_place_of_its_parents_back(gates, monkeypatch):
    monkeypatch.setattr(gate, "WORKED_SECONDS", MUCH)
    mine, other = gate.Gate(gates, ENTRY), inside(gates)
    assert mine.enter(Known(), MUCH)
    child = os.fork()
    if not child:
        gates.close()
        os._exit(0)
    os.waitpid(child, 0)
    child = os.fork()
    if not child:
        theirs = gate.Gates(gates._path)
        os._exit(0 if enter(theirs, seconds=0.2)[2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    kill(other)


@pytest.mark.parametrize("content", [b"x", b"T" * 5000, os.urandom(1 << 19)])
def test_a_file_that_says_nothing_lets_everybody_in(gates, content):
    with open(gates._path, "wb") as file:
        file.write(content)
    entered, mine, in_vain = enter(gates)
    assert entered and not in_vain
    mine.leave()


def test_where_there_can_be_no_file_everybody_comes_in(tmp_path):
    entered, mine, in_vain = enter(gate.Gates(str(tmp_path / "none" / gate.FILE)))
    assert entered and not in_vain and not mine._taken
    mine.leave()


def test_a_program_that_closes_all_descriptors_loses_no_file_of_its_own(gates, tmp_path):
    mine = gate.Gate(gates, ENTRY)
    assert mine.enter(Known(), MUCH)
    number = gates.opened().fd()
    os.close(number)
    with open(tmp_path / "theirs", "wb") as file:
        os.dup2(file.fileno(), number)
    mine.leave()
    entered, mine, in_vain = enter(gates)
    assert entered and not in_vain and mine._taken
    mine.leave()
    gates.close()
    assert (tmp_path / "theirs").read_bytes() == b""
    os.close(number)


def test_what_could_not_be_used_lets_nobody_else_in_without_a_place(gates):
    mine = gate.Gate(gates, ENTRY)
    assert mine.enter(Known(), MUCH)
    mine.leave(used=False)
    known = Known()
    entered, mine, _ = enter(gates, known)
    assert (entered, len(mine._taken), known.looks) == (True, 1, 0)
    mine.leave()


def test_who_comes_in_beside_two_that_work_looks_first_at_what_crashed(gates, monkeypatch):
    """A kernel that writes a core dump works, too."""
    monkeypatch.setattr(gate, "WORKED_SECONDS", -1.0)
    children = inside(gates), inside(gates)
    known = Known(2)
    assert (enter(gates, known)[0], known.looks) == (False, 1)
    assert enter(gates, Known(1), seconds=0.2)[2]  # somebody else may be the second to die
    assert enter(gates, Known(2), seconds=0.0)[0] is False
    for child in children:
        kill(child)


def test_of_whom_nothing_can_be_known_nobody_says_that_it_worked(gates, monkeypatch):
    monkeypatch.setattr(gate, "WORKED_SECONDS", -1.0)
    children = inside(gates), inside(gates)
    monkeypatch.setattr(gate, "_namespace", lambda: b"123")
    assert enter(gates, seconds=0.2)[2]
    for child in children:
        kill(child)


def test_who_has_a_file_that_is_no_more_leaves_the_one_that_is_there(gates):
    gates.opened()
    other = gate.Gates(gates._path)
    other.opened()
    other.remove()
    child = inside(gate.Gates(gates._path))
    gates.remove()
    assert os.path.exists(gates._path)
    kill(child)
