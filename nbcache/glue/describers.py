"""Descriptions of the objects a compilation can reach, one describer per kind.

The table at the bottom maps types to describers; a class not listed is looked up along its MRO.
What no describer knows is described by the pickle protocol's own reduction, which is how Python
says what an object consists of; what refuses to be reduced is unidentifiable.
"""

from __future__ import annotations

import copyreg
import ctypes
import enum
import functools
import hashlib
import os
import re
import sys
import warnings
import weakref
from importlib.machinery import EXTENSION_SUFFIXES
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher, LiftedCode
from numba.core.extending import _Intrinsic
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate, FunctionTemplate, Signature
from numba.np.ufunc import parallel
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue import imports
from nbcache.glue.atoms import encode_atom, encode_dtype
from nbcache.glue.codeplan import CLOSURE, GLOBAL, IMPORTED, plan_of
from nbcache.glue.exported import exported_as
from nbcache.glue.identity import MEMO, MISSING, HandedOn, Node, Unidentifiable
from nbcache.glue.ownership import (
    edition_of,
    has_toolchain_globals,
    is_numba_type,
    is_toolchain_definition,
    is_toolchain_module,
    module_name,
    toolchain_name,
)
from nbcache.glue.past import LOOPS, past_of
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.glue.codeplan import CodePlan, Read
    from nbcache.glue.extensions import ExtensionIndex

_builtins = vars(sys.modules["builtins"])
ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}|#[0-9a-fA-F]{4,}")


class Describers:
    """``describe(obj) -> Node``; *extensions* tells apart namesakes for which something is registered."""

    def __init__(self, extensions: ExtensionIndex) -> None:
        self._extensions = extensions
        self._by_type: dict[type, Callable[[Node, Any], None]] = {}
        self._leaves: dict[int, tuple[str, Node]] = {}
        """What belongs to the toolchain: met in nearly every function, and digested once."""

    def describe(self, obj: object) -> Node:
        """The node of *obj*, which is no atom.  Raises Unidentifiable."""
        name = None if is_numba_type(obj) or isinstance(obj, np.ndarray) else toolchain_name(obj)
        if name is not None:
            known = self._leaves.get(id(obj))
            # Still of that name, and no walk was broken off at it.
            if known is not None and known[0] == name and known[1].digest is not None:
                return known[1]
            node = Node(obj, f"toolchain {name}")
            if name == "numba.np.ufunc.parallel:set_num_threads":
                # It checks its argument against the number of threads, which is compiled in.
                node.part("threads", b"%d" % parallel.NUM_THREADS, str(parallel.NUM_THREADS))
            else:
                self._leaves[id(obj)] = (name, node)
            return node
        node = Node(obj, "")
        describer = self._by_type.get(type(obj))
        if describer is None:
            describer = self._by_type[type(obj)] = _describer_for(type(obj))
        describer(node, obj)
        if not node.title:
            node.title = type(obj).__name__
        ordinal = self._extensions.ordinal(obj)
        if ordinal is not None:
            node.part("among namesakes", repr(ordinal).encode(), str(ordinal))
        return node


def _describer_for(cls: type) -> Callable[[Node, Any], None]:
    for base in cls.__mro__:
        describer = _DESCRIBERS.get(base) or _DESCRIBERS_BY_NAME.get(f"{base.__module__}:{base.__qualname__}")
        if describer is not None:
            return describer
    return _describe_instance


# -- functions -------------------------------------------------------------------------------


def function_name(function: FunctionType) -> str:
    """``module:qualname``, the way entries and ``nbcache why`` name a function."""
    return f"{module_name(function.__module__) or '<dynamic>'}:{function.__qualname__}"


def _describe_function(node: Node, function: FunctionType) -> None:
    name = function_name(function)
    node.title = f"function {name}"
    code = function.__code__
    plan = plan_of(code)
    node.part(f"code {name}", plan.digest, plan.digest.hex()[:12])
    node.names = plan.attribute_names
    node.watch_attribute(function, "__code__", code)
    node.watch_attribute(function, "__defaults__", function.__defaults__)
    node.watch_attribute(function, "__kwdefaults__", function.__kwdefaults__)
    parameters = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    for parameter, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=False):
        _describe_value(node, f"default {name}: {parameter}", default, plan)
    for parameter, default in sorted((function.__kwdefaults__ or {}).items()):
        _describe_value(node, f"default {name}: {parameter}", default, plan)
    for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        _describe_cell(node, f"closure {name}: {variable}", cell, plan, (CLOSURE, variable))
    # inspect.signature, and so Numba, follows these.
    for attribute in ("__wrapped__", "__signature__"):
        if attribute in function.__dict__:
            node.watch_attribute(function, attribute, function.__dict__[attribute])
            node.value(f"{attribute} {name}", function.__dict__[attribute])
    if has_toolchain_globals(function):
        return
    for variable in plan.global_names:
        _describe_global(node, name, function.__globals__, variable, plan)
    for imported in imports.imported_by(function):
        module = imports.loaded(imported)
        node.watch_item(sys.modules, imported, module)
        if isinstance(module, ModuleType) and (not is_toolchain_module(imported) or imported in _ALWAYS_THERE):
            wanted = _Wanted(plan.attribute_names, _reads_of_import(plan, imported))
            _describe_module_attributes(node, f"import {name}: {imported}", module, wanted, set())


