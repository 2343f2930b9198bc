"""Descriptions of the objects a compilation can reach, one describer per kind.

The table at the bottom maps types to describers; a class not listed is looked up along its MRO.
What no describer knows is described by the pickle protocol's own reduction, which is how Python
says what an object consists of; what refuses to be reduced is unidentifiable.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import gc
import hashlib
import importlib
import inspect
import os
import re
import sys
import warnings
import weakref
from abc import ABCMeta
from collections.abc import Mapping, Sequence
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
from numba.core import ir, types
from numba.core.ccallback import CFunc
from numba.core.datamodel import default_manager
from numba.core.dispatcher import Dispatcher, LiftedCode
from numba.core.extending import _Intrinsic
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate, FunctionTemplate, Signature
from numba.core.typing.typeof import typeof_impl
from numba.np.ufunc import parallel
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue.identity import imported
from nbcache.glue.identity.bytecode import CLOSURE, GLOBAL, IMPORTED, plan_of
from nbcache.glue.identity.cython import exported_as
from nbcache.glue.identity.exact import encode_atom, encode_dtype, extras_of
from nbcache.glue.identity.foreign import CFuncPtr, address_of, cffi_signature, is_cffi_function
from nbcache.glue.identity.graph import MARK, MISSING, HandedOn, Node, Unidentifiable
from nbcache.glue.identity.instances import HEAP_TYPE, add_state, describe_instance, dictionary_of
from nbcache.glue.identity.ownership import (
    edition_of,
    has_toolchain_globals,
    is_numba_type,
    is_toolchain_definition,
    is_toolchain_module,
    module_name,
    toolchain_name,
)
from nbcache.glue.identity.referred import Referred, describe_referred, refer
from nbcache.glue.identity.past import LOOPS, past_of
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbcache.glue.identity.bytecode import CodePlan, Read
    from nbcache.glue.identity.registrations import ExtensionIndex

_builtins = vars(sys.modules["builtins"])
ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}|#[0-9a-fA-F]{4,}")


class Describers:
    """``describe(obj) -> Node``; *extensions* tells apart namesakes for which something is registered."""

    def __init__(self, extensions: ExtensionIndex) -> None:
        self._extensions = extensions
        self._by_type: dict[type, tuple[type, Callable[[Node, Any], None], bool]] = {}
        """For a class, which of its bases is described, by what, and whether one instance can be told from another."""
        self._leaves: dict[int, tuple[str, Node]] = {}
        """What belongs to the toolchain: met in nearly every function, and digested once."""

    def describe(self, obj: object, compiled: bool = False) -> Node:
        """The node of *obj*, which is no atom: as what is *compiled*, or what may run.  Raises Unidentifiable."""
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
        node = Node(obj, "", compiled=compiled)
        kind = self._by_type.get(type(obj))
        if kind is None:
            kind = self._by_type[type(obj)] = (*_describer_for(type(obj)), _is_individual(type(obj)))
        base, describer, node.individual = kind
        describer(node, obj)
        if not node.title:
            node.title = type(obj).__name__
        ordinal = self._extensions.ordinal(obj.target if isinstance(obj, Referred) else obj)
        if ordinal is not None:
            node.part("among namesakes", repr(ordinal).encode(), str(ordinal))
        node.compiled = False
        if base is not type(obj) and base is not object and base not in _WITH_THEIR_STATE:
            if toolchain_name(type(obj)) is None:
                node.edge("class", type(obj))
            else:
                node.part("class", type(obj).__qualname__.encode())
            add_state(node, obj, beyond=base)
        return node


def _describer_for(cls: type) -> tuple[type, Callable[[Node, Any], None]]:
    """The describer of a class, and which of its bases that is for; ``object`` if it describes all of an instance."""
    for base in cls.__mro__:
        if base in _DESCRIBERS:
            return base, _DESCRIBERS[base]
        describer = _DESCRIBERS_BY_NAME.get(f"{base.__module__}:{base.__qualname__}")
        if describer is not None:
            return object, describer
    return object, _describe_instance


def _is_individual(cls: type) -> bool:
    """Whether one instance can be told from another that is like it; not where somebody makes them as they like."""
    if not _NO_INDIVIDUALS.isdisjoint(cls.__mro__):
        return False
    if not _INDIVIDUALS.isdisjoint(cls.__mro__) or cls.__module__.startswith("numba."):
        return True
    return not is_toolchain_module(cls.__module__)


# -- attributes that anybody sets --------------------------------------------------------------

_USUAL_ATTRIBUTES = frozenset(
    {"__module__", "__name__", "__qualname__", "__doc__", "__wrapped__", "__annotations__", "__signature__"}
)  # what functools.update_wrapper copies, and what is described anyway


def _describe_attributes(node: Node, obj: Any, *, but: frozenset[str] = _USUAL_ATTRIBUTES) -> None:
    """What was set on a function or the like; code that runs while compiling may read it."""

    def found(known: weakref.ref[Any]) -> list[object]:
        attributes = vars(known())
        names = sorted(name for name in attributes.keys() - but if not name.startswith(MARK))
        return [*names, *(attributes[name] for name in names)]

    node.snapshot(found, weakref.ref(obj))
    attributes = found(weakref.ref(obj))
    half = len(attributes) // 2
    for name, value in zip(attributes[:half], attributes[half:], strict=True):
        node.value(f"attribute {name}", value)


@functools.cache
def _attributes_of_any(kind: type) -> frozenset[str]:
    """What Numba sets on every dispatcher of a kind."""
    return _USUAL_ATTRIBUTES | vars(kind(lambda: None)).keys()


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
    compiled, node.compiled = node.compiled, False
    for attribute in ("__wrapped__", "__signature__"):
        if attribute in function.__dict__:
            node.watch_attribute(function, attribute, function.__dict__[attribute])
            node.value(f"{attribute} {name}", function.__dict__[attribute])
    if not compiled:
        _describe_attributes(node, function)
        node.watch_attribute(function, "__annotations__", function.__annotations__)
        node.value("annotations", function.__annotations__, owned=True)
        for attribute in ("__name__", "__doc__"):
            node.watch_attribute(function, attribute, getattr(function, attribute))
            node.value(attribute, getattr(function, attribute))
    node.compiled = compiled
    if has_toolchain_globals(function):
        return
    _describe_globals(node, name, function, plan)
    for dotted, by_text in imported.imported_by(function, runs=not compiled).items():
        module = imported.loaded(dotted)
        node.watch_item(sys.modules, dotted, module)
        if isinstance(module, ModuleType) and (not is_toolchain_module(dotted) or dotted in _ALWAYS_THERE):
            reads = _HANDED_ON if by_text else _reads_of_import(plan, dotted)
            _describe_what_is_read(node, f"import {name}: {dotted}", module, plan, reads)
    _describe_looks_around(node, name, function, plan)
    if plan.asks_membership:
        for i, (_label, value) in enumerate(node.edges):
            # Whether something is in a captured array, Numba finds out while compiling.
            node.ways[i] &= not isinstance(value, np.ndarray | tuple)


def _describe_looks_around(node: Node, name: str, function: FunctionType, plan: CodePlan) -> None:
    """What running code finds out about the process without anything leading there."""
    if node.compiled:
        return
    if not plan.attribute_names.isdisjoint(_OF_FRAMES):
        msg = f"{name}, which runs while compiling and looks at the variables of frames"
        raise Unidentifiable(msg)
    if "modules" in plan.attribute_names:  # of sys: whether one is loaded
        for text in sorted(imported.spelt(function)):
            module = sys.modules.get(text, MISSING)
            node.watch_item(sys.modules, text, module)
            node.part(f"loaded {text}", b"no" if module is MISSING else b"yes", "no" if module is MISSING else "yes")


_OF_FRAMES = frozenset({"f_globals", "f_locals"})


def _describe_globals(node: Node, name: str, function: FunctionType, plan: CodePlan) -> None:
    scope = function.__globals__
    builtin = _builtins if node.compiled else function.__builtins__
    for variable in plan.global_names:
        if not node.compiled and variable in _EVALUATORS and variable not in scope:
            msg = f"{name}, which may run while compiling, reads by {variable}() what its code doesn't name"
            raise Unidentifiable(msg)
        _describe_global(node, name, scope, builtin, variable, plan)


_EVALUATORS = frozenset({"globals", "eval", "exec"})


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


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
        _describe_what_is_read(node, label, value, plan, plan.reads.get(variable, _HANDED_ON))
    elif variable[1] in plan.serialized and refer(node, label, value):
        pass
    elif node.compiled and isinstance(value, type) and _stands_for_itself(value):
        refer(node, label, value)
        _describe_members_by_name(node, label, value, plan.attribute_names)
    else:
        node.value(label, value)


def _describe_what_is_read(node: Node, label: str, module: ModuleType, plan: CodePlan, reads: Iterable[Read]) -> None:
    wanted = _Wanted(plan.attribute_names, reads)
    if not node.compiled and edition_of(module) is None and _reads_what_it_computes(plan, wanted):
        node.watch_size(vars(module))
        wanted.names |= {each for each in vars(module) if not _is_dunder(each)}
    _describe_module_attributes(node, label, module, wanted, set())


def _stands_for_itself(cls: type) -> bool:
    """Whether a class means nothing to the compiler but what is registered for it.

    Not where Numba makes a type of it, as it does for exceptions, named tuples, enums and numbers, and not where
    somebody else does.
    """
    if toolchain_name(cls) is not None or issubclass(cls, _CLASSES_WITH_TYPES):
        return False
    return type(cls) in _PLAIN_METACLASSES and typeof_impl.dispatch(type(cls)) is _typeof_class


_CLASSES_WITH_TYPES = (BaseException, tuple, enum.Enum, np.generic, types.Type, Mapping, Sequence)
_PLAIN_METACLASSES = frozenset({type, ABCMeta})
_typeof_class = typeof_impl.dispatch(type)


def _describe_members_by_name(node: Node, label: str, cls: type, attributes: frozenset[str]) -> None:
    """Numba follows ``raise Errors.Missing``: what code could read off a class, but functions, which it can't use."""
    names = sorted(attributes)

    def read(cls: type) -> list[object]:
        return [next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), MISSING) for name in names]

    node.snapshot(read, cls)
    for name, value in zip(names, read(cls), strict=True):
        value = value.__func__ if isinstance(value, staticmethod | classmethod) else value  # noqa: PLW2901
        if value is not MISSING and not isinstance(value, _UNUSABLE):
            node.value(f"{label}.{name}", value)


