"""What a publication consists of, as data: the manifest that accumulators write and nodes read.

A manifest is JSON. It says what the published functions take and return, which entries of the store hold their code,
and all that a process without Numba has to know in order to run it. It holds no code; what it refers to is named by
digest.

:func:`encode` and :func:`decode` are each other's inverse. Decoding is strict: a manifest of another version, with a
field too many or too few, or with a value of the wrong kind raises :class:`~nbcache.errors.ManifestError`, and nothing
of it is used. Binary data is base64.

Type data
---------
An argument's or a result's type is a mapping with the kind under ``"k"``::

    {"k": "array", "dtype": DTYPE, "ndim": 1, "layout": "C"|"F"|"A", "mutable": true, "aligned": true}
    {"k": "int8".."uint64"|"float32"|"float64"|"complex64"|"complex128"|"bool"|"none"|"unicode_type"|"bytes"}
    {"k": "tuple", "items": [TYPE…]}
    {"k": "namedtuple", "items": [TYPE…], "fields": […], "class": "module:Qualname"}
    {"k": "optional", "of": TYPE}           {"k": "omitted"}
    {"k": "record", "dtype": DTYPE}         {"k": "datetime64"|"timedelta64", "unit": "ns"}

DTYPE is NumPy's string for it. A record is a mapping, with the name, dtype, shape and offset of each field:
``{"fields": [["a", "<i4", [], 0]…], "size": 16, "aligned": true}``. A name with a title is a list of both.

Constants
---------
``{"json": …}`` for what JSON can express, ``{"dtype": DTYPE}``, or ``{"pickle": base64}``.

Images
------
An image is the shared object that holds a publication's machine code. It has no symbols for the dynamic linker to look
up. What it needs from outside are *slots*: places of eight bytes that whoever opens it fills with addresses. All
offsets are from where the image is mapped. ::

    image   = {"digest": digest, "size": bytes, "anchor": name, "slots": [slot, ...], "sealed": [offset, bytes],
               "symbols": {name: offset, ...}}
    digest  = 64 hex digits           ; blake2b-256 of the file, which is also its name in the store
    anchor  = name                    ; the one symbol that the image exports, as no other does; among "symbols", too
    slot    = [offset, name, addend]  ; takes the address of what the name means, plus the addend
    sealed  = [offset, bytes]         ; made read-only by who filled the slots; may be [0, 0]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from nbcache import grammar
from nbcache.grammar import Malformed, choice, fields, flag, hexadecimal, maybe, natural, record, row, several, text
from nbcache.passing_exceptions import errors
from nbcache.records import Record
from nbcache.store.content import parsed

if TYPE_CHECKING:
    from nbcache.protocol.rare_parts import Array, Native, Ufunc

VERSION: Final = 9
"""Raised whenever the meaning of a field changes, or a field comes or goes."""

SCALARS: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
WHAT: Final = ("njit", "ufunc", "gufunc", "cfunc", "numba")
"""Kinds of published functions. ``numba``: one that needs Numba, whose ``reason`` and ``source`` alone are known."""

UNTRUSTED: Final = "code that no key in NBCACHE_TRUSTED_KEYS signed took part in it: publish it again"

ANCHOR: Final = "nbcache_image_"
"""What every anchor of an image begins with; 32 hex digits follow."""
ADDRESS_SIZE: Final = 8

Slot = tuple[int, str, int]
"""Offset, symbol and addend of a place of eight bytes that takes an address."""
TypeData = Mapping[str, Any]
Constant = Mapping[str, Any]


class Host(Record):
    """What the code was built for."""

    python: str
    """The interpreter's cache tag and ABI flags, such as ``cpython-311``."""
    machine: str
    features: tuple[str, ...]
    """What the processor must be able to do, by the names of ``/proc/cpuinfo``."""
    libc: str
    """The oldest that will do, such as ``glibc 2.36``."""
    libm: str
    """Which results its mathematical functions have (:mod:`nbcache.hosts`): the code may hold some."""
    numpy: tuple[int, int]
    """NumPy's ABI and the oldest API version that will do."""


class Extension(Record):
    """One of Numba's own C extensions, which published code calls."""

    module: str
    """Its dotted name."""
    digest: str
    size: int


class Environment(Record):
    """The constants of a function, which its code finds through ``symbol``."""

    symbol: str
    module: str
    constants: tuple[Constant, ...]


class Code(Record):
    """One entry of the store, whose object code is loaded as it is."""

    key: str
    entry: str
    """The entry's digest, which tells it from other builds under the same key."""
    externals: tuple[str, ...]
    """Symbols that it expects from elsewhere."""
    cells: tuple[str, ...]
    """Functions that it calls through a cell filled in when they are there (recursion)."""
    environments: tuple[Environment, ...]


class ObjectFile(Record):
    """An object file for LLVM that was made at publishing, among the files."""

    digest: str
    externals: tuple[str, ...]
    """Symbols that it expects from elsewhere, but for those that the codes define."""


