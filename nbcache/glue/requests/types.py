"""Numba types as JSON: how the signature of a request travels.

A request may have been written by anybody, so nothing in it is unpickled, evaluated or imported: `decode` looks names
up in two tables, those of Numba's own types and of the forms below, calls the constructors that stand there, and hands
references to a callback of its caller, which applies the rule of trust. A class that isn't in the tables, also one
derived from one that is, can be neither written nor read.

Numba's types are interned and normalise what they are made from (a tuple of equal types becomes a ``UniTuple``, a
record sorts its fields), and equal types may differ in what they hold (defaults ``0.0`` and ``-0.0``, two enumerations
of one name in a ``FunctionType``). One rule covers all of it: *a type is accepted only if the constructor makes exactly
this type from exactly these fields*. `encode` holds it to the type it was given, `decode` to the fields it reads.

The grammar (`TYPES_VERSION` 1)::

    type       = name | [form, field, ...]      fields in the order of the form, none left out
    name       = what Numba calls one of its ready-made types: "int64" "bool" "none" "unicode_type" "void*" ...
    reference  = "module:qualname"
    value      = null | boolean | number | text | ["float", digits] | ["complex", digits, digits] | ["tuple", value ...]
    digits     = text as by repr() of a float: "0.1" "-0.0" "inf" "nan"
    x ?        = x | null
    x *        = [x, ...]

    Array             dtype: type, ndim: number, layout: text, readonly: boolean, aligned: boolean
    Buffer, Bytes, ByteArray, MemoryView, PyArray
                      dtype: type, ndim: number, layout: text, readonly: boolean
    NestedArray       dtype: type, shape: number *
    Record            fields: [name: text, type, offset: number, alignment: number ?, title: text ?] *,
                      size: number, aligned: boolean
    CharSeq, UnicodeCharSeq
                      count: number
    NPDatetime, NPTimedelta
                      unit: text
    PolynomialType    coef: type, domain: type ?, window: type ?, n_args: number
    UniTuple, StarArgUniTuple
                      dtype: type, count: number
    Tuple, StarArgTuple
                      types: type *
    NamedUniTuple     dtype: type, count: number, instance_class: reference
    NamedTuple        types: type *, instance_class: reference
    List, Set         dtype: type, reflected: boolean
    ListType          item_type: type
    DictType          key_type: type, value_type: type
    SetType           key_type: type
    Optional          type: type
    Omitted           value: value
    IntegerLiteral    literal_value: number
    StringLiteral     literal_value: text
    BooleanLiteral    literal_value: boolean
    SliceLiteral      start: number ?, stop: number ?, step: number ?
    EnumMember, IntEnumMember
                      instance_class: reference, dtype: type
    CPointer          dtype: type, addrspace: number ?
    MemInfoPointer    dtype: type
    DType             dtype: type
    NumberClass, TypeRef
                      instance_type: type
    FunctionType      return_type: type, args: type *
    Dispatcher        dispatcher: reference
    ClassInstanceType class_type: reference
"""

from __future__ import annotations

import enum
import sys
import traceback
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final, NoReturn

from numba.core import types, typing
from numba.core.dispatcher import Dispatcher

from nbcache.glue.identity.exact import encode_atom
from nbcache.glue.identity.ownership import resolve as loaded

TYPES_VERSION: Final = 1
MAX_DEPTH: Final = 32
"""How deep types may be nested."""
MAX_NODES: Final = 10_000
"""How many values an encoded type may consist of; 32 characters of a text count as one."""
MAX_NAME: Final = 2**17
"""How many characters Numba's name for a type may have; some hold the name of a part twice, so nesting doubles them."""
_CHARACTERS_PER_NODE: Final = 32
_SHOWN: Final = 60
_LINE: Final = 200

Resolve = Callable[[str, str], object]
"""From a module and a qualified name to the object; raises what the caller's check of trust raises."""


class Unencodable(Exception):  # noqa: N818  a verdict, not a malfunction
    """The type can't be written down; ``str()`` is one line that says which class and why."""


