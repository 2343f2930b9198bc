"""A request: one function with one signature that somebody wants compiled. A line of a warm list is the same thing.

::

    request = JSON object on one line, UTF-8, at most MAX_REQUEST bytes
        nbcache      = "request"
        version      = 1 | 2 | 3            ; 2 from a process that compiles for a GPU; 3 for a profile
        key          = 64 hex digits        ; what the client looked for; whoever builds it computes it anew
        kind         = text                 ; "dispatcher", "ufunc", "cfunc"; for a GPU: "cuda kernel",
                                            ; "cuda device function"; "profile": see below
        function     = "module:qualname"
        signature    = text                 ; for people
        types        = {"version", "args": [type...], "returns": type}   ; `nbcache.glue.requests.types`
        by           = {"source": digest} | {"pickle": base64}
        modules      = [name...]            ; to be imported first: they registered something with Numba
        path         = [directory...]       ; where the client's interpreter looks for modules
        interpreter  = text                 ; the client's ``sys.executable``
        settings     = {"NUMBA_X": text...} ; Numba's settings in the client's environment
        toolchain    = text                 ; for people
        components   = [[label, text]...]   ; the key in words, to say what differs
        created      = Unix time [s]
        client       = {"host", "pid"}
        cuda         = {"cc": text, "toolkit": {label: text...}}         ; in version 2 alone

A type of `args` is null for an argument that is left out and whose default can't be written. `types` is
``{"version", "pickled": true}`` where the pickle of `by` has them beside the function.
`by` says where the function comes from: by reference, found as `function` in a module whose source file has that
digest (blake2b, 16 bytes); or by value. `cc` is the compute capability of the client's device (`9.0a`): a function for
the CPU has one where its module may compile kernels when it is imported. `toolkit` is what identifies the libraries
that compile a kernel: whoever has others builds something else.

A request of kind "profile" asks for all that a profile lists and that isn't there (`nbcache.protocol.profiles`), under
the keys that it has in the environment that the request names. `by` has the profile's name as its source, `types` whose
profile it is, and which package of it is wanted ("" for all): ``{"uid", "package", "lane"}``. Its `key` is no
function's but a reserved one; each lane of a profile has another one.

Version log:

1. First version.
2. `cuda`, and kinds that have it. What has none is written in version 1 still, which older daemons understand.
3. The kind "profile", with all fields of version 2.

What is guaranteed
------------------
- **Reading raises nothing but** :class:`BadRequestError`, with one line that says what is wrong, whatever the bytes.
- **A request that was read is only text.** Nothing in it was imported, evaluated or unpickled; whether that may be done
  is for whoever reads to decide, by the rule of trust. All of it but `types` and `by` is text that can be a file's name
  and part of an environment: there is one check for it, and it refuses NUL and lone surrogates.
- Unknown fields are ignored; unknown versions are refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nbcache import capabilities
from nbcache.errors import NbcacheError
from nbcache.grammar import (
    Malformed,
    Reader,
    choice,
    fields,
    hexadecimal,
    mapping,
    member,
    natural,
    number,
    row,
    several,
    text,
)
from nbcache.store import entry, layout

REQUEST_VERSION: Final = 3
"""The newest version that is understood."""
_WITH_CUDA: Final = 2
_WITHOUT_CUDA: Final = 1
MAX_REQUEST: Final = 16 << 20
"""The longest request [bytes]. A pickled function holds the arrays it reads."""
SECTION: Final = entry.ASKED_BY
"""The section of an entry that says how to ask for it."""
MAX_PARTS: Final = 1 << 16
"""How many brackets, braces and commas it may have: 16 MiB of nothing else take a reader several seconds."""
MAX_TEXT: Final = 4096
MAX_ITEMS: Final = 1000
MAX_SHOWN: Final = 500
"""How much of a function's name and types people are shown [characters]."""
KINDS: Final = ("dispatcher", "ufunc", "cfunc")
CUDA_KINDS: Final = ("cuda kernel", "cuda device function")
PROFILE: Final = "profile"
"""The kind of a request for a whole profile."""


class BadRequestError(NbcacheError):
    """Bytes that are no request of this version. Its text is one line for a person."""


