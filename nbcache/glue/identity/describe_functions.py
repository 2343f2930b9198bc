"""What a Python function consists of: its code, and what that reads of cells, globals and modules."""

from __future__ import annotations

import ctypes
import enum
import functools
import os
import sys
import warnings
from abc import ABCMeta
from collections.abc import Iterable, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.typing.typeof import typeof_impl
from numba.np.ufunc import parallel
from numba.np.ufunc.dufunc import DUFunc

from nbcache.glue.identity import function_imports
from nbcache.glue.identity.bytecode import CLOSURE, GLOBAL, IMPORTED, CodePlan, Read, Wanted, plan_of
from nbcache.glue.identity.constant_bytes import encode_atom
from nbcache.glue.identity.marked_packages import Ran, changes_globals, is_marked, package_of, verdicts, whole
from nbcache.glue.identity.node import ANYTHING, Describer, HandedOn, Node, Unidentifiable
from nbcache.glue.identity.only_named import refer, refer_to_stub
from nbcache.glue.identity.ownership import (
    edition_of,
    has_toolchain_globals,
    is_toolchain_definition,
    is_toolchain_module,
    module_name,
    toolchain_name,
)
from nbcache.glue.identity.process_state import LISTENED_TO, describe_environment, tell, tell_imported, who_warns
from nbcache.glue.identity.watched import MISSING
from nbcache.passing_exceptions import let_pass

_builtins = vars(sys.modules["builtins"])


# -- functions -------------------------------------------------------------------------------


def function_name(function: FunctionType) -> str:
    """``module:qualname``, the way entries and ``nbcache why`` name a function."""
    return f"{module_name(function.__module__) or '<dynamic>'}:{function.__qualname__}"


def _describe_function(node: Node, function: FunctionType) -> None:
    name = function_name(function)
    node.title = f"function {name}"
    _describe_all_of_it(node, name, function)


def edge_to_code(node: Node, label: str, function: Any) -> None:
    """Add an edge to a function that there is to be compiled: whatever comes by, it counts by all of it."""
    node.edge(label, function if node.compiled else whole(function))


def _describe_ran(node: Node, ran: Ran) -> None:
    name = function_name(ran.function)
    node.title = f"function {name}, which ran"
    if changes_globals(ran.function.__code__):
        raise Unidentifiable(f"{name}, which ran while it was compiled, changes a global variable")
    _describe_all_of_it(node, name, ran.function)


def _describe_all_of_it(node: Node, name: str, function: FunctionType) -> None:
    code = function.__code__
    plan = plan_of(code)
    node.part(f"code {name}", plan.digest, plan.digest.hex()[:12])
    node.names = plan.attribute_names
    own = has_toolchain_globals(function)
    if not node.compiled and not own:
        _describe_what_it_may_do(node, name, function, plan)
    node.watch_paths(function, "__code__", "__defaults__", "__kwdefaults__")
    if plan.enters_blocks and node.compiled:
        from nbcache.glue.identity.object_mode import with_blocks

        plan = with_blocks(plan, function)
    parameters = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    for parameter, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=False):
        _describe_value(node, f"default {name}: {parameter}", default, plan)
    by_name = function.__kwdefaults__ or {}
    for parameter, default in by_name.items():
        node.watch_item(by_name, parameter, default)
        _describe_value(node, f"default {name}: {parameter}", default, plan)
    for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        describe_cell(node, f"closure {name}: {variable}", cell, plan, (CLOSURE, variable))
    # inspect.signature, and so Numba, follows these.
    compiled, node.compiled = node.compiled, False
    for attribute in ("__wrapped__", "__signature__"):
        if attribute in function.__dict__:
            node.watch_attribute(function, attribute, function.__dict__[attribute])
            node.value(f"{attribute} {name}", function.__dict__[attribute])
    if not compiled:
        _describe_what_is_said(node, function)
    node.compiled = compiled
    if own:
        return
    describe_globals(node, name, function, plan)
    _describe_imports(node, name, function, plan)
    if plan.asks_membership:
        for i, (_label, value) in enumerate(node.edges):
            # Whether something is in a captured array, Numba finds out while compiling.
            node.ways[i] &= not isinstance(value, np.ndarray | tuple)


def _describe_what_it_may_do(node: Node, name: str, function: FunctionType, plan: CodePlan) -> None:
    """What code that runs may read without naming it, and whether walks end at it once its package is marked."""
    from nbcache.glue.identity.computed_names import computes_names, describe_looks_around

    package = package_of(function)
    if package is not None and not is_marked(package):
        node.watch_item(verdicts, package, verdicts.get(package, MISSING))
    describe_looks_around(node, name, function, plan)
    if computes_names(function, plan):
        node.names |= {ANYTHING}


def _describe_what_is_said(node: Node, function: FunctionType) -> None:
    """What code that runs may read off a function that it has."""
    from nbcache.glue.identity.attributes import describe_annotations, describe_attributes

    describe_attributes(node, function)
    describe_annotations(node, function)
    for attribute in ("__name__", "__doc__", "__module__", "__qualname__"):  # the title says the last two
        node.watch_attribute(function, attribute, getattr(function, attribute))
    node.value("name and documentation", (function.__name__, function.__doc__))