_UNUSABLE = (FunctionType, property, functools.cached_property, GetSetDescriptorType, MemberDescriptorType,
             WrapperDescriptorType, MethodDescriptorType)  # fmt: skip


def _describe_cell(node: Node, label: str, cell: Any, plan: CodePlan, variable: tuple[str, str]) -> None:
    try:
        value = cell.cell_contents
    except ValueError:
        node.part(label, b"empty", "empty")
        node.volatile = True
        return
    node.watch_attribute(cell, "cell_contents", value)
    _describe_value(node, label, value, plan, variable)


def _describe_global(
    node: Node, name: str, scope: dict[str, Any], builtin: dict[str, Any], variable: str, plan: CodePlan
) -> None:
    """A variable of a *scope*; the compiler looks for *builtin* ones among Python's, a function in its own."""
    value = scope.get(variable, MISSING)
    if type(scope) is not dict:  # Numba asks it as it asks for any item, and a subclass may answer what it likes
        value = _item(scope, variable)
        node.snapshot(lambda scope: [_item(scope, variable)], scope)
    else:
        node.watch_item(scope, variable, value)
    if value is MISSING:
        value = builtin.get(variable, MISSING)
        node.watch_item(builtin, variable, value)
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
_READERS = frozenset({"getattr", "vars", "dir", "getmembers"})