class Signature(Record):
    """One compiled version of a function."""

    code: int
    """Which of the manifest's codes."""
    symbol: str
    """What is called."""
    args: tuple[TypeData, ...]
    returns: str
    """Its return type in Numba's words."""
    types: tuple[Constant, ...]
    """Of a ufunc's loop, the dtypes of inputs and outputs; of a cfunc, of arguments and result (null for none)."""


class Function(Record):
    """One published function."""

    what: str
    name: str
    module: str | None
    doc: str | None
    parameters: tuple[str, ...] = ()
    defaults: tuple[Constant | None, ...] = ()
    """Of the last parameters; None for what can't be made without Numba."""
    star: bool = False
    """Whether the last parameter takes all further positional arguments."""
    signatures: tuple[Signature, ...] = ()
    check: str | None = None
    """The symbol of its type check, which is called in its place; None for none in machine code."""
    ufunc: Ufunc | None = None
    source: str | None = None
    """``module:qualname`` to import where Numba may be used instead."""
    reason: str | None = None
    """Why it can't run without Numba."""


class ImageFacts(Record):
    """What is known of an image before it is mapped. Offsets and sizes in bytes."""

    digest: str
    size: int
    anchor: str
    slots: tuple[Slot, ...]
    """By offset, in ascending order."""
    sealed: tuple[int, int]
    """Offset and size of what is read-only once the slots are filled."""
    symbols: dict[str, int]
    """Offsets of what is called or written to by address."""


class Variant(Record):
    """An image for one processor."""

    cpu: str
    """Its name (:mod:`nbcache.processors`)."""
    features: tuple[str, ...]
    """As those of a host."""
    image: ImageFacts


class Manifest(Record):
    """Everything about one publication."""

    name: str
    created: float
    """Unix time [s]."""
    numba: str
    """The version of Numba that it was built with."""
    host: Host
    extensions: tuple[Extension, ...]
    codes: tuple[Code, ...]
    memo: ObjectFile | None
    """What takes the place of Numba's helpers (`nbcache.published.runtime`): loaded before the codes, once."""
    checks: ObjectFile | None
    """The type checks of all functions: loaded after the codes that they call."""
    image: ImageFacts | None
    """What has all of this code and the checks in it as well."""
    tokens: Mapping[str, tuple[str, str, int]]
    """Places in source files that exceptions blame: function, file, line."""
    arrays: Mapping[str, Array]
    """By symbol."""
    natives: Mapping[str, Native]
    """By symbol."""
    imports: Mapping[str, tuple[str, ...]]
    """What the code unpickles (exception classes, for example), by ``module:qualname``: the fields of a named tuple's
    class, which code fills by position; nothing for all others.
    """
    functions: Mapping[str, Function]
    """By attribute; a publication of a single function has it under ``""``."""
    beside: tuple[tuple[tuple[str, str, int], ...], ...] = ()
    """Who signed what its code is made of or was built beside: for each, one is to be trusted (`nbcache.keyring`)."""
    variants: tuple[Variant, ...] = ()
    """For certain processors, the best one first: ``image`` and ``host`` are of the last; codes are of no use."""

    def fitting(self, features: Collection[str]) -> Manifest:
        """Return it with the image, and the host, of the best processor that has no more than these features."""
        for each in self.variants:
            if set(each.features) <= set(features):
                return self._replace(image=each.image, host=self.host._replace(features=each.features))
        return self

    @property
    def needed(self) -> tuple[str, ...]:
        """The digests of the files that loading it may take, without repetition: its image's, or those for LLVM."""
        images = (self.image, *(each.image for each in self.variants))
        code = (self.memo, self.checks) if self.image is None else images
        return (*dict.fromkeys(
            each.digest for each in (*self.extensions, *self.arrays.values(), *code) if each is not None
        ),)  # fmt: skip


