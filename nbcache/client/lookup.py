"""Finding in the store what this process may use: an overload, an ``objmode`` block, the code around a kernel.

An entry is used if its key is asked for, if programs didn't crash with it, and if it says of itself nothing that is
otherwise here (:mod:`nbcache.glue.entries.load`). The first variant of a key of which that holds is loaded.
"""

from __future__ import annotations

import logging
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from nbcache.client.logs import log, once
from nbcache.client.look_up_order import Places
from nbcache.glue import own_attributes
from nbcache.glue.entries import load
from nbcache.glue.entries.meta import LiteralsMeta, LiteralsRequested, Meta, Packed
from nbcache.glue.entries.verdicts import InUse, Unloadable
from nbcache.glue.hooks import deferring
from nbcache.glue.identity.dispatcher_past import past_of
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.overloads import effects
from nbcache.glue.overloads.uses import resolved
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.store import found_entries as _found  # noqa: F401  imported while the cache wakes, and not within a look-up
from nbcache.store import reasons
from nbcache.store.entry import BESIDE, DAMAGED, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from nbcache.client.remote import Remote
    from nbcache.client.trials import Trials
    from nbcache.config import Settings
    from nbcache.counting import Counters
    from nbcache.glue.capture.compilations import FrameStack
    from nbcache.glue.cuda.policy import Unpack
    from nbcache.glue.cuda.units import CudaUnit
    from nbcache.glue.entries.wrappers import RuntimeUnit, WrapperUnit
    from nbcache.glue.keys.key_maker import KeyMaker
    from nbcache.glue.keys.units import Unit
    from nbcache.glue.overloads.history import History
    from nbcache.keyring import Group
    from nbcache.store.directory import Store

_ONLY_FOR_MISSES = (
    *("nbcache.client." + name for name in ("elsewhere", "recording", "saving", "waiting_account")),
    *(
        "nbcache." + name
        for name in (
            "glue.calls", "glue.capture.code_that_ran", "glue.keys.marked_code", "processors", "protocol.heartbeats",
            "store.layers", "store.locks", "store.slots", "store.usage",
        )
    ),
)  # fmt: skip
"""What a process that only hits never loads."""


class Found:
    """What a look-up gave."""

    __slots__ = ("caveats", "is_checked", "is_usable", "reason", "result")

    def __init__(
        self, result: Any | None = None, *, reason: str = reasons.NEW, caveats: Sequence[tuple[Any, ...]] = ()
    ) -> None:
        self.result = result
        """None if there is nothing that may be used."""
        self.reason = reason
        """Why there isn't."""
        self.is_usable = False
        """Whether there is something all the same that others could use."""
        self.caveats = caveats
        """What the compilation of what was found warned of."""
        self.is_checked = False
        """Whether there is something that is compiled all the same, and compared (:mod:`nbcache.client.checking`)."""

    def there(self) -> Found | None:
        """This, if anything was found."""
        return self if self.result is not None or self.is_checked else None

    def with_warnings(self) -> Any | None:
        """What was found, once it was warned of what its compilation warned of."""
        if self.caveats:
            try:
                from nbcache.glue.capture.diagnostics import repeat
            except Exception as raised:  # noqa: BLE001  no descriptor to import it with, say
                let_pass(raised)
                log.debug("traceback of the internal error", exc_info=True)
            else:
                _forget_shown()
                repeat(self.caveats)
        if self.result is not None:
            _forget_shown()
        return self.result


def _forget_shown() -> None:
    """Have Python show warnings again that it has shown: compiling changes their filters, and then it forgets."""
    changed = getattr(warnings, "_filters_mutated", None)
    if changed is not None:
        changed()
    else:  # from 3.14 on
        with warnings.catch_warnings():
            pass


