"""A lane through a profile: what it lists is compiled, one unit after the other, as far as nobody has begun it.

Any number of processes may go through one profile at once. They divide it by leases: a lane compiles nothing under a
key whose lease it can't have, goes on with what isn't built upon that, and waits where there is nothing else. What
can't be imported, identified or compiled is left to the program, which will be told by Numba.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.requests import carrying_out, declared_signatures
from nbcache.protocol.profiles import Profile, Unit
from nbcache.protocol.requests import Request
from nbcache.store.directory import Store

_log = logging.getLogger("nbcache")
PAUSE_SECONDS: Final = 0.05
"""How often it is looked whether others have built what all that is left is built upon [s]."""


class Lane:
    """One way through a profile, in a process of its own with the hook switched on."""

    def __init__(self, asked: Request, profile: Profile, store: Store, maker: KeyMaker | None = None) -> None:
        """*asked* names the environment: where modules are looked for."""
        self._asked = asked
        self._units = profile.units
        self._todo = profile.in_order()
        self._store = store
        self._maker = maker or KeyMaker()
        self._elsewhere: dict[int, str] = {}
        """Units that others were building when it was their turn, with today's keys."""
        self.built = self.left = 0
        """How many were compiled, and how many couldn't be."""

    def run(self, seconds: float, may_go_on: Callable[[], bool]) -> bool:
        """Compile for so long [s] at most; return whether there may be more to do. Raises RefusedError for a bad
        path.
        """
        self._begin()
        deadline = time.monotonic() + seconds
        while self._todo:
            if time.monotonic() > deadline or not may_go_on():
                return True
            at = next((at for at in self._todo if not self._waits(at)), None)
            if at is None:
                time.sleep(PAUSE_SECONDS)
                self._take_back()
            else:
                self._todo.remove(at)
                self._do(at)
        # What others had begun, and didn't finish.
        for at in [at for at, key in self._elsewhere.items() if not self._store.exists(key)]:
            if time.monotonic() > deadline or not may_go_on():
                return True
            self._do(at)
        return False

    def _begin(self) -> None:
        carrying_out.become(self._asked.path, self._store.trust)
        declared_signatures.begin()

    def _waits(self, at: int) -> bool:
        """Whether somebody else is building what a unit is built upon."""
        keys = (self._elsewhere.get(each) for each in self._units[at].inside)
        return any(key is not None and not self._store.exists(key) for key in keys)

    def _take_back(self) -> None:
        """Do what others had begun, and have given up."""
        for at, key in list(self._elsewhere.items()):
            lease = None if self._store.exists(key) else self._store.lease(key)
            if lease is not None:
                lease.release()
                del self._elsewhere[at]
                self._todo.insert(0, at)

    def _do(self, at: int) -> None:
        unit = self._units[at]
        self.left += 1
        try:
            key, build = self._find(unit)
            if not self._store.exists(key):
                self._compile(at, key, build)
            self.left -= 1
        except carrying_out.RefusedError as error:
            _log.debug("%s of a profile is left to the program: %s", unit.function, error)
        except Exception as error:  # noqa: BLE001  what a profile names may raise what it likes, and others are left
            _log.debug("%s of a profile is left to the program: %r", unit.function, error)

    def _find(self, unit: Unit) -> tuple[str, Callable[[], None]]:
        """Today's key of a unit, and what compiles it."""
        request = unit.request(self._asked)
        public, types = carrying_out.fetch(request, insist=False)
        args, return_type = types or carrying_out.signature(request, public)
        with declared_signatures.turn_of(carrying_out.kernel_of(public)[0]):
            key = carrying_out.key_now(request, self._maker, public, args, return_type)

        def build() -> None:
            with carrying_out.complaining():
                declared_signatures.complete(public)
                carrying_out.compile_for(public, args, return_type)

        return key, build

    def _compile(self, at: int, key: str, build: Callable[[], None]) -> None:
        lease = self._store.lease(key)
        if lease is None:
            self._elsewhere[at] = key
            return
        try:
            build()
            self.built += 1
        finally:
            lease.release()
