"""A shared compile cache for Numba.

Nothing here has to be imported: a process that starts with ``NBCACHE_DIR`` set uses the cache. The functions below
are for programs that would rather switch it on themselves. Importing this package imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would cost every process milliseconds

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Any

__all__ = ["__version__", "disable", "enable", "prewarm", "stats"]

__version__ = "0.2.0"


def enable(dir: str | os.PathLike[str]) -> None:  # noqa: A002 - the setting's own name
    """Use the cache in directory `dir` from here on, whatever the environment says about where it is.

    The other settings are read as usual. Call it before the first compilation: what is compiled earlier is not
    cached. Never raises for a directory that can't be used: that is logged, and Numba works as without nbcache.
    """
    import os
    from dataclasses import replace

    from nbcache import config
    from nbcache.client import hook

    settings = config.load()
    sources = {**settings.sources, "dir": "nbcache.enable()"}
    hook.arm(replace(settings, dir=os.path.abspath(os.fspath(dir)), sources=sources))


def disable() -> None:
    """Stop using the cache in this process: what is loaded stays, and later compilations are Numba's own."""
    from nbcache.client import hook

    hook.disarm()


def prewarm(dispatcher: Any, signatures: Iterable[Any]) -> None:
    """Have a function ready for each of `signatures`, as calling it with such arguments would.

    It is loaded if the cache has it, otherwise compiled and published. `dispatcher` is a jitted function or a ufunc; a
    signature is what Numba takes for one, and its return type is ignored, as a call has none. Raises what Numba raises
    for a signature that it can't compile.
    """
    from nbcache.glue.requests import requested

    for signature in signatures:
        requested.prepare(dispatcher, signature)


def stats() -> dict[str, Any]:
    """Return this process's counts: hits, misses and uncacheable functions by reason, errors, seconds saved [s]."""
    from nbcache.client import activation

    return activation.stats()
