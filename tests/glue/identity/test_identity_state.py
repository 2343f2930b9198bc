"""Functions of the toolchain that answer from the process's state: code that runs while compiling may not ask them."""

import contextvars
import csv
import datetime as dt
import decimal
import gc
import importlib
import io
import locale
import logging
import numbers
import os
import platform
import random
import sys
import tempfile
import threading
import time

import numpy as np
import pytest
from numba import njit

from nbcache.glue.identity import process_state
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.ownership import toolchain_name
from nbcache.glue.keys.key_maker import KeyMaker


class Holder:
    """Somebody's object: what it holds runs while compiling."""

    def __init__(self, function):
        self.function = function


def imports_and_asks_when():
    import datetime as dt

    return dt.datetime.fromtimestamp(0).hour  # noqa: DTZ006


current = threading.current_thread
moment = dt.datetime


def imports_and_asks():
    import gc as collector

    return collector.isenabled()


now = time.time
ASKING = {
    "errors": lambda: np.geterr()["over"],
    "print options": lambda: np.get_printoptions(),
    "an array as text": lambda a: np.array2string(a),
    "collector": lambda: gc.isenabled(),
    "collector by an import in the body": imports_and_asks,
    "thread": lambda: threading.current_thread().name,
    "thread by a name of one's own": lambda: current().name,
    "logger": lambda: logging.getLogger("users").level,
    "decimals": lambda: decimal.getcontext().prec,
    "limit": lambda: sys.getrecursionlimit(),
    "local time": lambda: time.mktime((2020, 1, 1, 0, 0, 0, 0, 0, 0)),
    "local moment": lambda: dt.datetime.fromtimestamp(0).hour,  # noqa: DTZ006
    "local moment by an import in the body": imports_and_asks_when,
    "local moment by a name of one's own": lambda: moment(2020, 1, 1).timestamp(),
    "letters": lambda: locale.nl_langinfo(locale.CODESET),
    "place of files for a moment": lambda: tempfile.gettempdir(),
    "dialects of csv": lambda: csv.get_dialect("excel"),
    "host": lambda: platform.node(),
    "time": lambda: time.time(),
    "time by a name of one's own": lambda: now(),
    "context": lambda: contextvars.copy_context(),
    "year": lambda: time.strftime("%Y"),
    "this year": lambda: dt.datetime.now().year,  # noqa: DTZ005
    "day by a name of one's own": lambda: moment.today(),
    "day": lambda: dt.date.today(),  # noqa: DTZ011
    "process": lambda: os.getpid(),
}


@pytest.mark.parametrize("what", ASKING)
def test_what_asks_for_the_state_of_the_process_is_refused_where_it_runs_while_compiling(what):
    with pytest.raises(Unidentifiable, match=r"while compiling (asks|and looks at the time)"):
        KeyMaker().engine.digest(Holder(ASKING[what]))


def test_nothing_of_it_counts_where_it_is_compiled():
    engine, compiled = KeyMaker().engine, njit(ASKING["errors"])
    digest = engine.digest(compiled)
    with np.errstate(over="raise"):
        assert engine.digest(compiled) == digest


def test_classes_that_are_registered_as_numbers_count():
    engine, holder = KeyMaker().engine, Holder(lambda x: isinstance(x, numbers.Real))
    digest, scope = engine.scoped(holder)
    for ours in (type("Ours", (), {}), type("AlsoOurs", (), {})):  # each time, also where it was looked through before
        numbers.Real.register(ours)
        assert not scope.unchanged()
        changed, scope = engine.scoped(holder)
        assert changed != digest
        digest = changed


@pytest.mark.parametrize("function", [lambda: platform.system(), lambda x: isinstance(x, dt.datetime)])
def test_what_is_in_keys_anyway_is_no_reason(function):
    assert KeyMaker().engine.digest(Holder(function))


def test_a_class_counts_by_what_it_would_tell():
    engine, holder = KeyMaker().engine, Holder(lambda x: isinstance(x, decimal.Decimal))
    digest = engine.digest(holder)
    with decimal.localcontext(decimal.Context(prec=5)):
        assert engine.digest(holder) != digest
    assert engine.digest(holder) == digest


@pytest.mark.parametrize("inline", ["never", "always"])
def test_random_numbers_are_none(inline):
    # What is inlined is looked at by more than the compiler, and still it doesn't run.
    assert KeyMaker().engine.digest(njit(inline=inline)(lambda: random.random() + np.random.rand()))


def test_asking_a_stream_is_a_reason(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    with pytest.raises(Unidentifiable, match="while compiling asks"):
        KeyMaker().engine.digest(Holder(lambda: sys.stdout.encoding))


@pytest.mark.parametrize("writes", [lambda: print("said", file=sys.stdout), lambda: sys.stdout.write("said")])
def test_whoever_writes_to_a_stream_asks_nothing(writes, monkeypatch):
    engine, holder = KeyMaker().engine, Holder(writes)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    digest = engine.digest(holder)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert engine.digest(holder) == digest


LOOKS = [lambda cls: cls.__subclasses__(), lambda function: function.__code__.co_firstlineno]


@pytest.mark.parametrize("function", LOOKS)
def test_what_nothing_leads_to_is_a_reason(function):
    with pytest.raises(Unidentifiable, match="which runs while compiling and looks at"):
        KeyMaker().engine.digest(Holder(function))


def test_measuring_how_long_something_takes_is_none():
    assert KeyMaker().engine.digest(Holder(lambda: time.perf_counter()))


# Not there, or under another name, in every release; a method of datetime's is known by its class.
SOMETIMES = {"multiprocessing.context:get_context", "multiprocessing.context:get_start_method", "sys:get_int_max_str_digits", "os:process_cpu_count", "logging:getHandlerByName", "logging:getLevelNamesMapping", "locale:getencoding", "_locale:getencoding", "posix:cpu_count"}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*process_state._TELLERS, *process_state._OPAQUE} - SOMETIMES))
def test_what_tells_is_listed_under_the_name_that_it_has_here(name):
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    own = toolchain_name(found)
    assert own is None or process_state._as_listed(own) in {*process_state._TELLERS, *process_state._OPAQUE}
