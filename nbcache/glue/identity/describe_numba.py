"""Descriptions of what Numba makes: dispatchers, ufuncs, stencils, types, templates, contexts."""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from collections.abc import Iterable, Iterator
from types import MemberDescriptorType
from typing import Any

import numpy as np
from numba.core import types
from numba.core.datamodel import default_manager
from numba.core.dispatcher import Dispatcher, LiftedCode
from numba.core.extending import _Intrinsic
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate, FunctionTemplate, Signature

from nbcache.glue import own_attributes
from nbcache.glue.identity.describe_functions import edge_to_code, function_name
from nbcache.glue.identity.dispatcher_past import past_of
from nbcache.glue.identity.node import Describer, Node, Unidentifiable
from nbcache.glue.identity.only_named import refer
from nbcache.glue.identity.ownership import (
    cell_values,
    is_toolchain_definition,
    is_toolchain_module,
    module_name,
    toolchain_name,
)

ADDRESS = r"0x[0-9a-fA-F]{4,}|#[0-9a-fA-F]{4,}"
"""What in the name of a type may be an address."""


def _describe_dispatcher(node: Node, dispatcher: Any) -> None:
    node.title = f"{type(dispatcher).__name__} {function_name(dispatcher.py_func)}"
    # What is watched lies in a memo on the dispatcher itself: it must not keep the dispatcher alive.
    weakly = weakref.proxy(dispatcher)
    node.watch_paths(weakly, "py_func", *_COMPILER)
    compiled = node.compiled
    pipeline = dispatcher._compiler.pipeline_class
    # What is inlined, and what passes of others see, is looked at by more than the compiler.
    node.compiled &= dispatcher.targetoptions.get("inline", "never") == "never" and toolchain_name(pipeline) is not None
    edge_to_code(node, "py_func", dispatcher.py_func)
    if dispatcher.targetoptions.get("forceobj"):
        # Code in object mode has the functions that it closes over, and calls them.
        for value in cell_values(dispatcher.py_func):
            refer(node, "closes over", value)
    if dispatcher._compiler.py_func is not dispatcher.py_func:  # somebody exchanged one of them
        edge_to_code(node, "compiled", dispatcher._compiler.py_func)
    _describe_frozen_defaults(node, dispatcher)
    node.compiled = False
    describe_options(node, dispatcher._compiler)
    if dispatcher.targetoptions is not dispatcher._compiler.targetoptions:
        describe_options(node, dispatcher, "for inlining: ")
    node.edge("pipeline", pipeline)
    _describe_class_of(node, dispatcher, looked_at=not compiled)
    if not compiled:
        from nbcache.glue.identity.attributes import attributes_of_any, describe_attributes

        describe_attributes(node, dispatcher, but=attributes_of_any(type(dispatcher)))  # type: ignore[arg-type]
    can_compile = dispatcher._can_compile
    node.watch_attribute(weakly, "_can_compile", can_compile)
    node.part("can compile", b"%d" % can_compile, str(can_compile))
    if own_attributes.is_postponed(dispatcher):
        node.part("what its decorator declared", b"", "is lacking")
    if not can_compile:
        # Calls are resolved among what there is, with conversions: what there is decides.
        node.check(_overloads_made_from, weakref.ref(dispatcher))
        made = []
        for made_from, odd in _made_from(dispatcher):
            # Whether that is what the present code is bound to, or something like it, is told as of other twins.
            content, bound = past_of(dispatcher).bound.get(made_from, (made_from, ()))
            made.append((content, odd))
            node.held += bound
        node.part("overloads made from", repr(made).encode())
        for i, cres in enumerate(dispatcher.overloads.values()):
            node.value(f"overload {i}", (*cres.signature.args, cres.signature.return_type))


_COMPILER = (
    "_compiler", "_compiler.py_func", "_compiler.pysig", "_compiler.pipeline_class", "_compiler.locals",
    "_compiler.targetoptions", "targetoptions",
)  # fmt: skip
"""What a dispatcher compiles, and how, is in an object that it keeps."""


def _describe_class_of(node: Node, dispatcher: object, *, looked_at: bool) -> None:
    """The class of a dispatcher.  Raises Unidentifiable for somebody's own, which may compile as it likes.

    One that only says where Numba keeps code compiles as its base does. *looked_at*: by more than the compiler.
    """
    cls = type(dispatcher)
    node.watch_attribute(weakref.proxy(dispatcher), "__class__", cls)
    base, name = cls, toolchain_name(cls)
    while name is None and _only_keeps(base):
        node.watch_size(vars(base))
        if looked_at:
            node.edge("its class", base)
        (base,) = base.__bases__
        name = toolchain_name(base)
    if name is None:
        raise Unidentifiable(OTHER_DISPATCHER.format(cls=cls))
    node.part("class", name.encode(), name)


