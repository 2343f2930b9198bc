"""What a process needs to compute keys: what is registered, what was chosen, what things are."""

from __future__ import annotations

import functools
import hashlib
import logging
import sys
import weakref
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from numba.core import types
from numba.core.types.abstract import Type

from nbcache.glue.capture.compilations import Frame, FrameStack
from nbcache.glue.identity.asked_names import Ask, Consulted, KeptModel, split
from nbcache.glue.identity.describe import Describers
from nbcache.glue.identity.distributions import Distributions
from nbcache.glue.identity.graph import IdentityEngine
from nbcache.glue.identity.marked_packages import memory
from nbcache.glue.identity.node import TOOLCHAIN, Node, Scope, Unidentifiable
from nbcache.glue.identity.numba_patches import Patches
from nbcache.glue.identity.ownership import is_toolchain_module
from nbcache.glue.identity.process_state import generators
from nbcache.glue.identity.registrations import ExtensionIndex
from nbcache.glue.keys.conditions import Conditions, loops_in_turn
from nbcache.glue.keys.installed_extensions import InstalledExtensions
from nbcache.passing_exceptions import let_pass
from nbcache.store import reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from nbcache.glue.capture.roles import Listener, PausedListener
    from nbcache.glue.keys.choices import Choices
    from nbcache.glue.keys.marked_code import MarkedPackages

_log = logging.getLogger("nbcache")
MOST_BEYOND = 5_000
"""How many objects a registration may reach for what compiled code refers to to be looked for among them."""
MOST_BEYOND_IN_ALL = 15_000
"""The same for all registrations of a process, however often: the rest is compiled as if there were no cache."""
HIDDEN_LOOPS = "loops of others' overloads, which run one iteration after the other inside a parallel loop"
_CHOICES = "nbcache.glue.keys.choices"


