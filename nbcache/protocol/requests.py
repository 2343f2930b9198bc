"""A request: one function with one signature that somebody wants compiled. A line of a warm list is the same thing.

::

    request = JSON object on one line, UTF-8, at most MAX_REQUEST bytes
        nbcache      = "request"
        version      = 4
        key          = 64 hex digits        ; what the client looked for; whoever builds it computes it anew
        kind         = text                 ; "dispatcher", "ufunc", "cfunc"; for a GPU: "cuda kernel",
                                            ; "cuda device function"; "profile": see below
        function     = "module:qualname"
        signature    = text                 ; for people
        types        = {"version", "args": [type...], "returns": type}   ; `nbcache.glue.requests.type_json`
        source       = digest | null        ; of the module that has the function; null for a function by value
        value        = base64 | null        ; the pickled function, if it comes by value
        modules      = [name...]            ; to be imported first: they registered something with Numba
        path         = [directory...]       ; where the client's interpreter looks for modules
        interpreter  = text                 ; the client's ``sys.executable``
        settings     = {"NUMBA_X": text...} ; Numba's settings in the client's environment
        toolchain    = text                 ; for people
        components   = [[label, text]...]   ; the key in words, to say what differs
        created      = Unix time [s]
        host, pid    = text, number         ; who asks
        cc           = text                 ; "" where the client is known to have no device
        toolkit      = {label: text...}

A type of `args` is null for an argument that is left out: the default is the function's. `types` is
``{"version", "pickled": true}`` where the pickle of `value` has them beside the function.
A function by reference is found as `function` in a module whose source file has the digest `source` (blake2b, 16
bytes). `cc` is the compute capability of the client's device (`9.0a`): a function for the CPU has one where its module
may compile kernels when it is imported. `toolkit` is what identifies the libraries that compile a kernel: whoever has
others builds something else.

A request of kind "profile" asks for all that a profile lists and that isn't there (`nbcache.protocol.profiles`), under
the keys that it has in the environment that the request names. Its `source` is the profile's name, its `types` say
whose profile it is, and which package of it is wanted ("" for all): ``{"uid", "package", "lane"}``. Its `key` is no
function's but a reserved one; each lane of a profile has another one.

Version log: up to 3, fields were nested, and there were only those that a kind needs.

What is guaranteed
------------------
- **Reading raises nothing but** :class:`BadRequestError`, with one line that says what is wrong, whatever the bytes.
- **A request that was read is only text.** Nothing in it was imported, evaluated or unpickled; whether that may be done
  is for whoever reads to decide, by the rule of trust. All of it but `types` and `value` is text that can be a file's
  name and part of an environment: there is one check for it, and it refuses NUL and lone surrogates.
- Unknown fields are ignored; unknown versions are refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
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
    maybe,
    member,
    natural,
    number,
    row,
    several,
    text,
)
from nbcache.records import Record
from nbcache.store import entry, layout
from nbcache.store.entry import Entry

REQUEST_VERSION: Final = 4
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


class BadRequestError(NbcacheError, ValueError):
    """Bytes that are no request of this version. Its text is one line for a person."""


class Request(Record):
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
    toolkit: Mapping[str, str] = MappingProxyType({})
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
        said = {
            "nbcache": "request", "version": REQUEST_VERSION, **{name: getattr(self, name) for name in FIELDS},
            "value": None if self.value is None else base64.b64encode(self.value).decode("ascii"),
            "toolkit": dict(self.toolkit),
        }  # fmt: skip
        line = json.dumps(said, separators=(",", ":"), ensure_ascii=True).encode("ascii")
        if len(line) > MAX_REQUEST:
            raise BadRequestError(f"the request is longer than {MAX_REQUEST} bytes")
        return line


def read(line: bytes) -> Request:
    """Return the request that a line is. Raises BadRequestError, and nothing else."""
    if len(line) > MAX_REQUEST:
        raise BadRequestError(f"it is longer than {MAX_REQUEST} bytes")
    if sum(map(line.count, (b"[", b"{", b","))) > MAX_PARTS:
        raise BadRequestError(f"it has more than {MAX_PARTS} parts")
    try:
        said = json.loads(line, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BadRequestError("it is not JSON") from error
    return parsed(said)


def of_entry(found: Entry) -> Request | None:
    """Return what an entry says that it can be asked for with; None if it says nothing of the kind."""
    try:
        return read(found.section(SECTION) or b"")
    except BadRequestError:
        return None


def parsed(said: Any) -> Request:
    """Return the request that JSON of any shape is. Raises BadRequestError, and nothing else."""
    if not isinstance(said, dict) or said.get("nbcache") != "request":
        raise BadRequestError("it is not a request")
    try:
        if said.get("version") != REQUEST_VERSION:
            raise Malformed(str(REQUEST_VERSION), said.get("version")).inside("version")
        read = _read(said)
        _insist(read)
    except Malformed as error:
        raise BadRequestError(f"its field {error}") from error
    return Request(**read)


def _insist(read: Mapping[str, Any]) -> None:
    """Raise Malformed for fields that don't go together."""
    is_profile, by_value = read["kind"] == PROFILE, read["value"] is not None
    if layout.is_reserved(read["key"]) != is_profile:
        # Who asks for what is no function never waits for one.
        raise Malformed("a reserved key" if is_profile else "the key of a function", read["key"]).inside("key")
    if read["kind"] in CUDA_KINDS and not read["cc"]:
        raise Malformed("a compute capability", read["cc"]).inside("cc")
    if by_value == (read["source"] is not None) or (by_value and is_profile):
        raise Malformed("there for what comes by reference alone", read["source"]).inside("source")
    if not by_value:
        member(read, "function", named_function)
    if is_profile:
        member(read, "types", _LANE)


def _finite(digits: str) -> float:
    return number(float(digits))


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
    if value == "":
        return ""
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
_module: Final = _matching(re.compile(r"\w+(\.\w+)*"), "the name of a module")
named_function: Final = _matching(re.compile(r"\w+(\.\w+)*:.+", re.DOTALL), "module:qualname")
_setting: Final = _matching(re.compile(r"NUMBA_[A-Z0-9_]+", re.ASCII), "one of Numba's settings")
FIELDS: Final[Mapping[str, Reader]] = {
    "key": any_key,
    "kind": choice(*KINDS, *CUDA_KINDS, PROFILE),
    "function": _text,
    "signature": _text,
    "types": mapping(_anything),
    "source": maybe(hexadecimal(32)),
    "value": maybe(base64_bytes),
    "modules": several(_module, most=MAX_ITEMS),
    "path": several(_text, most=MAX_ITEMS),
    "interpreter": _text,
    "settings": mapping(_text, MAX_ITEMS, names=_setting),
    "toolchain": _text,
    "components": several(row(_text, _text), most=MAX_ITEMS),
    "created": number,
    "host": _text,
    "pid": natural,
    "cc": _capability,
    "toolkit": mapping(_text, MAX_ITEMS, names=_text),
}
"""All fields of a request that its file has."""
_read: Final = fields(FIELDS, others=True)
_LANE: Final = fields({"uid": natural, "package": _text, "lane": natural}, others=True)