def _reads_what_it_computes(plan: CodePlan, wanted: _Wanted) -> bool:
    """Whether code that has a module may read anything off it, by names that it doesn't spell."""
    return "__dict__" in wanted.reads or (wanted.handed_on and not _READERS.isdisjoint(plan.attribute_names))


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


MOST_HANDED_ON = 10_000
"""How much may be read off modules.  Names are collected wherever a walk leads, and what is found under them leads
further: from one package that stands in for another, as Vector's backends do, to all of both."""


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
        if imported.is_hidden(scope.get(attribute)):
            continue
        value = _attribute(node, module, attribute, asked=attribute in wanted.reads)
        inner = f"{label}.{attribute}"
        if not isinstance(value, ModuleType):
            _describe_attribute(node, inner, module, attribute, value, read=attribute in wanted.reads)
        elif edition is None or edition_of(value) is None or wanted.everywhere:
            _describe_module_attributes(node, inner, value, wanted.below(attribute, wanted.names), seen)
        elif attribute in wanted.reads:
            _describe_module_attributes(node, inner, value, wanted.below(attribute, frozenset()), seen)
    if len(node.edges) > MOST_HANDED_ON:
        msg = f"{label} is handed on to code that could read more than {MOST_HANDED_ON} things off it"
        raise Unidentifiable(msg)
    for attribute in sorted(names - scope.keys() - wanted.reads.keys()):
        # A submodule imported later, or an attribute set later, changes what the code means.
        node.watch_item(scope, attribute, MISSING)


