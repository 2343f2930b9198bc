"""Signatures that decorators declare, in a process that goes through a profile: compiled when it is their turn.

``@njit("f8(f8)")`` compiles when its module is imported, so whoever imports the module compiles one function after the
other, in the program's order, and would only ever follow the program. Here the decorator compiles nothing. All that a
function declares is compiled when the first of it is wanted, and before anything is that is built upon the function:
a dispatcher that has its signatures from its decorator takes no others, so calls are resolved among what it has. For
the same reason one that isn't complete has an identity of its own, which no program asks for, and completes itself
where Numba or its module come to it in a way that isn't foreseen here.

What is compiled later finds the module as it is by then. Its key says so; where that makes a difference, it is of no
use to the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FunctionType, ModuleType
from typing import Any, Final

from numba.core import typeinfer
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue import own_attributes
from nbcache.glue.identity.bytecode import plan_of
from nbcache.glue.identity.ownership import cell_values, toolchain_name
from nbcache.glue.requests.requested import python_function

_DECLARING: Final = ("compile", "disable_compile")
"""What a decorator calls."""
_WANTING: Final = (
    "_compile_for_args", "compile", "disable_compile", "get_call_template", "get_compile_result", "get_overload",
)  # fmt: skip
"""What is called of a dispatcher by whoever wants code of it, or takes it for complete."""
_register: Final = typeinfer.register_dispatcher


def begin() -> None:
    """Have decorators put off what they compile from now on, in this process."""
    typeinfer.register_dispatcher = _put_off
    for owner, name in ((Dispatcher, "compile"), (UFuncDispatcher, "_compile_core"), (CFunc, "compile")):
        setattr(owner, name, _in_order(getattr(owner, name)))


def _in_order(original: Any) -> Any:
    """Modules compile while they are imported: they call functions, and make ufuncs and callbacks of others."""

    def compile_in_order(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        _complete_needed(kernel)
        return original(kernel, *args, **kwargs)

    return compile_in_order


def _put_off(dispatcher: Any) -> AbstractContextManager[None]:
    """In the place of Numba's context manager around the compilations of a decorator."""
    # A function of this module's, which `@contextmanager` would return none of: keys leave out what is nbcache's.
    return _declaring(dispatcher) if isinstance(dispatcher, Dispatcher) else _register(dispatcher)


@contextmanager
def _declaring(dispatcher: Any) -> Iterator[None]:
    declared: list[Any] = []
    own = vars(dispatcher)
    own.update(compile=declared.append, disable_compile=lambda: None)
    try:
        yield
    finally:
        for name in _DECLARING:
            del own[name]
    _postpone(dispatcher, declared)


def _postpone(dispatcher: Any, declared: list[Any]) -> None:
    own_attributes.postpone(dispatcher, declared)
    for name in _WANTING:
        vars(dispatcher)[name] = _completing(dispatcher, name)


def _completing(dispatcher: Any, name: str) -> Any:
    def complete_first(*args: Any, **kwargs: Any) -> Any:
        complete(dispatcher)
        # Who called it asks for what is to be called in its place: itself, now that it is complete.
        return dispatcher if name == "_compile_for_args" else getattr(dispatcher, name)(*args, **kwargs)

    return complete_first


def complete(dispatcher: Any) -> None:
    """Compile, or load, all that was put off of something that compiles, as its decorator would have.

    Raises what Numba raises, and then all is put off still: half of it is no function that a program has.
    """
    declared = own_attributes.no_longer_postponed(dispatcher) if isinstance(dispatcher, Dispatcher) else None
    if declared is None:
        return
    for name in _WANTING:
        del vars(dispatcher)[name]
    try:
        with _register(dispatcher):
            for signature in declared:
                dispatcher.compile(signature)
            dispatcher.disable_compile()
    except Exception:
        _postpone(dispatcher, declared)
        raise


@contextmanager
def turn_of(kernel: Any) -> Iterator[None]:
    """Complete what *kernel*, which compiles a function, is built upon, as far as names lead there, and have it be
    meanwhile what it is in its decorator.
    """
    _complete_needed(kernel)
    declared = own_attributes.no_longer_postponed(kernel)
    try:
        yield
    finally:
        if declared is not None:
            own_attributes.postpone(kernel, declared)


def _complete_needed(kernel: Any) -> None:
    for needed in _needed_by(kernel):
        complete(needed)


def _needed_by(kernel: Any) -> list[Any]:
    """Dispatchers that a function's names lead to, those that others of them are built upon first."""
    found: dict[int, Any] = {}
    seen: set[int] = {id(kernel)}

    def visit(function: FunctionType) -> None:
        for value in _named(function):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if not isinstance(value, FunctionType):
                inner = python_function(value) if isinstance(value, Dispatcher | DUFunc | GUFunc) else None
            else:
                inner = value if toolchain_name(value) is None else None
            if inner is not None:
                visit(inner)
            if isinstance(value, Dispatcher) and own_attributes.is_postponed(value):
                found[id(value)] = value

    compiled = python_function(kernel)
    if compiled is not None:
        visit(compiled)
    return list(found.values())


def _named(function: FunctionType) -> Iterator[Any]:
    """The values of a function's variables, and of the attributes of modules among them that its code could read."""
    plan = plan_of(function.__code__)
    variables = [*cell_values(function), *(function.__globals__.get(name) for name in plan.global_names)]
    for value in variables:
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[name] for name in plan.attribute_names if name in vars(value))