def _only_keeps(cls: type) -> bool:
    """Whether a class of dispatchers differs from its one base in nothing but where Numba keeps code."""
    return len(cls.__bases__) == 1 and type(cls) is type(Dispatcher) and vars(cls).keys() <= _KEEPING


_KEEPING = frozenset({
    "enable_caching", "__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__abstractmethods__",
    "_abc_impl",
})  # fmt: skip
"""Members that say nothing of what is compiled: which cache Numba asks is nbcache's matter."""


OTHER_DISPATCHER = "a dispatcher of the class {cls.__module__}.{cls.__qualname__}, which isn't Numba's own"


def _describe_frozen_defaults(node: Node, dispatcher: Any) -> None:
    """The parameters that callers go by, with their defaults: those that the function had when it was decorated."""
    declared, code = dispatcher._compiler.pysig.parameters, dispatcher.py_func.__code__
    parameters = declared.values()
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
    if plain and tuple(declared) == code.co_varnames[: code.co_argcount] and not code.co_flags & _VARIABLE:
        return  # nearly all
    node.value("parameters at decoration", tuple((p.name, int(p.kind)) for p in parameters))
    for parameter in parameters:
        if parameter.default is not parameter.empty:
            node.value(f"default at decoration: {parameter.name}", parameter.default)


_VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def describe_options(node: Node, owner: Any, what_for: str = "") -> None:
    """What somebody's decorator was asked for; what compiling adds to that doesn't count."""
    node.watch_size(owner.targetoptions)
    node.parallel |= bool(owner.targetoptions.get("parallel"))
    for option, value in sorted(owner.targetoptions.items()):
        if isinstance(value, dict) and value:  # `parallel={...}`
            msg = f"the option {option} of {node.title}, a dictionary, which Numba empties when it compiles"
            raise Unidentifiable(msg)
        node.watch_item(owner.targetoptions, option, value)
        node.value(f"{what_for}option {option}", value)
    variables = getattr(owner, "locals", None)
    for variable, typ in _declared(variables):
        node.value(f"{what_for}locals {variable}", typ)
    if variables:
        node.snapshot(_pieces, variables)
    elif variables is not None:
        node.watch_size(variables)
    # Lists among the options, such as those of libraries to link, are not edited in place.
    node.volatile = False


def _declared(variables: dict[str, Any] | None) -> list[tuple[str, Any]]:
    """``locals=`` without what compiling adds to it: ``x.1``, ``x.2`` for the assignments of an ``x`` that is there."""
    declared = variables or {}
    return sorted(
        (name, typ)
        for name, typ in declared.items()
        if "." not in name or declared.get(name.partition(".")[0]) is not typ
    )


def _pieces(variables: dict[str, Any]) -> list[object]:
    return [piece for declared in _declared(variables) for piece in declared]


def _overloads_made_from(known: weakref.ref[Any]) -> bytes:
    return repr(_made_from(known())).encode()


def _made_from(dispatcher: Any) -> list[tuple[Any, str | None]]:
    past = past_of(dispatcher)
    return [(past.made_from.get(args), past.odd.get(args)) for args in vars(dispatcher)["overloads"]]


def _describe_cfunc(node: Node, cfunc: Any) -> None:
    node.title = f"CFunc {function_name(cfunc._pyfunc)}"
    edge_to_code(node, "py_func", cfunc._pyfunc)
    node.compiled = False
    node.value("signature", (*cfunc._sig.args, cfunc._sig.return_type))
    describe_options(node, cfunc._compiler)
    node.edge("pipeline", cfunc._compiler.pipeline_class)


def _describe_jitclass(node: Node, cls: Any) -> None:
    node.title = f"jitclass {module_name(cls.__module__)}:{cls.__qualname__}"
    if not node.compiled:
        raise Unidentifiable(f"{node.title}, of which code that runs while compiling may read what was set on it")
    node.edge("class type", cls.class_type)


