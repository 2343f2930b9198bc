"""Exceptions that only pass through: raised by the program while nbcache's code ran, and so none of nbcache's business.

Whatever fails in nbcache is a miss, so much of it catches broadly. But Python runs signal handlers between any two
instructions, and a thread may be sent an exception from another: a time limit that a program set for itself must end
what the program does, whoever's code is running. So who catches broadly asks `let_pass` first.

What tells them apart is the traceback. A handler is called with the frame that it interrupted, which is the frame
that the traceback leads to it from; nbcache calls nothing with its caller's frame. An exception sent by another thread
appears out of nowhere: at an instruction that raises nothing, or as a class of the program's in code that isn't.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

__all__ = ["errors", "let_pass", "suppressed"]

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from nbcache import errors
else:

    class _Errors:
        """Has the exceptions of `nbcache.errors`, which is imported for the first that is raised or caught.

        A node has a few milliseconds for all that it does, and a dozen classes of exceptions take half of one.
        """

        __slots__ = ()

        def __getattr__(self, name: str) -> type[Exception]:
            from nbcache import errors

            return getattr(errors, name)

    errors = _Errors()

_SILENT: Final = frozenset({"RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "POP_TOP", "NOP", "STORE_FAST", "LOAD_CONST"})
"""Instructions that raise nothing themselves."""


def let_pass(error: BaseException) -> None:
    """Raise *error* again if it isn't about what nbcache was doing."""
    if _is_theirs(error):
        raise error


_HERE: Final = os.path.dirname(let_pass.__code__.co_filename) + os.sep
"""What the code of nbcache says that it was compiled from, which for bytecode alone isn't where its file is."""


class suppressed:  # noqa: N801  named as what it is like
    """As `contextlib.suppress`, for what isn't the program's."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Whether the exception is of these kinds and nbcache's own business."""
        return isinstance(error, self._kinds) and not _is_theirs(error)


def _is_theirs(error: BaseException) -> bool:
    trace, last = error.__traceback__, None
    while trace is not None:
        if last is not None and _is_handler(trace.tb_frame, last.tb_frame):
            return True
        last, trace = trace, trace.tb_next
    return last is not None and _came_from_nowhere(error, last)


def _is_handler(frame: FrameType, caller: FrameType) -> bool:
    """Whether *frame* is that of a function which was given the frame that it interrupted."""
    code = frame.f_code
    if code.co_filename.startswith(_HERE):
        return False
    count = code.co_argcount + code.co_kwonlyargcount + (code.co_flags & 0x0C).bit_count()
    if not count:
        return False
    values = frame.f_locals
    given = [values.get(name) for name in code.co_varnames[:count]]
    return any(each is caller or (type(each) is tuple and any(item is caller for item in each)) for each in given)


def _came_from_nowhere(error: BaseException, trace: TracebackType) -> bool:
    code = trace.tb_frame.f_code
    if not code.co_filename.startswith(_HERE):
        return False
    module = type(error).__module__
    source = getattr(sys.modules.get(module), "__file__", None) or ""
    root = module.partition(".")[0]
    # What is written in C may raise such a class of its own when it is looked at, and leaves no frame.
    if source.endswith((".py", ".pyc")) and root not in sys.stdlib_module_names and root not in _OURS:
        return True
    import opcode

    return opcode.opname[code.co_code[trace.tb_lasti]] in _SILENT


_OURS: Final = frozenset({__name__.partition(".")[0], "numba", "llvmlite", "numpy", "filelock"})
"""Packages that raise what is nbcache's business; in a wheel that was made of a publication, it has another name."""