_ALWAYS_THERE = frozenset({"sys", "os", "math", "numpy", "numba", "numba.core.config"})
"""Of the toolchain's modules, the others may be loaded or not, which must not matter."""


def _reads_of_import(plan: CodePlan, module: str) -> set[Read]:
    """What is read off an imported *module*; relative imports name the end of its name."""
    found: set[Read] = set()
    for (kind, stated), reads in plan.reads.items():
        if kind == IMPORTED and (stated in {module, ""} or module.endswith("." + stated)):
            found |= reads
    return found


def _describe_value(
    node: Node, label: str, value: object, plan: CodePlan, variable: tuple[str, str] = ("", "")
) -> None:
    if isinstance(value, ModuleType):
        wanted = _Wanted(plan.attribute_names, plan.reads.get(variable, _HANDED_ON))
        _describe_module_attributes(node, label, value, wanted, set())
    else:
        node.value(label, value)


def _describe_cell(node: Node, label: str, cell: Any, plan: CodePlan, variable: tuple[str, str]) -> None:
    try:
        value = cell.cell_contents
    except ValueError:
        node.part(label, b"empty", "empty")
        node.volatile = True
        return
    node.watch_attribute(cell, "cell_contents", value)
    _describe_value(node, label, value, plan, variable)


def _describe_global(node: Node, name: str, scope: dict[str, Any], variable: str, plan: CodePlan) -> None:
    value = scope.get(variable, MISSING)
    if type(scope) is not dict:  # Numba asks it as it asks for any item, and a subclass may answer what it likes
        value = _item(scope, variable)
        node.snapshot(lambda scope: [_item(scope, variable)], scope)
    else:
        node.watch_item(scope, variable, value)
    if value is MISSING:
        value = _builtins.get(variable, MISSING)
        node.watch_item(_builtins, variable, value)
        if value is MISSING:
            node.part(f"global {name}: {variable}", b"undefined", "undefined")
            return
    _describe_value(node, f"global {name}: {variable}", value, plan, (GLOBAL, variable))


_STARTED_WITH = frozenset({"argv", "orig_argv", "flags", "warnoptions", "_xoptions"})
"""What of `sys` is this process's, and not Python's."""


def _item(scope: dict[str, Any], name: str) -> object:
    try:
        return scope[name]
    except KeyError:
        return MISSING


_HANDED_ON: Iterable[Read] = (((), True),)


class _Wanted:
    """What of a module is wanted by the code that has it.

    ``names``: all that it could read, of which what is there counts. ``reads``: what it does read, which
    counts even if it is only there when asked for. ``everywhere``: whether the names are looked for in the toolchain's
    modules below a module of the toolchain as well.
    """

    __slots__ = ("everywhere", "handed_on", "names", "reads")

    def __init__(self, names: frozenset[str], reads: Iterable[Read], *, everywhere: bool = False) -> None:
        self.names = names
        self.everywhere = everywhere
        self.handed_on = False
        self.reads: dict[str, list[Read]] = {}
        for chain, handed_on in reads:
            if chain:
                self.reads.setdefault(chain[0], []).append((chain[1:], handed_on))
            else:
                self.handed_on |= handed_on

    def below(self, attribute: str, names: frozenset[str]) -> _Wanted:
        """What is wanted of a module that is found as *attribute* of this one."""
        return _Wanted(names, self.reads.get(attribute, ()), everywhere=self.everywhere)


def _describe_module_attributes(node: Node, label: str, module: ModuleType, wanted: _Wanted, seen: set[int]) -> None:
    """A module counts for those of its attributes that the code could read off it."""
    if id(module) in seen and not wanted.reads and not wanted.handed_on:
        return
    names = wanted.names if id(module) not in seen else frozenset()
    seen.add(id(module))
    edition = edition_of(module)
    if wanted.handed_on:
        _hand_on(node, module, edition)
    if module is os and not names.isdisjoint({"environ", "getenv"}):
        _describe_environment(node, label, names)
    node.part(label, f"{module_name(module.__name__) or ''}{edition or ''}".encode(), f"module {module.__name__}")
    scope = vars(module)
    if edition is None:
        node.watch_attribute(module, "__class__", type(module))
    for attribute in sorted((names | wanted.reads.keys()) & (scope.keys() | wanted.reads.keys())):
        if imports.is_hidden(scope.get(attribute)):
            continue
        value = _attribute(node, module, attribute, asked=attribute in wanted.reads)
        inner = f"{label}.{attribute}"
        if not isinstance(value, ModuleType):
            _describe_attribute(node, inner, module, attribute, value, read=attribute in wanted.reads)
        elif edition is None or edition_of(value) is None or wanted.everywhere:
            _describe_module_attributes(node, inner, value, wanted.below(attribute, wanted.names), seen)
        elif attribute in wanted.reads:
            _describe_module_attributes(node, inner, value, wanted.below(attribute, frozenset()), seen)
    for attribute in sorted(names - scope.keys() - wanted.reads.keys()):
        # A submodule imported later, or an attribute set later, changes what the code means.
        node.watch_item(scope, attribute, MISSING)


