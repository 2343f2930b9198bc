"""A job whose imports put it under Landlock, which nobody can take back: nobody else's job is under it."""

from nbtest import daemons, proc

CONFINED = """
import ctypes, os
from numba import njit

libc = ctypes.CDLL(None, use_errno=True)
rights = (ctypes.c_uint64 * 1)((1 << 13) - 1)
ruleset = libc.syscall(444, rights, 8, 0)
libc.prctl(38, 1, 0, 0, 0)
# In the job alone, which gets no variables of the client's.
restricted = "OF_THE_CLIENT" not in os.environ and libc.syscall(446, ruleset, 0) == 0

@njit
def f(x):
    return x + 1
"""


def test_the_next_job_is_not_under_it(place):
    (place / "confined.py").write_text(CONFINED)
    (place / "other.py").write_text("from numba import njit\n@njit\ndef g(x):\n    return x + 2\n")
    (place / "first.py").write_text("import confined\nprint(confined.f(1))\n")
    (place / "second.py").write_text("import other\nprint(other.g(1))\n")
    with daemons.daemon(place / "store") as daemon:
        first = proc.run([place / "first.py"], place / "store", {**daemons.WAITING, "OF_THE_CLIENT": "1"})
        second = proc.run([place / "second.py"], place / "store", daemons.WAITING)
        assert (first.stdout, second.stdout) == ("2\n", "3\n")
        daemon.says("could not build confined:f")
        daemon.says("built other:g")