def _describe_attribute(node: Node, label: str, module: ModuleType, attribute: str, value: Any, *, read: bool) -> None:
    """What was found on a module and is no module."""
    if value is MISSING:
        node.part(label, b"undefined", "undefined")
    elif module is sys and (attribute in _STARTED_WITH or (attribute == "path" and read)):
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
    compiled = node.compiled
    pipeline = dispatcher._compiler.pipeline_class
    # What is inlined, and what passes of others see, is looked at by more than the compiler.
    node.compiled &= dispatcher.targetoptions.get("inline", "never") == "never" and toolchain_name(pipeline) is not None
    node.edge("py_func", dispatcher.py_func)
    _describe_frozen_defaults(node, dispatcher)
    node.compiled = False
    _describe_options(node, dispatcher)
    node.edge("pipeline", pipeline)
    _describe_class_of(node, dispatcher)
    if not compiled:
        _describe_attributes(node, dispatcher, but=_attributes_of_any(type(dispatcher)))  # type: ignore[arg-type]
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


def _describe_frozen_defaults(node: Node, dispatcher: Any) -> None:
    """The defaults that callers get, which were the function's when it was decorated."""
    parameters = dispatcher._compiler.pysig.parameters.values()
    frozen = [p for p in parameters if p.default is not p.empty]
    function = dispatcher.py_func
    code, keywords = function.__code__, function.__kwdefaults__ or {}
    current = [*(function.__defaults__ or ()), *(keywords[p.name] for p in parameters if p.name in keywords)]
    declared = [(p.name, p.kind) for p in parameters]
    if declared != _parameters(code):
        # It had the signature of another one then (__signature__, __wrapped__), and callers go by that.
        node.value("parameters at decoration", tuple((name, int(kind)) for name, kind in declared))
    if len(frozen) != len(current) or any(p.default is not now for p, now in zip(frozen, current, strict=True)):
        for parameter in frozen:
            node.value(f"default at decoration: {parameter.name}", parameter.default)


def _parameters(code: CodeType) -> list[tuple[str, Any]]:
    """What a function with this code declares, in the order of `inspect.signature`."""
    positional, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    kinds: list[Any] = [inspect.Parameter.POSITIONAL_ONLY] * code.co_posonlyargcount
    kinds += [inspect.Parameter.POSITIONAL_OR_KEYWORD] * (positional - code.co_posonlyargcount)
    if code.co_flags & inspect.CO_VARARGS:
        kinds.append(inspect.Parameter.VAR_POSITIONAL)
    kinds += [inspect.Parameter.KEYWORD_ONLY] * code.co_kwonlyargcount
    names = [*code.co_varnames[:positional], *code.co_varnames[positional:last]]
    if code.co_flags & inspect.CO_VARARGS:
        names.insert(positional, code.co_varnames[last])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kinds.append(inspect.Parameter.VAR_KEYWORD)
        names.append(code.co_varnames[last + bool(code.co_flags & inspect.CO_VARARGS)])
    return list(zip(names, kinds, strict=True))


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
    node.compiled = False
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
    node.compiled = False
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
    node.compiled = False
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
    # The kernel's values are those of its decoration.
    for i, (name, value) in enumerate(_frozen_in(stencil.kernel_ir)):
        node.value(f"value {i} at decoration: {name}", value)
    node.compiled = False
    node.value("mode", stencil.mode)
    for option, value in sorted(stencil.options.items()):
        node.value(f"option {option}", value)
    node.volatile = False


def _frozen_in(func_ir: ir.FunctionIR) -> Iterator[tuple[str, object]]:
    """(name, value) of the globals and captured variables that a function's IR holds, in the order of its code."""
    for _label, block in sorted(func_ir.blocks.items()):
        for statement in block.find_insts(ir.Assign):
            if isinstance(statement.value, ir.Global | ir.FreeVar):
                value = statement.value.value
                if not isinstance(value, ModuleType):  # its attributes are read when the kernel is compiled
                    yield statement.value.name, value