def _describe_attribute(node: Node, label: str, module: ModuleType, attribute: str, value: Any, *, read: bool) -> None:
    """What was found on a module and is no module."""
    if value is MISSING:
        node.part(label, b"undefined", "undefined")
    elif module is sys and attribute in _STARTED_WITH:
        node.value(label, tuple(value) if attribute == "flags" else value)
    elif edition_of(module) is not None and _is_its_own(value, read=read and module is not sys):
        own = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
        node.part(label, str(own).encode(), str(own))
    else:
        node.value(label, value)


def _attribute(node: Node, module: ModuleType, name: str, *, asked: bool) -> object:
    """What *name* of a module is for who compiles code that reads it; MISSING if there is no such thing.

    Modules may answer for what isn't in them (PEP 562), or be of a class with properties. They are asked
    for what the code certainly reads, and for nothing else: answers may import, or warn.
    """
    scope = vars(module)
    value = scope.get(name, MISSING)
    plain = type(module) is ModuleType
    if not asked or (plain and (value is not MISSING or "__getattr__" not in scope)):
        node.watch_item(scope, name, value)
        if value is MISSING:
            node.watch_item(scope, "__getattr__", MISSING)
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compiling asks again
            value = getattr(module, name, MISSING)
    except Exception as exc:
        let_pass(exc)
        msg = f"the module {module.__name__} fails when asked for {name} ({exc!r})"
        raise Unidentifiable(msg) from exc
    if plain and vars(module).get(name, MISSING) is value is not MISSING:  # it remembers its answer
        node.watch_item(scope, name, value)
    else:
        node.watch_attribute(module, name, value)
    return value


def _hand_on(node: Node, module: ModuleType, edition: str | None) -> None:
    """Others may read off *module* whatever they like, by names that are known only when all is known."""
    if edition is None and (type(module) is not ModuleType or "__getattr__" in vars(module)):
        msg = f"the module {module.__name__}, which answers when asked, is handed on to other code"
        raise Unidentifiable(msg)
    node.handed_on.append(module)


def _describe_handed_on(node: Node, handed: HandedOn) -> None:
    node.title = "modules handed on"
    for root in handed.roots:
        node.edge("root", root)
    wanted = _Wanted(handed.names, (), everywhere=True)
    for module in sorted(handed.modules, key=lambda module: module.__name__):
        _describe_module_attributes(node, f"handed on {module.__name__}", module, wanted, set())


def _describe_environment(node: Node, label: str, names: frozenset[str]) -> None:
    """Code that runs while compiling may read environment variables, of which it must know the names."""
    store = os.environ._data  # type: ignore[attr-defined]
    for name in sorted(names):
        key = os.environ.encodekey(name)
        value = store.get(key, MISSING)
        node.watch_item(store, key, value)
        if value is not MISSING:
            node.value(f"{label}.environ[{name!r}]", os.environ[name])


def _is_its_own(value: object, *, read: bool) -> bool:
    """Whether an attribute found on a toolchain module is the toolchain's, so that its name says it all.

    What the toolchain keeps in its modules besides definitions and constants (locks, streams, generators) is
    no concern of compiled code, nor are its tables unless somebody certainly reads them.
    """
    if value is parallel.set_num_threads:  # more than its name counts
        return False
    if isinstance(value, FunctionType | type | Dispatcher | DUFunc | np.ufunc | BuiltinFunctionType):
        return toolchain_name(value) is not None or is_toolchain_definition(getattr(value, "py_func", value))
    if isinstance(value, MethodType):
        return is_toolchain_definition(value.__func__)
    if type(value) in {dict, list, set}:
        return not read
    if encode_atom(value) is not None or isinstance(value, _VALUES) or not is_toolchain_module(type(value).__module__):
        return False
    return "__wrapped__" not in getattr(value, "__dict__", ()) or toolchain_name(value) is not None


