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
    {"k": "optional", "of": TYPE}           {"k": "omitted", "default": CONSTANT}
    {"k": "record", "dtype": DTYPE}         {"k": "datetime64"|"timedelta64", "unit": "ns"}

DTYPE is what `numpy.lib.format` writes into a file's header: a string, or for a record a list of its fields. A record
that isn't the same again after that, such as one with ``align=True`` or with fields that overlap, is a mapping, with
the shape and the offset of each field: ``{"fields": [["a", "<i4", [], 0]…], "size": 16, "aligned": true}``.

Constants
---------
``{"json": …}`` for what JSON can express, ``{"dtype": DTYPE}``, or ``{"pickle": base64}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nbcache.passing import errors
from nbcache.protocol import images
from nbcache.protocol.images import ImageFacts
from nbcache.records import Record
from nbcache.store.content import parsed

VERSION: Final = 7
"""Raised whenever the meaning of a field changes, or a field comes or goes."""

SCALARS: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
WHAT: Final = ("njit", "ufunc", "gufunc", "cfunc", "numba")
"""Kinds of published functions. ``numba``: one that needs Numba, whose ``reason`` and ``source`` alone are known."""

UNTRUSTED: Final = "code that no key in NBCACHE_TRUSTED_KEYS signed took part in it: publish it again"

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
    """Which results its mathematical functions have (:mod:`nbcache.libm`): the code may hold such results."""
    numpy: tuple[int, int]
    """NumPy's ABI and the oldest API version that will do."""


class Extension(Record):
    """One of Numba's own C extensions, which published code calls."""

    module: str
    """Its dotted name."""
    digest: str
    size: int


class Array(Record):
    """A global array that code points to: a file in NumPy's format."""

    digest: str
    what: str
    """``data``: its first element is pointed to; ``object``: the array itself, as Python has it."""
    offset: int
    """Where in the data the first element lies [bytes]."""


class Native(Record):
    """A C function that code calls, where a node finds it."""

    what: str
    """``function``: the symbol is the function. ``pointer``: it is a variable that holds its address."""
    library: str
    """How the dynamic linker knows it; of a Cython module its dotted name."""
    path: str
    """The file in which it was; "" for what a node has in any case, and for modules."""
    build: str
    """The library's build id, or the digest of its file; "" where any build will do."""
    symbol: str
    """Its name there; "" if it has none."""
    offset: int
    """Where it lies from the library's beginning, for one without a name [bytes]."""
    signature: str
    """In C, of what a Cython module exports; "" for all else."""


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


class Ufunc(Record):
    """What a NumPy ufunc is besides its loops."""

    inputs: int
    outputs: int
    identity: int
    """As NumPy's C API has it: ``PyUFunc_None`` is -1."""
    signature: str | None
    """Of a generalised ufunc."""


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
    parameters: tuple[str, ...]
    defaults: tuple[Constant, ...]
    """Of the last parameters."""
    star: bool
    """Whether the last parameter takes all further positional arguments."""
    signatures: tuple[Signature, ...]
    check: str | None
    """The symbol of its type check, which is called in its place; None for none in machine code."""
    ufunc: Ufunc | None
    source: str | None
    """``module:qualname`` to import where Numba may be used instead."""
    reason: str | None
    """Why it can't run without Numba."""


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

_Where = Any
"""A place in a manifest: its name, or where it is and which item or field of that. Most are never told to anybody."""
_Reader = Callable[[Any, _Where], Any]


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
        found: Manifest = _manifest(document, "manifest")
        for name, function in found.functions.items():
            _consistent(function, len(found.codes), f"functions.{name}")
    except RecursionError as exc:
        raise errors.ManifestError("it is nested too deeply") from exc
    return found


def _fail(where: _Where, wanted: str, value: object) -> errors.ManifestError:
    return errors.ManifestError(f"{_words(where)} must be {wanted}, not {value!r:.60}")


def _words(where: _Where) -> str:
    if isinstance(where, str):
        return where
    outer, inner = where
    return f"{_words(outer)}[{inner}]" if isinstance(inner, int) else f"{_words(outer)}.{inner}"


