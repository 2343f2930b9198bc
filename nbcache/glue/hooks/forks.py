"""Forking while another thread compiles or loads.

A child goes on with the thread that forked and with no other, so a lock that another one held stays
locked in it. Numba's own compiler lock can be had again: what that thread was compiling is lost, and
its frames are gone with it (compilations.py). LLVM can't: it may be in the middle of a call. So a fork lets
another thread's call end first, but never waits for a compilation, which may take minutes and consists
of many calls. If one call lasts longer than that, llvmlite's lock stays locked in the child, which
then can't compile, as it couldn't without nbcache.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from nbcache.glue.hooks import deferring
from nbcache.glue.identity import numba_copies

CALL_SECONDS = 1.0
"""The longest a fork is held up by another thread's call of LLVM [s]. Nearly all take milliseconds, but the thread that
makes one may have to wait for a processor."""
LOAD_SECONDS = 10.0
"""The same by another thread that loads what a hit has put off [s]: a second, unless it needs what this thread has."""

_held: dict[int, bool] = {}
"""By thread, since two may fork at once: whether it has llvmlite's lock."""
_protected = _attending = False


def protect(in_child: Callable[[], None], at_exit: Callable[[], None]) -> None:
    """Guard this process's forks; call *in_child* in each child, and *at_exit* when it ends."""
    global _protected
    if _protected or not hasattr(os, "register_at_fork"):
        return
    _protected = True
    of_llvm = ffi.lib._lock._lock

    def before() -> None:
        deferring.wait(LOAD_SECONDS)
        _held[threading.get_ident()] = of_llvm.acquire(timeout=CALL_SECONDS)

    def after_in_parent() -> None:
        if _held.pop(threading.get_ident(), False):
            of_llvm.release()

    def after_in_child() -> None:
        after_in_parent()
        _held.clear()
        _free_compiler()
        in_child()
        _attend_children(at_exit)

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        sys.modules["multiprocessing.util"].Finalize(None, at_exit, exitpriority=0)
    else:  # a child of a fork server comes by here before it knows whose it is
        _attend_children(at_exit)


def _attend_children(at_exit: Callable[[], None]) -> None:
    """See to it that a child of multiprocessing calls *at_exit*: it ends without ``atexit``.

    It runs multiprocessing's own finalizers, having dropped those that it inherited.
    """
    global _attending
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _attending:
        _attending = True  # in its children as well, which inherit this
        util.register_after_fork(at_exit, lambda _: util.Finalize(None, at_exit, exitpriority=0))


def _free_compiler() -> None:
    """Let this child compile: who has a lock is either its only thread or none that is left."""
    numba_copies.noted.lock = threading.RLock()
    if global_compiler_lock._lock.acquire(blocking=False):
        global_compiler_lock._lock.release()
        return
    global_compiler_lock._lock = threading.RLock()
    # A lock that is had while types are inferred, and the functions that another thread was compiling.
    stack = cpu_target.typing_context.callstack
    vars(stack).update(vars(type(stack)()))