_VALUES = (
    tuple, frozenset, int, float, complex, str, bytes, np.ndarray, np.generic, types.Type, enum.Enum, functools.partial,
    ctypes._SimpleCData, ctypes._CFuncPtr, ctypes._Pointer,  # type: ignore[attr-defined]
)  # fmt: skip
"""What compiled code may take for a constant."""


# -- Numba's own kinds of function -------------------------------------------------------------


def _describe_dispatcher(node: Node, dispatcher: Any) -> None:
    node.title = f"{type(dispatcher).__name__} {function_name(dispatcher.py_func)}"
    # What is watched lies in a memo on the dispatcher itself: it must not keep the dispatcher alive.
    weakly = weakref.proxy(dispatcher)
    node.watch_attribute(weakly, "py_func", dispatcher.py_func)
    node.edge("py_func", dispatcher.py_func)
    _describe_options(node, dispatcher)
    node.edge("pipeline", dispatcher._compiler.pipeline_class)
    _describe_class_of(node, dispatcher)
    can_compile = dispatcher._can_compile
    node.watch_attribute(weakly, "_can_compile", can_compile)
    node.part("can compile", b"%d" % can_compile, str(can_compile))
    if not can_compile:
        # Calls are resolved among what there is, with conversions: what there is decides.
        node.part("overloads made from", node.check(_overloads_made_from, weakref.ref(dispatcher)))
        for i, cres in enumerate(dispatcher.overloads.values()):
            node.value(f"overload {i}", (*cres.signature.args, cres.signature.return_type))


def _describe_other_dispatcher(node: Node, dispatcher: Any) -> None:
    """A dispatcher of another target, which pickles as the name of its function and has no base in common with ours."""
    node.title = f"{type(dispatcher).__name__} {function_name(dispatcher.py_func)}"
    node.watch_attribute(weakref.proxy(dispatcher), "py_func", dispatcher.py_func)
    node.edge("py_func", dispatcher.py_func)
    _describe_options(node, dispatcher)
    _describe_class_of(node, dispatcher)


def _describe_simulated_kernel(node: Node, kernel: Any) -> None:
    """What stands for a kernel in the CUDA simulator; grid and stream are those of its last launch."""
    node.title = f"{type(kernel).__name__} {function_name(kernel.fn)}"
    node.watch_attribute(kernel, "fn", kernel.fn)
    node.edge("py_func", kernel.fn)
    for option in ("_device", "_fastmath", "_debug", "extensions"):
        value = getattr(kernel, option)
        node.watch_attribute(kernel, option, value)
        node.value(f"option {option}", value)
    _describe_class_of(node, kernel)


def _describe_class_of(node: Node, obj: object) -> None:
    """The class of a dispatcher, and what somebody's subclass keeps in it."""
    cls = type(obj)
    name = toolchain_name(cls)
    if name is not None:
        node.part("class", name.encode(), name)
        return
    node.edge("class", cls)
    inherited = set().union(*(_instance_attributes(base) for base in cls.__mro__ if toolchain_name(base) is not None))
    own = {key: value for key, value in vars(obj).items() if key not in inherited and not key.startswith("_nbcache")}
    for key, value in sorted(own.items()):
        node.watch_attribute(weakref.proxy(obj), key, value)
        node.value(f"state {key}", value)


@functools.cache
def _instance_attributes(cls: type) -> frozenset[str]:
    """Attributes that methods of *cls* read or set, and those that ``functools.wraps`` copies."""
    names = [member.__code__.co_names for member in vars(cls).values() if isinstance(member, FunctionType)]
    return frozenset(functools.WRAPPER_ASSIGNMENTS).union({"__wrapped__"}, *names)


def _describe_options(node: Node, dispatcher: Any) -> None:
    for option, value in sorted(dispatcher.targetoptions.items()):
        node.watch_item(dispatcher.targetoptions, option, value)
        node.value(f"option {option}", value)
    for variable, typ in _declared(getattr(dispatcher, "locals", None)):
        node.value(f"locals {variable}", typ)
    # Options that are dictionaries themselves (parallel={...}) are not edited in place.
    node.volatile = False


def _declared(variables: dict[str, Any] | None) -> list[tuple[str, Any]]:
    """``locals=`` without what compiling adds to it: ``x.1``, ``x.2`` for the assignments of an ``x`` that is there."""
    declared = variables or {}
    return sorted(
        (name, typ)
        for name, typ in declared.items()
        if "." not in name or declared.get(name.partition(".")[0]) is not typ
    )


def _overloads_made_from(known: weakref.ref[Any]) -> bytes:
    dispatcher = known()
    past = past_of(dispatcher)
    made = ((past.made_from.get(args), past.odd.get(args)) for args in vars(dispatcher)["overloads"])
    return repr(list(made)).encode()


def _describe_ufunc_dispatcher(node: Node, dispatcher: UFuncDispatcher) -> None:
    node.title = f"ufunc {function_name(dispatcher.py_func)}"
    node.edge("py_func", dispatcher.py_func)
    _describe_options(node, dispatcher)


