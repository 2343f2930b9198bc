"""Numba's threading layer, for code that is parallel: which one is started, with how many threads, and where it lies.

As numba/np/ufunc/parallel.py does it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from nbcache.config import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    Load = Callable[[str], ModuleType]
    """Returns one of Numba's extensions by its name. Raises ImportError."""

POOLS: Final = ("numba.np.ufunc.tbbpool", "numba.np.ufunc.omppool", "numba.np.ufunc.workqueue")
"""The threading layers, as Numba prefers them."""
_LAYERS: Final = {name.rpartition(".")[2].removesuffix("pool"): name for name in POOLS}


def addresses(load: Load, symbols: Iterable[str]) -> Mapping[str, int]:
    """Return where the symbols of the threading layer lie, which is started. Raises ImportError and LookupError."""
    started = _started_by_numba()
    pool = _pool(load) if started is None else load(started)
    if started is None:
        threads = _number_of_threads()
        start = ctypes.CFUNCTYPE(None, ctypes.c_int)
        start(pool.launch_threads)(threads)
        start(pool.set_num_threads)(threads)
    return {name: getattr(pool, name.replace("numba_parallel_for", "parallel_for")) for name in symbols}


def _pool(load: Load) -> Any:
    settings = environment()
    wanted = settings.get("NUMBA_THREADING_LAYER", "default").lower()
    order = settings.get("NUMBA_THREADING_LAYER_PRIORITY", "tbb omp workqueue").split()
    for layer in [wanted] if wanted in _LAYERS else order:
        try:
            return load(_LAYERS[layer])
        except (ImportError, KeyError):
            continue
    raise LookupError(f"none of Numba's threading layers can be loaded: {', '.join(order)}")


def _number_of_threads() -> int:
    said = environment().get("NUMBA_NUM_THREADS") or str(len(os.sched_getaffinity(0)))
    # The pools would take 0, and have no memory for the work of a negative number of threads.
    if not said.strip().isdecimal() or not int(said):
        raise ValueError(f"NUMBA_NUM_THREADS={said} is no number of threads: it must be 1 or more")
    return int(said)


def _started_by_numba() -> str | None:
    """The extension of the threading layer that Numba runs in this process: the number of threads is its user's
    choice.
    """
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    layer = getattr(parallel, "_threading_layer", None)
    return _LAYERS.get(layer) if isinstance(layer, str) else None
