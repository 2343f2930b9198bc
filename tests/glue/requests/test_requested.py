"""Functions that are pickled for a request: what comes back, and what stays behind in the program."""

import gc
import pickle
import weakref

from numba import njit

from nbcache.glue.requests.requested import _by_value, _dump

MOST = 100_000


def make(k):
    @njit
    def f(x):
        return f(x - k) if x > 0 else x

    return f


def dumped(function):
    return _by_value(function, _dump, MOST)


def test_a_function_that_was_asked_for_is_collected_as_without_a_cache():
    f = make(1)
    dumped(f)
    known, code = weakref.ref(f), weakref.ref(f.py_func)
    del f
    gc.collect()
    assert known() is None
    assert code() is None


def test_what_a_program_pickles_itself_comes_back_as_without_a_cache():
    f = make(1)
    dumped(f)
    assert pickle.loads(pickle.dumps(f)) is f


def test_two_requests_for_a_function_name_one():
    f, other = make(1), make(1)
    first, second, third = (pickle.loads(dumped(each)) for each in (f, f, other))
    assert first is second
    assert first is not third
    assert first(3) == 0