def _describe_dufunc(node: Node, dufunc: Any) -> None:
    node.title = f"DUFunc {dufunc.__name__}"
    node.edge("dispatcher", dufunc._dispatcher)
    node.check(_dufunc_state, dufunc)
    node.part("state", _dufunc_state(dufunc), " ".join(dufunc.types))


def _dufunc_state(dufunc: Any) -> bytes:
    # Which loops exist already decides whether a call casts or compiles; what they were made from may be past.
    return repr((dufunc.types, dufunc.identity, dufunc._frozen, dufunc.reorderable, _loops_of(dufunc))).encode()


def _loops_of(ufunc: Any) -> Any:
    return vars(ufunc).get(LOOPS, ())


def _describe_gufunc(node: Node, gufunc: Any) -> None:
    node.title = f"GUFunc {gufunc.__name__}"
    builder = gufunc.gufunc_builder
    node.edge("py_func", builder.py_func)
    for option, value in sorted(builder.targetoptions.items()):
        node.value(f"option {option}", value)
    node.volatile = False
    node.check(_gufunc_state, gufunc)
    node.part("state", _gufunc_state(gufunc), gufunc.signature)


def _gufunc_state(gufunc: Any) -> bytes:
    builder = gufunc.gufunc_builder
    return repr(
        (
            builder.signature,
            builder.writable_args,
            builder.identity,
            [str(s) for s in builder._sigs],
            gufunc._frozen,
            _loops_of(gufunc),
        )
    ).encode()


def _describe_cfunc(node: Node, cfunc: Any) -> None:
    node.title = f"CFunc {function_name(cfunc._pyfunc)}"
    node.edge("py_func", cfunc._pyfunc)
    node.value("signature", (*cfunc._sig.args, cfunc._sig.return_type))
    for option, value in sorted(cfunc._compiler.targetoptions.items()):
        node.value(f"option {option}", value)
    for variable, typ in _declared(cfunc._compiler.locals):
        node.value(f"locals {variable}", typ)
    node.edge("pipeline", cfunc._compiler.pipeline_class)
    node.volatile = False


def _describe_stencil(node: Node, stencil: Any) -> None:
    function = stencil.kernel_ir.func_id.func
    node.title = f"stencil {function_name(function)}"
    node.edge("kernel", function)
    node.value("mode", stencil.mode)
    for option, value in sorted(stencil.options.items()):
        node.value(f"option {option}", value)
    node.volatile = False


def _describe_jitclass(node: Node, cls: Any) -> None:
    node.title = f"jitclass {module_name(cls.__module__)}:{cls.__qualname__}"
    node.edge("class type", cls.class_type)


def _describe_intrinsic(node: Node, intrinsic: _Intrinsic) -> None:
    # Its definition is asked when it is used, and what that answers counts (choices.py).
    node.title = f"intrinsic {function_name(intrinsic._defn)}"
    node.value("options", tuple(sorted(intrinsic._ctor_kwargs.items())))
    node.value("prefer_literal", bool(getattr(intrinsic, "_prefer_literal", False)))


def _refuse_lifted(_node: Node, obj: LiftedCode) -> None:
    msg = f"{type(obj).__name__} is code lifted out of another function"
    raise Unidentifiable(msg)


# -- Numba types -------------------------------------------------------------------------------


def _describe_type(node: Node, typ: Any) -> None:
    """A Numba type is its class and its fields.

    Some types name themselves by address; what the address stood for is among the fields then,
    so the name counts without it.
    """
    node.title = f"type {ADDRESS.sub('', typ.name)}"
    if isinstance(typ, types.WeakType):
        node.edge("object", typ._get_object())
        node.edge("class", type(typ))
        return
    if isinstance(typ, types.ClassType):
        _describe_class_type(node, typ)
        return
    cls = type(typ)
    name = toolchain_name(cls)
    if name is None:
        node.edge("class", cls)
    else:
        node.part("class", name.encode(), cls.__qualname__)
    fields = 0
    for field, value in sorted(vars(typ).items()):
        # An Omitted is keyed by the address of a default that cannot be hashed; its value counts.
        if field in {"_code", "name", "_value_key"} or isinstance(getattr(cls, field, None), functools.cached_property):
            continue
        if field.startswith("_impl_keys") or field == "_depth":
            continue
        fields += 1
        node.value(f"field {field}", value)
    node.volatile = isinstance(typ, types.DeferredType) and typ._define is None
    if not fields and ADDRESS.search(typ.name):
        msg = f"type {typ.name} is known by a process address alone"
        raise Unidentifiable(msg)


