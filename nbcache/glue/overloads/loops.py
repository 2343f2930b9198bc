"""Loops of ufuncs, which are to a ufunc what overloads are to a dispatcher (history.py)."""

from __future__ import annotations

from typing import Any, Protocol

from numba.np.ufunc.dufunc import DUFunc

from nbcache.glue.identity.dispatcher_past import Given, past_of
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.overloads.inherited_flags import in_plain_context, inherited
from nbcache.process import os

RETURNS = "returns"
"""The declared type of what an overload or a loop returns, among what it was given."""


class Identities(Protocol):
    """What `History` knows of dispatchers."""

    def content(self, dispatcher: Any) -> bytes:
        """What an overload would be made from now.  Raises Unidentifiable."""

    def given(self, dispatcher: Any, args: tuple[Any, ...]) -> Given:
        """What an overload that exists was given, and what it has of the time when it was made."""

    def types_digest(self, args: tuple[Any, ...]) -> bytes:
        """What identifies types.  Raises Unidentifiable."""


def kernel_of(ufunc: Any) -> Any:
    """The dispatcher whose overloads are the loops of a DUFunc or GUFunc."""
    return ufunc._dispatcher if isinstance(ufunc, DUFunc) else ufunc.gufunc_builder.nb_func


def find_loop(ufunc: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The types of the loop that a call of *ufunc* with elements of the types *args* uses; None if there is none."""
    find = type(ufunc).find_ewise_function
    sig, _cres = getattr(find, "__wrapped__", find)(ufunc, args)  # what nbcache asks, no compilation depends on
    return None if sig is None else tuple(sig.args)


def now(history: Identities, ufunc: Any, args: tuple[Any, ...]) -> Given | None:
    """What the loop was given that a call with elements of these types uses; None if there is none."""
    found = find_loop(ufunc, args)
    if found is None:
        return (("none", True),) if ufunc._frozen else None
    return used(history, ufunc, kernel_of(ufunc), found)[0]


def made(history: Identities, dispatcher: Any, given: Given, return_type: Any) -> None:
    """Note what the newest loop was made from, of the ufunc whose kernel is *dispatcher*."""
    args, past = tuple(next(reversed(dispatcher.overloads)).args), past_of(dispatcher)
    try:
        if return_type is not None:
            given = (*given, (RETURNS, history.types_digest((return_type,)).hex()))
        past.made_from[args] = history.content(dispatcher)
    except Unidentifiable:
        given = (("unknown", os.urandom(8).hex()),)
    past.given.pop(args, None)
    if given:
        past.given[args] = given


def used(history: Identities, ufunc: Any, dispatcher: Any, args: tuple[Any, ...]) -> tuple[Given, bool]:
    """What a loop of *ufunc* was given, and whether it would come out the same if it did not exist.

    Of a ufunc that gets no more loops, those that it has are part of its identity.
    """
    given = history.given(dispatcher, args)
    if ufunc._frozen:
        given = tuple(pair for pair in given if pair[0] != RETURNS)
    alone = ufunc._frozen or in_plain_context()
    return given, given == (() if alone else inherited(dispatcher.targetdescr, dispatcher.targetoptions))
