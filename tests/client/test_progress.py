"""One line on a terminal about what is compiled and waited for."""

import io
import threading
from types import SimpleNamespace

import pytest

from nbcache.client import progress
from nbcache.client.elsewhere import Elsewhere
from nbcache.client.progress import Progress
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.protocol.profiles import Head, Profile, Unit
from nbcache.store.directory import Store


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=out))
    monkeypatch.setattr(progress, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(Progress, "_width", staticmethod(lambda: 200))
    return out


def unit(name):
    return Unit("dispatcher", name, "()", {}, (), None, "0" * 64, 5.0)


def test_what_is_compiled_is_said_and_erased_in_the_end(terminal):
    shown = Progress()
    shown.says("compiling", "lib:f")
    shown.end()
    shown.end()
    assert terminal.getvalue() == "\r\x1b[Knbcache: compiling lib:f\r\x1b[K"


def test_what_is_inside_something_else_erases_nothing(terminal):
    shown = Progress()
    shown.begin()
    shown.says("compiling", "lib:f")
    shown.begin()
    shown.end()
    assert not terminal.getvalue().endswith("\x1b[K")
    shown.end()
    assert terminal.getvalue().endswith("\x1b[K")


def test_of_a_cold_start_it_says_how_much_is_left_and_by_how_many(terminal):
    shown = Progress()
    shown.began(Profile(Head("main.py", {}, "", 0.0), [unit("lib:f"), unit("lib:g")]), 2)
    shown.ready("lib:f", "()")
    shown.says("waiting for", "lib:g")
    assert "waiting for lib:g | 1 of 2 functions ready, 5 s of compiling left, 2 workers" in terminal.getvalue()


def test_what_counts_is_what_the_profile_lists_and_what_that_is_built_upon(terminal):
    """Not what Numba compiles of its own, which no profile has: it said that nothing was left when a third was done."""
    shown = Progress()
    shown.ready("lib:g", "()")
    units = [unit("lib:f"), unit("lib:g")._replace(inside=(0,)), unit("lib:h"), unit("lib:i")]
    shown.began(Profile(Head("main.py", {}, "", 0.0), units), 1)
    for number in range(9):
        shown.ready(f"numba.np.arrayobj:{number}", "()")
    shown.says("compiling", "lib:h")
    assert "2 of 4 functions ready, 10 s of compiling left" in terminal.getvalue()


def test_where_standard_error_is_no_terminal_nothing_is_written(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=out))
    shown = Progress()
    shown.says("compiling", "lib:f")
    shown.end()
    assert out.getvalue() == ""


def test_what_a_stream_of_the_program_s_raises_is_no_matter(monkeypatch):
    class Broken(Terminal):
        def write(self, _text):
            raise ValueError

    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=Broken()))
    Progress().says("compiling", "lib:f")


def test_the_line_goes_when_what_was_waited_for_came(terminal, place):
    here, there = (Store.open(Settings(dir=str(place / "store"))) for _ in range(2))
    held = there.lease("1" * 64)
    others = Elsewhere(Settings(progress=True), here, Counters())
    wanted = SimpleNamespace(key="1" * 64, name="lib:f", signature_text="()")
    threading.Timer(0.01, held.release).start()
    assert others.find(wanted, lambda: "loaded", lambda _release: None, is_there=False) == "loaded"
    assert terminal.getvalue().endswith("\r\x1b[K")