def _describe_template(node: Node, template: Any) -> None:
    """One of the objects that Numba resolves calls and attributes by: its class, besides the context it was made in."""
    node.title = "template"
    node.edge("class", type(template))
    node.value("state", {name: value for name, value in vars(template).items() if name != "context"})
    node.snapshot(lambda template: [*vars(template).values()], template)
    _refuse_other_contexts(node, template.context)


def _describe_context(node: Node, context: Any) -> None:
    node.title = f"Numba's {type(context).__qualname__}"
    _refuse_other_contexts(node, context)


def _refuse_other_contexts(_node: Node, context: Any) -> None:
    if context is not cpu_target.typing_context and context is not cpu_target.target_context:
        msg = f"a {type(context).__qualname__} that is not Numba's own"
        raise Unidentifiable(msg)


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


# -- NumPy -------------------------------------------------------------------------------------


def array_bytes(array: np.ndarray) -> bytes:
    """Everything compiled code can see of a captured array, content included."""
    hasher = hashlib.blake2b(encode_dtype(array.dtype), digest_size=32)
    flags = array.flags
    hasher.update(
        repr(
            (array.shape, flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable)
            + (() if flags.c_contiguous or flags.f_contiguous else (array.strides,))
        ).encode()
    )
    hasher.update(array.tobytes(order="A"))
    return hasher.digest()


def _describe_array(node: Node, array: np.ndarray) -> None:
    if array.dtype.hasobject:
        msg = "an array of Python objects"
        raise Unidentifiable(msg)
    node.title = "array"
    if type(array) is not np.ndarray:
        node.edge("class", type(array))
    content = node.check(array_bytes, array)
    node.part("array", content, f"array {array.dtype} {array.shape} {content.hex()[:8]}")


def _describe_ufunc(node: Node, ufunc: np.ufunc) -> None:
    if getattr(np, ufunc.__name__, None) is not ufunc:
        module = sys.modules.get("scipy.special")
        if module is None or getattr(module, ufunc.__name__, None) is not ufunc:
            msg = f"the ufunc {ufunc.__name__} has no source that can be seen"
            raise Unidentifiable(msg)
    node.title = f"ufunc {ufunc.__name__}"


# -- classes and modules -----------------------------------------------------------------------

_IGNORED_MEMBERS = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__annotations__",
        "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl", "__slots__",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "__orig_bases__", "__parameters__",
        "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__hash__", "class_type",
        "__slotnames__",  # what copyreg remembers
        # what Numba's templates remember between uses
        "_impl_cache", "_compiled_overloads", "_inline_overloads", "_overload_cache",
    }
)  # fmt: skip


def _describe_class(node: Node, cls: type) -> None:
    name = f"{module_name(cls.__module__)}:{cls.__qualname__}"
    if issubclass(cls, FunctionTemplate | AttributeTemplate):
        name = ADDRESS.sub("", name)  # made for a type, and called by its name
    node.title = f"class {name}"
    if toolchain_name(cls) is not None:
        return
    if issubclass(cls, BaseException):
        # Compiled code only ever names an exception class; what it does is the live class's affair.
        return
    path = _native_file(cls)
    if path is not None:
        node.part("file", node.check(file_digest, path), os.path.basename(path))
        return
    if type(cls) is not type:  # it may answer for attributes
        node.edge("metaclass", type(cls))
    for base in cls.__bases__:
        if base is not object:
            node.edge("base", base)
    if issubclass(cls, enum.Enum):
        for option in cls:
            node.value(f"member {name}: {option.name}", option.value)
        return
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        node.value("fields", tuple(cls._fields))
        return
    for member, value in node.watch_members(cls, ignored=_IGNORED_MEMBERS):
        if not isinstance(value, GetSetDescriptorType | MemberDescriptorType):
            node.value(f"member {name}: {member}", value)


def _native_file(cls: type) -> str | None:
    """The file of an extension module that *cls* comes from, if nobody can set attributes of *cls* later."""
    if cls.__flags__ & _HEAP_TYPE and not cls.__flags__ & _IMMUTABLE_TYPE:
        return None
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return path if path is not None and path.endswith(tuple(EXTENSION_SUFFIXES)) else None


_IMMUTABLE_TYPE, _HEAP_TYPE = 1 << 8, 1 << 9  # CPython's Py_TPFLAGS_*


def _describe_enum_member(node: Node, member: enum.Enum) -> None:
    node.title = f"enum member {member.name}"
    node.edge("class", type(member))
    node.value("value", member.value)


def _describe_module(node: Node, module: ModuleType) -> None:
    node.title = f"module {module_name(module.__name__)}"
    edition = edition_of(module)
    _hand_on(node, module, edition)
    if edition is not None:
        node.part("edition", edition.encode(), edition)
        return
    path = getattr(module, "__file__", None)
    if path is None:
        msg = f"the module {module.__name__} as a value"
        raise Unidentifiable(msg)
    node.part("file", node.check(file_digest, path), os.path.basename(path))


