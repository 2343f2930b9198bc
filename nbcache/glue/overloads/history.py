"""What the past of a process decides about a compilation, and so about a hit.

Numba compiles a callee once and uses that overload from then on, so its code depends on the moment:

* A callee inherits ``fastmath``, ``error_model`` and ``forceinline`` from whoever makes it compile
  first.  Called first from Python, ``g`` divides by Python's rules; called first inside a ufunc's
  kernel it divides by NumPy's, from then on and for all.
* A callee holds the globals it had then, also after they were bound to other values.  So does the
  implementation that somebody's ``@overload`` or ``@intrinsic`` chose, which Numba keeps for each set
  of types (for overloads also of flags that callers have).

An entry therefore lists the *uses* of its compilation: each overload it was built upon; what that
was *given*, which is whatever it would not have, were it compiled here and now from Python; and
whether it is *fresh*, which is whether it would come out the same if it did not exist.  A hit
requires the past of this process to agree.  And since a hit compiles no callee, the callee's
overload is *promised*: whoever asks for it later gets what this process would have by now.

Nearly always nothing is given and everything is fresh.
"""

from __future__ import annotations

import hashlib
import logging
import weakref
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from numba.core.targetconfig import ConfigStack

from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import Effect
from nbcache.glue.identity.asked_names import Consulted
from nbcache.glue.identity.dispatcher_past import Given, Promise, arrange, past_of
from nbcache.glue.identity.node import Unidentifiable, Unresolvable
from nbcache.glue.keys.conditions import loops_in_turn
from nbcache.glue.keys.flags import flag_components
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.units import Unit
from nbcache.glue.overloads import loops
from nbcache.glue.overloads.inherited_flags import giving, in_plain_context, inherited
from nbcache.glue.overloads.loops import RETURNS
from nbcache.glue.overloads.uses import ID_BYTES, Uses, key_of, types_here
from nbcache.passing_exceptions import let_pass
from nbcache.process import os

_log = logging.getLogger("nbcache")

_NAMELESS = bytes(ID_BYTES)
"""The id of what cannot be identified; it agrees with a regular past only."""
_OF_THE_MOMENT = frozenset({"made from", "registered"})
"""What an overload has of the time when it was made, and nobody gave it."""
_OTHERS = "it was built upon callees that were compiled differently"


def _with(content: bytes, besides: tuple[object, ...]) -> bytes:
    return hashlib.blake2b(content + repr(besides).encode(), digest_size=32).digest() if besides else content


class Compiling:
    """*dispatcher* compiles, or looks up, an overload as the past demands, for as long as this is entered."""

    __slots__ = ("_args", "_context", "_dispatcher", "_exists", "_fresh", "_given", "_history", "_return_type", "_use")

    def __init__(self, history: History, dispatcher: Any, args: tuple[Any, ...], return_type: Any) -> None:
        self._history, self._dispatcher, self._args, self._return_type = history, dispatcher, args, return_type
        self._context: AbstractContextManager[Any] | None = None
        self._use: Effect | None = None

    def __enter__(self) -> None:
        self._exists = self._args in vars(self._dispatcher)["overloads"]
        try:
            terms = self._history.terms(self._dispatcher, self._args, exists=self._exists)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            _log.debug("could not determine the history of %r", self._dispatcher, exc_info=True)
            # Agrees with nothing, so that nobody else takes what is built upon it.
            terms = (("unknown", os.urandom(8).hex()),), False, None
        self._given, self._fresh, self._context = terms
        if self._context is not None:
            self._context.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if self._context is not None:
            self._context.__exit__(kind, *raised)  # type: ignore[arg-type]
        if kind is None and not self._exists and self._args in vars(self._dispatcher)["overloads"]:
            try:
                self._history.made(self._dispatcher, self._args, self._return_type, self._given)
            except Exception as exc:  # noqa: BLE001  whatever it is, the program goes on
                let_pass(exc)
                _log.debug("could not record the history of %r", self._dispatcher, exc_info=True)
                past_of(self._dispatcher).given[self._args] = (("unknown", os.urandom(8).hex()),)
        if kind is None and own_attributes.CHOOSER in vars(self._dispatcher):
            # Whoever asked for it, the template has this implementation from now on.
            self.use()

    def use(self) -> Effect:
        """That whoever asked for the overload uses it; to be asked once all went well."""
        if self._use is None:
            self._use = self._history.use(self._dispatcher, self._args, self._return_type, self._given, self._fresh)
        return self._use


