"""C functions, for those who take pointers to them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from nbcache.published.members import Member, function_of

_TYPES: Final[dict[str, Any]] = {
    "none": None,
    "void*": ctypes.c_void_p,
    "bool": ctypes.c_bool,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

_NUMBERS: Final[dict[str, type]] = {
    "bool": bool,
    **dict.fromkeys(("float32", "float64"), float),
    **{name: int for name in _TYPES if "int" in name},
}


class _NoNumberError(Exception):
    """An argument is no number of the kind that is wanted."""


class Callback:
    """What ``@cfunc`` made: an address for C, and a function of ctypes."""

    def __init__(self, member: Member) -> None:
        """Take the function of a manifest, and its code."""
        self.member, function = member, member.function
        self.__name__ = function.name
        self.__module__ = function.module  # type: ignore[assignment]  # Python says None of what exec made
        self.__doc__ = function.doc
        self.address = member.address_of(function.signatures[0].symbol)
        """What C calls: it is valid for the life of the process."""
        *self._arguments, self._result = (each["json"] for each in function.signatures[0].types)
        result, *arguments = map(_c_type, (self._result, *self._arguments))
        self.ctypes = ctypes.CFUNCTYPE(result, *arguments)(self.address)

    def __call__(self, *args: Any) -> Any:
        """Call it through ctypes: numbers convert as Numba's dispatcher converts them, pointers as ctypes does.

        Raises TypeError for other arguments, before anything is called.
        """
        if len(args) != len(self._arguments):
            raise self._mismatch(args)
        try:
            return self.ctypes(*(self._converted(*each) for each in zip(args, self._arguments, strict=True)))
        except (ctypes.ArgumentError, _NoNumberError):
            raise self._mismatch(args) from None

    def __repr__(self) -> str:
        """Say what it is."""
        return f"<published C callback '{self.__name__}'>"

    def __getattr__(self, name: str) -> Any:
        """Return what `inspect.signature` asks for."""
        if name != "__signature__":
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        from inspect import Parameter, Signature

        names = self.member.function.parameters
        return Signature([Parameter(each, Parameter.POSITIONAL_ONLY) for each in names])

    def __reduce__(self) -> Any:
        """Return what finds it where the whole publication was carried to."""
        return function_of, self.member.portable()

    def _converted(self, value: Any, wanted: str) -> Any:
        convert = _NUMBERS.get(wanted)
        if convert is None:
            return value
        from nbcache.published import argtypes  # most callbacks are called by C alone

        found = argtypes.of_value(value)
        if found is None or argtypes.conversion(found, (wanted,)) is None:
            raise _NoNumberError
        number = convert(value)
        if convert is int and not -(1 << 63) <= number < 1 << 64:
            raise OverflowError("int too big to convert")
        return number

    def _mismatch(self, args: tuple[Any, ...]) -> TypeError:
        from nbcache.published import argtypes

        got = ", ".join(map(argtypes.words_of, args))
        return TypeError(f"{self.__name__} was not published for ({got}): it takes ({', '.join(self._arguments)})")


def _c_type(name: str) -> Any:
    found = _TYPES.get(name)
    if found is None and name != "none":
        found = ctypes.POINTER(_c_type(name.removesuffix("*")))
    return found
