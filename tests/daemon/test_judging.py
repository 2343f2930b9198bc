"""Interpreters that are looked at beside the daemon's loop."""

from __future__ import annotations

import sys
import threading

import pytest
from nbtest.daemons import MUCH

from nbcache.daemon import interpreters
from nbcache.daemon.interpreters import Judging
from nbcache.file_trust import Trust


@pytest.fixture
def gate(monkeypatch):
    """All looks wait for it, but those at this interpreter."""
    opened = threading.Event()

    def problem(interpreter, _trust):
        if interpreter != sys.executable:
            opened.wait()
        return "is a toy" if interpreter == "/toy" else None

    monkeypatch.setattr(interpreters, "problem", problem)
    monkeypatch.setattr(interpreters, "SECONDS", MUCH)
    yield opened
    opened.set()


def test_a_verdict_is_waited_for_and_holds_once(gate):
    told = threading.Semaphore(0)
    judges, trust = Judging(told.release), Trust()
    assert not judges.is_over("/toy", trust, 1)
    gate.set()
    told.acquire()
    assert judges.is_over("/toy", trust, 1)
    assert judges.problem("/toy") == "is a toy"
    assert not judges.is_over("/toy", trust, 1) or told.acquire(timeout=MUCH)


def test_what_does_not_answer_is_known_after_a_while(gate, monkeypatch):
    judges, trust = Judging(lambda: None), Trust()
    assert not judges.is_over("/hangs", trust, 1)
    monkeypatch.setattr(interpreters, "SECONDS", 0.0)
    assert judges.is_over("/hangs", trust, 1)
    assert "doesn't answer" in judges.problem("/hangs")
    assert not gate.is_set()


def test_one_user_s_looks_take_so_many_threads_and_no_more(gate):
    told = threading.Semaphore(0)
    judges, trust = Judging(told.release), Trust()
    for number in range(interpreters.MAX_HANGING):
        assert not judges.is_over(f"/hangs/{number}", trust, 1)
    assert judges.is_over("/one more", trust, 1)
    assert "others of this user" in judges.problem("/one more")
    judges.is_over(sys.executable, trust, 2)
    told.acquire()
    assert judges.problem(sys.executable) is None
    assert not gate.is_set()


def test_a_verdict_by_another_rule_is_none(gate):
    told = threading.Semaphore(0)
    judges = Judging(told.release)
    judges.is_over(sys.executable, Trust(), 1)
    told.acquire()
    judges.is_over(sys.executable, Trust(frozenset({5})), 1)
    assert told.acquire(timeout=MUCH)
    assert not gate.is_set()