class Undecodable(Exception):  # noqa: N818  a verdict, not a malfunction
    """The value is no encoded type of this process; ``str()`` is one line that says what is wrong in it."""


def encode(typ: types.Type) -> Any:
    """The type as text and lists that JSON can hold.

    With the same Numba, and where references resolve to the same objects, `decode` returns an equal type; except that
    Numba takes a default that is NaN to be equal only to the very same object.

    A reference is only written if the name leads to this very object, in a module that other processes can import by
    its name. Raises Unencodable.
    """
    try:
        return _TYPE.write(typ, _Work(loaded))
    except _Misfit as misfit:
        _cant(type(typ), f"it {misfit}")


def decode(value: object, resolve: Resolve) -> Any:
    """The interned type that `encode` wrote as ``value``, which may be any JSON value from anywhere.

    Takes no more time and memory than `MAX_DEPTH`, `MAX_NODES` and `MAX_NAME` allow (2 s at worst), and calls nothing
    but ``resolve`` and the constructors of the grammar's forms. What ``resolve`` returns must be what the form is
    about: an enumeration, a named tuple's class, a dispatcher, a jitclass. Raises Undecodable, and whatever ``resolve``
    raises.
    """
    try:
        return _TYPE.read(value, _Work(resolve))
    except _Misfit as misfit:
        raise Undecodable(f"the type {misfit}") from None


# -- fields --------------------------------------------------------------------------------------


class _Misfit(Exception):  # noqa: N818  a verdict, not a malfunction
    """What doesn't fit, said of the field it stands in: "is a text, not a boolean"."""


