"""Checking hits (``NBCACHE_CHECK``): what a hit would use is compiled all the same, and the two are compared.

What is compared is the digest of what Numba's front end made (:mod:`nbcache.glue.entries.front_end`), when what was
compiled is about to be stored. In each case what was compiled is used. If it is the same, the entry stays and counts
as hit. If it isn't, the entry is wrong here: that is said, counted, and the entry is set aside as one that programs
crash with, and what was compiled is stored in its place. What can't be compared is counted with the reason.

A process that checks nothing has a plain `Lookup`, and loads none of this.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any, Final

from nbcache.client.logs import log
from nbcache.client.lookup import Found, Lookup
from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import build_in
from nbcache.glue.entries import front_end, load
from nbcache.glue.entries.meta import LiteralsRequested, Packed
from nbcache.glue.entries.wrappers import RuntimeUnit, WrapperUnit
from nbcache.passing_exceptions import suppressed
from nbcache.process import os
from nbcache.records import Record
from nbcache.store import reasons

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.config import Settings
    from nbcache.glue.cuda.policy import Unpack
    from nbcache.glue.cuda.units import CudaUnit
    from nbcache.glue.keys.units import Unit
    from nbcache.store.entry import Entry

    AnyUnit = Unit | RuntimeUnit | WrapperUnit | CudaUnit

_UNRESOLVED: Final = rb"\.numba\.unresolved\$[^\0]+"
_DRAWS: Final = 1 << 32


class Expected(Record):
    """An entry that would have been used."""

    entry: Entry
    front_end: bytes | None
    """What it says of what the front end made."""
    fits: bool
    """Whether that was said of the object that the entry has."""
    symbols: tuple[str, str] | None
    """The names of its function and its environment, by which wrappers know a kernel."""


class CheckedLookup(Lookup):
    """Finds what a look-up would, and has some of it, or all, compiled and compared."""

    def __init__(self, *args: Any, settings: Settings, **rest: Any) -> None:
        """``settings.check``: how much of it, 0 to 1."""
        super().__init__(*args, settings=settings, **rest)
        self._examining = False
        """Whether an entry is being looked at. What is loaded for that, accessors of a jitclass say, is loaded."""
        self._most = round(settings.check * _DRAWS)
        self._expected: dict[AnyUnit, Expected] = {}
        """The entries of what is being compiled."""
        self._confirmed: weakref.WeakKeyDictionary[AnyUnit, tuple[str, str]] = weakref.WeakKeyDictionary()
        """What the kernels that were compiled are called in the store."""

    def overload(self, unit: Unit, target_context: Any, *, waited: bool = False) -> Found:
        """As in a plain look-up; or nothing, and what would have been found is compiled and compared."""
        if unit.of_the_past or self._examining:
            found = super().overload(unit, target_context, waited=waited)
            return self._uncompared(found, reasons.PROMISED if unit.of_the_past else reasons.ALONGSIDE)
        if not self._is_due():
            return super().overload(unit, target_context, waited=waited)
        # What was compiled here is shared, as it was when its callers were stored: their code tells one build from two.
        library = self.libraries.get(unit.key)
        if library is not None and (shared := self._shared(unit, target_context, library)) is not None:
            return self._uncompared(shared, reasons.SHARED)

        def take(entry: Entry) -> Expected:
            build = entry.header.build
            cres, _ = load.unpack(unit, target_context, self._reader(entry), build, self._part, self._history)
            if isinstance(cres, LiteralsRequested):
                return self._expect(entry, None)
            return self._expect(entry, (cres.fndesc.mangled_name, cres.fndesc.env_name))

        self._maker.installed.needed()
        return self._to_be_compiled(unit, take, waited=waited)

    def library(self, unit: RuntimeUnit | WrapperUnit, rebuild: Callable[[], Any]) -> Found:
        """The same for a library."""
        kernel = own_attributes.unit_of(unit.cres.library) if isinstance(unit, WrapperUnit) else None
        symbols = None if kernel is None else self._confirmed.get(kernel)
        if self._examining:
            return self._uncompared(super().library(unit, rebuild), reasons.ALONGSIDE)
        if symbols is None and not self._is_due():
            return super().library(unit, rebuild)
        if symbols is not None and isinstance(unit, WrapperUnit):
            unit.stand_in(*symbols)
            self._confirmed[unit] = symbols

        def take(entry: Entry) -> Expected:
            load.unpack_library(unit, self._reader(entry), rebuild)
            return self._expect(entry, None)

        found = self._to_be_compiled(unit, take)
        if not found.is_checked:
            self._counters.miss(found.reason)
        return found

    def kernel(self, unit: CudaUnit, unpack: Unpack, *, waited: bool = False) -> Found:
        """As in a plain look-up: no digest is taken of code for GPUs."""
        return self._uncompared(super().kernel(unit, unpack, waited=waited), reasons.FOR_A_GPU)

    def settles(self, unit: AnyUnit, packed: Packed) -> bool:
        """Compare what was compiled with what was found; return whether it needn't be stored."""
        expected = self._expected.pop(unit, None)
        if unit in self._confirmed and isinstance(unit, WrapperUnit):
            unit.stand_in(unit.cres.fndesc.mangled_name, unit.cres.fndesc.env_name)
        if expected is None:
            # The wrapper of a kernel that is in the store under another name: nobody would look for it. Nor would the
            # half of a recursion be of use whose other half is in the store as another build.
            return unit in self._confirmed or self._needs_what_is_checked(packed)
        result = _compared(expected, packed.sections.get(front_end.SECTION))
        if result == reasons.DIFFERENT:
            self._counters.checked(result)
            self._set_aside(unit, expected.entry)
            return False
        self._count_as_used(unit, expected, result)
        return True

    def stays_open(self, unit: AnyUnit) -> None:
        """What was compiled can't be stored, and so isn't compared."""
        expected = self._expected.pop(unit, None)
        if expected is not None:
            self._count_as_used(unit, expected, reasons.NOT_STORABLE)

    def finish(self) -> None:
        """The process ends well."""
        for unit, expected in self._expected.items():
            self._counters.checked(reasons.NOT_COMPILED)
            log.warning(
                "NBCACHE_CHECK: compiling %s %s came to nothing, and there is the entry %s of it",
                unit.name, unit.signature_text, expected.entry.header.key[:12],
            )  # fmt: skip
        self._expected.clear()
        super().finish()

    def _needs_what_is_checked(self, packed: Packed) -> bool:
        code = packed.sections.get("object", b"")
        called = {build_in(each.decode("ascii", "replace")) for each in re.findall(_UNRESOLVED, code)}
        keys = {self.owners.get(build) for build in called if build is not None}
        return bool(keys) and any(unit.key in keys for unit in self._expected)

    def _is_due(self) -> bool:
        # Not by the module `random`: a program may have seeded that.
        return int.from_bytes(os.urandom(4), "little") < self._most

    def _expect(self, entry: Entry, symbols: tuple[str, str] | None) -> Expected:
        if self._trials is not None:  # nothing of it is called, so nothing good is known of it
            self._trials.withdraw(entry.digest)
        said, code = entry.section(front_end.SECTION), entry.section("object")
        fits = said is None or code is None or front_end.belongs_to(said, code)
        return Expected(entry, said, fits, symbols)

    def _to_be_compiled(
        self, unit: Unit | RuntimeUnit | WrapperUnit, take: Callable[[Entry], Expected], *, waited: bool = False
    ) -> Found:
        """Look an entry up, and have its unit compiled all the same."""
        self._examining = True
        try:
            found = self._first(unit, take, waited=waited)
        finally:
            self._examining = False
        if found.result is not None:
            self._expected[unit] = found.result
            found.result, found.is_checked = None, True
        return found

    def _uncompared(self, found: Found, reason: str) -> Found:
        if found.result is not None:
            self._counters.checked(reason)
        return found

    def _count_as_used(self, unit: AnyUnit, expected: Expected, result: str) -> None:
        """Count a check, and a hit that saved nothing; wrappers of what was compiled are looked up by the entry's."""
        self._counters.checked(result)
        self._counters.hit(expected.entry.header.key, 0.0)
        if expected.symbols is not None:
            self._confirmed[unit] = expected.symbols

    def _set_aside(self, unit: AnyUnit, entry: Entry) -> None:
        """Say that an entry is wrong, and see to it that nobody uses it any more."""
        self.condemned.add(unit.key)
        done = "it can't be set aside by this process, so others go on using it"
        with suppressed(OSError, ValueError):
            if self._on_trial().condemn(entry) or (not entry.layer and self._store.remove(entry.path)):
                done = "it is set aside (nbcache quarantine lists it)"
        log.warning(
            "NBCACHE_CHECK: Numba compiles %s %s to other code than the entry %s has, built by nbcache %s; what was "
            "compiled is used, and %s. Please report it",
            unit.name, unit.signature_text, entry.header.key[:12], entry.header.extra.get("nbcache", "?"), done,
        )  # fmt: skip


def _compared(expected: Expected, made: bytes | None) -> str:
    stored = expected.front_end
    if stored is None or made is None or not front_end.can_be_compared(stored, made):
        return reasons.NO_DIGEST
    if not expected.fits:
        return reasons.DIFFERENT
    if front_end.are_the_same(stored, made):
        return reasons.SAME
    if front_end.are_the_same_in_another_order(stored, made):
        return reasons.REORDERED
    return reasons.RECURSION if front_end.are_recursive(stored, made) else reasons.DIFFERENT
