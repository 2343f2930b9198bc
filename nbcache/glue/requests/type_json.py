"""Numba types as JSON: how the signature of a request travels.

A request may have been written by anybody, so nothing in it is unpickled, evaluated or imported: `decode` looks names
up in two tables, those of Numba's own types and of the forms below, calls the constructors that stand there, and hands
references to a callback of its caller, which applies the rule of trust. A class that isn't in the tables, also one
derived from one that is, can be neither written nor read.

Numba's types are interned and normalise what they are made from (a tuple of equal types becomes a ``UniTuple``, a
record sorts its fields), and equal types may differ in what they hold (two enumerations of one name in a
``FunctionType``). The type of an argument that is left out holds its default, and isn't written: the default is the
function's (requested.py). One rule covers all of it: *a type is accepted only if the constructor makes exactly
this type from exactly these fields*. `encode` holds it to the type it was given, `decode` to the fields it reads.

The grammar (`TYPES_VERSION` 1)::

    type       = name | [form, field, ...]      fields in the order of the form, none left out
    name       = what Numba calls one of its ready-made types: "int64" "bool" "none" "unicode_type" "void*" ...
    reference  = "module:qualname"
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
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final

from numba.core import types, typing
from numba.core.dispatcher import Dispatcher

from nbcache.glue.identity.ownership import is_numba_type
from nbcache.glue.identity.ownership import resolve as loaded
from nbcache.glue.requests.type_fields import (
    BOOLEAN,
    COUNT,
    INTEGER,
    MAX_NAME,
    SIZE,
    TEXT,
    Kind,
    Misfit,
    Resolve,
    Undecodable,
    Unencodable,
    Work,
    are_same,
    in_one_line,
    many,
    maybe,
    reference,
    refuse,
    row,
    seen,
)

TYPES_VERSION: Final = 1


def encode(typ: types.Type) -> Any:
    """The type as text and lists that JSON can hold.

    With the same Numba, and where references resolve to the same objects, `decode` returns an equal type.

    A reference is only written if the name leads to this very object, in a module that other processes can import by
    its name. Raises Unencodable.
    """
    try:
        return _type(typ, Work(loaded, reads=False))
    except Misfit as misfit:
        refuse(type(typ), f"it {misfit}")


def decode(value: object, resolve: Resolve) -> Any:
    """The interned type that `encode` wrote as ``value``, which may be any JSON value from anywhere.

    Takes no more time and memory than `MAX_DEPTH`, `MAX_NODES` and `MAX_NAME` allow (2 s at worst), and calls nothing
    but ``resolve`` and the constructors of the grammar's forms. What ``resolve`` returns must be what the form is
    about: an enumeration, a named tuple's class, a dispatcher, a jitclass. Raises Undecodable, and whatever ``resolve``
    raises.
    """
    try:
        return _type(value, Work(resolve, reads=True))
    except Misfit as misfit:
        raise Undecodable(f"the type {misfit}") from None


def _type(value: Any, work: Work) -> Any:
    """A type by its name, or in its form: a `type_fields.Kind`."""
    ready, form = _named(value) if work.reads else _known(value)
    if form is None:
        return ready
    work.enter()
    found = (form.read if work.reads else form.write)(value, work)
    work.leave()
    return found


def _known(typ: Any) -> tuple[str | None, _Form | None]:
    name, form = _NAME_OF.get(id(typ)), _FORM_OF.get(type(typ))
    if name is None and form is None:
        refuse(type(typ))
    return (name, form) if name is None else (name, None)


def _named(value: Any) -> tuple[Any, _Form | None]:
    if type(value) is str:
        if value not in _TYPE_NAMED:
            raise Misfit(f"is {seen(value)}, which names no type")
        return _TYPE_NAMED[value], None
    if type(value) is not list or not value:
        raise Misfit(f"is {seen(value)}, not a name or a list that begins with one")
    form = _FORM_NAMED.get(value[0]) if type(value[0]) is str else None
    if form is None:
        raise Misfit(f"begins with {seen(value[0])}, which names no form")
    return None, form


# -- forms ---------------------------------------------------------------------------------------


class _Field:
    """One field of a form: its name in messages, its kind, and how to get it from a type."""

    __slots__ = ("get", "kind", "name")

    def __init__(self, name: str, kind: Kind, get: Callable[[Any], Any] | None = None) -> None:
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

    def write(self, typ: Any, work: Work) -> list[Any]:
        """Raise Unencodable unless the fields are all there is to the type."""
        work.spend(1 + len(self.fields))
        written: list[Any] = [self.name]
        values: list[Any] = []
        try:
            for field in self.fields:
                values.append(field.get(typ))
                written.append(field.kind(values[-1], work))
            whole = self.make(*values) is typ
        except Unencodable:
            raise
        except Misfit as misfit:
            refuse(self.cls, f"its {field.name} {misfit}")
        except Exception as error:  # noqa: BLE001  types hold what users gave them
            refuse(self.cls, in_one_line(error))
        if not whole:
            refuse(self.cls, "it isn't what Numba makes of its fields")
        if len(typ.name) > MAX_NAME:
            refuse(self.cls, f"its name is longer than {MAX_NAME} characters")
        return written

    def read(self, value: list[Any], work: Work) -> Any:
        """Raise Undecodable unless a type is made that has just these fields."""
        if len(value) != 1 + len(self.fields):
            raise Undecodable(f"{self.name} has {len(self.fields)} fields, not {len(value) - 1}")
        work.spend(len(value))
        values = [self._read_field(field, item, work) for field, item in zip(self.fields, value[1:], strict=True)]
        try:
            made = self.make(*values)
            kept = type(made) is self.cls and are_same(tuple(field.get(made) for field in self.fields), tuple(values))
        except Exception as error:  # noqa: BLE001  constructors refuse in their own ways
            raise Undecodable(f"there is no {self.name} with these fields: {in_one_line(error)}") from None
        if not kept:
            raise Undecodable(f"{self.name} isn't what Numba makes of these fields")
        if len(made.name) > MAX_NAME:
            raise Undecodable(f"the name of {self.name} is longer than {MAX_NAME} characters")
        return made

    def _read_field(self, field: _Field, item: object, work: Work) -> Any:
        try:
            return field.kind(item, work)
        except Misfit as misfit:
            raise Undecodable(f"{field.name} of {self.name} {misfit}") from None


def _record_fields(record: Any) -> tuple[Any, ...]:
    return tuple((name, *infos) for name, infos in record.fields.items())


def _record(fields: Iterable[tuple[Any, ...]], size: int, aligned: bool) -> Any:
    names = "type", "offset", "alignment", "title"
    return types.Record([(name, dict(zip(names, infos, strict=True))) for name, *infos in fields], size, aligned)


def _function_type(returns: Any, args: Iterable[Any]) -> Any:
    return types.FunctionType(typing.signature(returns, *args))


def jitclass_of(instance: Any) -> Any:
    """The class behind an instance's type, which doesn't lead there: its methods were defined in the class."""
    for method in instance.class_type.jit_methods.values():
        function = method.py_func
        found = loaded(function.__module__, function.__qualname__.rpartition(".")[0])
        if getattr(found, "class_type", None) is instance.class_type:
            return found
    raise LookupError("no method leads to its class")


_DTYPE = _Field("dtype", _type)
_TYPES = _Field("types", many(_type))
_REFLECTED = _Field("reflected", BOOLEAN)
_INSTANCE_TYPE = _Field("instance_type", _type)
_BUFFER = (
    _DTYPE,
    _Field("ndim", COUNT),
    _Field("layout", TEXT),
    _Field("readonly", BOOLEAN, lambda typ: not typ.mutable),
)
_LENGTH = _Field("count", COUNT)
_CHARACTERS = _Field("count", SIZE)
_UNIT = _Field("unit", TEXT)
_NAMED_TUPLE = _Field(
    "instance_class",
    reference("the class of a named tuple", lambda obj: issubclass(obj, tuple) and hasattr(obj, "_fields")),
)
_ENUM = _Field("instance_class", reference("an enumeration", lambda obj: issubclass(obj, enum.Enum)))
_DISPATCHER = _Field(
    "dispatcher", reference("a dispatcher", lambda obj: isinstance(obj, Dispatcher), attrgetter("py_func"))
)
_JITCLASS = _Field(
    "class_type",
    reference("a jitclass", lambda obj: type(obj.class_type) is types.ClassType, attrgetter("__base__")),
    jitclass_of,
)

_FORMS: Final = (
    _Form(
        "Array", *_BUFFER, _Field("aligned", BOOLEAN),
        make=lambda *fields: types.Array(*fields[:4], aligned=fields[4]),
    ),
    _Form("Buffer", *_BUFFER),
    _Form("Bytes", *_BUFFER),
    _Form("ByteArray", *_BUFFER),
    _Form("MemoryView", *_BUFFER),
    _Form("PyArray", *_BUFFER),
    _Form("NestedArray", _DTYPE, _Field("shape", many(SIZE))),
    _Form(
        "Record",
        _Field("fields", many(row(TEXT, _type, SIZE, maybe(SIZE), maybe(TEXT))), _record_fields),
        _Field("size", SIZE),
        _Field("aligned", BOOLEAN),
        make=_record,
    ),
    _Form("CharSeq", _CHARACTERS),
    _Form("UnicodeCharSeq", _CHARACTERS),
    _Form("NPDatetime", _UNIT),
    _Form("NPTimedelta", _UNIT),
    _Form(
        "PolynomialType",
        _Field("coef", _type),
        _Field("domain", maybe(_type)),
        _Field("window", maybe(_type)),
        _Field("n_args", COUNT),
    ),
    _Form("UniTuple", _DTYPE, _LENGTH),
    _Form("StarArgUniTuple", _DTYPE, _LENGTH),
    _Form("Tuple", _TYPES),
    _Form("StarArgTuple", _TYPES),
    _Form("NamedUniTuple", _DTYPE, _LENGTH, _NAMED_TUPLE),
    _Form("NamedTuple", _TYPES, _NAMED_TUPLE),
    _Form("List", _DTYPE, _REFLECTED),
    _Form("Set", _DTYPE, _REFLECTED),
    _Form("ListType", _Field("item_type", _type)),
    _Form("DictType", _Field("key_type", _type), _Field("value_type", _type)),
    _Form("SetType", _Field("key_type", _type)),
    _Form("Optional", _Field("type", _type)),
    _Form("IntegerLiteral", _Field("literal_value", INTEGER)),
    _Form("StringLiteral", _Field("literal_value", TEXT)),
    _Form("BooleanLiteral", _Field("literal_value", BOOLEAN)),
    _Form(
        "SliceLiteral",
        *(_Field(part, maybe(INTEGER), attrgetter(f"literal_value.{part}")) for part in ("start", "stop", "step")),
        make=lambda *parts: types.SliceLiteral(slice(*parts)),
    ),
    _Form("EnumMember", _ENUM, _DTYPE),
    _Form("IntEnumMember", _ENUM, _DTYPE),
    _Form("CPointer", _DTYPE, _Field("addrspace", maybe(SIZE))),
    _Form("MemInfoPointer", _DTYPE),
    _Form("DType", _DTYPE),
    _Form("NumberClass", _INSTANCE_TYPE),
    _Form("TypeRef", _INSTANCE_TYPE),
    _Form(
        "FunctionType",
        _Field("return_type", _type, attrgetter("signature.return_type")),
        _Field("args", many(_type), attrgetter("signature.args")),
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
    if is_numba_type(typ) and typ.is_internal and type(typ) not in _PLACEHOLDERS
}
# By address: the table keeps the types alive, and nobody's __eq__ or __hash__ is asked.
_NAME_OF: Final = {id(typ): name for name, typ in _TYPE_NAMED.items()}
