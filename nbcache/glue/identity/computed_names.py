"""What code that runs while compiling finds out without anything of it leading there: modules, names that it computes,
frames, lines.

It may read what it likes off a module that it is given, by names that stand nowhere; then all of the module counts.
What it finds by a way that can't be followed makes the function uncacheable.
"""

from __future__ import annotations

import io
import sys
import threading
from types import BuiltinFunctionType, FunctionType, GeneratorType, ModuleType

from numba.core.dispatcher import Dispatcher
from numba.core.typing.typeof import typeof_impl
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from nbcache.glue.identity.bytecode import IMPORTED, CodePlan, variables_of
from nbcache.glue.identity.node import Node, Unidentifiable
from nbcache.glue.identity.ownership import is_toolchain_definition

_READERS = frozenset(
    {
        "__dict__", "__dir__", "__getattribute__", "attrgetter", "dir", "get_type_hints", "getattr", "getattr_static",
        "getdoc", "getmembers", "hasattr", "methodcaller", "vars",
    }
)  # fmt: skip


def computes_names(function: FunctionType, plan: CodePlan) -> bool:
    """Whether code may read anything off what it has, by names that it need not spell."""
    return not _READERS.isdisjoint(plan.attribute_names | _other_names(function))


def _other_names(function: FunctionType) -> set[str]:
    """The own names of functions that code has by names of its choice."""
    values = (value for _variable, value in variables_of(function))
    return {each.__name__ for each in values if isinstance(each, FunctionType | BuiltinFunctionType | type)}


def names_in_order(node: Node, label: str, module: ModuleType) -> frozenset[str]:
    """The names of what is in a *module*; the order of all of them counts."""
    names = [each for each in vars(module) if each not in _OF_IMPORTING]
    node.snapshot(list, vars(module))
    node.part(f"{label} in order", " ".join(names).encode("utf-8", "surrogatepass"))
    return frozenset(name for name in names if not isinstance(vars(module)[name], _OF_ONE_PROCESS))


_OF_IMPORTING = frozenset(
    {
        "__builtins__", "__cached__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__",
        "__warningregistry__",
    }
)  # fmt: skip
"""What Python itself puts into a module, and says where it is from or what has happened since."""
_OF_ONE_PROCESS = (
    type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Event, threading.Semaphore,
    threading.Thread, threading.local, io.IOBase, GeneratorType,
)  # fmt: skip
"""What nobody identifies, and is of no use to who finds it by chance; by name it counts all the same."""


_OF_OVERLOADS = frozenset(
    {
        "get_metadata", "get_overload", "inspect_asm", "inspect_cfg", "inspect_llvm", "inspect_types",
        "nopython_signatures", "overloads", "signatures",
    }
)  # fmt: skip
_LOOKS_AT = {
    "the variables of frames": frozenset({"__globals__", "f_globals", "f_locals"}),
    "numbers of lines": frozenset(
        {"co_firstlineno", "co_lines", "co_positions", "f_lineno", "firstlineno", "strformat", "tb_lineno"}
    ),
    "the names of files": frozenset({"co_filename", "getabsfile", "getfile", "getsourcefile"}),
    "the subclasses of a class": frozenset({"__subclasses__"}),
    "the time": frozenset(
        {"astimezone", "fromtimestamp", "now", "strftime", "strptime", "timestamp", "today", "utcnow"}
    ),
    "the module in which something was made": frozenset({"getmodule"}),
    "modules that it names by a text": frozenset({"__import__"}),
}


def describe_looks_around(node: Node, name: str, function: FunctionType, plan: CodePlan) -> None:
    """Add what a *function* that runs while compiling finds out about the process.  Raises Unidentifiable."""
    names = plan.attribute_names | _other_names(function)
    for words, attributes in _LOOKS_AT.items():
        if not names.isdisjoint(attributes):
            raise Unidentifiable(f"{name}, which runs while compiling and looks at {words}")
    values = [value for _variable, value in variables_of(function)]
    compiled = any(isinstance(value, Dispatcher | DUFunc | GUFunc) for value in values)
    if not names.isdisjoint(_OF_OVERLOADS) and ("dispatcher" in names or compiled):
        raise Unidentifiable(f"{name}, which runs while compiling and looks at what something was compiled for")
    if not names.isdisjoint(_ASK_FOR_TYPES):
        _describe_typeof(node, values)
    if "line" in names and ("loc" in names or "loc" in function.__code__.co_varnames):
        raise Unidentifiable(f"{name}, which runs while compiling and looks at the lines of what is compiled")
    if _looks_for_modules(function, plan):
        raise Unidentifiable(f"{name}, which runs while compiling and looks at the modules that are loaded")


_ASK_FOR_TYPES = frozenset({"resolve_value_type", "typeof", "typeof_impl", "typeof_pyval"})


def _describe_typeof(node: Node, values: list[object]) -> None:
    """Who says of what type the *values* are that code has which asks."""
    for cls in dict.fromkeys(value if isinstance(value, type) else type(value) for value in values):
        node.snapshot(_typeof, cls)
        (says,) = _typeof(cls)
        if not is_toolchain_definition(says):
            node.edge(f"typeof {cls.__qualname__}", says)


def _typeof(cls: type) -> list[object]:
    return [typeof_impl.dispatch(cls)]


def _looks_for_modules(function: FunctionType, plan: CodePlan) -> bool:
    """Whether code has ``sys.modules``, by whatever name."""
    values = {**dict(variables_of(function)), (IMPORTED, "sys"): sys}
    return any(value is sys.modules for value in values.values()) or (
        "modules" in plan.attribute_names
        and any(
            values.get(variable) is sys and any(chain[:1] in {(), ("modules",)} for chain, _handed_on in reads)
            for variable, reads in plan.reads.items()
        )
    )