def _describe_intrinsic(node: Node, intrinsic: _Intrinsic) -> None:
    node.title = f"intrinsic {function_name(intrinsic._defn)}"
    if is_toolchain_definition(intrinsic._defn):
        # Numba makes some of its own in a loop, alike but for what they hold. Others' definitions are asked when they
        # are used, and what they answer counts (choices.py).
        node.edge("definition", intrinsic._defn)
    node.value("options", tuple(sorted(intrinsic._ctor_kwargs.items())))
    node.value("prefer_literal", bool(getattr(intrinsic, "_prefer_literal", False)))


def _refuse_lifted(_node: Node, obj: LiftedCode) -> None:
    raise Unidentifiable(f"{type(obj).__name__} is code lifted out of another function")


# -- Numba types -------------------------------------------------------------------------------


def _describe_type(node: Node, typ: Any) -> None:
    """A Numba type is its class and its fields.

    Some types name themselves by address; what the address stood for is among the fields then,
    so the name counts without it.
    """
    node.title = f"type {nameless(typ)}"
    if isinstance(typ, types.WeakType):
        node.edge("object", typ._get_object())
        node.compiled = False
        node.edge("class", type(typ))
        return
    if isinstance(typ, types.ClassType):
        _describe_class_type(node, typ)
        return
    cls, name = type(typ), toolchain_name(type(typ))
    if name is None:
        # Its methods run while compiling, and anybody may set its attributes.
        node.compiled = False
        node.edge("class", cls)
        node.watch_size(vars(typ))
        for field, value in _in_slots(typ):
            node.watch_attribute(typ, field, value)
            node.value(f"slot {field}", value)
    else:
        node.part("class", name.encode(), cls.__qualname__)
    fields = 0
    for field, value in fields_of(typ):
        fields += 1
        if not node.compiled:
            node.watch_item(vars(typ), field, value)
        node.value(f"field {field}", value)
    node.volatile = isinstance(typ, types.DeferredType) and typ._define is None
    if not fields and has_address(typ):
        raise Unidentifiable(f"type {typ.name} is known by a process address alone")


_NOTES = frozenset({"_code", "_literal_type_cache", "_value_key", "name"})
"""What a type knows of itself besides its fields. A literal remembers the type of its value once it was asked for it;
an Omitted is keyed by the address of a default that can't be hashed."""
_NOTES_OF_CALLS = frozenset({"_impl_keys", "_depth"})
"""What the type of a function remembers of the calls that it has typed."""


def fields_of(typ: Any) -> Iterator[tuple[str, Any]]:
    """What the dictionary of a Numba type says of it, in the same order always: in one process and in another."""
    for field, value in sorted(vars(typ).items()):
        if field in _NOTES or isinstance(getattr(type(typ), field, None), functools.cached_property):
            continue
        if field in _NOTES_OF_CALLS and isinstance(typ, types.BaseFunction):
            continue
        if isinstance(value, types.UnionType) and isinstance(typ, types.BaseTuple) and has_address(value):
            continue  # the types of a tuple once more, in the order of their names: of addresses
        yield field, value


def _in_slots(obj: object) -> Iterator[tuple[str, Any]]:
    """What an object of somebody's class holds besides its dictionary."""
    for cls in type(obj).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, MemberDescriptorType) and hasattr(obj, name):
                yield name, getattr(obj, name)


def types_in(parts: Iterable[Any]) -> Iterator[types.Type]:
    """The types among *parts*, in tuples among them, and all that these types are made of; in the same order always."""
    known, found = set(), list(parts)
    while found:
        part = found.pop()
        if isinstance(part, tuple | list):
            found += part
        elif isinstance(part, types.Type) and part not in known:
            known.add(part)
            # Not what it remembers (a cached property): that is there in one process, and not yet in another.
            found += [value for _name, value in (*_in_slots(part), *fields_of(part))]
            yield part


def made_of(typ: types.Type, asked: Iterable[types.Type]) -> Any:
    """What a type is made of, to be identified: what it has of the types *asked* about counts by its place there.

    These count where they come from, at that moment; what others keep in a type of theirs grows meanwhile.
    """
    places = {id(each): ["asked", place] for place, each in enumerate(asked)}

    def parts_of(part: Any) -> Any:
        if id(part) in places:
            return places[id(part)]
        if type(part) in {tuple, list}:
            return [type(part), *(parts_of(each) for each in part)]
        if not isinstance(part, types.Type) or is_toolchain_module(type(part).__module__):
            return ["content", part]
        places[id(part)] = ["part", len(places)]
        fields = [(name, parts_of(value)) for name, value in (*_in_slots(part), *fields_of(part))]
        return [type(part), nameless(part), fields]

    return parts_of(typ)


