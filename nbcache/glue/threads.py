"""Launches Numba's threads, as compiling for them would: code from elsewhere is bound to what they bring."""

from __future__ import annotations

from numba.np.ufunc import parallel

from nbcache.passing_exceptions import let_pass


def launch() -> None:
    """Launch them, unless they are there. Raises LookupError where Numba can't, which says so when it compiles."""
    try:
        parallel._launch_threads()
    except Exception as raised:
        let_pass(raised)
        raise LookupError(f"the threads that it needs can't be launched: {type(raised).__name__}") from raised