class History:
    """The past of one process, as far as compilations depend on it."""

    def __init__(self, maker: KeyMaker) -> None:
        self._maker = maker
        # By the template whose chooser chose it: the key of each implementation that Numba has, or would have by now.
        self._chosen: weakref.WeakKeyDictionary[Any, dict[bytes, str]] = weakref.WeakKeyDictionary()
        self._owing: list[weakref.ref[Any]] = []

    # -- while compiling -------------------------------------------------------------------------

    def compiling(self, dispatcher: Any, args: tuple[Any, ...], return_type: Any) -> Compiling:
        """Enter to have *dispatcher* compile, or look up, an overload as the past demands."""
        return Compiling(self, dispatcher, args, return_type)

    def use(self, dispatcher: Any, args: tuple[Any, ...], return_type: Any, given: Given, fresh: bool) -> Effect:
        """The use of an overload that was there, or came into being, under these terms.  Never raises."""
        if own_attributes.CHOOSER not in vars(dispatcher):
            given = self._with_the_moment(dispatcher, args, given)
            return Effect("dispatcher", dispatcher, args, return_type, given, fresh)
        try:
            return self._choice(dispatcher, args)
        except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(raised)
            _log.debug("could not determine which overload %r was chosen from", dispatcher, exc_info=True)
            name, template = os.urandom(ID_BYTES), vars(dispatcher)[own_attributes.CHOOSER].template
            return Effect("implementation", template, (name,), None, (("key", ""),), False)

    def _with_the_moment(self, dispatcher: Any, args: tuple[Any, ...], given: Given) -> Given:
        """The same with what the overload has of a moment when loops are compiled to run in turn; later it is stale."""
        content = past_of(dispatcher).made_from.get(args)
        if not content or not loops_in_turn() or not self._maker.engine.is_parallel(dispatcher):
            return given
        return given if "made from" in dict(given) else (*given, ("made from", content.hex()))

    def _choice(self, dispatcher: Any, args: tuple[Any, ...]) -> Effect:
        """The use of an implementation that an ``@overload`` chose."""
        template, name = vars(dispatcher)[own_attributes.CHOOSER].template, self._overload_name(dispatcher, args)
        key = key_of(dispatcher, args)
        self._chosen.setdefault(template, {})[name] = key
        made_from = past_of(dispatcher).made_from.get(args)
        fresh = made_from is None or made_from == self.content(dispatcher)
        return Effect("implementation", template, (name,), None, (("key", key),), fresh)

    def _overload_name(self, dispatcher: Any, args: tuple[Any, ...]) -> bytes:
        """Names a choice: one chooser may be asked in several ways about what comes to the same types."""
        flags = ConfigStack.top_or_none()
        asked = vars(dispatcher)[own_attributes.CHOOSER]
        text = (
            f"{None if flags is None else flag_components(flags)} {len(asked.args)} {[name for name, _ in asked.kws]}"
        )
        try:
            content = text.encode() + self.types_digest((*asked.args, *(typ for _, typ in asked.kws), *args))
        except Unidentifiable:
            content = os.urandom(ID_BYTES)  # nobody can ask for it by name
        return hashlib.blake2b(content, digest_size=ID_BYTES).digest()

    def content(self, dispatcher: Any) -> bytes:
        """What an overload would be made from now.  Raises Unidentifiable."""
        return self._made_from(dispatcher, self._maker.engine.digest(dispatcher))

    def _made_from(self, dispatcher: Any, content: bytes) -> bytes:
        """The same for one whose identity is *content*.

        The objects that its code is bound to count as themselves; so do settings that changed, changes of Numba, and
        whether loops run in parallel.
        """
        besides: tuple[object, ...] = self._maker.conditions.of_late
        if loops_in_turn() and self._maker.engine.is_parallel(dispatcher):
            besides += ("loops in turn",)
        bound = self._maker.engine.bound(dispatcher)
        made_from = _with(content, besides)
        if bound:
            here = _with(content, (*(id(obj) for _digest, obj in bound), *besides))
            past_of(dispatcher).bind(here, made_from, bound)
            return here
        return made_from

    def terms(self, dispatcher: Any, args: tuple[Any, ...], *, exists: bool) -> tuple[Given, bool, Any]:
        """What an overload is given, whether it is fresh, and what to enter for that, None if nothing."""
        natural = () if in_plain_context() else inherited(dispatcher.targetdescr, dispatcher.targetoptions)
        given = self.given(dispatcher, args) if exists else self._promised(dispatcher, args)
        if given is None or given == natural:
            return natural, True, None
        return given, False, None if exists else giving(given)

    def _staleness(self, dispatcher: Any, content: bytes | None, consulted: Consulted | None) -> Given:
        if content is None or not getattr(dispatcher, "_can_compile", True):
            return ()
        try:
            current = self.content(dispatcher)
        except Unidentifiable:
            return ()
        stale: Given = () if current == content else (("made from", content.hex()),)
        if consulted is not None and self._maker.registered_otherwise(consulted):
            snapshot = repr(sorted(consulted.snapshot.items())).encode()
            stale += (("registered", hashlib.blake2b(snapshot, digest_size=16).hexdigest()),)
        elif consulted is not None and not self._maker.engine.is_parallel(dispatcher):
            # Whether its loops run in parallel nobody has noted.
            stale += (("registered", "loops in turn"),) if self._maker.hides_loops(consulted) else ()
        return stale

    def given(self, dispatcher: Any, args: tuple[Any, ...]) -> Given:
        """What an overload that exists was given, and what it has of the time when it was made."""
        past = past_of(dispatcher)
        stale = self._staleness(dispatcher, past.made_from.get(args), past.consulted.get(args))
        return past.given.get(args, ()) + stale

    def _now(self, dispatcher: Any, args: tuple[Any, ...]) -> Given | None:
        """What an overload that exists, or will, was given; None if there is nothing yet."""
        exists = args in vars(dispatcher)["overloads"]
        return self.given(dispatcher, args) if exists else self._promised(dispatcher, args)

    def _promised(self, dispatcher: Any, args: tuple[Any, ...]) -> Given | None:
        """What an overload that will exist was given; None if there will be none."""
        promised = past_of(dispatcher).promised
        promise = promised.get(args) if promised else None  # Numba's types take a while to tell their hash
        if promise is None:
            return None
        return promise.given + self._staleness(dispatcher, promise.content, promise.consulted)

    def identified(self, unit: Unit) -> str | None:
        """The dispatcher of *unit* is about to get an overload; the present asks for the unit's own key.

        Returns the key of the entry that must be used instead: "" if there must be one and its key
        is not known, None if the present will do.
        """
        dispatcher, args = unit.owner, unit.args
        past = past_of(dispatcher)
        content = self._made_from(dispatcher, unit.content)
        if own_attributes.CHOOSER in vars(dispatcher):
            template = vars(dispatcher)[own_attributes.CHOOSER].template
            owed = self._chosen.get(template, {}).get(self._overload_name(dispatcher, args), unit.key)
            is_present = unit.answers_to(owed)
            past.made_from[args] = content if is_present else _NAMELESS
            return None if is_present else owed
        promise = past.promised.get(args) if past.promised else None
        if promise is not None:
            unit.bound = promise.bound
        if promise is None or not self._staleness(dispatcher, promise.content, promise.consulted):
            past.made_from[args] = content
            return None
        past.made_from[args] = promise.content
        return promise.key

    def promises(self, unit: Unit) -> bool:
        """Whether a hit made *unit*'s overload one of those that this process would have already."""
        if unit.kind != "dispatcher":
            return False
        if own_attributes.CHOOSER in vars(unit.owner):
            chosen = self._chosen.get(vars(unit.owner)[own_attributes.CHOOSER].template, {})
            return self._overload_name(unit.owner, unit.args) in chosen
        promised = past_of(unit.owner).promised
        return bool(promised) and unit.args in promised  # Numba's types take a while to tell their hash

    def made(self, dispatcher: Any, args: tuple[Any, ...], return_type: Any, given: Given) -> None:
        """An overload came into being, and was given this."""
        if return_type is not None:
            given = (*given, (RETURNS, self.types_digest((return_type,)).hex()))
        past = past_of(dispatcher)
        past.order.setdefault(args)
        if past.promised and past.promised.pop(args, None) is not None:
            arrange(dispatcher)  # called before somebody looked, and perhaps after others that would have come later
        flags = tuple([pair for pair in given if pair[0] not in _OF_THE_MOMENT])
        if flags:
            past.given[args] = flags
        elif past.given:
            past.given.pop(args, None)

    def built(self, unit: Unit, uses: Uses) -> None:
        """Note what *unit*'s overload was built upon.

        Where overloads are part of an identity (no more compiling, a ufunc's loops), so is this.
        """
        lines = uses.lines(self.types_digest, lambda given, fresh: bool(given) or not fresh) if uses else []
        if lines:
            past_of(unit.owner).odd[unit.args] = " ".join(lines)

    def types_digest(self, args: tuple[Any, ...]) -> bytes:
        """What identifies types.  Raises Unidentifiable."""
        return b"".join(map(self._maker.type_digest, args))

    # -- entries ---------------------------------------------------------------------------------

    def guard(self, uses: Uses) -> str:
        """What tells entries of one key apart: those of their uses that need a past of their own."""
        return "\n".join(uses.lines(self.types_digest, lambda _given, fresh: not fresh))

    def objection(self, unit: Unit, uses: Uses) -> str | None:
        """Why an entry built upon these *uses* isn't what would be compiled here, or None."""
        for kind, reference, args, _return_type, given, fresh, _key, _momentary in uses.overloads:
            if kind == "stencil":
                continue
            try:
                obj: Any = unit.referent(reference)
            except Unresolvable:
                if given or not fresh:
                    return _OTHERS
                continue
            now = loops.now(self, obj, args) if kind == "ufunc" else self._now(obj, types_here(obj, args))
            if not fresh if now is None else now != given:
                return _OTHERS
        for place, name, key, fresh in uses.choices:
            known = self._chosen_by(place).get(name)
            if not fresh if known is None else not self._is_same(known, key):
                return _OTHERS
        return None

    def _is_same(self, known: str, key: str) -> bool:
        """Whether two keys are a unit's own and the one that it has for a lower processor, or the same."""
        elsewhere = self._maker.elsewhere
        return known == key or elsewhere.get(known, known) == elsewhere.get(key, key)

    def accept(
        self, unit: Unit, uses: Uses, consulted: Consulted, bound: Collection[str]
    ) -> tuple[list[tuple[Any, tuple[Any, ...]]], set[str]]:
        """An entry was loaded, whose tokens are *bound*: what it was built upon is promised from now on.

        Returns dispatchers with the types of overloads that can't wait: their code is bound to objects, or was made
        under circumstances, that may be others by the time when somebody asks. And the keys of what was there already.
        """
        urgent, there = [], set()
        for kind, reference, types_there, _return_type, given, _fresh, key, momentary in uses.overloads:
            if kind != "dispatcher":
                continue
            try:
                dispatcher: Any = unit.referent(reference)
            except Unresolvable:
                continue
            args = types_here(dispatcher, types_there)
            exists, promised = args in vars(dispatcher)["overloads"], past_of(dispatcher).promised
            if exists or (promised and args in promised):
                there.add(key)
            if not exists:
                content = self._promised_content(dispatcher, reference[1])
                self._promise(dispatcher, args, given, Promise((), content, key, consulted, bound))
                if momentary or self._maker.engine.bound(dispatcher):
                    urgent.append((dispatcher, args))
        for place, name, key, _fresh in uses.choices:
            chosen = self._chosen_by(place)
            if name in chosen:
                there.add(key)
            chosen.setdefault(name, key)
        self.built(unit, uses)
        return urgent, there

    def _promised_content(self, dispatcher: Any, found: bytes) -> bytes:
        """What an overload that is promised would be made from; *dispatcher* was *found* by an identity.

        That is another one where it was reached by what only runs.
        """
        if self._maker.engine.carries(dispatcher, found):
            return self._made_from(dispatcher, found)
        try:
            return self.content(dispatcher)
        except Unidentifiable:
            return _NAMELESS

    def keep_promises(self) -> None:
        """Give dispatchers the overloads that are owed to them: nobody could tell later what they are made from."""
        while self._owing:
            owing, self._owing = self._owing, []
            for known in owing:
                dispatcher = known()
                if dispatcher is not None:
                    len(dispatcher.overloads)  # whoever looks is given them, and they may owe others some

    def _chosen_by(self, place: tuple[bytes, int]) -> dict[bytes, str]:
        template = self._maker.extensions.at(place)
        return {} if template is None else self._chosen.setdefault(template, {})

    def _promise(self, dispatcher: Any, args: tuple[Any, ...], given: Given, promise: Promise) -> None:
        flags = []
        for name, value in given:
            if name == "made from":
                promise = promise._replace(content=bytes.fromhex(value))
            elif name not in _OF_THE_MOMENT:
                flags.append((name, value))
        past = past_of(dispatcher)
        if not past.promised:
            self._owing.append(weakref.ref(dispatcher))
        past.promised.setdefault(args, promise._replace(given=tuple(flags)))
        past.order.setdefault(args)
