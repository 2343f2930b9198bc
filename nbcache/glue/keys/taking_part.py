"""What takes part in compiling a unit and isn't reached from it: what is registered with Numba, and what was chosen.

What is registered and asked again on a hit counts by its answers.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol

from nbcache.glue.identity.ownership import address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.glue.identity.asked_names import Consulted
    from nbcache.glue.identity.graph import IdentityEngine
    from nbcache.glue.identity.node import Scope
    from nbcache.glue.identity.registration import Registration
    from nbcache.glue.identity.registrations import ExtensionIndex
    from nbcache.glue.keys.choices import Choices


class Identities(Protocol):
    """Who knows what things are, what is registered, and what was chosen."""

    extensions: ExtensionIndex
    engine: IdentityEngine

    @property
    def choices(self) -> Choices:
        """The answers of choosers."""


def is_parallel(maker: Identities, consulted: Consulted) -> bool:
    """Whether any loops of it may be compiled to run in parallel.

    The key of a unit that reaches no such loops itself doesn't tell: whose code that is, isn't known beforehand.
    """
    options = (getattr(each.registered, "_jit_options", {}) for each in _registered(maker, consulted))
    return any(scope.parallel for scope in _scopes(maker, consulted)) or any(each.get("parallel") for each in options)


def alike(maker: Identities, unit: Any, consulted: Consulted) -> bytes:
    """Which of several objects that are alike the code of a unit is bound to; b"" unless others' code is bound to any.

    Identities don't tell such objects apart, and the key says it of those that are reached from the unit.
    """
    scopes = [*_scopes(maker, consulted)]
    if not any(scope.bound() for scope in scopes):
        return b""
    bound = [*maker.engine.bound(unit.owner), *(each for scope in scopes for each in scope.bound())]
    numbers: dict[int, int] = {}
    pattern = [numbers.setdefault(address(obj), len(numbers)) for _digest, obj in bound]
    if len({digest for digest, _obj in bound}) == len(numbers):
        return b""
    return hashlib.blake2b(repr(pattern).encode(), digest_size=16).digest()


def _registered(maker: Identities, consulted: Consulted) -> Iterator[Registration]:
    return (each for name in consulted.snapshot for each in maker.extensions.registered(name))


def _scopes(maker: Identities, consulted: Consulted) -> Iterator[Scope]:
    """What was read of all that isn't asked again, and of what was chosen."""
    digests = maker.extensions.digests
    yield from (digests[id(each)][2] for each in _registered(maker, consulted) if id(each) in digests)
    yield from filter(None, map(maker.choices.scope, consulted.asks) if consulted.asks else ())
