"""What a Dask worker says to the bridge: bytes with a grammar. Neither side pickles any of it.

What a worker is, as :func:`described` writes it, is JSON: a list of pairs, a label and what that is there. What came of
a job, as :func:`encoded` writes it, is::

    nbcache farm 1
    {"said": what the job said at its end, "host": name, "entries": [size, ...], "usage": [size, ...]}
    the entries, one after the other, then the usage records

The sizes are those of what follows [bytes], and add up to it. A job says ``{"result": JSON}``, ``{"error": text}`` or
``{"crash": text, "to blame": "environment"}``, the second half of the last one only where it is so.

Anybody may be at the other end, so reading takes what has this form, within the bounds below, and raises
:class:`BadResultError` for all else. What an entry holds is for the daemon to judge.

Nor does the process that speaks to the cluster unpickle anything of what comes from there. Dask sends results,
exceptions, tracebacks and types as pickles, and reading a pickle is executing it. In a process that called
:func:`seal`, what Dask would unpickle is bytes instead, as they came (:func:`_content`), and :func:`pickle.loads`
raises. That is how Dask's messages are read without harm; that nothing gets around it is for the interpreter to see to:
no unpickler of the process, whoever made it, may name a class, function or module, and without a name a pickle is plain
data.

What an exception was that came as a pickle is read by :mod:`pickletools`, which executes none of it.
"""

from __future__ import annotations

import json
import pickle
import pickletools
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import dask
from distributed.protocol import core

from nbcache.daemon import channel, cluster, publisher
from nbcache.grammar import Malformed, Reader, fields, member, row, several, text, up_to
from nbcache.one_line import one_line
from nbcache.store.usage import MAX_RECORD

_BEGIN: Final = b"nbcache farm 1\n"
MAX_HEAD: Final = 1 << 18
"""The longest head of a result [bytes]."""
MAX_SAID: Final = channel.MAX_MESSAGE - 1000
"""The longest word of a job, as JSON: the daemon takes it as one message [bytes]."""
MAX_DESCRIPTION: Final = 1 << 18
"""The longest description of a worker [bytes]."""
MAX_LABELS: Final = 1000
"""How many labels one has."""
MAX_USAGE: Final = 1
"""How many usage records come of a job."""
_WORDS: Final = ("result", "error", "crash")
_ENVIRONMENT: Final = "environment"


class BadResultError(Exception):
    """What a worker said has not the form that it should have. The text says in which way."""


class Outcome(NamedTuple):
    """What came of a job."""

    said: dict[str, Any]
    host: str = ""
    entries: Sequence[bytes | memoryview] = ()
    usage: Sequence[bytes | memoryview] = ()


def encoded(outcome: Outcome) -> bytes:
    """Return an outcome as bytes. Raises ValueError, TypeError for what is no JSON."""
    sizes = {"entries": [len(each) for each in outcome.entries], "usage": [len(each) for each in outcome.usage]}
    head = json.dumps({"said": outcome.said, "host": outcome.host, **sizes}).encode("ascii")
    return b"".join((_BEGIN, head, b"\n", *outcome.entries, *outcome.usage))


def outcome(content: object) -> Outcome:
    """Read an outcome. Raises BadResultError."""
    if not isinstance(content, bytes) or not content.startswith(_BEGIN):
        raise BadResultError("it is no result of nbcache's")
    end = content.find(b"\n", len(_BEGIN), len(_BEGIN) + MAX_HEAD)
    if end < 0:
        raise BadResultError("its head has no end")
    head = _read(_HEAD, content[len(_BEGIN) : end])
    entries, usage = head["entries"], head["usage"]
    if sum(entries) > publisher.MAX_BYTES or sum(entries) + sum(usage) != len(content) - end - 1:
        raise BadResultError("its parts haven't the sizes that its head tells")
    parts, at = [], end + 1
    whole = memoryview(content)
    for size in (*entries, *usage):
        parts.append(whole[at : at + size])
        at += size
    return Outcome(head["said"], head["host"], parts[: len(entries)], parts[len(entries) :])


def described(components: Iterable[tuple[str, str]]) -> bytes:
    """Return as bytes what a worker is."""
    return json.dumps(list(components)).encode("ascii")


def description(content: object) -> dict[str, str]:
    """Read what a worker is. Raises BadResultError."""
    if not isinstance(content, bytes) or len(content) > MAX_DESCRIPTION:
        raise BadResultError("it is no description of nbcache's")
    return dict(_read(_DESCRIPTION, content))


def _read(reader: Reader, content: bytes) -> Any:
    try:
        return reader(json.loads(content, parse_constant=_no_number))
    except (ValueError, RecursionError) as error:
        raise BadResultError(one_line(str(error))) from error


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _said(value: Any) -> dict[str, Any]:
    """Read what a job said, and nothing beside it."""
    word = next((word for word in _WORDS if isinstance(value, dict) and word in value), "")
    if not word or len(json.dumps(value)) > MAX_SAID:
        raise Malformed("what a job says", value)
    said = {word: value[word] if word == "result" else member(value, word, text)}
    if word == "crash" and value.get("to blame") == _ENVIRONMENT:
        said["to blame"] = _ENVIRONMENT
    return said


_HEAD: Final = fields(
    {
        "said": _said,
        "host": lambda value: value if value == "" else cluster.host_name(value),
        "entries": several(up_to(publisher.MAX_ENTRY), most=publisher.MAX_ENTRIES),
        "usage": several(up_to(MAX_RECORD), most=MAX_USAGE),
    }
)
_DESCRIPTION: Final = several(row(text, text), most=MAX_LABELS)


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