def _describe_jitclass(node: Node, cls: Any) -> None:
    node.title = f"jitclass {module_name(cls.__module__)}:{cls.__qualname__}"
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
    msg = f"{type(obj).__name__} is code lifted out of another function"
    raise Unidentifiable(msg)


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
    cls = type(typ)
    name = toolchain_name(cls)
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
    for field, value in sorted(vars(typ).items()):
        # An Omitted is keyed by the address of a default that cannot be hashed; its value counts.
        if field in {"_code", "name", "_value_key"} or isinstance(getattr(cls, field, None), functools.cached_property):
            continue
        if field in _NOTES_OF_CALLS and isinstance(typ, types.BaseFunction):
            continue
        fields += 1
        if not node.compiled:
            node.watch_item(vars(typ), field, value)
        node.value(f"field {field}", value)
    node.volatile = isinstance(typ, types.DeferredType) and typ._define is None
    if not fields and has_address(typ):
        msg = f"type {typ.name} is known by a process address alone"
        raise Unidentifiable(msg)


_NOTES_OF_CALLS = frozenset({"_impl_keys", "_depth"})
"""What the type of a function remembers of the calls that it has typed."""


def _in_slots(obj: object) -> Iterator[tuple[str, Any]]:
    """What an object of somebody's class holds besides its dictionary."""
    for cls in type(obj).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, MemberDescriptorType) and hasattr(obj, name):
                yield name, getattr(obj, name)


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
        msg = f"a {type(context).__qualname__} that is not Numba's own"
        raise Unidentifiable(msg)


def _describe_data_models(node: Node, manager: Any) -> None:
    """Numba's table of data models, which keeps what it was asked for; what others register in it has names."""
    node.title = "Numba's data models"
    if manager is not default_manager:
        msg = "a table of data models that is not Numba's own"
        raise Unidentifiable(msg)


def has_address(typ: Any) -> bool:
    """Whether the name of a Numba type contains what could be an address of this process."""
    return any(map(_could_be_address, ADDRESS.findall(typ.name)))


def nameless(typ: Any) -> str:
    """The name of a Numba type without addresses of this process."""
    return ADDRESS.sub(lambda match: "" if _could_be_address(match[0]) else match[0], typ.name)


def _could_be_address(text: str) -> bool:
    """Whether a number lies where this process has objects; a colour such as ``#ff0000`` does not."""
    return int(text.lstrip("0#xX"), 16) >> 32 in _neighbourhoods()


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


# -- NumPy -------------------------------------------------------------------------------------


def array_head(array: np.ndarray) -> bytes:
    """What the compiler reads of a captured array besides its content."""
    flags = array.flags
    return encode_dtype(array.dtype) + repr((array.shape, array.strides, flags.aligned, flags.writeable)).encode()


def array_bytes(array: np.ndarray) -> bytes:
    """Everything that compiled code can see of a captured array, content included."""
    hasher = hashlib.blake2b(array_head(array), digest_size=32)
    plain = array.view(np.ndarray)
    if plain.flags.f_contiguous:
        plain = plain.T
    if plain.flags.c_contiguous:
        if plain.nbytes:
            hasher.update(plain.reshape(-1).view(np.uint8).data)  # where it lies
    else:
        with np.nditer(plain, flags=["external_loop", "buffered", "zerosize_ok"], order="C") as blocks:
            for block in blocks:
                hasher.update(block.tobytes())  # type: ignore[attr-defined]
    return hasher.digest()


def by_address(array: np.ndarray) -> bool:
    """Whether Numba lowers a captured array as its address; `BaseContext.make_constant_array` has the rule."""
    flags = array.flags
    return not (flags.c_contiguous or flags.f_contiguous) or array.nbytes > _LARGEST_CONSTANT


_LARGEST_CONSTANT = 10**6


def _describe_array(node: Node, array: np.ndarray) -> None:
    if array.dtype.hasobject:
        msg = "an array of Python objects"
        raise Unidentifiable(msg)
    node.title = "array"
    for extra in extras_of(array.dtype):
        node.value("dtype", extra, owned=True)
    if node.compiled and type(array) is np.ndarray and by_address(array):
        node.live = True
        head = node.check(array_head, array)
        node.part("array by address", head, f"array {array.dtype} {array.shape}")
        return
    content = node.check(array_bytes, array)
    node.part("array", content, f"array {array.dtype} {array.shape} {content.hex()[:8]}")


def _describe_dtype(node: Node, dtype: np.dtype) -> None:
    node.title = "dtype"
    node.part("dtype", encode_dtype(dtype), str(dtype))
    for extra in extras_of(dtype):
        node.value("extra", extra, owned=True)


