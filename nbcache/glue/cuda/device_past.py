"""What device functions were compiled under: the past of a process, as far as kernels depend on it.

numba-cuda compiles a device function once for each set of types, and links what it then has into every kernel that
calls it: for the globals, the settings and the compute capability of that moment. So each overload's *birth* is noted,
and compared when a kernel uses it. What is used and is no more what would be compiled now keeps a kernel from being
stored; and as long as a process has such an overload, no kernel that reaches it is taken from the store either.

A device function that was compiled for given signatures when it was decorated needs no compiling on a hit: that it can
be, and what it returns, is all that anybody asks until a kernel is compiled that calls it. Then it is compiled.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import FrameStack
from nbcache.glue.cuda.units import CudaUnit, content_of
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.own_attributes import Birth
from nbcache.passing_exceptions import let_pass, suppressed

_PAST = "it uses a device function that was compiled when something was different"


class Births:
    """The device functions of one process; *conditions* gives those of now.  Raises Unidentifiable."""

    def __init__(self, maker: KeyMaker, frames: FrameStack, conditions: Callable[[], bytes]) -> None:
        self._maker = maker
        self._frames = frames
        self._conditions = conditions
        self._open: list[tuple[weakref.ref[Any], tuple[Any, ...]]] = []
        """Overloads of functions that may still get others, which are in nobody's identity."""
        self._deferred: list[weakref.ref[DeferredOverload]] = []

    def now(self, dispatcher: Any, return_type: Any) -> Birth:
        """What an overload that is compiled now is made under; one that can't be identified agrees with nothing."""
        declared = "" if return_type is None else str(return_type)
        try:
            return Birth(self._conditions(), content_of(self._maker, dispatcher), declared)
        except Unidentifiable:
            return Birth(b"", b"", declared)
        except Exception as raised:  # noqa: BLE001  nothing of ours may keep a program from compiling
            let_pass(raised)
            return Birth(b"", b"", declared)

    def note(self, dispatcher: Any, args: tuple[Any, ...], birth: Birth, return_type: Any) -> None:
        """An overload was compiled, and *birth* is what was true before."""
        if birth.content and birth != self.now(dispatcher, return_type):
            birth = birth._replace(content=b"")
        own_attributes.keep_birth(dispatcher, args, birth)
        self._open.append((weakref.ref(dispatcher), args))

    def use(self, dispatcher: Any, args: tuple[Any, ...]) -> None:
        """What is being compiled uses an overload: it can be stored only if that would be the same now."""
        frame = self._frames.top()
        if frame is not None and dispatcher._can_compile and not self._is_fresh(dispatcher, args):
            frame.taint = frame.taint or _PAST

    def _is_fresh(self, dispatcher: Any, args: tuple[Any, ...]) -> bool:
        birth = own_attributes.birth_of(dispatcher, args)
        return birth is not None and birth.content != b"" and birth == self.now(dispatcher, None)

    def objection(self, unit: CudaUnit) -> str | None:
        """Why a kernel that is compiled here would not be what one is that is compiled in a fresh process, or None."""
        others = ((dispatcher, args) for dispatcher, args in self._living() if dispatcher is not unit.owner)
        stale = [dispatcher for dispatcher, args in others if not self._is_fresh(dispatcher, args)]
        if not stale:
            return None
        functions = {id(dispatcher.py_func) for dispatcher in stale}
        reached = (getattr(obj, "py_func", obj) for obj in unit.reach().own_objects())
        return _PAST if any(id(function) in functions for function in reached) else None

    def _living(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Overloads of functions that may still get others."""
        alive = [(known, args) for known, args in self._open if (it := known()) is not None and it._can_compile]
        self._open = alive
        for known, args in alive:
            dispatcher = known()
            if dispatcher is not None:
                yield dispatcher, args

    def defer(self, overload: DeferredOverload) -> None:
        """An entry said that this can be compiled."""
        self._deferred.append(weakref.ref(overload))

    def deliver(self) -> None:
        """Something is compiled, and may call what was deferred and is still there."""
        while self._deferred:
            deferred, self._deferred = self._deferred, []
            for known in deferred:
                overload = known()
                if overload is not None:
                    # What can't be compiled any more is who calls it to be told of, and nobody else.
                    with suppressed(Exception):
                        overload.deliver()


class DeferredOverload:
    """Stands in for the compile result of a device function that nobody has called from what is compiled.

    All that isn't known of it without compiling makes it compiled, once.
    """

    objectmode = False

    def __init__(
        self, dispatcher: Any, args: tuple[Any, ...], signature: Any, compile_now: Callable[[Any], Any]
    ) -> None:
        # Whoever holds a compile result may ask it for its code, though nobody has the function any more.
        self._dispatcher = dispatcher
        self._args = args
        self._compile_now = compile_now
        self._result: Any = None
        self.signature = signature

    @property
    def entry_point(self) -> Any:
        """As of a compile result; of one that isn't compiled, nothing that anybody has."""
        return id(self) if self._result is None else self._result.entry_point

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.deliver(), name)

    def deliver(self) -> Any:
        """The compile result, which takes this one's place.  Raises what compiling it raises."""
        if self._result is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it was warned of when it was found
                self._result = self._compile_now(self._dispatcher)
        return self._result
