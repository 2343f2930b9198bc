"""What a process does once so that compiling starts at once in all its children."""

from __future__ import annotations

import importlib.util
import sys

from nbcache.glue.keys.key_maker import KeyMaker


def warm(maker: KeyMaker | None) -> None:
    """Import Numba and fill its registries, as the first compilation of a process would.

    *maker*: that of this process, None while the cache is off. Raises what importing Numba raises. Compiles nothing, so
    nothing of it can be told from a fresh process.
    """
    from numba.core import entrypoints

    from nbcache.glue import other_processors  # noqa: F401  what a job needs besides
    from nbcache.glue.hooks import deferring, linear_algebra
    from nbcache.glue.identity import distributions
    from nbcache.glue.keys import conditions

    # What the children run is what was imported now, whatever is installed by the time when one of them is forked.
    conditions.toolchain_components(distributions.Distributions())
    deferring.load_all(entrypoints.init_all if maker is None else maker.installed.load_for_children)
    linear_algebra.load()


def warm_for_kernels() -> None:
    """The same for what compiles kernels, without a device; nothing where numba-cuda isn't installed.

    Raises what importing numba-cuda raises.
    """
    if not _has_numba_cuda():
        return
    from numba.cuda.descriptor import cuda_target

    from nbcache.glue.cuda import pack, requested, toolkit  # noqa: F401
    from nbcache.passing_exceptions import suppressed

    cuda_target.typing_context.refresh()
    cuda_target.target_context.refresh()
    with suppressed(Exception):  # a job says what is missing
        toolkit.toolchain_components()


def kernels_problem() -> str | None:
    """Why this process can build no kernels, in one line; None if it can."""
    if not _has_numba_cuda():
        return f"numba-cuda isn't installed for {sys.executable}"
    from nbcache.glue.cuda import seams

    # Where they are installed there was none.
    return seams.problem() if seams.known() is None else None


def _has_numba_cuda() -> bool:
    return importlib.util.find_spec("numba_cuda") is not None