@dataclass(frozen=True, slots=True)
class Request:
    """See the module; `by` is either `source` or `value`."""

    key: str
    kind: str
    function: str
    signature: str
    types: Mapping[str, Any]
    """Not decoded."""
    source: str | None
    """Digest of the module's source file, 32 hex digits; None if the function comes by value."""
    value: bytes | None
    """The pickled function; None if it comes by reference."""
    modules: tuple[str, ...]
    path: tuple[str, ...]
    interpreter: str
    settings: Mapping[str, str]
    toolchain: str
    components: tuple[tuple[str, str], ...]
    created: float
    host: str
    pid: int
    uid: int = -1
    """Who asked, as the owner of the file says; not in the file. -1 for what was in none."""
    cc: str = ""
    """The compute capability of the client's device, such as ``9.0a``; "" where it is known to have none."""
    toolkit: Mapping[str, str] = field(default_factory=dict)
    """What identifies the client's CUDA toolkit, by label."""

    @property
    def module(self) -> str:
        """The module that the function is defined in."""
        return self.function.partition(":")[0]

    @property
    def qualname(self) -> str:
        """Its name there."""
        return self.function.partition(":")[2]

    @property
    def is_for_gpu(self) -> bool:
        """Whether it is compiled for that device, and not for the CPU."""
        return self.kind in CUDA_KINDS

    @property
    def is_profile(self) -> bool:
        """Whether all that a profile lists is asked for."""
        return self.kind == PROFILE

    @property
    def size(self) -> int:
        """About how much memory it takes [bytes]."""
        texts = (*self.path, *self.modules, *(text for row in self.components for text in row))
        return len(self.value or b"") + sum(map(len, texts))

    @property
    def call(self) -> str:
        """The signature, and the compute capability that it is for, for people."""
        return f"{self.signature} for {self.cc}" if self.is_for_gpu else self.signature

    @property
    def what(self) -> str:
        """What is to be built, for people."""
        return f"{self.function} {self.call}".rstrip()[:MAX_SHOWN]

    @property
    def scope(self) -> str:
        """What was asked for, and from which environment (interpreter, path, settings, source): 16 hex digits.

        Of requests for one key with one scope the same comes, also where one of them names a key that isn't its own.
        """
        of: tuple[object, ...] = (
            self.interpreter, self.path, sorted(self.settings.items()), self.modules, self.source, self.value,
            self.kind, self.function, json.dumps(self.types, sort_keys=True),
        )  # fmt: skip
        # What kernels need is in their keys.
        of += (self.cc,) if self.cc else ()
        return hashlib.blake2b(repr(of).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()

    def line(self) -> bytes:
        """The request as JSON, without a newline. Raises BadRequestError if it is too long."""
        by = {"source": self.source} if self.value is None else {"pickle": base64.b64encode(self.value).decode("ascii")}
        said = {
            "nbcache": "request",
            "version": REQUEST_VERSION if self.is_profile else _WITH_CUDA if self.cc else _WITHOUT_CUDA,
            "key": self.key,
            "kind": self.kind,
            "function": self.function,
            "signature": self.signature,
            "types": self.types,
            "by": by,
            "modules": self.modules,
            "path": self.path,
            "interpreter": self.interpreter,
            "settings": self.settings,
            "toolchain": self.toolchain,
            "components": self.components,
            "created": self.created,
            "client": {"host": self.host, "pid": self.pid},
            **({"cuda": {"cc": self.cc, "toolkit": self.toolkit}} if self.cc or self.is_profile else {}),
        }
        line = json.dumps(said, separators=(",", ":"), ensure_ascii=True).encode("ascii")
        if len(line) > MAX_REQUEST:
            msg = f"the request is longer than {MAX_REQUEST} bytes"
            raise BadRequestError(msg)
        return line


def read(line: bytes) -> Request:
    """Return the request that a line is. Raises BadRequestError, and nothing else."""
    if len(line) > MAX_REQUEST:
        msg = f"it is longer than {MAX_REQUEST} bytes"
        raise BadRequestError(msg)
    if sum(map(line.count, (b"[", b"{", b","))) > MAX_PARTS:
        msg = f"it has more than {MAX_PARTS} parts"
        raise BadRequestError(msg)
    try:
        said = json.loads(line, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        msg = "it is not JSON"
        raise BadRequestError(msg) from error
    if not isinstance(said, dict) or said.get("nbcache") != "request":
        msg = "it is not a request"
        raise BadRequestError(msg)
    version = said.get("version")
    if type(version) is not int or not _WITHOUT_CUDA <= version <= REQUEST_VERSION:
        known = f"{_WITHOUT_CUDA} to {REQUEST_VERSION} are understood"
        msg = f"it is a request of version {_shown(version, 40)}; {known}"
        raise BadRequestError(msg)
    try:
        return _request(said, _READERS[version])
    except Malformed as error:
        msg = f"its field {error}"
        raise BadRequestError(msg) from error


def _request(said: dict[str, Any], readers: Mapping[str, Reader]) -> Request:
    read = fields(readers, others=True)(said)
    by, client, cuda = read.pop("by"), read.pop("client"), read.pop("cuda", _NO_CUDA)
    by_value = "pickle" in by
    if not by_value:
        member(read, "function", named_function)
    source, value = (
        (None, member(by, "pickle", base64_bytes)) if by_value else (fields(_SOURCE, others=True)(by)["source"], None)
    )
    return Request(**read, **cuda, source=source, value=value, host=client["host"], pid=int(client["pid"]))


def _finite(digits: str) -> float:
    return number(float(digits))


def _shown(value: object, most: int) -> str:
    try:
        return repr(value)[:most]
    except RecursionError:
        return "something nested too deeply"


def _text(value: Any) -> str:
    try:
        # Paths of any bytes can be written so (PEP 383); a lone surrogate can't, and means nothing anywhere.
        if len(text(value)) <= MAX_TEXT and "\0" not in value and value.encode("utf-8", "surrogateescape") is not None:
            return str(value)
    except UnicodeEncodeError:
        pass
    raise Malformed("text that can be part of an environment", value)


def _matching(pattern: re.Pattern[str], words: str) -> Reader:
    def read(value: Any) -> Any:
        if not pattern.fullmatch(_text(value)):
            raise Malformed(words, value)
        return value

    return read


def _capability(value: Any) -> str:
    try:
        return capabilities.spelt(capabilities.named(_text(value)))
    except ValueError:
        raise Malformed("a compute capability", value) from None


def base64_bytes(value: Any) -> bytes:
    """Read bytes out of base64."""
    try:
        return base64.b64decode(text(value), validate=True)
    except ValueError:  # binascii.Error as well
        raise Malformed("base64", value) from None


def _anything(value: Any) -> Any:
    return value


any_key: Final = hexadecimal(layout.KEY_SIZE)


def _key(value: Any) -> Any:
    if layout.is_reserved(any_key(value)):
        raise Malformed("the key of a function", value)
    return value


def _no_key(value: Any) -> Any:
    """Of what asks for no function: who asks for one never waits for that."""
    if not layout.is_reserved(any_key(value)):
        raise Malformed("a reserved key", value)
    return value


_module: Final = _matching(re.compile(r"\w+(\.\w+)*"), "the name of a module")
named_function: Final = _matching(re.compile(r"\w+(\.\w+)*:.+", re.DOTALL), "module:qualname")
_setting: Final = _matching(re.compile(r"NUMBA_[A-Z0-9_]+", re.ASCII), "one of Numba's settings")
_SOURCE: Final = {"source": hexadecimal(32)}
FIELDS: Final[Mapping[str, Reader]] = {
    "key": _key,
    "kind": choice(*KINDS),
    "function": _text,
    "signature": _text,
    "types": mapping(_anything),
    "by": mapping(_anything),
    "modules": several(_module, most=MAX_ITEMS),
    "path": several(_text, most=MAX_ITEMS),
    "interpreter": _text,
    "settings": mapping(_text, MAX_ITEMS, names=_setting),
    "toolchain": _text,
    "components": several(row(_text, _text), most=MAX_ITEMS),
    "created": number,
    "client": fields({"host": _text, "pid": number}, others=True),
}
_WITH_DEVICE: Final[Mapping[str, Reader]] = {
    **FIELDS,
    "kind": choice(*KINDS, *CUDA_KINDS),
    "cuda": fields({"cc": _capability, "toolkit": mapping(_text, MAX_ITEMS, names=_text)}, others=True),
}
_cuda: Final = _WITH_DEVICE["cuda"]


def _cuda_or_none(value: Any) -> Any:
    return _NO_CUDA if value == _NO_CUDA else _cuda(value)


_NO_CUDA: Final[Mapping[str, Any]] = {"cc": "", "toolkit": {}}
_PROFILE: Final[Mapping[str, Reader]] = {
    **_WITH_DEVICE,
    "key": _no_key,
    "kind": choice(PROFILE),
    "by": fields(_SOURCE),
    "types": fields({"uid": natural, "package": _text, "lane": natural}, others=True),
    "cuda": _cuda_or_none,
}
_READERS: Final = {_WITHOUT_CUDA: FIELDS, _WITH_CUDA: _WITH_DEVICE, REQUEST_VERSION: _PROFILE}
