"""SciPy's linear algebra, which Numba imports in a process's first compilation to know whether it is there.

That takes as long as the rest of what is imported then, and few programs use it. So Numba is told what the import
system would find; what needs it imports it: Numba's functions that call it while they are compiled, and code that runs.
A program may rely on it from the first compilation on, as deferring.py says, which loads it in time.

Not seen: a SciPy that is there and can't be imported. Numba raises what it would raise, when something calls it; but
`np.convolve` and `np.correlate`, which do without where Numba knows that there is none, raise that as well.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from typing import Any, Final

import _nbcache
from nbcache.glue.identity import numba_copies
from nbcache.passing_exceptions import let_pass, suppressed

_NAME: Final = "scipy.linalg.cython_blas"
_CALLER = "numba.np.linalg"
_ASKER = "_check_blas"
"""The function that asks, while the module that needs the answer is imported."""


def presume() -> None:
    """Numba may ask for it now: a look at where it lies must do."""
    if _CALLER not in sys.modules:
        numba_copies.afterwards[_CALLER] = _answer


def is_missing() -> bool:
    """Whether it isn't loaded, and would be if Numba had not been told that it is there."""
    return _presumed and _NAME not in sys.modules


def load() -> None:
    """Import it, as plain Numba has done by now."""
    with suppressed(Exception):  # who calls it meets it again
        importlib.import_module(_NAME)


_presumed = False


def _answer(linalg: Any) -> None:
    """Answer the first question: that of the module that imports *linalg*, which the program hasn't seen yet."""
    original = linalg.ensure_blas

    def ensure_blas() -> None:
        global _presumed
        asker = sys._getframe(1)
        # Before that module's import is over, when what it holds counts as Numba's own.
        linalg.ensure_blas = original
        if asker.f_globals.get("ensure_blas") is ensure_blas:
            asker.f_globals["ensure_blas"] = original
        if asker.f_code.co_name != _ASKER or not _can_be_found():
            original()
            return
        if hasattr(linalg, "_check_lapack_int_width"):
            linalg._check_lapack_int_width()
        _presumed = True

    linalg.ensure_blas = ensure_blas


def _can_be_found() -> bool:
    """Whether it isn't loaded, and importing it finds it; who else decides over imports is left to do so."""
    names = ("scipy.linalg", _NAME)
    imports: Any = builtins.__import__
    if not sys.modules.keys().isdisjoint(names) or type(imports) is not type(len):
        return False
    path = getattr(sys.modules.get("scipy"), "__path__", None)
    for name in names:
        try:
            spec = path and _nbcache.spec_of_others(None, name, path, None)
        except Exception as raised:  # noqa: BLE001  importing meets it again
            let_pass(raised)
            return False
        if not spec:
            return False
        path = spec.submodule_search_locations
    return True
