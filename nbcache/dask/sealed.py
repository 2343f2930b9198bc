"""A process that speaks to a Dask cluster and unpickles nothing of what comes from there.

Dask sends results, exceptions, tracebacks and types as pickles, and reading a pickle is executing it. In a process that
called :func:`seal`, what Dask would unpickle is bytes instead, as they came (:func:`_content`), and
:func:`pickle.loads` raises. That is how Dask's messages are read without harm; that nothing gets around it is for the
interpreter to see to: no unpickler of the process, whoever made it, may name a class, function or module, and without a
name a pickle is plain data.

What an exception was that came as a pickle is read by :mod:`pickletools`, which executes none of it.
"""

from __future__ import annotations

import pickle
import pickletools
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

import dask
from distributed.protocol import core

from nbcache.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMING: Final = "pickle.find_class"
"""What the interpreter says before an unpickler looks a name up (sys.addaudithook)."""
_MAX_READ: Final = 1 << 16
"""How much of a pickle is read [bytes]."""
_MAX_TEXTS: Final = 3
"""How many texts of it tell what an exception was: its module, its class, its first argument."""
_BETWEEN: Final = ("tblib", "unpickle_exception", "builtins")
"""What isn't told of these: what pickles exceptions with their tracebacks, and where most are from."""


class UnpicklingError(TypeError):
    """A pickle came, and was left as it is. (Dask takes a traceback that raises a TypeError for none.)"""


def seal() -> None:
    """Have this process unpickle nothing any more. It can't be taken back."""
    # Where another version of Dask has no such name, that is an AttributeError, and there is no bridge.
    for owner, name, ours in ((core, "merge_and_deserialize", _content), (pickle, "loads", _refuse)):
        getattr(owner, name)
        setattr(owner, name, ours)
    # It would import modules of these for what a message names.
    dask.config.set({"distributed.scheduler.allowed-imports": []})
    sys.addaudithook(_watch)


def _content(header: object, frames: Sequence[bytes | memoryview], deserializers: object = None) -> bytes:  # noqa: ARG001  Dask's signature
    """Return what was serialized, whichever way, as bytes."""
    return b"".join(frames)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise UnpicklingError("what comes from a cluster is not unpickled")


def _watch(event: str, _arguments: tuple[Any, ...]) -> None:
    if event == _NAMING:
        _refuse()


def words(error: BaseException) -> str:
    """Say what an exception is, one that a worker sent included."""
    content = error.args[0] if error.args else b""
    if not isinstance(content, bytes):
        return one_line(f"{type(error).__name__}: {error}")
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(content[:_MAX_READ]):
            if isinstance(argument, str) and "UNICODE" in opcode.name and not argument.startswith(_BETWEEN):
                texts.append(argument)
                if len(texts) == _MAX_TEXTS:
                    break
    except Exception:  # noqa: BLE001, S110  it is anything at all, or was cut off
        pass
    return one_line(": ".join(texts)) or "it failed, and didn't say how"