def _describe_scalar(node: Node, value: np.generic) -> None:
    if value.dtype.hasobject:
        msg = "a record of Python objects"
        raise Unidentifiable(msg)
    node.title = "scalar"
    node.value("dtype", value.dtype)
    node.part("content", node.check(_bytes_of_scalar, value), repr(value)[:200])


def _bytes_of_scalar(value: np.generic) -> bytes:
    return np.generic.tobytes(value)


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
        "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__",
        "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "class_type",
        "__slotnames__",  # what copyreg remembers
        # what Numba's templates remember between uses
        "_impl_cache", "_compiled_overloads", "_inline_overloads", "_overload_cache",
    }
)  # fmt: skip


def _describe_class(node: Node, cls: type) -> None:
    name = f"{module_name(cls.__module__)}:{cls.__qualname__}"
    # Not issubclass(), which asks each of the thousands of other templates when it sees a class for the first time.
    if not {FunctionTemplate, AttributeTemplate}.isdisjoint(cls.__mro__):
        name = ADDRESS.sub("", name)  # made for a type, and called by its name
    node.title = f"class {name}"
    compiled = node.compiled
    if toolchain_name(cls) is not None or (is_toolchain_module(cls.__module__) and not cls.__flags__ & HEAP_TYPE):
        return
    path = _native_file(cls)
    if path is not None:
        node.part("file", node.check(file_digest, path), os.path.basename(path))
        return
    if type(cls) is not type:  # it may answer for attributes
        node.edge("metaclass", type(cls))
    node.watch_attribute(cls, "__bases__", cls.__bases__)
    for base in cls.__bases__:
        if base is not object:
            node.edge("base", base)
    if issubclass(cls, BaseException) and compiled:
        # Compiled code only ever names an exception class; what it does is the live class's affair.
        return
    node.compiled = False
    ignored = _IGNORED_MEMBERS
    if issubclass(cls, enum.Enum):
        ignored |= _describe_enum_members(node, cls, name)
    elif issubclass(cls, tuple) and "_fields" in vars(cls):
        # What it was given when it was made; the rest is made from that.
        ignored |= _MADE_FOR_NAMED_TUPLES
        node.watch_attribute(cls, "__new__", cls.__new__)
        node.watch_attribute(cls.__new__, "__defaults__", cls.__new__.__defaults__)
        node.value("defaults", cls.__new__.__defaults__)
    for member, value in node.watch_members(cls, ignored=ignored):
        if not isinstance(value, GetSetDescriptorType | MemberDescriptorType) and not _is_spent(member, value):
            node.value(f"member {name}: {member}", value)
    if isinstance(cls, ABCMeta):
        _describe_registered(node, cls)


_MADE_FOR_NAMED_TUPLES = frozenset(
    {"__new__", "_make", "_replace", "__replace__", "__repr__", "_asdict", "__getnewargs__", "__match_args__"}
)
_MADE_FOR_ENUMS = frozenset(
    {
        "_member_names_", "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_",
        "_unhashable_values_map_", "_new_member_", "__new_member__", "_use_args_", "_member_type_", "_value_repr_",
        "_singles_mask_", "_all_bits_", "_flag_mask_", "_inverted_", "_iter_member_", "_iter_member_by_value_",
        "_iter_member_by_def_",
    }
)  # fmt: skip


def _is_spent(member: str, value: object) -> bool:
    """Whether it is what ``__slots__`` were read from once."""
    return member == "__slots__" and not isinstance(value, str | tuple | list | dict)


def _describe_enum_members(node: Node, cls: Any, name: str) -> frozenset[str]:
    """All members, under all their names, aliases and composite flags included; returns what they are called."""
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


_STATE_OF_ENUM_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})


_registry_of = importlib.import_module("_abc")._get_dump  # nothing says what types it has


def _describe_registered(node: Node, cls: Any) -> None:
    found = node.check(_names_of_registered, cls)
    node.part("registered", found, found.decode())
    for registered in _registered_with(cls):
        node.edge("registered", registered)


def _registered_with(cls: Any) -> list[type]:
    """The classes that were registered as an abstract one's subclasses."""
    found = [known() for known in _registry_of(cls)[0]]
    return sorted((each for each in found if each is not None), key=lambda each: (each.__module__, each.__qualname__))


