"""Code that Numba keeps in files where a package says, by keys of its own.

It is loaded in processes that nbcache knows nothing of, or where it is off. So nothing that is compiled for it, or is
linked with it, may have placeholders in it, which only an entry says how to read.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from nbcache.passing_exceptions import suppressed

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from nbcache.glue.hooks.policy import Session

_REASON = "it uses a function that a package keeps in a cache of its own"


def claims(owner: Any) -> Callable[[Any], bool]:
    """Asks a class of locators whether it says where the code of *owner*'s function is kept."""

    def claims(locator: Any) -> bool:
        function = getattr(owner, "py_func", None) or owner._pyfunc
        return locator.from_function(function, inspect.getfile(function)) is not None

    return claims


def left_to_it(session: Session, compile_: Callable[[], Any]) -> Any:
    """What *compile_* finds in such a cache, or compiles for it as without nbcache; what uses that isn't stored."""
    session.frames.taint(_REASON)
    depth = len(session.frames)
    try:
        with _aside(session):
            return compile_()
    finally:
        session.frames.pop_to(depth)


def _aside(session: Session) -> AbstractContextManager[None]:
    """Open a frame in which nothing is looked up and no placeholder made; nobody looks at the files of that cache."""
    with suppressed(Exception):  # for want of descriptors to import that with, say
        from nbcache.glue.capture.compilations import Frame, new_build
        from nbcache.glue.capture.witness import looking_away

        frame = Frame(None, new_build("0" * 12), _REASON, aside=True)
        frame.taint = _REASON
        session.frames.push(frame)
        return looking_away()
    return nullcontext()
