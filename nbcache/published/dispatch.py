"""Calling a published function: which of its signatures an argument list fits, by the rules of Numba's dispatcher.

A published function behaves as Numba's does whose compilation is switched off (``disable_compile()``): the exact
signature if there is one, else the one with the best conversions, else TypeError, with a list of what there is. A
default value that no signature was compiled for is passed as a value. The compiled code itself checks next to nothing:
nothing is called before every argument's type is known to be right.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import suppressed
from nbcache.published import argtypes
from nbcache.published.members import Member, function_of
from nbcache.published.runtime import constant
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_OMITTED: Final = object()
_DEFAULT: Final = ("omitted",)
_MAX_KNOWN: Final = 1024
"""How many argument lists are remembered with what they fit."""


class Overload(Record):
    """One compiled version: its arguments' types, and what calls it."""

    types: tuple[argtypes.Type, ...]
    call: Callable[..., Any]


class Dispatcher:
    """Chooses and calls the right version; what is called where the check in machine code doesn't recognise the
    arguments.
    """

    def __init__(self, member: Member, calls: Sequence[Callable[..., Any]]) -> None:
        """Take the function of a manifest, and for each of its signatures what runs it with arguments of these
        types.
        """
        self.member, function = member, member.function
        self.name = self.__name__ = self.__qualname__ = function.name
        self.__module__ = function.module  # type: ignore[assignment]  # Python says None of what exec made
        self.__doc__ = function.doc
        self._parameters = function.parameters
        self._star = function.star
        self._overloads = [
            Overload(tuple(map(argtypes.of_data, signature.args)), call)
            for signature, call in zip(function.signatures, calls, strict=True)
        ]
        self._known: dict[tuple[Any, ...], Overload | None] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what fits. Raises TypeError if nothing does, and what the function raises."""
        if kwargs or len(args) != len(self._parameters) or self._star:
            args = self._bound(args, kwargs)
        types = tuple(_DEFAULT if each is _OMITTED else argtypes.of_value(each) for each in args)
        overload = self._known.get(types)
        if overload is None:
            overload = self._select(types, args)
        if _DEFAULT in types and _DEFAULT not in overload.types:
            args = self._filled(args)
        # Code that was compiled for a default has it built in, and looks at no argument in its place.
        return overload.call(*args)

    def __repr__(self) -> str:
        """Say what it is."""
        return f"<published function '{self.name}'>"

    def __getattr__(self, name: str) -> Any:
        """Return what `inspect.signature` asks for."""
        if name != "__signature__":
            raise AttributeError(f"a published function has no attribute {name!r}")
        from inspect import Parameter, Signature

        listed = []
        for each in self._parameters[:-1] if self._star else self._parameters:
            default = self._defaults.get(each, Parameter.empty)
            default = ... if default is _OMITTED else default
            listed.append(Parameter(each, Parameter.POSITIONAL_OR_KEYWORD, default=default))
        if self._star:
            listed.append(Parameter(self._parameters[-1], Parameter.VAR_POSITIONAL))
        return Signature(listed)

    def __reduce__(self) -> Any:
        """Return what finds it where the whole publication was carried to."""
        return function_of, self.member.portable()

    @functools.cached_property
    def _defaults(self) -> dict[str, Any]:
        """The values of arguments that are left out, by parameter; those that can't be made here stay left out."""
        function, found = self.member.function, {}
        names = self._parameters[:-1] if self._star else self._parameters
        for name, default in zip(names[len(names) - len(function.defaults) :], function.defaults, strict=True):
            found[name] = _OMITTED
            with suppressed(Exception):  # somebody else's class, or its module
                found[name] = _OMITTED if default is None else constant(default)
        return found

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments in the order of the parameters."""
        names = self._parameters[:-1] if self._star else self._parameters
        if len(args) > len(names) and not self._star:
            raise TypeError(f"{self.name} takes {len(names)} arguments ({', '.join(names)}), not {len(args)}")
        found = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError(f"{self.name} has no parameter {name}: it takes ({', '.join(self._parameters)})")
            if name in found:
                raise TypeError(f"{self.name} got its argument {name} twice")
            found[name] = value
        required = names[: len(names) - len(self.member.function.defaults)]
        missing = [name for name in required if name not in found]
        if missing:
            raise TypeError(f"{self.name} needs its argument {missing[0]}: it takes ({', '.join(self._parameters)})")
        rest = (tuple(args[len(names) :]),) if self._star else ()
        return (*(found.get(name, _OMITTED) for name in names), *rest)

    def _filled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            self._defaults[name] if each is _OMITTED else each
            for name, each in zip(self._parameters, args, strict=True)
        )

    def _select(self, types: tuple[argtypes.Type | None, ...], args: tuple[Any, ...]) -> Overload:
        found = self._best(types, args)
        if found is None and _DEFAULT in types:
            found = self._best(tuple(map(argtypes.of_value, self._filled(args))), args)
        if found is None:
            raise self._mismatch(types, args)
        if len(self._known) < _MAX_KNOWN:
            self._known[types] = found
        return found

    def _best(self, types: tuple[argtypes.Type | None, ...], args: tuple[Any, ...]) -> Overload | None:
        """The version with the best conversions. Raises TypeError if it is more than one."""
        rated = []
        for overload in self._overloads:
            ranks = _ranks(types, overload.types)
            if ranks is not None:
                rated.append((ranks, overload))
        if not rated:
            return None
        best = min(ranks for ranks, _ in rated)
        found = [overload for ranks, overload in rated if ranks == best]
        if len(found) > 1:
            got, listed = ", ".join(map(argtypes.words_of, args)), "; ".join(map(_listed, found))
            raise TypeError(f"{self.name}: several published signatures fit ({got}) equally: {listed}")
        return found[0]

    def _mismatch(self, types: tuple[argtypes.Type | None, ...], args: tuple[Any, ...]) -> TypeError:
        got = ", ".join(
            "default" if each == _DEFAULT else argtypes.words_of(value) for each, value in zip(types, args, strict=True)
        )
        listed = "; ".join(map(_listed, self._overloads))
        return TypeError(f"{self.name} was not published for ({got}): it takes {listed}")


def _ranks(types: tuple[argtypes.Type | None, ...], wanted: tuple[argtypes.Type, ...]) -> tuple[int, int, int] | None:
    """How many arguments need a conversion of each kind, the worst first; None if one can't be converted."""
    if len(types) != len(wanted) or None in types:
        return None
    ranks = [argtypes.conversion(*pair) for pair in zip(types, wanted, strict=True)]  # type: ignore[arg-type]
    if None in ranks:
        return None
    return ranks.count(argtypes.UNSAFE), ranks.count(argtypes.SAFE), ranks.count(argtypes.PROMOTE)


def _listed(overload: Overload) -> str:
    return f"({', '.join('default' if each == _DEFAULT else argtypes.words(each) for each in overload.types)})"