def _describe_template(node: Node, template: Any) -> None:
    """One of the objects that Numba resolves calls and attributes by: its class, besides the context it was made in."""
    node.title = "template"
    node.edge("class", type(template))
    node.value("state", {name: value for name, value in vars(template).items() if name != "context"}, owned=True)
    node.snapshot(lambda template: [*vars(template).values()], template)
    _refuse_other_contexts(node, template.context)


def _describe_context(node: Node, context: Any) -> None:
    node.title = f"Numba's {type(context).__qualname__}"
    _refuse_other_contexts(node, context)


def _refuse_other_contexts(_node: Node, context: Any) -> None:
    if context is not cpu_target.typing_context and context is not cpu_target.target_context:
        raise Unidentifiable(f"a {type(context).__qualname__} that is not Numba's own")


def _describe_data_models(node: Node, manager: Any) -> None:
    """Numba's table of data models, which keeps what it was asked for; what others register in it has names."""
    node.title = "Numba's data models"
    if manager is not default_manager:
        raise Unidentifiable("a table of data models that is not Numba's own")


def has_address(typ: Any) -> bool:
    """Whether the name of a Numba type contains what could be an address of this process."""
    return ("0x" in typ.name or "#" in typ.name) and any(map(_could_be_address, re.findall(ADDRESS, typ.name)))


def nameless(typ: Any) -> str:
    """The name of a Numba type without addresses of this process."""
    return without_addresses(typ.name) if has_address(typ) else str(typ.name)


def without_addresses(text: str) -> str:
    """A text without what could be addresses of this process."""
    return re.sub(ADDRESS, lambda match: "" if _could_be_address(match[0]) else match[0], text)


def _could_be_address(text: str) -> bool:
    """Whether a number lies where this process has objects; a colour such as ``#ff0000`` does not."""
    digits = text.lstrip("0#xX") or "0"
    numbers = [int(digits, 16)]
    if digits.isdecimal():  # as deferred types have it
        numbers.append(int(digits))
    return any(number >> 32 in _neighbourhoods() for number in numbers)


@functools.cache
def _neighbourhoods() -> frozenset[int]:
    """The parts of the address space, of 4 GiB each, that small, large and Python's own objects lie in, or next to."""
    found = [id(each) >> 32 for each in (object(), ADDRESS, _neighbourhoods, type, np.ndarray, None)]
    found.append(np.empty(1 << 20).ctypes.data >> 32)
    return frozenset(part + step for part in found for step in (-1, 0, 1))


def _describe_class_type(node: Node, typ: Any) -> None:
    node.title = f"jitclass type {typ.class_name}"
    for field, field_type in typ.struct.items():
        node.value(f"field {field}", field_type)
    for kind, members in (("method", typ.jit_methods), ("static method", typ.jit_static_methods)):
        for name, dispatcher in sorted(members.items()):
            node.edge(f"{kind} {name}", dispatcher)
    for name, accessors in sorted(typ.jit_props.items()):
        for accessor, dispatcher in sorted(accessors.items()):
            node.edge(f"property {name} {accessor}", dispatcher)


def _describe_signature(node: Node, sig: Signature) -> None:
    node.value("signature", (sig.return_type, sig.args, sig.recvr))
    if sig.pysig is not None:
        node.value("parameters", tuple((p.name, int(p.kind), p.default) for p in sig.pysig.parameters.values()))


def _describe_wrapper_address(node: Node, obj: Any) -> None:
    from nbcache.glue.identity.describe_c_functions import describe_wrapper_address

    describe_wrapper_address(node, obj)


DESCRIBERS: dict[type, Describer] = {
    Dispatcher: _describe_dispatcher,
    LiftedCode: _refuse_lifted,
    _Intrinsic: _describe_intrinsic,
    types.Type: _describe_type,
    Signature: _describe_signature,
    FunctionTemplate: _describe_template,
    AttributeTemplate: _describe_template,
    types.WrapperAddressProtocol: _describe_wrapper_address,
}
BY_NAME: dict[str, Describer] = {
    "numba.core.base:BaseContext": _describe_context,
    "numba.core.datamodel.manager:DataModelManager": _describe_data_models,
    "numba.core.ccallback:CFunc": _describe_cfunc,
    "numba.core.typing.context:BaseContext": _describe_context,
    "numba.experimental.jitclass.base:JitClassType": _describe_jitclass,
}
