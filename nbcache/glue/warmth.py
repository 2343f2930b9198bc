"""What a process does once so that compiling starts at once in all its children."""

from __future__ import annotations


def warm() -> None:
    """Import Numba and fill its registries, as the first compilation of a process would.

    Raises what importing Numba raises. Compiles nothing, so nothing of it can be told from a fresh process.
    """
    from numba.core import entrypoints
    from numba.core.registry import cpu_target

    # A process that hits never loads these.
    from nbcache.glue.capture import diagnostics, witness  # noqa: F401
    from nbcache.glue.entries import pack  # noqa: F401
    from nbcache.glue.identity import kinds  # noqa: F401

    entrypoints.init_all()
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
