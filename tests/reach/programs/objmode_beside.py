"""objmode: blocks that use what nobody can identify, by globals, modules, closures and methods."""

import collections
import datetime as dt
import inspect
import io
import sqlite3
import sys
import threading

import numpy as np
from numba import njit, objmode
from shown import show

CAPSULE = dt.datetime_CAPI
DATABASE = sqlite3.connect(":memory:")
LOCK = threading.Lock()
OUT = io.StringIO()
SEEN = collections.deque(maxlen=5)


class App:
    def __init__(self):
        self.capsule, self.lock, self.n = CAPSULE, LOCK, 0

    def add(self, x):
        with self.lock:
            self.n += x
        return inspect.currentframe().f_lineno > 0


APP = App()


@njit
def twice(x):
    return 2 * x


def helper(x):
    return APP.n + len(repr(CAPSULE)) * 0 + x


@njit
def stored(i):
    with objmode(y="int64"):
        y = DATABASE.execute("select 5").fetchone()[0]
        SEEN.append(i)
        OUT.write(str(i))
    return y


@njit
def called(i):
    total = 0.0
    for k in range(3):
        with objmode(y="float64", ok="boolean"):
            try:
                ok = APP.add(k)
                y = float(helper(i) + sum([APP.n * j for j in range(3)]) + twice(i))
            except TypeError:
                y, ok = 0.0, sys.stdout is None
            finally:
                LOCK.locked()
        total += y
    return total, ok


def made(app, lock):
    @njit
    def inner(a):
        with objmode(y="float64"):
            with_all = app.add(1), lock.locked(), helper(1)
            y = float(a.sum() + len(with_all))
        return y

    return inner


show("stored", stored(1))
show("called", called(2))
show("made", made(APP, LOCK)(np.ones(3)))
show("seen", (list(SEEN), OUT.getvalue(), APP.n))
