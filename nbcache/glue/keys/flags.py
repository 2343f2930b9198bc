"""Numba's compilation flags, as set and as inherited, and in words."""

from __future__ import annotations

import functools
from typing import Any

from numba.core import compiler
from numba.core.cpu_options import FastMathOptions, InlineOptions
from numba.core.targetconfig import ConfigStack

from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_parts import framed
from nbcache.passing_exceptions import let_pass

_PLAIN_FLAGS = frozenset({bool, str, int, type(None)})


def flag_components(flags: compiler.Flags) -> list[tuple[str, str]]:
    """Flags as components of a key: (label, value)."""
    return list(_spelt(flags)[0])


def flag_parts(flags: compiler.Flags) -> bytes:
    """Flags as a part of a key."""
    return _spelt(flags)[1]


def _spelt(flags: compiler.Flags) -> tuple[list[tuple[str, str]], bytes]:
    """Both.  Nearly all functions have the same flags."""
    values = flags._values
    shown = [
        (name, type(value), value if type(value) in _PLAIN_FLAGS else _flag_text(value))
        for name, value in values.items()
    ]
    known = (type(flags), *shown)
    found = _flags_spelt.get(known)
    if found is None:
        labels = _flag_labels(type(flags))  # type: ignore[arg-type]
        components = [(label, _flag_text(values.get(name, default))) for label, name, default in labels]
        parts = b"".join(framed(f"{label}={words}".encode()) for label, words in components)
        found = _flags_spelt[known] = components, parts
    return found


_flags_spelt: dict[tuple[object, ...], tuple[list[tuple[str, str]], bytes]] = {}


@functools.cache
def _flag_labels(kind: Any) -> list[tuple[str, str, Any]]:
    return [(f"options/{name}", name, option.default) for name, option in kind.options.items()]


def _flag_text(value: Any) -> str:
    if type(value) in _PLAIN_FLAGS:  # nearly all; the others' abstract base class makes isinstance slow
        return str(value)
    if isinstance(value, FastMathOptions):
        return " ".join(sorted(value.flags)) or "no"
    if isinstance(value, InlineOptions):
        # A cost model is a function among the dispatcher's options, identified there.
        return value.value if isinstance(value.value, str) else "cost model"
    return str(value)


# -- from what Numba is about to compile -------------------------------------------------------


_parsed: dict[tuple[object, ...], compiler.Flags] = {}


def flags_of(conditions: bytes, function_compiler: Any) -> compiler.Flags:
    """The flags as ``_FunctionCompiler`` will set them, inherited ones included."""
    try:
        flags = _parse(conditions, function_compiler.targetdescr.options, function_compiler.targetoptions)
        return function_compiler._customize_flags(flags)
    except Exception as exc:
        let_pass(exc)
        raise Unidentifiable(f"options that Numba refuses ({exc})") from exc


def _parse(conditions: bytes, parser: Any, options: dict[str, Any]) -> compiler.Flags:
    """What Numba makes of options; parsed once for each set of them that says it all, under the same settings."""
    kinds = tuple(map(type, options.values()))
    alone = not ConfigStack() and _PLAIN_FLAGS.issuperset(kinds)
    key = (parser, conditions, kinds, *options.items())
    if alone and key in _parsed:
        return _parsed[key].copy()
    flags = parsed(parser, options)
    if alone:
        _parsed[key] = flags.copy()
    return flags


def parsed(parser: Any, options: dict[str, Any]) -> compiler.Flags:
    """The flags for options, which stay as they are: Numba itself takes what it parses out of ``parallel={...}``."""
    flags = compiler.Flags()
    own = {name: dict(value) if isinstance(value, dict) else value for name, value in options.items()}
    parser.parse_as_flags(flags, own)
    return flags


def pipeline_of(owner: Any) -> Any:
    """Return the class of the compiler that Numba runs for a dispatcher or the like."""
    function_compiler = getattr(owner, "_compiler", None)
    return compiler.Compiler if function_compiler is None else function_compiler.pipeline_class