def _names_of_registered(cls: Any) -> bytes:
    return " ".join(f"{each.__module__}:{each.__qualname__}" for each in _registered_with(cls)).encode()


def _native_file(cls: type) -> str | None:
    """The file of an extension module that *cls* comes from, if nobody can set attributes of *cls* later."""
    if cls.__flags__ & HEAP_TYPE and not cls.__flags__ & _IMMUTABLE_TYPE:
        return None
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return path if path is not None and path.endswith(tuple(EXTENSION_SUFFIXES)) else None


_IMMUTABLE_TYPE = 1 << 8  # CPython's Py_TPFLAGS_IMMUTABLETYPE


def _describe_enum_member(node: Node, member: enum.Enum) -> None:
    node.title = f"enum member {member.name}"
    node.edge("class", type(member))
    node.value("value", (member._name_, member._value_))
    state = {k: v for k, v in (dictionary_of(member) or {}).items() if k not in _STATE_OF_ENUM_MEMBERS}
    node.snapshot(lambda member: [member._value_, *vars(member).values()], member)
    node.value("state", state, owned=True)


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


def _add_pointer(node: Node, function: object) -> None:
    """Compiled code calls it where it is in each process; what it does when it runs while compiling isn't known."""
    if not node.compiled:
        msg = f"a native function ({type(function).__name__}) that could be called while compiling"
        raise Unidentifiable(msg)
    node.individual = node.live = True


def _describe_cffi_object(node: Node, obj: Any) -> None:
    if not is_cffi_function(obj):
        msg = f"a cffi object ({type(obj).__name__}) is an address in this process"
        raise Unidentifiable(msg)
    node.title = "cffi function"
    _add_pointer(node, obj)
    try:
        signature = cffi_signature(obj)
    except TypeError as exc:
        msg = f"a cffi function that Numba can't call ({exc})"
        raise Unidentifiable(msg) from exc
    node.part("signature", signature.encode(), signature)


def _describe_builtin(node: Node, function: Any) -> None:
    if is_cffi_function(function):
        _describe_cffi_object(node, function)
        return
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__qualname__", None) or function.__name__
    home = type(owner).__module__
    if is_toolchain_module(home) and vars(sys.modules[home]).get(function.__name__) is function:
        # e.g. np.random.random or random.random, methods of generators that are hidden in these modules
        node.title = f"method {home}.{name}"
        return
    if owner is not None and not isinstance(owner, ModuleType):
        node.title = f"native method {function.__name__}"
        node.value("owner", owner)
        return
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    path = getattr(module, "__file__", None)
    if module is None or path is None:
        msg = f"the native function {name} has no source that can be seen"
        raise Unidentifiable(msg)
    node.title = f"native function {module.__name__}:{name}"
    node.part("file", node.check(file_digest, path), os.path.basename(path))


def _describe_descriptor(node: Node, descriptor: Any) -> None:
    owner = descriptor.__objclass__
    node.title = f"descriptor {owner.__module__}:{descriptor.__qualname__}"
    node.edge("owner", owner)


def _describe_method(node: Node, method: MethodType) -> None:
    node.title = "bound method"
    node.edge("function", method.__func__)
    node.value("self", method.__self__)


def _describe_property(node: Node, prop: property) -> None:
    for label in ("fget", "fset", "fdel"):
        node.value(label, getattr(prop, label))


def _describe_wrapped(node: Node, wrapper: Any) -> None:
    node.value("function", wrapper.__func__)
    attributes = dictionary_of(wrapper) or {}
    node.snapshot(lambda wrapper: [*(dictionary_of(wrapper) or {}).values()], wrapper)
    own = {name: value for name, value in attributes.items() if name not in _USUAL_ATTRIBUTES}
    if own:
        node.value("attributes", own, owned=True)


def _describe_cached_property(node: Node, prop: Any) -> None:
    node.value("function", prop.func)
    node.value("name", prop.attrname)


def _describe_mapping(node: Node, mapping: Any) -> None:
    (behind,) = gc.get_referents(mapping)  # its own methods may be overridden
    node.edge("mapping", behind)


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


def _describe_ctypes_function(node: Node, function: Any) -> None:
    """How it is called; what it is counts if that has a name, and else its address is bound in each process."""
    node.title = "ctypes function"
    if not _add_export(node, function, address_of):
        _add_pointer(node, function)
    for attribute in ("restype", "argtypes"):
        value = getattr(function, attribute)
        node.watch_attribute(function, attribute, value)
        node.value(attribute, value)
    node.part("flags", b"%d" % function._flags_, str(function._flags_))


