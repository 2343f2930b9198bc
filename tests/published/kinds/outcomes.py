"""What calls come to, in a form that is equal if and only if every bit, type, place and line is."""

import contextlib
import sys
import traceback

import numpy as np

LEAK_ROUNDS = 1000


def outcome(function, args):
    """What a call returns or raises, and what it did to its arguments."""
    try:
        found = ("returned", exact(_listed(function(*args))))
    except Exception as exc:
        # Between the call and the function there may be a frame of nbcache's.
        frames = [f for f in traceback.extract_tb(exc.__traceback__) if f.filename.endswith("functions.py")]
        found = ("raised", type(exc).__name__, exact(exc.args), [(f.filename, f.lineno, f.name) for f in frames])
    return found, exact(args)


def _listed(value):
    return ("generator", list(value)) if hasattr(value, "__next__") else value


def exact(value):
    """A value as plain data that tells all of it."""
    if isinstance(value, np.ndarray):
        # A field that aligns the next one holds whatever was there.
        content = [exact(value[name]) for name in value.dtype.names] if value.dtype.names else value.tobytes()
        flags = value.flags
        aligned = value.dtype.isalignedstruct
        return ("array", value.dtype.str, aligned, value.shape, value.strides, flags.writeable, flags.aligned, content)
    if isinstance(value, np.void):
        return ("record", value.dtype.str, [exact(value[name]) for name in value.dtype.names])
    if isinstance(value, np.generic):
        return (type(value).__name__, value.dtype.str, value.tobytes())
    if isinstance(value, float):
        return ("float", value.hex() if value == value else "nan")
    if isinstance(value, complex):
        return ("complex", exact(value.real), exact(value.imag))
    if isinstance(value, tuple | list):
        return (type(value).__name__, [exact(each) for each in value])
    if isinstance(value, set):
        return ("set", sorted(map(repr, map(exact, value))))
    return (type(value).__name__, repr(value))


def leaks(function, args):
    """What a thousand calls leave behind: blocks of Numba's runtime, and references to arguments and classes."""
    runtime = sys.modules["numba.core.runtime._nrt_python"]
    watched = [each for each in args if isinstance(each, np.ndarray | tuple | str)] + [np.ndarray, np.void]
    for _ in range(3):
        outcome(function, args)
    before = _blocks(runtime), [sys.getrefcount(each) for each in watched]
    for _ in range(LEAK_ROUNDS):
        with contextlib.suppress(Exception):
            _listed(function(*args))
    after = _blocks(runtime), [sys.getrefcount(each) for each in watched]
    return after[0] - before[0], [new - old for old, new in zip(before[1], after[1])]


def _blocks(runtime):
    allocated = runtime.memsys_get_stats_alloc() + runtime.memsys_get_stats_mi_alloc()
    return allocated - runtime.memsys_get_stats_free() - runtime.memsys_get_stats_mi_free()
