"""What ran of marked packages (:mod:`nbcache.glue.identity.marked_packages`), in entries, and compared on a hit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from types import CodeType
from typing import Any

from nbcache.glue.identity.asked_names import Consulted
from nbcache.glue.identity.differences import CHANGED
from nbcache.glue.identity.distributions import Distributions
from nbcache.glue.identity.graph import IdentityEngine
from nbcache.glue.identity.marked_packages import MARKED, OPAQUE, PLAIN, give_up, places, ran, verdicts
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.registrations import ExtensionIndex
from nbcache.glue.keys.choices import Choices

_VERSION = 2
_MARKS = hashlib.blake2b(b"marked packages %d" % _VERSION, digest_size=32).hexdigest()
"""The key under which a store keeps what is known of packages, each with its verdict before it."""
_RANKS = (PLAIN, MARKED, OPAQUE)
MOST_IN_VAIN = 3
"""How many compilations that lead to marked packages may come to nothing, before these are given up."""
_CHANGED = "code of installed packages that ran before, and something that it reads was changed since"


class MarkedPackages:
    """The code of marked packages that ran in this process while something compiled."""

    def __init__(
        self,
        engine: IdentityEngine,
        extensions: ExtensionIndex,
        choices: Callable[[], Choices],
        distributions: Distributions,
    ) -> None:
        self._engine = engine
        self._extensions, self._choices, self._distributions = extensions, choices, distributions
        self._ever: set[CodeType] = set()
        self._so_far: set[str] = set()
        self._digest_so_far = b""
        self._changed = False
        self._of_use = self._in_vain = 0

    def recall(self) -> dict[str, str]:
        """What other processes know of distributions, by name and version: of what they say the last of `_RANKS`."""
        contents = self._distributions.recall(_MARKS)
        said = (content.decode("utf-8", "surrogateescape").partition(" ") for content in contents)
        ranks = [(_RANKS.index(verdict), name) for verdict, _, name in said if verdict in _RANKS]
        return {name: _RANKS[rank] for rank, name in sorted(ranks)}  # watched by `is`: the constants themselves

    def remember(self, name: str, verdict: str) -> None:
        """Say so of one.  Whoever is told wrong finds less, and nothing that is wrong."""
        content = f"{verdict} {name}".encode("utf-8", "surrogateescape")
        self._distributions.remember(_MARKS, hashlib.blake2b(content, digest_size=16).hexdigest(), content, 0.0)

    def account(self, unit: Any, reason: str) -> None:
        """A compilation became an entry, or couldn't for a *reason* ("" if there is none).

        What mostly comes to nothing isn't worth the walks, each of which costs half a second and more. A package that
        fills in tables of its own while it is compiled never comes to anything.
        """
        if MARKED not in verdicts.values() or not getattr(unit, "ends", False):
            return
        self._of_use += not reason
        self._in_vain += reason.startswith((CHANGED, _CHANGED))
        if self._in_vain > max(MOST_IN_VAIN, self._of_use):
            self._changed = True
            give_up()

    def complete(self, unit: Any, consulted: Consulted) -> None:
        """Complete what says so of a compilation that is over.  Raises Unidentifiable."""
        if not places:
            if self._changed and (unit.ends or consulted.ran):  # these were given up meanwhile
                raise Unidentifiable(_CHANGED)
            return
        if consulted.blind:
            raise Unidentifiable("code of installed packages, of which nobody could note whether it runs")
        with self._engine.steady():
            self._complete(unit, consulted)

    def _complete(self, unit: Any, consulted: Consulted) -> None:
        self.look()
        self._ever |= consulted.codes
        if not (unit.ends or consulted.ran or consulted.codes & places.keys()):
            return
        if self._changed:
            raise Unidentifiable(_CHANGED)
        consulted.ran |= {f"{module.__name__}::module" for module in self._handed_on(unit, consulted)}
        digested = None
        while (ran := consulted.ran | self._places()) != digested:
            consulted.ran |= ran
            digested = ran
            consulted.ran_digest = self.digest(ran)  # which may come to more code that ran
        self._add(consulted.ran)

    def _places(self) -> set[str]:
        """Where the code is found at which walks have ended, and that ran: something may be there that it computed."""
        return {place for code in self._ever & places.keys() for place in places[code]}

    def look(self) -> None:
        """See whether somebody has changed what ran so far: code that is here would be other if it were made now."""
        if self._so_far and not self._changed:
            try:
                self._changed = self.digest(self._so_far) != self._digest_so_far
            except Unidentifiable:
                self._changed = True

    def _add(self, names: set[str]) -> None:
        self._so_far |= names
        self._digest_so_far = self.digest(self._so_far)

    def _handed_on(self, unit: Any, consulted: Consulted) -> set[Any]:
        """The modules that what isn't noted hands on to what is."""
        scopes = [*unit.scopes, *filter(None, map(self._choices().scope, consulted.asks))]
        registered = (each for name in consulted.snapshot for each in self._extensions.registered(name))
        scopes += (self._extensions.digests[id(each)][2] for each in registered if id(each) in self._extensions.digests)
        return {module for scope in scopes for each in scope.all() for module, _compiled in each.handed_on}

    def digest(self, names: Collection[str]) -> bytes:
        """What identifies the functions of these names, and all that they reach, but for others that may run.

        b"" if there are none.  Raises Unidentifiable.
        """
        if not names:
            return b""
        return self._engine.digest_for_good(tuple(map(ran, sorted(names))))

    def objection(self, consulted: Consulted) -> str | None:
        """Why functions of installed packages that ran for an entry aren't what they were, or None."""
        try:
            with self._engine.steady():
                self.look()
                if self._changed:
                    return _CHANGED
                same = self.digest(consulted.ran) == consulted.ran_digest
                if same:
                    self._add(consulted.ran)
                    self._of_use += 1
        except Unidentifiable as exc:
            return f"it depends on {exc}"
        return None if same else "what ran while it was compiled is something else now, or reads something else"