class _Work:
    """One call of `encode` or `decode`: what is left of its bounds, and where names lead."""

    __slots__ = ("depth", "nodes", "resolve")

    def __init__(self, resolve: Resolve) -> None:
        self.depth = 0
        self.nodes = MAX_NODES
        self.resolve = resolve

    def spend(self, nodes: int) -> None:
        """Count what is about to be looked at."""
        self.nodes -= nodes
        if self.nodes < 0:
            raise _Misfit(f"is too large (more than {MAX_NODES} values)")

    def enter(self) -> None:
        """Count one level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Misfit(f"is nested too deep (more than {MAX_DEPTH} levels)")

    def leave(self) -> None:
        """Come back from a level."""
        self.depth -= 1


class _Kind:
    """What a field may hold. ``write`` takes what a type has to what JSON has, ``read`` takes it back.

    Both spend the same, and raise _Misfit on what isn't of the kind.
    """

    def write(self, value: Any, work: _Work) -> Any:
        raise NotImplementedError

    def read(self, value: Any, work: _Work) -> Any:
        raise NotImplementedError


class _Plain(_Kind):
    """What JSON has as such. ``fits`` looks at the exact type: ``True`` is no number."""

    def __init__(self, words: str, fits: Callable[[Any], bool]) -> None:
        self.words = words
        self.fits = fits

    def write(self, value: Any, work: _Work) -> Any:
        return self.read(value, work)

    def read(self, value: Any, work: _Work) -> Any:
        if not self.fits(value):
            raise _Misfit(f"is {_seen(value)}, not {self.words}")
        if type(value) is str:
            work.spend(len(value) // _CHARACTERS_PER_NODE)
        return value


def _number(first: int, last: int) -> _Plain:
    return _Plain(f"a whole number from {first} to {last}", lambda value: type(value) is int and first <= value <= last)


class _Maybe(_Kind):
    """The kind, or None."""

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind

    def write(self, value: Any, work: _Work) -> Any:
        return None if value is None else self.kind.write(value, work)

    def read(self, value: Any, work: _Work) -> Any:
        return None if value is None else self.kind.read(value, work)


class _Many(_Kind):
    """A tuple of any length."""

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind

    def write(self, value: Any, work: _Work) -> Any:
        work.spend(len(value))
        return [self.kind.write(item, work) for item in value]

    def read(self, value: Any, work: _Work) -> Any:
        if type(value) is not list:
            raise _Misfit(f"is {_seen(value)}, not a list")
        work.spend(len(value))
        return tuple([self.kind.read(item, work) for item in value])


class _Row(_Kind):
    """A tuple with a kind for each place."""

    def __init__(self, *kinds: _Kind) -> None:
        self.kinds = kinds

    def write(self, value: Any, work: _Work) -> Any:
        work.spend(len(self.kinds))
        return [kind.write(item, work) for kind, item in zip(self.kinds, value, strict=True)]

    def read(self, value: Any, work: _Work) -> Any:
        if type(value) is not list or len(value) != len(self.kinds):
            raise _Misfit(f"has {_seen(value)} where a list of {len(self.kinds)} belongs")
        work.spend(len(value))
        return tuple([kind.read(item, work) for kind, item in zip(self.kinds, value, strict=True)])


class _Value(_Kind):
    """A constant of Python, to the last bit."""

    def write(self, value: Any, work: _Work) -> Any:
        if type(value) is float:
            return ["float", _digits(value)]
        if type(value) is complex:
            return ["complex", _digits(value.real), _digits(value.imag)]
        if type(value) is tuple:
            return ["tuple", *self._items(self.write, value, work)]
        return _CONSTANT.write(value, work)

    def read(self, value: Any, work: _Work) -> Any:
        if type(value) is not list:
            return _CONSTANT.read(value, work)
        match value:
            case ["float", digits]:
                return _float(digits)
            case ["complex", real, imag]:
                return complex(_float(real), _float(imag))
            case ["tuple", *items]:
                return tuple(self._items(self.read, items, work))
        raise _Misfit("is a list that is no value")

    @staticmethod
    def _items(each: Callable[[Any, _Work], Any], items: Any, work: _Work) -> list[Any]:
        work.spend(len(items))
        work.enter()
        found = [each(item, work) for item in items]
        work.leave()
        return found


def _digits(value: float) -> str:
    digits = repr(value)
    if not _same(float(digits), value):
        raise _Misfit("is a NaN with bits of its own")
    return digits


def _float(digits: object) -> float:
    try:
        if type(digits) is str and digits == repr(value := float(digits)):
            return value
    except ValueError:
        pass
    raise _Misfit(f"has {_seen(digits)} where the digits of a float belong")


class _Reference(_Kind):
    """An object by the name under which other processes find it.

    ``fits``: whether an object is what the field is about; ``home``: from there to what has its ``__module__`` and
    ``__qualname__``.
    """

    def __init__(self, words: str, fits: Callable[[Any], bool], home: Callable[[Any], Any] = lambda obj: obj) -> None:
        self.words = words
        self.fits = fits
        self.home = home

    def write(self, value: Any, work: _Work) -> Any:
        self._check(value, "what it holds")
        home = self.home(value)
        name = _TEXT.write(f"{home.__module__}:{home.__qualname__}", work)
        module, qualname = _split(name)
        # What wasn't imported by its name (__main__, what exec made) isn't found by it elsewhere.
        if getattr(getattr(sys.modules.get(module), "__spec__", None), "name", None) != module:
            raise _Misfit(f"is {name}, in a module that other processes can't import by that name")
        if work.resolve(module, qualname) is not value:
            raise _Misfit(f"isn't what {name} leads to")
        return name

    def read(self, value: Any, work: _Work) -> Any:
        found = work.resolve(*_split(_TEXT.read(value, work)))
        self._check(found, _seen(value))
        return found

    def _check(self, obj: object, name: str) -> None:
        try:
            fits = self.fits(obj)
        except Exception:  # noqa: BLE001  objects answer questions about themselves as they like
            fits = False
        if not fits:
            raise _Misfit(f"must be {self.words}, which {name} isn't")


def _split(name: str) -> tuple[str, str]:
    module, colon, qualname = name.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *qualname.split("."))):
        raise _Misfit(f"is {_seen(name)}, which isn't of the form module:qualname")
    return module, qualname


class _AnyType(_Kind):
    """A type by its name, or in its form."""

    def write(self, value: Any, work: _Work) -> Any:
        name = _NAME_OF.get(id(value))
        if name is not None:
            return name
        form = _FORM_OF.get(type(value))
        if form is None:
            _cant(type(value))
        work.enter()
        written = form.write(value, work)
        work.leave()
        return written

    def read(self, value: Any, work: _Work) -> Any:
        if type(value) is str:
            named = _TYPE_NAMED.get(value)
            if named is None:
                raise _Misfit(f"is {_seen(value)}, which names no type")
            return named
        if type(value) is not list or not value:
            raise _Misfit(f"is {_seen(value)}, not a name or a list that begins with one")
        form = _FORM_NAMED.get(value[0]) if type(value[0]) is str else None
        if form is None:
            raise _Misfit(f"begins with {_seen(value[0])}, which names no form")
        work.enter()
        read = form.read(value, work)
        work.leave()
        return read


_BOOLEAN = _Plain("a boolean", lambda value: type(value) is bool)
_TEXT = _Plain("a text", lambda value: type(value) is str)
_INTEGER = _number(-(2**63), 2**64 - 1)
_COUNT = _number(0, MAX_NODES)
_SIZE = _number(0, 2**31 - 1)  # the most NumPy has for one item
_CONSTANT = _Plain(
    "null, a boolean, a text or a whole number of at most 64 bits",
    lambda value: value is None or any(kind.fits(value) for kind in (_BOOLEAN, _INTEGER, _TEXT)),
)
_TYPE = _AnyType()


# -- forms ---------------------------------------------------------------------------------------


class _Field:
    """One field of a form: its name in messages, its kind, and how to get it from a type."""

    __slots__ = ("get", "kind", "name")

    def __init__(self, name: str, kind: _Kind, get: Callable[[Any], Any] | None = None) -> None:
        self.name = name
        self.kind = kind
        self.get = get or attrgetter(name)


class _Form:
    """One class of types: its name in `numba.types`, its fields, and how to make a type from them."""

    __slots__ = ("cls", "fields", "make", "name")

    def __init__(self, name: str, *fields: _Field, make: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.fields = fields
        self.cls: Any = getattr(types, name, None)
        self.make: Any = make or self.cls

    def write(self, typ: Any, work: _Work) -> list[Any]:
        """Raise Unencodable unless the fields are all there is to the type."""
        work.spend(1 + len(self.fields))
        written: list[Any] = [self.name]
        values: list[Any] = []
        try:
            for field in self.fields:
                values.append(field.get(typ))
                written.append(field.kind.write(values[-1], work))
            whole = self.make(*values) is typ
        except Unencodable:
            raise
        except _Misfit as misfit:
            _cant(self.cls, f"its {field.name} {misfit}")
        except Exception as error:  # noqa: BLE001  types hold what users gave them
            _cant(self.cls, _line(error))
        if not whole:
            _cant(self.cls, "it isn't what Numba makes of its fields")
        if len(typ.name) > MAX_NAME:
            _cant(self.cls, f"its name is longer than {MAX_NAME} characters")
        return written

    def read(self, value: list[Any], work: _Work) -> Any:
        """Raise Undecodable unless a type is made that has just these fields."""
        if len(value) != 1 + len(self.fields):
            raise Undecodable(f"{self.name} has {len(self.fields)} fields, not {len(value) - 1}")
        work.spend(len(value))
        values = [self._read_field(field, item, work) for field, item in zip(self.fields, value[1:], strict=True)]
        try:
            made = self.make(*values)
            kept = type(made) is self.cls and _same(tuple(field.get(made) for field in self.fields), tuple(values))
        except Exception as error:  # noqa: BLE001  constructors refuse in their own ways
            raise Undecodable(f"there is no {self.name} with these fields: {_line(error)}") from None
        if not kept:
            raise Undecodable(f"{self.name} isn't what Numba makes of these fields")
        if len(made.name) > MAX_NAME:
            raise Undecodable(f"the name of {self.name} is longer than {MAX_NAME} characters")
        return made

    def _read_field(self, field: _Field, item: object, work: _Work) -> Any:
        try:
            return field.kind.read(item, work)
        except _Misfit as misfit:
            raise Undecodable(f"{field.name} of {self.name} {misfit}") from None


def _same(one: Any, other: Any) -> bool:
    """Whether two fields hold the same: types and references are one object, constants have one type and value."""
    if one is other:
        return True
    if type(one) is tuple is type(other):
        return len(one) == len(other) and all(map(_same, one, other))
    atom = encode_atom(one)
    return atom is not None and atom == encode_atom(other)


def _record_fields(record: Any) -> tuple[Any, ...]:
    return tuple((name, *infos) for name, infos in record.fields.items())


def _record(fields: Iterable[tuple[Any, ...]], size: int, aligned: bool) -> Any:
    names = "type", "offset", "alignment", "title"
    return types.Record([(name, dict(zip(names, infos, strict=True))) for name, *infos in fields], size, aligned)


def _function_type(returns: Any, args: Iterable[Any]) -> Any:
    return types.FunctionType(typing.signature(returns, *args))


def _jitclass_of(instance: Any) -> Any:
    """The class behind an instance's type, which doesn't lead there: its methods were defined in the class."""
    for method in instance.class_type.jit_methods.values():
        function = method.py_func
        found = loaded(function.__module__, function.__qualname__.rpartition(".")[0])
        if getattr(found, "class_type", None) is instance.class_type:
            return found
    raise LookupError("no method leads to its class")


_DTYPE = _Field("dtype", _TYPE)
_TYPES = _Field("types", _Many(_TYPE))
_REFLECTED = _Field("reflected", _BOOLEAN)
_INSTANCE_TYPE = _Field("instance_type", _TYPE)
_BUFFER = (
    _DTYPE,
    _Field("ndim", _COUNT),
    _Field("layout", _TEXT),
    _Field("readonly", _BOOLEAN, lambda typ: not typ.mutable),
)
_LENGTH = _Field("count", _COUNT)
_CHARACTERS = _Field("count", _SIZE)
_UNIT = _Field("unit", _TEXT)
_NAMED_TUPLE = _Field(
    "instance_class",
    _Reference("the class of a named tuple", lambda obj: issubclass(obj, tuple) and hasattr(obj, "_fields")),
)
_ENUM = _Field("instance_class", _Reference("an enumeration", lambda obj: issubclass(obj, enum.Enum)))
_DISPATCHER = _Field(
    "dispatcher", _Reference("a dispatcher", lambda obj: isinstance(obj, Dispatcher), attrgetter("py_func"))
)
_JITCLASS = _Field(
    "class_type",
    _Reference("a jitclass", lambda obj: type(obj.class_type) is types.ClassType, attrgetter("__base__")),
    _jitclass_of,
)

_FORMS: Final = (
    _Form(
        "Array", *_BUFFER, _Field("aligned", _BOOLEAN),
        make=lambda *fields: types.Array(*fields[:4], aligned=fields[4]),
    ),
    _Form("Buffer", *_BUFFER),
    _Form("Bytes", *_BUFFER),
    _Form("ByteArray", *_BUFFER),
    _Form("MemoryView", *_BUFFER),
    _Form("PyArray", *_BUFFER),
    _Form("NestedArray", _DTYPE, _Field("shape", _Many(_SIZE))),
    _Form(
        "Record",
        _Field("fields", _Many(_Row(_TEXT, _TYPE, _SIZE, _Maybe(_SIZE), _Maybe(_TEXT))), _record_fields),
        _Field("size", _SIZE),
        _Field("aligned", _BOOLEAN),
        make=_record,
    ),
    _Form("CharSeq", _CHARACTERS),
    _Form("UnicodeCharSeq", _CHARACTERS),
    _Form("NPDatetime", _UNIT),
    _Form("NPTimedelta", _UNIT),
    _Form(
        "PolynomialType",
        _Field("coef", _TYPE),
        _Field("domain", _Maybe(_TYPE)),
        _Field("window", _Maybe(_TYPE)),
        _Field("n_args", _COUNT),
    ),
    _Form("UniTuple", _DTYPE, _LENGTH),
    _Form("StarArgUniTuple", _DTYPE, _LENGTH),
    _Form("Tuple", _TYPES),
    _Form("StarArgTuple", _TYPES),
    _Form("NamedUniTuple", _DTYPE, _LENGTH, _NAMED_TUPLE),
    _Form("NamedTuple", _TYPES, _NAMED_TUPLE),
    _Form("List", _DTYPE, _REFLECTED),
    _Form("Set", _DTYPE, _REFLECTED),
    _Form("ListType", _Field("item_type", _TYPE)),
    _Form("DictType", _Field("key_type", _TYPE), _Field("value_type", _TYPE)),
    _Form("SetType", _Field("key_type", _TYPE)),
    _Form("Optional", _Field("type", _TYPE)),
    _Form("Omitted", _Field("value", _Value())),
    _Form("IntegerLiteral", _Field("literal_value", _INTEGER)),
    _Form("StringLiteral", _Field("literal_value", _TEXT)),
    _Form("BooleanLiteral", _Field("literal_value", _BOOLEAN)),
    _Form(
        "SliceLiteral",
        *(_Field(part, _Maybe(_INTEGER), attrgetter(f"literal_value.{part}")) for part in ("start", "stop", "step")),
        make=lambda *parts: types.SliceLiteral(slice(*parts)),
    ),
    _Form("EnumMember", _ENUM, _DTYPE),
    _Form("IntEnumMember", _ENUM, _DTYPE),
    _Form("CPointer", _DTYPE, _Field("addrspace", _Maybe(_SIZE))),
    _Form("MemInfoPointer", _DTYPE),
    _Form("DType", _DTYPE),
    _Form("NumberClass", _INSTANCE_TYPE),
    _Form("TypeRef", _INSTANCE_TYPE),
    _Form(
        "FunctionType",
        _Field("return_type", _TYPE, attrgetter("signature.return_type")),
        _Field("args", _Many(_TYPE), attrgetter("signature.args")),
        make=_function_type,
    ),
    _Form("Dispatcher", _DISPATCHER),
    _Form("ClassInstanceType", _JITCLASS, make=attrgetter("class_type.instance_type")),
)  # fmt: skip
# Numba's older releases lack some classes.
_FORM_OF: Final = {form.cls: form for form in _FORMS if form.cls is not None}
_FORM_NAMED: Final = {form.name: form for form in _FORM_OF.values()}

# Placeholders of type inference: nothing can be compiled for them.
_PLACEHOLDERS: Final = (types.Phantom, types.Undefined, types.UndefVar, types.Dummy)
_TYPE_NAMED: Final = {
    typ.name: typ
    for typ in vars(types).values()
    if isinstance(typ, types.Type) and typ.is_internal and type(typ) not in _PLACEHOLDERS
}
# By address: the table keeps the types alive, and nobody's __eq__ or __hash__ is asked.
_NAME_OF: Final = {id(typ): name for name, typ in _TYPE_NAMED.items()}


# -- words ---------------------------------------------------------------------------------------


def _cant(cls: type, why: str = "") -> NoReturn:
    name = f"{cls.__module__}.{cls.__qualname__}"
    raise Unencodable(f"a type of class {name} can't be written down{why and ': '}{why}") from None


def _seen(value: object) -> str:
    """A value in words, whatever and however large it is."""
    if type(value) is str:
        return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")
    if type(value) is list:
        return f"a list of {len(value)}"
    if value is None:
        return "null"
    return f"of class {type(value).__name__}"


def _line(error: Exception) -> str:
    return traceback.format_exception_only(type(error), error)[-1].splitlines()[0][:_LINE]
