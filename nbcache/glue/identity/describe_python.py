"""Descriptions of Python's own kinds of objects: classes, modules, methods, containers."""

from __future__ import annotations

import collections
import copyreg
import enum
import functools
import gc
import importlib
import os
import re
import sys
import weakref
from abc import ABCMeta
from importlib.machinery import EXTENSION_SUFFIXES
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from numba.core.types import Type

from nbcache.glue.identity.attributes import (
    USUAL_ATTRIBUTES,
    describe_annotations,
    describe_attributes,
    ignored_members,
    is_template,
)
from nbcache.glue.identity.bytecode import plan_of
from nbcache.glue.identity.classes_of_values import describe_class_of_values, is_read_for_values
from nbcache.glue.identity.describe_functions import hand_on
from nbcache.glue.identity.describe_numba import without_addresses
from nbcache.glue.identity.distributions import file_digest
from nbcache.glue.identity.forward_references import describe_forward_reference
from nbcache.glue.identity.instances import describe_instance, dictionary_of
from nbcache.glue.identity.marked_packages import ENDS, leaf_of
from nbcache.glue.identity.node import Describer, Node, Unidentifiable
from nbcache.glue.identity.ownership import HEAP_TYPE, edition_of, is_toolchain_module, module_name, toolchain_name
from nbcache.glue.identity.process_state import registered_below
from nbcache.passing_exceptions import let_pass

# -- classes and modules -----------------------------------------------------------------------


def _describe_class(node: Node, cls: type) -> None:
    name = f"{module_name(cls.__module__)}:{cls.__qualname__}"
    if is_template(cls):
        name = without_addresses(name)  # made for a type, and called by its name
    node.title = f"class {name}"
    compiled = node.compiled
    if toolchain_name(cls) is not None or (is_toolchain_module(cls.__module__) and not cls.__flags__ & HEAP_TYPE):
        return
    is_native = _describe_native_file(node, cls)
    if is_native and (not cls.__flags__ & HEAP_TYPE or cls.__flags__ & _IMMUTABLE_TYPE):  # nobody can add to it
        return
    if type(cls) is not type:  # it may answer for attributes
        node.edge("metaclass", type(cls))
    if compiled and not issubclass(cls, BaseException) and is_read_for_values(cls):
        describe_class_of_values(node, cls)
        return
    node.watch_attribute(cls, "__bases__", cls.__bases__)
    for base in cls.__bases__:
        if base is not object:
            node.edge("base", base)
    if issubclass(cls, BaseException) and compiled:
        # Compiled code only ever names an exception class; what it does is the live class's affair.
        return
    node.compiled = False
    ignored = _ignored(cls)
    if issubclass(cls, enum.Enum):
        ignored |= _describe_enum_members(node, cls, name)
    elif issubclass(cls, tuple) and "_fields" in vars(cls):
        # What it was given when it was made; the rest is made from that.
        node.watch_attribute(cls, "__new__", cls.__new__)
        node.watch_attribute(cls.__new__, "__defaults__", cls.__new__.__defaults__)
        node.value("defaults", cls.__new__.__defaults__)
    members = node.watch_members(cls, ignored=ignored)
    for member, value in _described_one_by_one(node, members, native=is_native):
        if not isinstance(value, GetSetDescriptorType | MemberDescriptorType) and not _is_spent(cls, member, value):
            node.value(f"member {name}: {member}", value)
    describe_annotations(node, cls)
    _describe_what_is_said(node, cls)
    _describe_registered(node, cls)


def _ignored(cls: type) -> frozenset[str]:
    """The members that say nothing about a class; what pickling a type sets on its class is there from now on."""
    if Type in cls.__mro__:
        copyreg._slotnames(cls)  # type: ignore[attr-defined]
    return ignored_members(cls)


def _described_one_by_one(node: Node, members: list[tuple[str, object]], *, native: bool) -> list[tuple[str, object]]:
    """Those of a class's members at which no walk ends; the others, which may be hundreds, are one part.

    Where a class is *native*, what its file has made of it isn't described again.
    """
    if native:
        node.part("native members", repr([name for name, value in members if _is_native(value)]).encode())
        members = [(name, value) for name, value in members if not _is_native(value)]
    leaves = [(member, leaf_of(value) if type(value) in ENDS else None) for member, value in members]
    ended = {member: leaf.parts for member, leaf in leaves if leaf is not None}
    if ended:
        for leaf in {leaf for _member, leaf in leaves if leaf is not None}:
            node.add(leaf)
        node.part(
            "members that could run", repr(sorted(ended.items())).encode("utf-8", "surrogatepass"), f"{len(ended)}"
        )
    return [(member, value) for member, value in members if member not in ended]