# -- out -----------------------------------------------------------------------------------------


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as it is stored."""
    import json  # who only reads doesn't need it

    document = {"manifest": VERSION, **_plain(manifest)}
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


# -- in ------------------------------------------------------------------------------------------


def decode(data: bytes) -> Manifest:
    """Return the manifest that `data` is; raise ManifestError if it is none that this version reads."""
    try:
        document = parsed(data)
    except (ValueError, RecursionError) as exc:
        raise errors.ManifestError(f"it is not JSON ({type(exc).__name__})") from exc
    if not isinstance(document, dict) or type(document.get("manifest")) is not int:
        raise errors.ManifestError("it does not say of which version it is")
    version = document.pop("manifest")
    if version != VERSION:
        raise errors.ManifestError(f"it is of version {version}, and this nbcache reads version {VERSION}")
    try:
        found: Manifest = _manifest(document)
        _consistent(found)
    except Malformed as exc:
        raise errors.ManifestError(str(exc.inside("manifest"))) from None
    except RecursionError as exc:
        raise errors.ManifestError("it is nested too deeply") from exc
    return found


def _constant(value: Any) -> Constant:
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"json", "dtype", "pickle"}:
        raise Malformed("a constant", value)
    if "pickle" in value:
        text(value["pickle"])
    if "dtype" in value:
        _dtype(value["dtype"])
    return value


def _dtype(value: Any) -> Any:
    (text if isinstance(value, str) else _LAID_OUT)(value)
    return value


def _field_name(value: Any) -> None:
    (text if isinstance(value, str) else several(text, 2))(value)


def _type(value: Any) -> TypeData:
    kind = value.get("k") if isinstance(value, dict) else None
    read = _TYPES.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise Malformed("a type", value)
    read(value)
    return value  # type: ignore[no-any-return]  # as JSON has it, lists and all


_FIELD: Final = row(_field_name, _dtype, several(natural), natural)
_LAID_OUT: Final = fields({"fields": several(_FIELD), "size": natural, "aligned": flag})
_ITEMS: Final = several(_type)
_MADE_OF: Final[Mapping[str, Mapping[str, grammar.Reader]]] = {
    "array": {"dtype": _dtype, "ndim": natural, "layout": choice("C", "F", "A"), "mutable": flag, "aligned": flag},
    "tuple": {"items": _ITEMS},
    "namedtuple": {"items": _ITEMS, "fields": several(text), "class": text},
    "optional": {"of": _type},
    "record": {"dtype": _dtype},
    "datetime64": {"unit": text},
    "timedelta64": {"unit": text},
}
_TYPES: Final[Mapping[str, grammar.Reader]] = {
    kind: fields({"k": text, **_MADE_OF.get(kind, {})})
    for kind in (*SCALARS, "none", "unicode_type", "bytes", "omitted", *_MADE_OF)
}


_offset: Final = grammar.up_to((1 << 31) - 1)
_SLOT: Final = [int, str, int]


def _slot(value: Any) -> Slot:
    # By hand: there are more of them than of all else.
    if not isinstance(value, list) or list(map(type, value)) != _SLOT:
        raise Malformed("an offset, a name and an addend", value)
    _offset(value[0])
    return tuple(value)


def _slots(value: Any) -> tuple[Slot, ...]:
    slots: tuple[Slot, ...] = several(_slot)(value)
    end = 0
    for offset, _symbol, _addend in slots:
        if offset < end:
            raise Malformed("a list of slots by offset", value)
        end = offset + ADDRESS_SIZE
    return slots


def image_facts(value: Any) -> ImageFacts:
    """Read what a manifest says of an image. Raises Malformed."""
    facts: ImageFacts = _FACTS(value)
    if not facts.anchor.startswith(ANCHOR) or facts.anchor not in facts.symbols:
        raise Malformed("an anchor", facts.anchor).inside("anchor")
    hexadecimal(32)(facts.anchor[len(ANCHOR) :])
    return facts


def _attached(name: str) -> grammar.Reader:
    """Return one of the readers of what few functions have: their module is imported for the first that does."""

    def read(value: Any) -> Any:
        from nbcache.protocol import rare_parts

        return getattr(rare_parts, name)(value)

    return read


def _consistent(manifest: Manifest) -> None:
    for name, function in manifest.functions.items():
        try:
            _consistent_function(function, len(manifest.codes))
        except Malformed as error:
            raise error.inside(name).inside("functions") from None


def _consistent_function(function: Function, codes: int) -> None:
    for i, signature in enumerate(function.signatures):
        if signature.code >= codes:
            raise Malformed("one of the codes", signature.code).inside("code").inside(i).inside("signatures")
    if (function.ufunc is None) == (function.what in {"ufunc", "gufunc"}):
        raise Malformed(f"what a {function.what} has", function.ufunc).inside("ufunc")
    if len(function.defaults) > len(function.parameters):
        raise Malformed("no more than the parameters", function.defaults).inside("defaults")


_DIGEST, _PAIR = hexadecimal(64), several(natural, 2)
_FACTS: Final = record(
    ImageFacts, digest=_DIGEST, size=_offset, slots=_slots, sealed=row(_offset, _offset),
    symbols=grammar.mapping(_offset),
)  # fmt: skip
_OBJECT_FILE: Final = maybe(record(ObjectFile, digest=_DIGEST))
_CODE: Final = record(
    Code, key=_DIGEST, entry=hexadecimal(32), environments=several(record(Environment, constants=several(_constant)))
)
_FUNCTION: Final = record(
    Function, what=choice(*WHAT), defaults=several(maybe(_constant)),
    ufunc=maybe(_attached("UFUNC")),
    signatures=several(record(Signature, args=several(_type), types=several(_constant))),
)  # fmt: skip
_manifest: Final = record(
    Manifest, host=record(Host, libm=hexadecimal(16), numpy=_PAIR),
    extensions=several(record(Extension, digest=_DIGEST)), codes=several(_CODE), memo=_OBJECT_FILE,
    checks=_OBJECT_FILE, image=maybe(image_facts), tokens=grammar.mapping(row(text, text, grammar.whole)),
    arrays=grammar.mapping(_attached("ARRAY")),
    natives=grammar.mapping(_attached("NATIVE")), functions=grammar.mapping(_FUNCTION),
    imports=grammar.mapping(several(text)), beside=several(several(row(text, text, grammar.whole))),
    variants=several(record(Variant, image=image_facts)),
)  # fmt: skip