class KeyMaker:
    """Everything a process needs to compute keys; one per process."""

    def __init__(self) -> None:
        self.patches = Patches()
        self._patched: dict[str, tuple[object, str, Scope]] = {}
        self.distributions = Distributions()
        self.conditions = Conditions(self._identify_patches, self.distributions)
        self.extensions = ExtensionIndex()
        self.engine = IdentityEngine(Describers(self.extensions.ordinal).describe, lambda: self.extensions.ambiguities)
        if _CHOICES in sys.modules:  # the cache was switched off, and its answers stand in for choosers: no longer
            self.choices  # noqa: B018
        self.installed = InstalledExtensions(self.extensions, self.distributions, self.patches.look)
        memory.find = lambda: self.marked
        self.lower: tuple[str, ...] = ()
        """The lower processors whose entries this process may take."""
        self.elsewhere: dict[str, str] = {}
        """By a unit's key for another processor: its own."""
        self.models_made: list[KeptModel] = []
        """Those that were made since a compilation was last over."""
        self.fill: Callable[[], None] | None = None
        """What has Numba's contexts know what a compilation would have told them; None once one has begun."""
        self._types: dict[Type, bytes] = {}
        self._refused_types: weakref.WeakKeyDictionary[Any, tuple[int, str]] = weakref.WeakKeyDictionary()
        self._types_that_hand_on: WeakSet[Type] = WeakSet()
        self._open_types: WeakKeyDictionary[Type, tuple[int, bytes, Scope] | None] = WeakKeyDictionary()

    def fills(self) -> bool:
        """Have Numba's contexts know what compiling would have told them; return whether they didn't."""
        fill = self.fill
        if fill is not None:
            fill()
        return fill is not None and self.fill is None

    @property
    def choices(self) -> Choices:
        """What others' choosers answered."""
        choices: Choices | None = vars(self).get("_choices")
        if choices is None:
            from nbcache.glue.keys.choices import Choices  # few hits were built with what somebody else's chooser chose

            # Of two threads that come here at once, both get what the first one makes.
            choices = vars(self).setdefault("_choices", Choices(self))
        return choices

    @functools.cached_property
    def marked(self) -> MarkedPackages:
        """What ran of packages that lead too far."""
        from nbcache.glue.keys.marked_code import MarkedPackages  # few hits were built with any

        return MarkedPackages(self.engine, self.extensions, lambda: self.choices, self.distributions)

    def prepare(self) -> None:
        """See what is registered by now, with what packages would have added, unless they may wait."""
        self.installed.prepare()
        self._read_registries()

    def meet(self, names: bytes, declined: bytes) -> tuple[bytes, ...]:
        """Those of an entry's names for which others have registered something, or would.

        *declined*: as in `Consulted`.
        """
        if not names:  # as of a kernel: what packages declare needn't be found out for it
            return ()
        if self.installed.concern(split(names)) and not self._would_decline(names, declined):
            self._load_installed()
        return self.extensions.relevant(names)

    def _would_decline(self, names: bytes, declined: bytes) -> bool:
        """Whether packages wait that would have nothing to say to what asks for these names, and nobody else has."""
        asked_alone = bool(declined) and self.installed.waiting and not self.extensions.relevant(names)
        return asked_alone and declined == self.installed.edition

    def _load_installed(self) -> None:
        """Load what Numba would have loaded before it looked anything up."""
        self.installed.load()
        self._read_registries()

    def _read_registries(self) -> None:
        with self.engine.aside():
            self.extensions.refresh()
        self.extensions.settle(self.installed.ahead)

    def new_consulted(self, frame: Frame) -> Consulted:
        """For a compilation that begins; from here on every package that extends Numba takes part."""
        if self.installed.waiting:
            self._load_installed()
        if frame.outer is None:
            self.marked.look()
        asks_others = not self.extensions.empty or self._runs_others(frame.unit)
        frame.others_may_run = asks_others or frame.unit is None or frame.unit.may_run
        if asks_others:
            frame.generators = generators()
        if self._runs_others(frame.unit) or (frame.unit is not None and frame.unit.ends):
            from nbcache.glue.capture.code_that_ran import running

            running.begin()
        return self.new_part(None if frame.outer is None else frame.outer.consulted)

    def new_part(self, outer: Consulted | None) -> Consulted:
        """For what begins inside the *outer* one."""
        from nbcache.glue.capture.code_that_ran import Heard, running

        self.engine.aside = running.aside
        if outer is not None:
            self.end_part(outer)
        return Consulted(self.extensions.generation, Heard)

    def end_part(self, consulted: Consulted) -> None:
        """What ran until now belongs to this one."""
        from nbcache.glue.capture.code_that_ran import running

        consulted.codes |= running.take()
        consulted.blind |= running.missed

    def _runs_others(self, unit: Any) -> bool:
        """Whether somebody's code takes part in compiling a *unit* without being registered for anything."""
        return bool(self.conditions.patched) or (unit is not None and unit.has_own_pipeline)

    def close(self, frame: Frame) -> None:
        """A compilation is over: see what others have registered for what it asked for.  Never raises."""
        try:
            with self.engine.steady():
                self._close(frame)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            _log.debug("could not determine what a compilation asked for", exc_info=True)
            frame.consulted.conflict = frame.consulted.conflict or reasons.INTERNAL
            frame.consulted.close({}, self._in_words)

    def _close(self, frame: Frame) -> None:
        index, consulted = self.extensions, frame.consulted
        self.end_part(consulted)
        index.refresh()
        if not consulted.conflict:
            try:
                consulted.after = self._after(frame.unit, consulted)
            except Unidentifiable as exc:
                consulted.conflict = str(exc)
        current = {}
        # With what can't become an entry nothing is compared; to identify half of a package for it takes seconds.
        names = index.relevant_among(consulted.names) if not consulted.conflict else ()
        try:
            for name, digest in index.digests_of(names, self.engine):
                current[name] = (index.since[name], digest)
        except Unidentifiable as exc:
            consulted.conflict = str(exc)
        while self.models_made:
            model = self.models_made.pop()
            model.under = {name: current[name][1] for name in model.names if name in current}
        if frame.generators and (current or self._runs_others(frame.unit)) and generators() != frame.generators:
            consulted.conflict = consulted.conflict or "random numbers were drawn while it was compiled"
        consulted.close(current, self._in_words)
        if frame.unit is not None and not consulted.conflict:
            consulted.alike = self._alike(frame.unit, consulted)
            try:
                unread = self._looked_at(frame.unit, consulted)
                consulted.unread = self.engine.digest(unread) if unread else b""
                self.marked.complete(frame.unit, consulted)
                # Who had nothing to say may have filled something in all the same.
                declined = not consulted.after and self._declined(frame)
                consulted.declined = self.installed.edition if declined else b""
            except Unidentifiable as exc:
                consulted.conflict = str(exc)

    def _after(self, unit: Any, consulted: Consulted) -> bytes:
        """What identifies what was filled in while a unit was compiled: b"" if nothing was.  Raises Unidentifiable.

        Choosers do that, in the types that they are asked about and in what they chose before, and do it again when
        they are asked again. Where somebody else has done it, a hit comes out at something else.
        """
        if any(map(self.choices.change, consulted.asks)) or (unit is not None and unit.types_now() != unit.types_then):
            return self._now(unit, consulted)
        return b""

    def _now(self, unit: Any, consulted: Consulted) -> bytes:
        content = self.choices.now(consulted.asks) if consulted.asks else b""
        return content + hashlib.blake2b(b"" if unit is None else unit.types_now(), digest_size=32).digest()

    def _declined(self, frame: Frame) -> bool:
        """Whether all that others have registered for it was asked, or would have been, and had nothing to say."""
        consulted = frame.consulted
        said_nothing = all(self.choices.is_nothing(ask.answer) for ask in consulted.asks)
        said_nothing = said_nothing and all(caveat.by for caveat in frame.caveats)
        return said_nothing and not consulted.ran and self._asks_again(consulted)

    def _asks_again(self, consulted: Consulted) -> bool:
        """Whether all that others have registered for what was asked for is asked again on a hit."""
        registered = (each for name in consulted.snapshot for each in self.extensions.registered(name))
        return all(map(self.extensions.is_asked_again, registered))

    def hides_loops(self, consulted: Consulted) -> bool:
        """Whether others' code brings in loops that would run in parallel, were they compiled at another moment."""
        takes_part = bool(consulted.asks or consulted.snapshot)
        return takes_part and loops_in_turn() and _taking_part().is_parallel(self, consulted)

    def _alike(self, unit: Any, consulted: Consulted) -> bytes:
        """Which of several objects that are alike its code is bound to, where others' code takes part."""
        return _taking_part().alike(self, unit, consulted) if consulted.asks or consulted.snapshot else b""

    def _looked_at(self, unit: Any, consulted: Consulted) -> list[object]:
        """What Numba itself doesn't read of a unit, where somebody's code runs that isn't asked again: it may do so.

        Types lead to classes. To functions that are only named leads what is compiled, which passes have.
        """
        passes = self._runs_others(unit) or self.extensions.has_rewrites
        if not passes and self._asks_again(consulted):
            return []
        found: list[object] = unit.unread(stubs=passes)
        return found

    def objection_besides(self, unit: Any, consulted: Consulted) -> str | None:
        """Why what neither a key nor choosers tell of isn't what it was, or None."""
        if consulted.unread:
            try:
                if self.engine.digest(self._looked_at(unit, consulted)) != consulted.unread:
                    return "a class or function of its is another now, which what is registered with Numba may read"
            except Unidentifiable as exc:
                return f"it depends on {exc}"
        if consulted.after:
            try:
                if self._now(unit, consulted) != consulted.after:
                    return "what was filled in while it was compiled isn't filled in here, or otherwise"
            except Unidentifiable as exc:
                return f"it depends on {exc}"
        if self._alike(unit, consulted) != consulted.alike:
            return "its code is bound to another one of several objects that are alike"
        if not unit.is_parallel and self.hides_loops(consulted):
            return HIDDEN_LOOPS
        return self.marked.objection(consulted) if consulted.ran else None

    def before(self, frame: Frame, names: Collection[bytes]) -> None:
        """See what others have registered for *names*, before it runs: it may change what it reads.  Never raises."""
        if not names or self.extensions.empty or frame.consulted.conflict:
            return
        consulted = frame.consulted
        try:
            unseen = [name for name in self.extensions.relevant_among(names) if name not in consulted.snapshot]
            with self.engine.steady():
                consulted.snapshot.update(self.extensions.digests_of(unseen, self.engine))
        except Unidentifiable as exc:
            consulted.conflict = str(exc)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            _log.debug("could not determine what is registered", exc_info=True)
            consulted.conflict = consulted.conflict or reasons.INTERNAL

    def _in_words(self, name: bytes) -> str:
        """What others have registered for a name, for people."""
        return ", ".join(dict.fromkeys(each.label for each in self.extensions.registered(name)))

    def objection(self, consulted: Consulted, asks: Iterable[Ask]) -> str | None:
        """Why what an entry was built with would be other today, or None.  Asks choosers, which are other people's.

        The next of the questions *asks* is taken once the one before was asked: that may make the types in it.
        """
        declines = self._would_decline(consulted.packed, consulted.declined)
        for ask in asks:
            reason = None if declines else self.choices.objection(ask)
            if reason is not None:
                return reason
            consulted.asks[ask] = None
        if declines:
            return None
        if consulted.asks:
            self.extensions.refresh()
        if self.registered_otherwise(consulted):
            return "something else is registered with Numba for what it uses"
        return None

    def _identify_patches(self) -> tuple[tuple[str, str], ...]:
        """What others have put into Numba, as components of a key.  Raises Unidentifiable."""
        members = self.patches.look()
        if not members:
            return ()
        return tuple((f"patched/{name}", self._identify_patch(name, members[name])) for name in sorted(members))

    def _identify_patch(self, name: str, value: object) -> str:
        known = self._patched.get(name)
        if known is None or known[0] is not value or not known[2].unchanged():
            try:
                # In a list, as what runs.
                digest, scope = self.engine.scoped_for_good([value])
            except Unidentifiable as exc:
                raise Unidentifiable(f"{name}, which somebody put into the place of Numba's own: {exc}") from exc
            known = self._patched[name] = value, digest.hex()[:32], scope
        return known[1]

    def registered_otherwise(self, consulted: Consulted) -> bool:
        """Whether what others have registered for an entry's names differs from what they had then."""
        relevant = self.extensions.relevant(consulted.packed)
        if not (relevant or consulted.snapshot) or self._would_decline(consulted.packed, consulted.declined):
            return False
        try:
            with self.engine.steady():
                return consulted.snapshot != dict(self.extensions.digests_of(relevant, self.engine))
        except Unidentifiable:
            return True

    def nodes_registered(self, names: Iterable[bytes]) -> Iterator[Node]:
        """What is reached from what others have registered for *names*, as far as that isn't too much."""
        registered = [each for name in names for each in self.extensions.registered(name)]
        # What boxes and lowers is of one type and leads to little; templates may lead to half of a package.
        registered.sort(key=lambda each: isinstance(each.registered, type))
        roots = (root for each in registered for root in (each.registered, *each.formal))
        return self.engine.nodes_of(roots, MOST_BEYOND, MOST_BEYOND_IN_ALL)

    def nodes_chosen(self, asks: Iterable[Ask]) -> Iterator[Node]:
        """What is reached from the functions that were chosen for compiling, as far as that isn't too much."""
        answers = map(self.choices.answer_to, asks)
        roots = [chosen for _name, chosen, runs in answers if chosen is not None and not runs]
        return self.engine.nodes_of(roots, MOST_BEYOND, MOST_BEYOND_IN_ALL)

    def type_digest(self, typ: Any) -> bytes:
        """Identity of a type in a signature; one that depends on code is looked at again."""
        return self.type_scoped(typ)[0]

    def type_scoped(self, typ: Any) -> tuple[bytes, Scope | None]:
        """The same with the scope that it holds in; None if it always does."""
        known = self._types.get(typ)
        if known is not None:
            return known, None
        generation = self.extensions.ambiguities
        last = self._open_types.get(typ)
        if last is not None and last[0] == generation and last[2].unchanged():
            return last[1:]
        refused = self._refused_types.get(typ)
        if refused is not None and refused[0] == self.extensions.generation:
            raise Unidentifiable(refused[1])
        walked: list[Node] = []
        try:
            lasts = _lasts(typ)
            digest, scope = self.engine.scoped_for_good(typ) if lasts else self.engine.scoped(typ, walked=walked)
        except Unidentifiable as exc:
            # Each function that takes it asks, and to find out may have taken a walk through half of a package.
            self._refused_types[typ] = (self.extensions.generation, str(exc))
            raise
        if scope.hands_on:
            self._types_that_hand_on.add(typ)
        if typ not in self._open_types:
            nodes = walked or self.engine.nodes(typ, for_good=lasts)
            if all(map(_is_fixed, nodes)):
                self._types[typ] = digest
                return digest, None
            # A scope holds what it watches, which must not keep functions and jitclasses alive.
            lasting = not any(isinstance(node.obj, _OPEN_TYPES) for node in nodes)
            self._open_types[typ] = (generation, digest, scope) if lasting else None
        elif last is not None:
            self._open_types[typ] = (generation, digest, scope)
        return digest, scope

    def type_nodes(self, typ: Any) -> list[Node]:
        """Every node reached from a type of a signature."""
        return self.engine.nodes(typ, for_good=_lasts(typ))

    def together(self, root: object, types: tuple[Any, ...]) -> bytes:
        """The digest of something that lives as long as the process and of types, one of which may hand modules on."""
        return self.engine.together((root, *types), for_good=all(_lasts(typ) or self.is_fixed(typ) for typ in types))

    def hands_on(self, typ: Any) -> bool:
        """Whether a type of a signature, whose digest is known, brings a module along."""
        return bool(self._types_that_hand_on) and typ in self._types_that_hand_on

    def is_fixed(self, typ: Any) -> bool:
        """Whether nothing about a type of a signature can change while the process lives."""
        if typ not in self._types and typ not in self._open_types:
            self.type_digest(typ)
        return typ in self._types


def _taking_part() -> Any:
    from nbcache.glue.keys import taking_part  # nothing does, in most processes that only hit

    return taking_part


def frame_stack(maker: KeyMaker) -> FrameStack:
    """The compilations of a process, with all who listen while one is open; none is yet."""
    return FrameStack(_listeners, maker)


def _listeners(frames: FrameStack) -> tuple[Listener, PausedListener]:
    # A process that only hits opens no compilation, and needs neither of these modules.
    from nbcache.glue.capture.diagnostics import Watch
    from nbcache.glue.capture.witness import Witness

    return Watch(frames.listening), Witness(frames.taint)


def _lasts(typ: Any) -> bool:
    """Whether walks keep a type: Numba's own are many, and some of them refer to what a program drops."""
    return not is_toolchain_module(type(typ).__module__)


def _is_fixed(node: Node) -> bool:
    """Whether nothing about a type (or what it holds) can change while the process lives."""
    obj = node.obj
    if node.title.startswith(TOOLCHAIN):
        return True
    return isinstance(obj, Type) and type(obj).__module__.startswith("numba.") and not isinstance(obj, _OPEN_TYPES)


_OPEN_TYPES = (types.WeakType, types.ClassType, types.DeferredType)