def _describe_what_is_said(node: Node, cls: type) -> None:
    """The order of its members, which is that of fields to who declares them by a class; and its documentation."""
    node.snapshot(list, vars(cls))
    ignored = ignored_members(cls)
    order = " ".join(name for name in vars(cls) if not name.startswith("__") and name not in ignored)
    node.part("order", order.encode("utf-8", "surrogatepass"), order[:100])
    for attribute in ("__module__", "__qualname__", "__name__"):
        node.watch_attribute(cls, attribute, getattr(cls, attribute))
    node.value("name", cls.__name__)
    said = cls.__doc__
    node.watch_attribute(cls, "__doc__", said)
    if isinstance(said, GetSetDescriptorType | MemberDescriptorType):  # each instance says so of itself
        return
    # A dataclass documents its defaults, with their addresses.
    node.value("documentation", without_addresses(said) if isinstance(said, str) else said)


_MADE_FOR_ENUMS = frozenset(
    {
        "_member_names_", "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_",
        "_unhashable_values_map_", "_new_member_", "__new_member__", "_use_args_", "_member_type_", "_value_repr_",
        "_singles_mask_", "_all_bits_", "_flag_mask_", "_inverted_", "_iter_member_", "_iter_member_by_value_",
        "_iter_member_by_def_",
    }
)  # fmt: skip


def _is_spent(cls: type, member: str, value: object) -> bool:
    """Whether it is what ``__slots__`` were read from once, what is made for every named tuple, or for who asked."""
    if member == "__annotations__":
        return not value  # until Python 3.13 a class without any gets some when it is asked for them
    if member == "__slots__":
        return not isinstance(value, str | tuple | list | dict)
    scope = getattr(getattr(value, "__func__", value), "__globals__", None)
    return scope is not None and (scope is vars(collections) or scope.get("__name__") == f"namedtuple_{cls.__name__}")


def _describe_enum_members(node: Node, cls: Any, name: str) -> frozenset[str]:
    """All members, under all their names, aliases and composite flags included; returns what they are called."""
    for read in (_members_by_name, _members_by_other_values):
        node.snapshot(read, cls)
    node.value("found by other values", _members_by_other_values(cls), owned=True)
    for alias, option in cls.__members__.items():
        node.value(f"member {name}: {alias}", option._value_)
        if alias != option._name_:
            node.value(f"alias {name}: {alias}", option._name_)
        node.snapshot(lambda option: [option._value_], option)
        state = {k: v for k, v in (dictionary_of(option) or {}).items() if k not in _STATE_OF_ENUM_MEMBERS}
        if state:
            node.value(f"state {name}: {alias}", state, owned=True)
            node.snapshot(lambda option: [*vars(option).values()], option)
    return _MADE_FOR_ENUMS | cls.__members__.keys()


def _members_by_name(cls: Any) -> list[object]:
    return [*cls.__members__, *cls.__members__.values()]


def _members_by_other_values(cls: Any) -> list[object]:
    """One after the other, what isn't a member's value but finds one, and that one's name."""
    known = cls._value2member_map_.items()
    return [part for value, option in known if option._value_ is not value for part in (value, option._name_)]


_STATE_OF_ENUM_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})


def _describe_registered(node: Node, cls: Any) -> None:
    if not isinstance(cls, ABCMeta):
        return
    found = node.check(_names_of_registered, cls)
    node.part("registered", found, found.decode())
    for registered in registered_below(cls):
        node.edge("registered", registered)


def _names_of_registered(cls: Any) -> bytes:
    return " ".join(f"{each.__module__}:{each.__qualname__}" for each in registered_below(cls)).encode()


def _describe_native_file(node: Node, cls: type) -> bool:
    """The file of the extension module that *cls* comes from; return whether there is one."""
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if path is None or not path.endswith(tuple(EXTENSION_SUFFIXES)):
        return False
    node.part("file", node.check(file_digest, path), os.path.basename(path))
    return True


def _is_native(value: object) -> bool:
    """Whether a member of a class is a function written in C, or something that calls one."""
    if isinstance(value, property):
        return all(each is None or _is_native(each) for each in (value.fget, value.fset, value.fdel))
    if isinstance(value, staticmethod | classmethod) or type(value).__name__ == "instancemethod":  # pybind11's
        return _is_native(value.__func__)  # type: ignore[attr-defined]
    return isinstance(value, _NATIVE)


