"""The flags that a callee inherits from whoever makes it compile."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from numba.core import compiler
from numba.core.cpu_options import FastMathOptions
from numba.core.targetconfig import ConfigStack

from nbcache.glue.identity.dispatcher_past import Given
from nbcache.glue.keys.flags import parsed

INHERITED = ("nrt", "fastmath", "error_model", "forceinline")
"""The flags that Numba's ``inherit_if_not_set`` is called for."""


def _neutral() -> compiler.Flags:
    """What a function called from Python inherits."""
    flags = compiler.Flags()
    flags.nrt = True
    return flags


def _inheritable(flags: Any) -> list[tuple[str, Any]]:
    values = [(name, getattr(flags, name)) for name in INHERITED]
    return [(name, tuple(sorted(v.flags)) if isinstance(v, FastMathOptions) else v) for name, v in values]


_NEUTRAL = _inheritable(_neutral())


def in_plain_context() -> bool:
    """Whether what is compiled now inherits nothing that it would not have on its own."""
    top = ConfigStack.top_or_none()
    return top is None or _inheritable(top) == _NEUTRAL


def inherited(targetdescr: Any, options: Any) -> Given:
    """The flags that something with these options would not have, were it compiled from Python."""
    now = _parsed(targetdescr, options)
    with ConfigStack().enter(_neutral()):
        alone = _parsed(targetdescr, options)
    return tuple(pair for pair, other in zip(now, alone, strict=True) if pair != other)


def _parsed(targetdescr: Any, options: Any) -> list[tuple[str, Any]]:
    return _inheritable(parsed(targetdescr.options, options))


def giving(given: Given) -> AbstractContextManager[Any]:
    """While this is entered, what is compiled inherits the flags in *given* and nothing else."""
    flags = _neutral()
    for name, value in given:
        if name in INHERITED:
            setattr(flags, name, FastMathOptions(set(value)) if name == "fastmath" else value)
    return ConfigStack().enter(flags)