@functools.lru_cache(maxsize=4096)
def _digest_file(path: str, _mtime_ns: int, _size: int, _inode: int) -> bytes:
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).digest()


def file_digest(path: str) -> bytes:
    """Digest of a file's content; re-read when size, inode or time stamp changed."""
    try:
        status = os.stat(path)
        return _digest_file(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError as raised:
        let_pass(raised)
        return b"unreadable"


# -- everything else ---------------------------------------------------------------------------


def _describe_builtin(node: Node, function: Any) -> None:
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__qualname__", None) or function.__name__
    if owner is not None and not isinstance(owner, ModuleType | type) and is_toolchain_module(type(owner).__module__):
        # e.g. np.random.random, a method of NumPy's hidden RandomState
        node.title = f"method {type(owner).__module__}.{name}"
        return
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    path = getattr(module, "__file__", None)
    if module is None or path is None or not isinstance(owner, ModuleType | type | None):
        msg = f"the native function {name} has no source that can be seen"
        raise Unidentifiable(msg)
    node.title = f"native function {module.__name__}:{name}"
    node.part("file", node.check(file_digest, path), os.path.basename(path))


def _describe_descriptor(node: Node, descriptor: Any) -> None:
    owner = descriptor.__objclass__
    node.title = f"descriptor {owner.__module__}:{descriptor.__qualname__}"


def _describe_method(node: Node, method: MethodType) -> None:
    node.title = "bound method"
    node.edge("function", method.__func__)
    node.value("self", method.__self__)


def _describe_property(node: Node, prop: property) -> None:
    for label in ("fget", "fset", "fdel"):
        node.value(label, getattr(prop, label))


def _describe_wrapped(node: Node, wrapper: Any) -> None:
    node.edge("function", wrapper.__func__)


def _describe_cached_property(node: Node, prop: Any) -> None:
    node.edge("function", prop.func)


def _describe_mapping(node: Node, mapping: Any) -> None:
    node.snapshot(lambda m: [*m, *m.values()], mapping)
    node.value("items", dict(mapping))


def _describe_code(node: Node, code: CodeType) -> None:
    plan = plan_of(code)
    node.part("code", plan.digest, plan.digest.hex()[:12])


def _describe_signature(node: Node, sig: Signature) -> None:
    node.value("signature", (sig.return_type, sig.args, sig.recvr))
    if sig.pysig is not None:
        node.value("parameters", tuple((p.name, int(p.kind), p.default) for p in sig.pysig.parameters.values()))


def _describe_pattern(node: Node, pattern: re.Pattern[Any]) -> None:
    node.value("pattern", (pattern.pattern, pattern.flags))


def _refuse_pointer(_node: Node, obj: object) -> None:
    msg = f"a ctypes object ({type(obj).__name__}) is an address in this process"
    raise Unidentifiable(msg)


def _describe_function_pointer(node: Node, function: Any) -> None:
    if not _add_export(node, function, _called_by_ctypes):
        _refuse_pointer(node, function)
    for attribute in ("restype", "argtypes"):
        value = getattr(function, attribute)
        node.watch_attribute(function, attribute, value)
        node.value(attribute, value)
    node.part("flags", b"%d" % function._flags_, str(function._flags_))


def _describe_wrapper_address(node: Node, obj: Any) -> None:
    """An object that tells Numba where a function is; where isn't its identity if the address has a name."""
    if not _add_export(node, obj, _called_by_protocol):
        _describe_instance(node, obj)
        return
    node.value("signature", obj.signature())
    node.value("state", vars(obj))
    for base in type(obj).__mro__:
        if not is_toolchain_module(base.__module__):
            for member, value in node.watch_members(base, ignored=_IGNORED_MEMBERS | {"__wrapper_address__"}):
                if not isinstance(value, GetSetDescriptorType):
                    node.value(f"member {base.__qualname__}: {member}", value)


def _add_export(node: Node, obj: Any, address: Callable[[Any], int | None]) -> bool:
    """Add the name of the Cython function that *obj* calls; False if that isn't what it calls."""

    def name(obj: Any) -> bytes:
        return ":".join(exported_as(address(obj) or 0) or ()).encode()

    found = name(obj)
    if found:
        node.part("Cython function", node.check(name, obj), found.decode())
    return bool(found)


def _called_by_ctypes(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _called_by_protocol(obj: Any) -> int | None:
    return obj.__wrapper_address__()


def _describe_container(node: Node, value: Any) -> None:
    node.value("value", value)


def _describe_fortran(node: Node, function: Any) -> None:
    # f2py's routines have no module and no state; compiled code can't call them.
    node.title = "Fortran routine"
    node.value("documentation", function.__doc__)


def _describe_tuple_instance(node: Node, value: tuple[Any, ...]) -> None:
    node.title = "tuple"
    if type(value) is not tuple:
        node.edge("class", type(value))
    node.value("items", tuple(value))


def _describe_instance(node: Node, obj: Any) -> None:
    cls = type(obj)
    node.title = f"instance of {cls.__module__}.{cls.__qualname__}"
    state = getattr(obj, "__dict__", {})
    if isinstance(state.get("py_func"), FunctionType) and isinstance(state.get("targetoptions"), dict):
        _describe_other_dispatcher(node, obj)
    elif _is_plain(cls):
        node.edge("class", cls)
        node.value("state", vars(obj))
    else:
        _describe_by_reduction(node, obj)


def _is_plain(cls: type) -> bool:
    """Whether an instance is its class and its ``__dict__``, and pickling it would say just that."""
    return (
        getattr(cls, "__reduce_ex__", None) is getattr(object, "__reduce_ex__", None)
        and getattr(cls, "__reduce__", None) is getattr(object, "__reduce__", None)
        and getattr(cls, "__getstate__", None) is getattr(object, "__getstate__", None)
        and cls.__basicsize__ == _Plain.__basicsize__
        and cls.__dictoffset__ == _Plain.__dictoffset__
        and cls not in copyreg.dispatch_table
    )


class _Plain:
    """Nothing but a ``__dict__``."""


def _describe_by_reduction(node: Node, obj: Any) -> None:
    cls = type(obj)
    name = f"{cls.__module__}.{cls.__qualname__}"
    try:
        reducer = copyreg.dispatch_table.get(cls)
        reduced = reducer(obj) if reducer is not None else obj.__reduce_ex__(4)
    except Exception as exc:
        let_pass(exc)
        msg = f"an object of type {name} ({exc})"
        raise Unidentifiable(msg) from exc
    if isinstance(reduced, str):
        node.part("global", f"{cls.__module__}:{reduced}".encode(), reduced)
        if cls.__module__ != "typing":  # what annotations are made of
            # What functools.lru_cache wraps is here.
            node.edge("class", cls)
            node.value("state", getattr(obj, "__dict__", {}))
        return
    node.volatile = True
    function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    node.value("constructor", function)
    node.value("arguments", arguments)
    if isinstance(state, dict):
        state = {k: v for k, v in state.items() if k != MEMO}
    node.value("state", state)
    node.value("items", list(items) if items is not None else None)
    node.value("pairs", list(pairs) if pairs is not None else None)


# Kinds whose modules a process may never import are recognised by name.
_DESCRIBERS_BY_NAME: dict[str, Callable[[Node, Any], None]] = {
    "builtins:fortran": _describe_fortran,
    "numba.core.base:BaseContext": _describe_context,
    "numba.core.ccallback:CFunc": _describe_cfunc,
    "numba.core.typing.context:BaseContext": _describe_context,
    "numba.cuda.dispatcher:CUDADispatcher": _describe_other_dispatcher,
    "numba.cuda.simulator.kernel:FakeCUDAKernel": _describe_simulated_kernel,
    "numba.stencils.stencil:StencilFunc": _describe_stencil,
    "numba.experimental.jitclass.base:JitClassType": _describe_jitclass,
}

_DESCRIBERS: dict[type, Callable[[Node, Any], None]] = {
    FunctionType: _describe_function,
    Dispatcher: _describe_dispatcher,
    LiftedCode: _refuse_lifted,
    UFuncDispatcher: _describe_ufunc_dispatcher,
    DUFunc: _describe_dufunc,
    GUFunc: _describe_gufunc,
    _Intrinsic: _describe_intrinsic,
    types.Type: _describe_type,
    Signature: _describe_signature,
    FunctionTemplate: _describe_template,
    AttributeTemplate: _describe_template,
    np.ndarray: _describe_array,
    np.ufunc: _describe_ufunc,
    type: _describe_class,
    enum.Enum: _describe_enum_member,
    ModuleType: _describe_module,
    HandedOn: _describe_handed_on,
    BuiltinFunctionType: _describe_builtin,
    WrapperDescriptorType: _describe_descriptor,
    MethodDescriptorType: _describe_descriptor,
    MethodType: _describe_method,
    property: _describe_property,
    staticmethod: _describe_wrapped,
    classmethod: _describe_wrapped,
    functools.cached_property: _describe_cached_property,
    MappingProxyType: _describe_mapping,
    CodeType: _describe_code,
    re.Pattern: _describe_pattern,
    ctypes._SimpleCData: _refuse_pointer,
    ctypes._Pointer: _refuse_pointer,
    ctypes._CFuncPtr: _describe_function_pointer,  # type: ignore[attr-defined]
    types.WrapperAddressProtocol: _describe_wrapper_address,
    tuple: _describe_tuple_instance,
    dict: _describe_container,
    list: _describe_container,
    set: _describe_container,
    frozenset: _describe_container,
}