_NATIVE = (BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType, MethodDescriptorType,
           ClassMethodDescriptorType)  # fmt: skip
_IMMUTABLE_TYPE = 1 << 8  # CPython's Py_TPFLAGS_IMMUTABLETYPE


def _describe_enum_member(node: Node, member: enum.Enum) -> None:
    node.title = f"enum member {member._name_}"
    compiled = node.compiled
    node.edge("class", type(member))
    node.value("value", (member._name_, member._value_))
    if compiled:  # what else it has is its class's affair
        node.snapshot(lambda member: [member._value_], member)
        return
    state = {k: v for k, v in (dictionary_of(member) or {}).items() if k not in _STATE_OF_ENUM_MEMBERS}
    node.snapshot(lambda member: [member._value_, *vars(member).values()], member)
    node.value("state", state, owned=True)


def _describe_module(node: Node, module: ModuleType) -> None:
    node.title = f"module {module_name(module.__name__)}"
    edition = edition_of(module)
    hand_on(node, module, edition)
    if edition is None and getattr(module, "__file__", None) is None:
        raise Unidentifiable(f"the module {module.__name__} as a value")
    node.part("edition", (edition or "").encode(), edition or "")


# -- everything else ---------------------------------------------------------------------------


def _describe_descriptor(node: Node, descriptor: Any) -> None:
    owner = descriptor.__objclass__
    node.title = f"descriptor {owner.__module__}:{descriptor.__qualname__}"
    node.edge("owner", owner)


def _describe_method(node: Node, method: MethodType) -> None:
    node.title = "bound method"
    node.edge("function", method.__func__)
    node.value("self", method.__self__)


def _describe_property(node: Node, prop: property) -> None:
    for label in ("fget", "fset", "fdel", "__doc__"):
        node.watch_attribute(prop, label, getattr(prop, label))
        node.value(label, getattr(prop, label))


def _describe_wrapped(node: Node, wrapper: Any) -> None:
    node.value("function", wrapper.__func__)
    attributes = dictionary_of(wrapper) or {}
    node.snapshot(lambda wrapper: [*(dictionary_of(wrapper) or {}).values()], wrapper)
    usual = {name: getattr(wrapper.__func__, name, None) for name in USUAL_ATTRIBUTES}
    own = {name: value for name, value in attributes.items() if name not in usual or value is not usual[name]}
    if own:
        node.value("attributes", own, owned=True)


def _describe_cache(node: Node, cache: Any) -> None:
    """A function of ``lru_cache`` counts with what it remembered before anything was compiled.

    What it is asked since then it answers by what it reads, and that counts.
    """
    node.title = f"cache of {cache.__module__}:{cache.__qualname__}"
    _before.setdefault(cache, frozenset(map(id, _keys_and_answers(cache)[::2])))
    node.snapshot(_remembered, cache)
    node.value("function", cache.__wrapped__)
    node.value("parameters", sorted(cache.cache_parameters().items()))
    node.value("remembered", _remembered(cache), owned=True)
    describe_attributes(node, cache, but=USUAL_ATTRIBUTES | {"cache_parameters"})
    node.watch_attribute(cache, "__wrapped__", cache.__wrapped__)


_before: weakref.WeakKeyDictionary[Any, frozenset[int]] = weakref.WeakKeyDictionary()
"""By cache the ids of its keys when it was met first."""


def _remembered(cache: Any) -> list[object]:
    found, known = _keys_and_answers(cache), _before[cache]
    pairs = zip(found[::2], found[1::2], strict=True)
    return [each for key, answer in pairs if id(key) in known for each in (key, answer)]


def _keys_and_answers(cache: Any) -> list[object]:
    """One after the other, as the collector is told of them: there is no other way to ask."""
    held = gc.get_referents(cache)
    table = next(each for each in held if type(each) is dict and each is not vars(cache))
    if cache.cache_parameters()["maxsize"] is None:
        return [each for pair in table.items() for each in pair]
    keys = {id(key) for key in table}
    return [each for i, key in enumerate(held) if id(key) in keys for each in (key, held[i + 1])]


def _describe_mapping(node: Node, mapping: Any) -> None:
    (behind,) = gc.get_referents(mapping)  # its own methods may be overridden
    node.edge("mapping", behind)


