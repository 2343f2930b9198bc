"""What is remembered of one dispatcher's overloads; what it is for, `history` says."""

from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any

from nbcache.glue import own_attributes
from nbcache.glue.identity.asked_names import Consulted
from nbcache.glue.identity.node import Bound
from nbcache.records import Record

Given = tuple[tuple[str, Any], ...]
"""(name, value) of what an overload would not have, were it compiled here and now from Python."""


class Question(Record):
    """What the chooser of an overload's *template* was asked."""

    template: Any
    args: tuple[Any, ...]
    kws: tuple[tuple[str, Any], ...]


class Promise(Record):
    """An overload that this process would have, if a hit had not saved it the compilation.

    ``content``: what it would have been made from; ``key``: that of the overload's entry, "" if it has
    none; ``consulted``: what was asked for where it was promised, which includes what it would have asked for;
    ``bound``: the tokens that were bound there (`placeholders.bind`), and mean the same wherever its code is.
    """

    given: Given
    content: bytes
    key: str
    consulted: Consulted
    bound: Collection[str]


class Past:
    """What is known of one dispatcher's overloads, by argument types.

    ``given``: the flags each was given, unless none; ``made_from``: what its dispatcher was when it was compiled;
    ``bound``: for such a digest with addresses of what code is bound to, the one without these, which other processes
    have as well, and what it is bound to; ``consulted``: what was asked for then; ``odd``: its uses that were not
    regular, if any; ``promised``: those that are owed; ``order``: that in which they would have come.
    """

    __slots__ = ("bound", "consulted", "given", "made_from", "odd", "order", "owner", "promised")

    def __init__(self, owner: Any) -> None:
        # functools.wraps copies an object's __dict__ onto another object, this one's included.
        self.owner = weakref.ref(owner)
        self.given: dict[tuple[Any, ...], Given] = {}
        self.consulted: dict[tuple[Any, ...], Consulted] = {}
        self.made_from: dict[tuple[Any, ...], bytes] = {}
        self.bound: dict[bytes, tuple[bytes, Bound]] = {}
        self.odd: dict[tuple[Any, ...], str] = {}
        self.order: dict[tuple[Any, ...], None] = {}
        self.promised: dict[tuple[Any, ...], Promise] = {}

    def bind(self, here: bytes, made_from: bytes, bound: Bound) -> None:
        """Note of a digest *here* what others have in its place; what no overload is made from is let go of."""
        used = {here, *self.made_from.values(), *(promise.content for promise in self.promised.values())}
        self.bound = {digest: what for digest, what in self.bound.items() if digest in used}
        self.bound[here] = made_from, bound


def past_of(dispatcher: Any) -> Past:
    """The dispatcher's own `Past`."""
    past = vars(dispatcher).get(own_attributes.PAST)
    if past is None or past.owner() is not dispatcher:
        past = vars(dispatcher)[own_attributes.PAST] = Past(dispatcher)
    return past


def lose(dispatcher: Any, args: tuple[Any, ...]) -> None:
    """What was promised can't be had any more: what is compiled instead was made from nothing that anybody knows."""
    past_of(dispatcher).made_from[args] = b""


def arrange(dispatcher: Any) -> None:
    """Put the overloads that *dispatcher* has into the order in which they would have come."""
    overloads = vars(dispatcher)["overloads"]
    for args in past_of(dispatcher).order:
        if args in overloads:
            overloads.move_to_end(args)
