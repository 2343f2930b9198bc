"""Functions of the toolchain that answer from the process's state: what they tell counts for code that runs while compiling."""

import contextlib
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

from nbcache.glue.identity import state
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.ownership import toolchain_name
from nbcache.glue.keys.key_maker import KeyMaker


class Holder:
    """Somebody's object: what it holds runs while compiling."""

    def __init__(self, function):
        self.function = function


@contextlib.contextmanager
def _precision():
    with np.printoptions(precision=2):
        yield


@contextlib.contextmanager
def _other_thread_name():
    thread = threading.current_thread()
    name, thread.name = thread.name, "other"
    try:
        yield
    finally:
        thread.name = name


@contextlib.contextmanager
def _no_collector():
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _verbose():
    logger = logging.getLogger("users.package")
    logger.setLevel("DEBUG")
    try:
        yield
    finally:
        logger.setLevel(logging.NOTSET)


@contextlib.contextmanager
def _deeper():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 1)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@contextlib.contextmanager
def _elsewhere():
    before = os.environ.get("TZ")
    os.environ["TZ"] = "XYZ-9"
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


@contextlib.contextmanager
def _other_letters():
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def imports_and_asks_when():
    import datetime as dt

    return dt.datetime.fromtimestamp(0).hour  # noqa: DTZ006


current = threading.current_thread
moment = dt.datetime


@contextlib.contextmanager
def _other_place():
    before, tempfile.tempdir = tempfile.tempdir, "/elsewhere"
    yield
    tempfile.tempdir = before


@contextlib.contextmanager
def _another_dialect():
    csv.register_dialect("another")
    yield
    csv.unregister_dialect("another")


TOLD = {
    "errors": (lambda: np.geterr()["over"], lambda: np.errstate(over="raise")),
    "print options": (lambda: np.get_printoptions(), _precision),
    "an array as text": (lambda a: np.array2string(a), _precision),
    "collector": (lambda: gc.isenabled(), _no_collector),
    "thread": (lambda: threading.current_thread().name, _other_thread_name),
    "thread by a name of one's own": (lambda: current().name, _other_thread_name),
    "logger": (lambda: logging.getLogger("users").level, _verbose),
    "decimals": (lambda: decimal.getcontext().prec, lambda: decimal.localcontext(decimal.Context(prec=5))),
    "limit": (lambda: sys.getrecursionlimit(), _deeper),
    "local time": (lambda: time.mktime((2020, 1, 1, 0, 0, 0, 0, 0, 0)), _elsewhere),
    "local moment": (lambda: dt.datetime.fromtimestamp(0).hour, _elsewhere),  # noqa: DTZ006
    "local moment by an import in the body": (imports_and_asks_when, _elsewhere),
    "letters": (lambda: locale.nl_langinfo(locale.CODESET), _other_letters),
    "place of files for a moment": (lambda: tempfile.gettempdir(), _other_place),
    "dialects of csv": (lambda: csv.get_dialect("excel"), _another_dialect),
}


@pytest.mark.parametrize("what", TOLD)
def test_what_is_told_counts_where_it_runs_while_compiling(what):
    function, changed = TOLD[what]
    engine, holder = KeyMaker().engine, Holder(function)
    digest, scope = engine.scoped(holder)
    assert scope.unchanged()
    with changed():
        assert not scope.unchanged()
        assert engine.digest(holder) != digest
    assert engine.digest(holder) == digest


@pytest.mark.parametrize("what", TOLD)
def test_nothing_of_it_counts_where_it_is_compiled(what):
    function, changed = TOLD[what]
    engine, compiled = KeyMaker().engine, njit(function)
    digest = engine.digest(compiled)
    with changed():
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


def test_loggers_that_say_nothing_do_not_count():
    engine, holder = KeyMaker().engine, Holder(TOLD["logger"][0])
    digest = engine.digest(holder)
    logging.getLogger("users.other").addHandler(logging.NullHandler())
    assert engine.digest(holder) == digest


@pytest.mark.parametrize(("asks", "counts"), [(lambda: platform.system(), False), (lambda: platform.node(), True)])
def test_a_system_is_that_of_many_hosts(asks, counts, monkeypatch):
    engine, holder = KeyMaker().engine, Holder(asks)
    digest = engine.digest(holder)
    here = platform.uname()
    monkeypatch.setattr(platform, "_uname_cache", type(here)(here.system, "elsewhere", *here[2:5]))
    assert (engine.digest(holder) != digest) is counts


now = time.time
UNTOLD = [
    lambda: time.time(), lambda: now(), lambda: contextvars.copy_context(), lambda: time.strftime("%Y"),
    lambda: dt.datetime.now().year, lambda: moment.today(), lambda: dt.date.today(), lambda: os.getpid(),  # noqa: DTZ005, DTZ011
]  # fmt: skip


@pytest.mark.parametrize("function", UNTOLD)
def test_what_cannot_be_compared_is_a_reason(function):
    with pytest.raises(Unidentifiable, match=r"while compiling (asks|and looks at the time)"):
        KeyMaker().engine.digest(Holder(function))


@pytest.mark.parametrize("inline", ["never", "always"])
def test_random_numbers_are_none(inline):
    # What is inlined is looked at by more than the compiler, and still it doesn't run.
    assert KeyMaker().engine.digest(njit(inline=inline)(lambda: random.random() + np.random.rand()))


def test_a_class_of_the_library_tells_under_any_name():
    engine, holder = KeyMaker().engine, Holder(lambda: moment(2020, 1, 1).timestamp())
    digest = engine.digest(holder)
    with _elsewhere():
        assert engine.digest(holder) != digest
    assert engine.digest(holder) == digest


def imports_and_asks():
    import gc as collector

    return collector.isenabled()


def test_what_the_body_imports_tells_as_well():
    engine, holder = KeyMaker().engine, Holder(imports_and_asks)
    digest = engine.digest(holder)
    with _no_collector():
        assert engine.digest(holder) != digest


STREAMS = [
    (lambda: sys.stdout.encoding, True),
    (lambda: print("said", file=sys.stdout), False),
    (lambda: sys.stdout.write("said"), False),
]


@pytest.mark.parametrize(("asks", "counts"), STREAMS)
def test_a_stream_counts_for_who_asks_more_than_to_write(asks, counts, monkeypatch):
    engine, holder = KeyMaker().engine, Holder(asks)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    digest = engine.digest(holder)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert (engine.digest(holder) != digest) is counts


LOOKS = [lambda cls: cls.__subclasses__(), lambda function: function.__code__.co_firstlineno]


@pytest.mark.parametrize("function", LOOKS)
def test_what_nothing_leads_to_is_a_reason(function):
    with pytest.raises(Unidentifiable, match="which runs while compiling and looks at"):
        KeyMaker().engine.digest(Holder(function))


def test_measuring_how_long_something_takes_is_none():
    assert KeyMaker().engine.digest(Holder(lambda: time.perf_counter()))


# Not there, or under another name, in every release; a method of datetime's is known by its class.
SOMETIMES = {"multiprocessing.context:get_context", "multiprocessing.context:get_start_method", "sys:get_int_max_str_digits", "os:process_cpu_count", "logging:getHandlerByName", "logging:getLevelNamesMapping", "locale:getencoding", "_locale:getencoding", "posix:cpu_count"}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*state._TELLERS, *state._UNTOLD} - SOMETIMES))
def test_what_tells_is_listed_under_the_name_that_it_has_here(name):
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    own = toolchain_name(found)
    assert own is None or state._as_listed(own) in {*state._TELLERS, *state._UNTOLD}