class Lookup:
    """Look-ups of one process in one store."""

    def __init__(
        self,
        store: Store,
        maker: KeyMaker,
        history: History,
        frames: FrameStack,
        *,
        counters: Counters,
        fault: Callable[[str, Any], None],
        settings: Settings,
        remote: Callable[[], Remote] | None = None,
    ) -> None:
        """*fault* is told what went wrong of ours, while doing what, over which unit.

        *remote* makes what asks for what the store doesn't have, when that is first needed.
        """
        self.owners: dict[str, str] = {}
        """The key of each build that this process made or loaded."""
        self.libraries: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        """The code of this process, by key."""
        self.twins: dict[str, int] = {}
        """How many variants of a key are in use here for a function that stands elsewhere."""
        self._dropped: set[str] = set()
        """The digests of entries that turned out to be damaged."""
        self.condemned: set[str] = set()
        """The keys of entries that were passed over because programs crashed with them."""
        self.beside: set[Group] = set()
        """Who signed what this process loaded, and what that was built beside: what it builds counts while they do."""
        self.has_hits = False
        """Whether anything was loaded, and so possibly nothing of Numba's registries was."""
        self._store = store
        self._maker = maker
        self._history = history
        self._frames = frames
        self._counters = counters
        self._fault = fault
        self._recache = settings.recache
        self._places = Places(store, settings, maker)
        self._trials: Trials | None = None
        self._make_remote = remote
        self._remote: Remote | None = None

    def entries(self, key: str) -> Iterator[Entry]:
        """Yield each entry of a key that may be used here, in the store or in a layer under it."""
        return map(self.noted, self._places.find_key(key))

    def noted(self, entry: Entry) -> Entry:
        """Note who signed an entry that is about to be used, before anything of it is read; return it."""
        header = entry.header
        if header.signed is not None or BESIDE in header.extra:
            from nbcache.keyring import group_of, groups_of

            if header.signed is not None:
                self.beside.add(group_of(header.signed))
            self.beside.update(groups_of(header.extra.get(BESIDE)) or ())
        return entry

    def overload(self, unit: Unit, target_context: Any, *, waited: bool = False) -> Found:
        """A CompileResult or LiteralsRequested for a unit; *waited*: others are known to have built it just now."""
        library = self.libraries.get(unit.key)
        if library is not None and (shared := self._shared(unit, target_context, library)) is not None:
            return shared
        caveats: list[tuple[Any, ...]] = []

        def take(entry: Entry) -> Any:
            build = entry.header.build
            cres, meta = load.unpack(unit, target_context, self._reader(entry), build, self._part, self._history)
            self.owners[build] = entry.header.key
            bound: Collection[str] = ()
            if not isinstance(cres, LiteralsRequested):
                self.libraries.setdefault(unit.key, cres.library)
                bound = own_attributes.meta_of(cres.library)[1]
            caveats.extend(self._accept(unit, meta, entry, bound=bound))
            return cres

        found = self._first(unit, take, waited=waited)
        if found.result is None:
            self._maker.installed.needed()
            if found.reason != reasons.NEW and self._maker.fills():  # whoever was asked may have asked the contexts
                found = self._first(unit, take, waited=waited)
        found.caveats = caveats
        return found

    def _shared(self, unit: Unit, target_context: Any, library: Any) -> Found | None:
        """What a unit is given that has the key of code that this process has; None if it must not be shared."""
        shared = load.share(unit, target_context, self._history, library)
        if shared is None:
            return None
        return Found(shared[0], caveats=self._accept(unit, shared[1], bound=own_attributes.meta_of(library)[1]))

    def library(self, unit: RuntimeUnit | WrapperUnit, rebuild: Callable[[], Any]) -> Found:
        """The library of a unit, and the name of the function in it that is wanted; *rebuild* makes it anew."""

        def take(entry: Entry) -> tuple[Any, str]:
            found: tuple[Any, str] = load.unpack_library(unit, self._reader(entry), rebuild)
            self._count(unit, entry)
            return found

        found = self._first(unit, take)
        if found.result is None:
            self._counters.miss(found.reason)
        return found

    def kernel(self, unit: CudaUnit, unpack: Unpack, *, waited: bool = False) -> Found:
        """What *unpack* makes of the first variant that can be used here, for a unit for a GPU; *waited* as above."""
        caveats: list[tuple[Any, ...]] = []

        def take(entry: Entry) -> Any:
            result, warned_of = unpack(unit, self._reader(entry))
            caveats.extend(_whose(warned_of, unit.key))
            self._count(unit, entry)
            unit.forget()
            log.debug("hit: %s %s", unit.name, unit.signature_text)
            return result

        found = self._first(unit, take, waited=waited)
        found.caveats = caveats
        return found

    def _reader(self, entry: Entry) -> Callable[[str], bytes | None]:
        """What gives sections of an entry, now or as long as what was loaded of it is used."""

        def read(name: str) -> bytes | None:
            content = entry.section(name)
            if content is None and entry.damaged:
                self._drop(entry)
            return content

        return read

    def _drop(self, entry: Entry) -> None:
        """Remove a damaged entry, so that who misses it builds it.  Never raises."""
        if entry.digest in self._dropped:
            return
        self._dropped.add(entry.digest)
        with suppressed(Exception):  # a handler of the program's may raise what it likes
            there = (found for found in self._store.find(entry.header.key) if found.digest == entry.digest)
            gone = not entry.layer and any(self._store.remove(found.path) for found in there)
            what = "it was removed" if gone else "it can't be removed by this process"
            level = logging.INFO
            if entry.used:  # else the look-up that meets it says so
                self._counters.miss(DAMAGED)
                level = logging.WARNING
            once("the entry of %s is damaged; %s", entry.header.function, what, level=level)

    def loaded(self, owner: Any, entry_point: Any) -> Any:
        """Nothing more is loaded for *owner*: return what is to be called in the place of *entry_point*."""
        if self._trials is None:
            return entry_point
        from nbcache.glue import calls

        if entry_point is not None and calls.is_called(owner) and not calls.are_shown():
            return self._trials.call(entry_point)
        self._trials.loaded()
        return entry_point

    def settles(self, _unit: Any, _packed: Packed) -> bool:
        """Whether what was compiled needn't be stored: in a plain look-up, whatever is compiled was missing."""
        return False

    def stays_open(self, unit: Any) -> None:
        """Nothing is known of what was compiled for *unit*: no matter, in a plain look-up."""

    def load_rest(self) -> None:
        """Load what hits put off: nobody will see to it any more."""
        deferring.load_whole()

    def finish(self) -> None:
        """The process ends well."""
        if self._trials is not None:
            self._trials.finish()

    def _part(self, key: str, build: str) -> Callable[[str], bytes | None] | None:
        """Access to the entry of one particular build, which something that is loaded calls."""
        self.owners[build] = key

        def look() -> Callable[[str], bytes | None] | None:
            entries = (entry for entry in self._places.find_key(key) if entry.header.build == build)
            usable = (entry for entry in entries if entry.proven or not self._is_condemned(entry))
            return next((self._reader(self.noted(entry)) for entry in usable), None)

        section = look()
        if section is None and (remote := self.remote()) is not None:
            asked = remote.fetch(key, nested=True)
            while asked.state == reasons.CAME and (section := look()) is None:
                asked = remote.fetch(key, nested=True, slot=asked.slot + 1)
        return section

    def remote(self) -> Remote | None:
        """The remote tiers, if there are any."""
        if self._remote is None and self._make_remote is not None:
            self._remote = self._make_remote()
        return self._remote

    def _first(
        self, unit: Unit | RuntimeUnit | WrapperUnit, take: Callable[[Entry], Any], *, waited: bool = False
    ) -> Found:
        """What *take* makes of the first variant of the unit's key that can be used here, or that came from a tier."""
        if self._recache:
            return Found(reason=reasons.RECACHE)
        found = self._local(unit, take, waited=waited)
        if found.result is not None or waited or (remote := self.remote()) is None:
            return found
        saved, nested = self._counters.saved_seconds, len(self._frames) > 0
        asked = remote.fetch(unit.key, nested=nested)
        while asked.state == reasons.CAME:
            found = self._local(unit, take)
            remote.saved(self._counters.saved_seconds - saved, asked)
            if found.result is not None:
                return found
            asked = remote.fetch(unit.key, nested=nested, slot=asked.slot + 1)
        if asked.state == reasons.REMOTE_FAILED and found.reason == reasons.NEW:
            found.reason = reasons.REMOTE_FAILED
        return found

    def _local(
        self, unit: Unit | RuntimeUnit | WrapperUnit, take: Callable[[Entry], Any], *, waited: bool = False
    ) -> Found:
        """What *take* makes of the first variant in the store that can be used here."""
        found = Found()
        rejected: list[str] = []
        self.twins.pop(unit.key, None)
        inside = self._trials is not None and self._trials.is_loading()
        for entry in self._places.find(unit, rejected.append):
            begins = not entry.proven and not (self._trials is not None and self._trials.has_begun(entry.digest))
            # What was waited for was built just now: nobody waits once more, least of all with the lease that others
            # wait for.
            if not entry.proven and self._is_condemned(entry, waits=not waited and self._is_called(unit)):
                rejected.append(reasons.QUARANTINED)
                continue
            try:
                found.result = take(self.noted(entry))
                break
            except (Unloadable, Unidentifiable) as exc:
                self._withdraw(entry, begins)
                rejected.append(str(exc))
                is_ours = _stands_for(entry) == unit.key and not entry.layer
                found.is_usable = found.is_usable or (is_ours and entry.sections() is not None)
                if isinstance(exc, InUse):
                    self.twins[unit.key] = self.twins.get(unit.key, 0) + 1
            except Exception as raised:  # noqa: BLE001  an entry that can't be loaded is a miss, whatever the reason
                let_pass(raised)
                self._withdraw(entry, begins)
                self._fault("loading", unit)
                rejected.append(reasons.INTERNAL)
        if self._trials is not None and not inside and (found.result is None or not self._is_called(unit)):
            self._trials.loaded()
        if found.result is None:
            for reason in rejected:
                log.info("skipped an entry of %s %s: %s", unit.name, unit.signature_text, reason)
                found.reason = reason
        return found

    def _is_called(self, unit: Unit | RuntimeUnit | WrapperUnit) -> bool:
        """Whether what is looked up is executed right after this."""
        from nbcache.glue import calls  # a process that has nothing on trial never needs it

        return not len(self._frames) and calls.is_called(getattr(unit, "owner", None))

    def _is_condemned(self, entry: Entry, *, waits: bool = False) -> bool:
        """Whether an entry that nobody is known to have used well is to be passed over; else it is put on trial."""
        if not self._on_trial().begin(entry, waits=waits):
            self.condemned.add(entry.header.key)
            function = entry.header.function
            once("skipped an entry of %s because programs crashed with it", function)
            return True
        return False

    def _on_trial(self) -> Trials:
        """The entries on trial in this process."""
        if self._trials is None:
            from nbcache.client.trials import Trials

            self._trials = Trials(self._store)
        return self._trials

    def _withdraw(self, entry: Entry, begins: bool) -> None:
        """An entry that this process *begins* with could not be loaded, so nobody got through with it."""
        if begins and self._trials is not None:
            self._trials.withdraw(entry.digest)

    def _count(self, unit: Unit | RuntimeUnit | WrapperUnit, entry: Entry | None) -> None:
        """A hit: of an *entry*, or of what this process has loaded before."""
        if entry is None:
            self._counters.hit(unit.key, 0.0)
            return
        entry.go_on_with()
        header, source = entry.header, entry.layer
        if _stands_for(entry) != unit.key:
            source = f"{source}, {header.extra.get('cpu')}".removeprefix(", ")
        # What is in use is the entry, whatever it was asked for as: nobody else would keep it from being evicted.
        self._counters.hit(header.key, header.compile_seconds, source)

    def _accept(
        self, unit: Unit, meta: Meta | LiteralsMeta, entry: Entry | None = None, *, bound: Collection[str]
    ) -> list[tuple[Any, ...]]:
        """An entry is used: what its compilation did to others is owed now.  Returns what it warned of."""
        uses, consulted = meta.uses, meta.consulted
        if not self.has_hits:
            self.has_hits = True
            deferring.put_off(self._maker, _ONLY_FOR_MISSES)
        unit.forget()
        self._count(unit, entry)
        if log.isEnabledFor(logging.DEBUG):  # spelling a signature takes longer than asking
            log.debug("hit: %s %s", unit.name, unit.signature_text)
        is_promised = bool(meta.caveats) and self._history.promises(unit)  # few have any, and it takes a while to tell
        past_of(unit.owner).consulted[unit.args] = consulted
        outer = self._frames.top()
        if outer is not None:
            outer.consulted.include(consulted)
        urgent, there = self._history.accept(unit, uses, consulted, bound)
        caveats = _whose(meta.caveats, "" if unit.kind == "ufunc" else unit.key)
        due = [] if is_promised else [caveat for caveat in caveats if caveat[-1] not in there]
        if caveats:
            from nbcache.glue.capture.diagnostics import caveats_of, listen_again, untold
            from nbcache.glue.hooks.observing import asked_before

            due = untold(due, caveats, asked_before)
            consulted.caveats = caveats_of(caveats)
            listen_again(consulted.caveats, self._frames, {caveat[-1] for caveat in due})
        effects.repeat(unit, uses.overloads)
        effects.deliver_at_once(unit, urgent, self._frames)
        if uses:
            effects.remember(unit.owner, unit.args, lambda: resolved(unit, uses))
            unit.forget()  # it lives as long as the code, and was asked again for what the uses refer to
        return due


def _whose(caveats: Sequence[tuple[Any, ...]], key: str) -> list[tuple[Any, ...]]:
    """What an entry with that *key* lists, with whose it is: "" if each hit of what uses it warns of it by itself."""
    return [(*caveat[:-1], key and (caveat[-1] or key)) for caveat in caveats]


def _stands_for(entry: Entry) -> Any:
    """The key that an entry is found under, or that it stands for in a user's room."""
    return entry.header.extra.get("of", entry.header.key)
