"""Forking while another thread compiles or loads.

A child of such a fork would inherit a compiler lock that nobody in it can release, and an engine
in the middle of something.  So a fork waits for the lock, for a bounded time.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from numba.core.compiler_lock import global_compiler_lock

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_SECONDS = 10.0
"""The longest a fork is held up by another thread's compilation [s]."""

_held: list[bool] = []
_protected = False


def protect(in_child: Callable[[], None], at_exit: Callable[[], None]) -> None:
    """Guard this process's forks; call *in_child* in each child, and *at_exit* when it ends.

    Children of multiprocessing end without ``atexit``; they run multiprocessing's own finalizers.
    """
    global _protected
    if _protected or not hasattr(os, "register_at_fork"):
        return
    _protected = True
    lock = global_compiler_lock._lock

    def before() -> None:
        _held.append(lock.acquire(timeout=WAIT_SECONDS))

    def after_in_parent() -> None:
        if _held and _held.pop():
            lock.release()

    def after_in_child() -> None:
        after_in_parent()
        in_child()
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, at_exit, exitpriority=0)

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)