def _describe_wrapper_address(node: Node, obj: Any) -> None:
    """An object that tells Numba where a function is; where isn't its identity if the address has a name."""
    if not _add_export(node, obj, _called_by_protocol):
        describe_instance(node, obj)
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


def _called_by_protocol(obj: Any) -> int | None:
    return obj.__wrapper_address__()


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
        usual = vars(logger.root).keys()
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


def _describe_type_variable(node: Node, variable: Any) -> None:
    node.title = f"type variable {variable.__name__}"
    node.value("limits", (variable.__bound__, variable.__constraints__, variable.__covariant__,
                          variable.__contravariant__))  # fmt: skip


def _describe_fortran(node: Node, function: Any) -> None:
    # f2py's routines have no module and no state; compiled code can't call them.
    node.title = "Fortran routine"
    node.value("documentation", function.__doc__)


def _describe_tuple(node: Node, value: tuple[Any, ...]) -> None:
    node.title = "tuple"
    node.value("items", tuple(tuple.__iter__(value)))


def _describe_instance(node: Node, obj: Any) -> None:
    state = dictionary_of(obj) or {}
    if isinstance(state.get("py_func"), FunctionType) and isinstance(state.get("targetoptions"), dict):
        _describe_other_dispatcher(node, obj)
    else:
        describe_instance(node, obj)


# Kinds whose modules a process may never import are recognised by name.
_DESCRIBERS_BY_NAME: dict[str, Callable[[Node, Any], None]] = {
    "_cffi_backend:_CDataBase": _describe_cffi_object,
    "_cffi_backend:__CDataOwnGC": _describe_cffi_object,
    "builtins:fortran": _describe_fortran,
    "numba.core.base:BaseContext": _describe_context,
    "numba.core.datamodel.manager:DataModelManager": _describe_data_models,
    "logging:Logger": _describe_logger,
    "typing:TypeVar": _describe_type_variable,
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
    np.dtype: _describe_dtype,
    np.generic: _describe_scalar,
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
    weakref.ref: _describe_weak_reference,
    _FIELD_OF_TUPLE: _describe_field_of_tuple,
    Referred: describe_referred,
    ctypes._SimpleCData: _refuse_pointer,
    ctypes._Pointer: _refuse_pointer,
    CFuncPtr: _describe_ctypes_function,
    types.WrapperAddressProtocol: _describe_wrapper_address,
    tuple: _describe_tuple,
    dict: _describe_container,
    list: _describe_container,
    set: _describe_container,
    frozenset: _describe_container,
}

_WITH_THEIR_STATE: frozenset[type] = frozenset(
    {FunctionType, Dispatcher, LiftedCode, UFuncDispatcher, DUFunc, GUFunc, _Intrinsic, types.Type, np.ufunc, type,
     FunctionTemplate, AttributeTemplate,
     enum.Enum, ModuleType, ctypes._SimpleCData, ctypes._Pointer, types.WrapperAddressProtocol,
     CFuncPtr,
     dict, list, set, frozenset, np.dtype}
)  # fmt: skip
"""Whose describers describe all of a subclass's instance as well."""
_INDIVIDUALS: frozenset[type] = frozenset(
    {FunctionType, type, list, dict, set, bytearray, np.ndarray, np.void, ModuleType}
)
_NO_INDIVIDUALS: frozenset[type] = frozenset({types.Type, Signature, tuple, np.dtype, enum.Enum})


def is_compilable(obj: object) -> bool:
    """Whether *obj* is reached by what is compiled as something to compile, and not as something that may run."""
    return _is_compilable_kind(type(obj)) or (isinstance(obj, type) and issubclass(obj, BaseException))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=4096)
def _is_compilable_kind(cls: type) -> bool:
    return not _COMPILABLE.isdisjoint(cls.__mro__) or cls.__name__ in _COMPILABLE_BY_NAME


_COMPILABLE_BY_NAME = frozenset({"StencilFunc", "JitClassType", "_CDataBase", "__CDataOwnGC"})
_COMPILABLE: frozenset[type] = frozenset(
    {
        FunctionType,
        Dispatcher,
        UFuncDispatcher,
        DUFunc,
        GUFunc,
        CFunc,
        HandedOn,
        types.Type,
        tuple,
        np.ndarray,
        CFuncPtr,
        BuiltinFunctionType,
    }
)