def _exactly(kind: type, words: str) -> _Reader:
    def read(value: Any, where: _Where) -> Any:
        if type(value) is not kind:
            raise _fail(where, words, value)
        return value

    return read


_text = _exactly(str, "text")
_TEXTS: Final = frozenset({str})
_flag = _exactly(bool, "true or false")
_number = _exactly(int, "a whole number")


def _natural(value: Any, where: _Where) -> int:
    if type(value) is not int or value < 0:
        raise _fail(where, "a whole number of at least 0", value)
    return value


def _time(value: Any, where: _Where) -> float:
    if type(value) not in {int, float}:
        raise _fail(where, "a number", value)
    return float(value)


def _choice(*words: str) -> _Reader:
    def read(value: Any, where: _Where) -> str:
        if not isinstance(value, str) or value not in words:
            raise _fail(where, f"one of {', '.join(words)}", value)
        return value

    return read


def _hexadecimal(digits: int) -> _Reader:
    def read(value: Any, where: _Where) -> str:
        if not isinstance(value, str) or len(value) != digits or value.strip("0123456789abcdef"):
            raise _fail(where, f"{digits} hexadecimal digits", value)
        return value

    return read


def _maybe(reader: _Reader) -> _Reader:
    return lambda value, where: None if value is None else reader(value, where)


def _several(reader: _Reader, count: int | None = None) -> _Reader:
    def read(value: Any, where: _Where) -> tuple[Any, ...]:
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise _fail(where, "a list" if count is None else f"a list of {count}", value)
        if reader is _text and {type(each) for each in value} <= _TEXTS:
            return tuple(value)
        return tuple([reader(each, (where, i)) for i, each in enumerate(value)])

    return read


def _mapping(reader: _Reader) -> _Reader:
    def read(value: Any, where: _Where) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _fail(where, "a mapping", value)
        return {name: reader(each, (where, name)) for name, each in value.items()}

    return read


def _fields(value: Any, where: _Where, readers: Mapping[str, _Reader]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != readers.keys():
        raise _fail(where, f"a mapping of {', '.join(readers)}", value)
    return {name: reader(value[name], (where, name)) for name, reader in readers.items()}


def _record(make: Callable[..., Any], **readers: _Reader) -> _Reader:
    return lambda value, where: make(**_fields(value, where, readers))


def _location(value: Any, where: _Where) -> tuple[str, str, int]:
    if not isinstance(value, list) or [type(each) for each in value] != [str, str, int]:
        raise _fail(where, "function, file and line", value)
    return value[0], value[1], value[2]


def _signer(value: Any, where: _Where) -> tuple[str, str, int]:
    if not isinstance(value, list) or [type(each) for each in value] != [str, str, int]:
        raise _fail(where, "a key's name, the key, and until when it counts", value)
    return value[0], value[1], value[2]


def _constant(value: Any, where: _Where) -> Constant:
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"json", "dtype", "pickle"}:
        raise _fail(where, "a constant", value)
    if "pickle" in value:
        _text(value["pickle"], where)
    if "dtype" in value:
        _dtype(value["dtype"], where)
    return value


def _dtype(value: Any, where: _Where) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        _fields(value, where, {"fields": _several(_field), "size": _natural, "aligned": _flag})
        return value
    if not isinstance(value, list):
        raise _fail(where, "a dtype", value)
    for i, field in enumerate(value):
        _field(field, (where, i), (2, 3))
    return value


def _field(value: Any, where: _Where, lengths: tuple[int, ...] = (4,)) -> None:
    if not isinstance(value, list) or len(value) not in lengths:
        raise _fail(where, "a field of a dtype", value)
    name = value[0]
    (_several(_text, 2) if isinstance(name, list) else _text)(name, where)
    for reader, each in zip((_dtype, _several(_natural), _natural), value[1:], strict=False):
        reader(each, where)


def _type(value: Any, where: _Where) -> TypeData:
    kind = value.get("k") if isinstance(value, dict) else None
    readers = _TYPES.get(kind) if isinstance(kind, str) else None
    if readers is None:
        raise _fail(where, "a type", value)
    _fields(value, where, readers)
    return value  # type: ignore[no-any-return]  # as JSON has it, lists and all