def _describe_imports(node: Node, name: str, function: FunctionType, plan: CodePlan) -> None:
    """What the body imports when it runs."""
    for dotted in function_imports.imported_by(function):
        module = sys.modules.get(dotted, MISSING)
        node.watch_item(sys.modules, dotted, module)
        if isinstance(module, ModuleType) and (not is_toolchain_module(dotted) or dotted in _ALWAYS_THERE):
            _describe_what_is_read(node, f"import {name}: {dotted}", module, plan, _reads_of_import(plan, dotted))
        elif not node.compiled:
            tell_imported(node, f"import {name}: {dotted}", dotted, _reads_of_import(plan, dotted))


def describe_globals(node: Node, name: str, function: FunctionType, plan: CodePlan) -> None:
    """The global variables that the code of *function* reads, with this *plan*."""
    scope = function.__globals__
    builtin = _builtins if node.compiled else function.__builtins__
    for variable in plan.global_names:
        if not node.compiled and variable in _EVALUATORS and variable not in scope:
            msg = f"{name}, which may run while compiling, reads by {variable}() what its code doesn't name"
            raise Unidentifiable(msg)
        _describe_global(node, name, scope, builtin, variable, plan)


_EVALUATORS = frozenset({"globals", "eval", "exec"})


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
    if variable in plan.inside:
        from nbcache.glue.identity.object_mode import refer_from_block

        if refer_from_block(node, label, value):
            return
    if isinstance(value, ModuleType):
        _describe_what_is_read(node, label, value, plan, plan.reads.get(variable) or _HANDED_ON)
    elif variable[1] in plan.serialized and refer(node, label, value):
        pass
    elif type(value) is int and not node.compiled and plan.reads.get(variable) == set():
        # Such as the address of a function that a package may not have, which is another one in each process.
        node.part(label, b"number %d" % bool(value), "a number other than 0" if value else "0")
    elif node.compiled and isinstance(value, type) and _stands_for_itself(value):
        refer(node, label, value)
        _describe_members_by_name(node, label, value, plan.attribute_names)
    elif not (node.compiled and (refer_to_stub(node, label, value) or _is_unused(node, label, value, plan, variable))):
        node.value(label, value)


def _is_unused(node: Node, label: str, value: object, plan: CodePlan, variable: tuple[str, str]) -> bool:
    """Whether compiled code can't use what a *variable* holds, and *node* says so.

    A closure's may go into object mode as it is, and what a block is entered with is never typed.
    """
    root = str(type(value).__module__).partition(".")[0]
    if root in _SELDOM_UNTYPED or variable[0] != GLOBAL or plan.enters_blocks:
        return False
    from nbcache.glue.identity.untyped import name_untyped

    return name_untyped(node, label, value)


_SELDOM_UNTYPED = frozenset({"builtins", "numba", "numpy", "ctypes"})


def _describe_what_is_read(node: Node, label: str, module: ModuleType, plan: CodePlan, reads: Iterable[Read]) -> None:
    wanted = Wanted(plan.attribute_names, reads)
    if ANYTHING in node.names and edition_of(module) is None and (wanted.handed_on or "__dict__" in wanted.reads):
        from nbcache.glue.identity.computed_names import names_in_order

        wanted.names |= names_in_order(node, label, module)
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


def describe_cell(node: Node, label: str, cell: Any, plan: CodePlan, variable: tuple[str, str]) -> None:
    """What a *cell* holds, which code with this *plan* reads as that *variable*."""
    try:
        value = cell.cell_contents
    except ValueError:
        node.part(label, b"empty", "empty")
        node.volatile = True
        return
    node.watch_attribute(cell, "cell_contents", value)
    if variable[1] == "__classdict__":
        from nbcache.glue.identity.attributes import describe_class_scope

        describe_class_scope(node, label, value, plan.global_names)
        return
    _describe_value(node, label, value, plan, variable)


def _describe_global(
    node: Node, name: str, scope: dict[str, Any], builtin: dict[str, Any], variable: str, plan: CodePlan
) -> None:
    """A variable of a *scope*; the compiler looks for *builtin* ones among Python's, a function in its own."""
    value = scope.get(variable, MISSING)
    if type(scope) is not dict:  # Numba asks it as it asks for any item, and a subclass may answer what it likes
        raise Unidentifiable(f"the global variables of {name}, which are a {type(scope).__qualname__}")
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


_HANDED_ON: Iterable[Read] = (((), True),)

MOST_HANDED_ON = 10_000
"""How much may be read off modules.  Names are collected wherever a walk leads, and what is found under them leads
further: from one package that stands in for another, as Vector's backends do, to all of both."""


