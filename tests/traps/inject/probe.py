"""What every program under test imports first: prints results exactly, and records what gets compiled.

`show(label, function, *arguments)` prints one line that tells apart everything two values can differ in: type,
dtype, sign of zero, NaN payload, memory order; or, for an exception, its type, arguments, files and lines.

With `NBTEST_EVENTS` naming a file, each compilation that starts in this process or a forked child appends a line.
With `NBTEST_NUMBA_CACHE` set, Numba's own cache is forced onto everything the program decorates (the control).
"""

import functools
import os
import struct
import sys
import traceback

import numba
import numpy as np
from numba.core import dispatcher, errors, event

_NUMBA = os.path.dirname(numba.__file__)
_REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
_NOT_THE_PROGRAM = (__file__, _NUMBA, os.path.join(_REPOSITORY, "nbcache"))


def describe(value):
    """Return text that differs whenever two results differ in type, dtype, layout or bits."""
    if type(value) is float:
        return f"float {value!r} {struct.pack('>d', value).hex()}"
    if isinstance(value, np.generic):
        return f"{type(value).__name__} {value!r} {value.tobytes().hex()}"
    if isinstance(value, np.ndarray):
        order = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return f"array {value.dtype} {value.shape} {order} {value.tolist()!r}"
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", "")
        return f"{type(value).__name__}{fields} ({', '.join(map(describe, value))})"
    if isinstance(value, list):
        return f"list [{', '.join(map(describe, value))}]"
    return f"{type(value).__name__} {value!r}"


def frames(exception):
    """Return `file:line in function` of each frame that belongs to the program under test."""
    summary = traceback.extract_tb(exception.__traceback__)
    return [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in summary
        if not frame.filename.startswith(_NOT_THE_PROGRAM)
    ]


def show(label, function, *args, **kwargs):
    """Call `function` and print, under `label`, what came of it. Never raises."""
    try:
        text = describe(function(*args, **kwargs))
    except errors.NumbaError as exc:
        text = f"raised {type(exc).__name__} {str(exc).splitlines()[0]}"
    except BaseException as exc:
        text = f"raised {type(exc).__module__}.{type(exc).__qualname__}{exc.args!r} at {'; '.join(frames(exc))}"
    print(f"{label}: {text}", flush=True)


class _Recorder(event.Listener):
    """Appends `<event> <what>` to the events file, once per process for each."""

    def __init__(self, path):
        # Opened before anything is compiled: what somebody's code opens meanwhile, to write to it, isn't cached.
        # A bare descriptor: Python warns of a file object that is open at the end, and names its path.
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._seen = set()

    def on_start(self, event):
        data = event.data
        name = data["qualname"] if event.kind == "numba:run_pass" else data["dispatcher"].py_func.__qualname__
        line = f"{event.kind} {name}\n"
        if line not in self._seen:
            self._seen.add(line)
            os.write(self._file, line.encode())

    def on_end(self, event):
        pass


def _record_events(path):
    recorder = _Recorder(path)
    for kind in ("numba:compile", "numba:run_pass"):
        event.register(kind, recorder)


def _force_numba_cache():
    """Give every function decorated outside Numba itself `cache=True`."""
    original = dispatcher.Dispatcher.__init__

    @functools.wraps(original)
    def initialise(self, py_func, *args, **kwargs):
        original(self, py_func, *args, **kwargs)
        if not py_func.__code__.co_filename.startswith(_NUMBA):
            try:
                self.enable_caching()
            except RuntimeError:  # no place to cache a function that has no file
                return

    dispatcher.Dispatcher.__init__ = initialise
    for name in ("vectorize", "guvectorize", "cfunc"):
        setattr(numba, name, _with_cache(getattr(numba, name)))


def _with_cache(decorator):
    @functools.wraps(decorator)
    def caching(*args, **kwargs):
        inner = decorator(*args, **kwargs)
        if not callable(inner) or (args and callable(args[0]) and not isinstance(args[0], (list, tuple))):
            return inner

        def apply(function):
            try:
                return decorator(*args, cache=True, **kwargs)(function)
            except RuntimeError:
                return inner(function)

        return apply

    return caching


if "NBTEST_EVENTS" in os.environ:
    _record_events(os.environ["NBTEST_EVENTS"])
if "NBTEST_NUMBA_CACHE" in os.environ:
    _force_numba_cache()
sys.stdout.reconfigure(line_buffering=True)