_ITEMS: Final = _several(_type)
_MADE_OF: Final[Mapping[str, Mapping[str, _Reader]]] = {
    "array": {"dtype": _dtype, "ndim": _natural, "layout": _choice("C", "F", "A"), "mutable": _flag, "aligned": _flag},
    "tuple": {"items": _ITEMS},
    "namedtuple": {"items": _ITEMS, "fields": _several(_text), "class": _text},
    "optional": {"of": _type},
    "omitted": {"default": _constant},
    "record": {"dtype": _dtype},
    "datetime64": {"unit": _text},
    "timedelta64": {"unit": _text},
}
_TYPES: Final[Mapping[str, Mapping[str, _Reader]]] = {
    kind: {"k": _text, **_MADE_OF.get(kind, {})} for kind in (*SCALARS, "none", "unicode_type", "bytes", *_MADE_OF)
}


def _image(value: Any, where: _Where) -> ImageFacts:
    try:
        return images.parse(value)
    except errors.ImageError as exc:
        raise errors.ManifestError(f"{_words(where)}: {exc}") from exc


def _consistent(function: Function, codes: int, where: _Where) -> None:
    for i, signature in enumerate(function.signatures):
        if signature.code >= codes:
            raise _fail(f"{where}.signatures[{i}].code", "one of the codes", signature.code)
    if (function.ufunc is None) == (function.what in {"ufunc", "gufunc"}):
        raise _fail(f"{where}.ufunc", f"what a {function.what} has", function.ufunc)
    if len(function.defaults) > len(function.parameters):
        raise _fail(f"{where}.defaults", "no more than the parameters", function.defaults)


_DIGEST, _PAIR = _hexadecimal(64), _several(_natural, 2)
_HOST: Final = _record(
    Host, python=_text, machine=_text, features=_several(_text), libc=_text, libm=_hexadecimal(16), numpy=_PAIR
)
_EXTENSION: Final = _record(Extension, module=_text, digest=_DIGEST, size=_natural)
_ARRAY: Final = _record(Array, digest=_DIGEST, what=_choice("data", "object"), offset=_natural)
_NATIVE: Final = _record(
    Native, what=_choice("function", "pointer"), library=_text, path=_text, build=_text, symbol=_text, offset=_natural,
    signature=_text,
)  # fmt: skip
_OBJECT_FILE: Final = _record(ObjectFile, digest=_DIGEST, externals=_several(_text))
_ENVIRONMENT: Final = _record(Environment, symbol=_text, module=_text, constants=_several(_constant))
_CODE: Final = _record(
    Code, key=_hexadecimal(64), entry=_hexadecimal(32), externals=_several(_text), cells=_several(_text),
    environments=_several(_ENVIRONMENT),
)  # fmt: skip
_UFUNC: Final = _record(Ufunc, inputs=_natural, outputs=_natural, identity=_number, signature=_maybe(_text))
_SIGNATURE: Final = _record(
    Signature, code=_natural, symbol=_text, args=_several(_type), returns=_text, types=_several(_constant)
)
_FUNCTION: Final = _record(
    Function, what=_choice(*WHAT), name=_text, module=_maybe(_text), doc=_maybe(_text),
    parameters=_several(_text), defaults=_several(_constant), star=_flag, signatures=_several(_SIGNATURE),
    check=_maybe(_text), ufunc=_maybe(_UFUNC), source=_maybe(_text), reason=_maybe(_text),
)  # fmt: skip
_manifest: Final = _record(
    Manifest, name=_text, created=_time, numba=_text, host=_HOST,
    extensions=_several(_EXTENSION), codes=_several(_CODE), memo=_maybe(_OBJECT_FILE), checks=_maybe(_OBJECT_FILE),
    image=_maybe(_image), tokens=_mapping(_location), arrays=_mapping(_ARRAY), natives=_mapping(_NATIVE),
    imports=_mapping(_several(_text)),
    functions=_mapping(_FUNCTION), beside=_several(_several(_signer)),
)  # fmt: skip
