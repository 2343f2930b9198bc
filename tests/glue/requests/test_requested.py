"""Functions that are pickled for a request: what comes back, and what stays behind in the program."""

import gc
import pickle
import signal
import weakref

import pytest
from numba import float64, int64, njit

from nbcache.glue.requests.requested import _by_value, _dump, listed

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


def test_a_time_limit_of_the_program_s_ends_pickling():
    """It was taken for a reason why the function can't be pickled, and the program went on."""

    class TimeIsUp(Exception):
        pass

    def ends(_signal, _frame):
        raise TimeIsUp

    before = signal.signal(signal.SIGUSR1, ends)
    try:
        with pytest.raises(TimeIsUp):
            _by_value(1, lambda _public, _file: signal.raise_signal(signal.SIGUSR1), 100)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("one", ["f8(f8)", "(f8,)", float64(float64), (float64,), (float64, int64)])
def test_a_signature_by_itself_is_a_list_of_it(one):
    assert listed(one) == listed([one]) == listed(each for each in [one]) == [one]


def test_several_signatures_are_listed():
    assert listed(None) is None and listed(()) == [] == listed([])
    assert listed(("f8(f8)", "i8(i8)")) == ["f8(f8)", "i8(i8)"]
    assert listed(((float64,), (int64,))) == [(float64,), (int64,)]