def _describe_module_attributes(node: Node, label: str, module: ModuleType, wanted: Wanted, seen: set[int]) -> None:
    """A module counts for those of its attributes that the code could read off it."""
    edition = edition_of(module)
    if edition is None or wanted.certainly:
        node.part(label, f"{module_name(module.__name__) or ''}{edition or ''}".encode(), f"module {module.__name__}")
    if id(module) in seen and not wanted.reads and not wanted.handed_on:
        return
    names = frozenset() if id(module) in seen else wanted.names_in(of_toolchain=edition is not None)
    seen.add(id(module))
    if wanted.handed_on:
        hand_on(node, module, edition)
    if module is os and not names.isdisjoint({"environ", "getenv"}):
        describe_environment(node, label, names)
    scope = vars(module)
    if edition is None:
        node.watch_attribute(module, "__class__", type(module))
    for attribute in sorted((names | wanted.reads.keys()) & (scope.keys() | wanted.reads.keys())):
        value = _attribute(node, module, attribute, asked=attribute in wanted.reads)
        inner = f"{label}.{attribute}"
        if not isinstance(value, ModuleType):
            _describe_attribute(node, inner, module, attribute, value, wanted)
        elif (by_names := wanted.everywhere or None in {edition, edition_of(value)}) or attribute in wanted.reads:
            below = wanted.below(attribute, wanted.names if by_names else frozenset())
            _describe_module_attributes(node, inner, value, below, seen)
    if len(node.edges) > MOST_HANDED_ON:
        msg = f"{label} is passed as a value to code that could read more than {MOST_HANDED_ON} attributes of it"
        raise Unidentifiable(msg)
    # A submodule imported later, or an attribute set later, changes what the code means.
    node.watch_absent(scope, names - scope.keys() - wanted.reads.keys())


def _describe_attribute(node: Node, label: str, module: ModuleType, attribute: str, value: Any, wanted: Wanted) -> None:
    """What was found on a module and is no module."""
    read = attribute in wanted.reads
    if value is MISSING:
        node.part(label, b"undefined", "undefined")
    elif module is sys and (attribute in _STARTED_WITH or (attribute == "path" and read)):
        node.value(label, tuple(value) if attribute == "flags" else value)
    elif edition_of(module) is not None and _is_its_own(value, read=read and module is not sys):
        own = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
        if wanted.certainly or own != attribute:
            node.part(label, own.encode(), own)
        if not node.compiled and (read or wanted.everywhere):
            name = toolchain_name(value)
            # Whoever writes to a stream asks nothing.
            if name is None and (module is not sys or wanted.asks(attribute)):
                name = f"{module.__name__}:{attribute}"
            tell(node, f"{label} tells", name)
    elif not (node.compiled and refer_to_stub(node, label, value)):
        node.value(label, value)


def _attribute(node: Node, module: ModuleType, name: str, *, asked: bool) -> object:
    """What *name* of a module is for who compiles code that reads it; MISSING if there is no such thing.

    Modules may answer for what isn't in them (PEP 562), or be of a class with properties. They are asked
    for what the code certainly reads, and for nothing else: answers may import, or warn.
    """
    scope = vars(module)
    value = scope.get(name, MISSING)
    if module is warnings and name in LISTENED_TO:
        return who_warns(node, name)
    plain = type(module) is ModuleType
    if not asked or (plain and (value is not MISSING or "__getattr__" not in scope)):
        node.watch_item(scope, name, value)
        if value is MISSING:
            node.watch_item(scope, "__getattr__", MISSING)
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compiling asks again
            value, again = getattr(module, name, MISSING), getattr(module, name, MISSING)
    except Exception as exc:
        let_pass(exc)
        raise Unidentifiable(f"the module {module.__name__} fails when asked for {name} ({exc!r})") from exc
    if again is not value:
        raise Unidentifiable(f"the module {module.__name__} gives something else each time that it is asked for {name}")
    if plain and vars(module).get(name, MISSING) is value is not MISSING:  # it remembers its answer
        node.watch_item(scope, name, value)
    else:
        node.watch_attribute(module, name, value)
    return value


def hand_on(node: Node, module: ModuleType, edition: str | None) -> None:
    """Others may read off *module* whatever they like, by names that are known only when all is known."""
    if edition is None and (type(module) is not ModuleType or "__getattr__" in vars(module)):
        msg = f"the module {module.__name__}, which computes its attributes, is passed as a value to other code"
        raise Unidentifiable(msg)
    node.handed_on.append((module, node.compiled))


def _describe_handed_on(node: Node, handed: HandedOn) -> None:
    node.title = "modules handed on"
    for root in handed.roots:
        node.edge("root", root)
    seen: tuple[set[int], set[int]] = (set(), set())
    for module, compiled in sorted(handed.modules, key=lambda each: (each[0].__name__, each[1])):
        node.compiled = compiled
        label, wanted = f"handed on {module.__name__}", Wanted(handed.names, (), everywhere=True)
        if ANYTHING in handed.names and edition_of(module) is None:
            from nbcache.glue.identity.computed_names import names_in_order

            wanted.names |= names_in_order(node, label, module)
        _describe_module_attributes(node, label, module, wanted, seen[compiled])


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

DESCRIBERS: dict[type, Describer] = {
    FunctionType: _describe_function,
    Ran: _describe_ran,
    HandedOn: _describe_handed_on,
}