def _describe_code(node: Node, code: CodeType) -> None:
    plan = plan_of(code)
    node.part("code", plan.digest, plan.digest.hex()[:12])
    node.value("said of it", (getattr(code, "co_qualname", code.co_name), code.co_stacksize))


def _describe_pattern(node: Node, pattern: re.Pattern[Any]) -> None:
    node.value("pattern", (pattern.pattern, pattern.flags))


def _describe_container(node: Node, value: Any) -> None:
    node.title = type(value).__name__
    if type(value) in {dict, list, set, frozenset}:
        node.value("value", value, owned=True)
    else:
        describe_instance(node, value)


def _describe_logger(node: Node, logger: Any) -> None:
    """A logger, as far as it decides what is logged; not where to."""
    node.title = f"logger {logger.name}"
    for label in ("level", "disabled", "propagate", "parent", "manager"):
        value = getattr(logger, label)
        node.watch_attribute(logger, label, value)
        if label != "manager":
            node.value(label, value)
    node.value("filters", logger.filters)
    handlers = [(type(each).__module__, type(each).__qualname__, each.level) for each in logger.handlers]
    node.value("handlers", handlers, owned=True)
    node.snapshot(lambda logger: [part for each in logger.handlers for part in (each, each.level)], logger)
    node.watch_attribute(logger.manager, "disable", logger.manager.disable)
    node.value("disabled below", logger.manager.disable)
    if not is_toolchain_module(type(logger).__module__):
        node.edge("class", type(logger))
    usual = vars(logger.root).keys() | {"manager"}
    node.value("state", {name: value for name, value in vars(logger).items() if name not in usual}, owned=True)
    node.snapshot(lambda logger: [*vars(logger).values()], logger)


def _describe_weak_reference(node: Node, reference: weakref.ref[Any]) -> None:
    node.title = "weak reference"
    node.volatile = True  # what is watched is held
    node.value("referent", reference())
    node.value("callback", reference.__callback__)


_FIELD_OF_TUPLE = importlib.import_module("_collections")._tuplegetter


def _describe_field_of_tuple(node: Node, getter: Any) -> None:
    node.title = "field of a named tuple"
    node.value("position", getter.__reduce__()[1][0])
    node.watch_attribute(getter, "__doc__", getter.__doc__)
    node.value("documentation", getter.__doc__)


_OF_TYPE_VARIABLES = (
    "__bound__", "__constraints__", "__covariant__", "__contravariant__", "__default__", "__type_params__", "__value__"
)  # fmt: skip


def _describe_type_variable(node: Node, variable: Any) -> None:
    """One, or an alias of a type: their pickles are a name."""
    node.title = f"type variable {variable.__name__}"
    said = []
    for name in _OF_TYPE_VARIABLES:
        try:
            said.append(getattr(variable, name, None))
        except Exception as raised:  # noqa: BLE001  it is evaluated now, and may be there for checkers of types alone
            let_pass(raised)
            node.volatile = True
            said.append(type(raised).__name__)
    node.value("limits", tuple(said))
    if dictionary_of(variable) is not None:
        describe_attributes(node, variable, read=dictionary_of)  # from Python 3.12 on, it has no ``__dict__``


def _describe_tuple(node: Node, value: tuple[Any, ...]) -> None:
    node.title = "tuple"
    node.value("items", tuple(tuple.__iter__(value)))


DESCRIBERS: dict[type, Describer] = {
    type: _describe_class,
    enum.Enum: _describe_enum_member,
    ModuleType: _describe_module,
    WrapperDescriptorType: _describe_descriptor,
    MethodDescriptorType: _describe_descriptor,
    ClassMethodDescriptorType: _describe_descriptor,
    MethodType: _describe_method,
    property: _describe_property,
    staticmethod: _describe_wrapped,
    classmethod: _describe_wrapped,
    type(functools.lru_cache(len)): _describe_cache,
    MappingProxyType: _describe_mapping,
    CodeType: _describe_code,
    re.Pattern: _describe_pattern,
    weakref.ref: _describe_weak_reference,
    _FIELD_OF_TUPLE: _describe_field_of_tuple,
    tuple: _describe_tuple,
    dict: _describe_container,
    list: _describe_container,
    set: _describe_container,
    frozenset: _describe_container,
}
BY_NAME: dict[str, Describer] = {
    "annotationlib:ForwardRef": describe_forward_reference,
    "logging:Logger": _describe_logger,
    **{f"typing:{kind}": _describe_type_variable for kind in ("TypeVar", "ParamSpec", "TypeVarTuple", "TypeAliasType")},
}
