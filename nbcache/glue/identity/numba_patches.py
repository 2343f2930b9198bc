"""What others have put into Numba's modules, classes and tables of functions, a helper in the place of its own say.

Numba's definitions count by their names, and so does all that they call. So whatever isn't what Numba put there
(`numba_copies.py`) counts by its content for everything that is compiled. To look at all of it takes as long as several
hits, so only those dictionaries are looked at that were changed since they were copied or looked at
(`dictionary_changes.py`), and lists and sets where one of them holds something else.

Numba's own functions put things into its modules and classes as well, as Python and nbcache do. Its table of ufuncs,
which it fills when it is first asked for, is compared with what it fills another one with. Beside modules and
classes, what Numba's contexts and their parts (rules of conversion, data models, code generator) hold themselves is
looked at: a function that is set on one of these hides the method.

Not noticed: what is changed inside other objects of Numba's, such as a function (``__code__``), an array, a registry
from which something is taken, or a context that gets another class or other data; and what is done before Numba was
imported, or before `nbcache.enable` if that comes later, unless somebody's own definition is there.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
from collections.abc import Iterator, Mapping
from operator import is_
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from nbcache.glue.identity import numba_copies
from nbcache.glue.identity.bytecode import assigned_globals
from nbcache.glue.identity.numba_copies import Container, Owner, Part
from nbcache.glue.identity.ownership import (
    HEAP_TYPE,
    cell_values,
    has_toolchain_methods,
    is_compilers,
    is_toolchain_module,
)
from nbcache.glue.identity.watched import are_same
from nbcache.passing_exceptions import let_pass, suppressed

_NOTHING = "there is nothing any more"
_IN_TURN = "numba.parfors.parfor:sequential_parfor_lowering"
"""Set by another module of Numba's for a moment; `conditions.loops_in_turn` tells it to those whom it concerns."""


class Patches:
    """What of others is in Numba's modules and classes."""

    def __init__(self) -> None:
        self._last = numba_copies.noted.last
        """The module that was loaded last when modules were looked through."""
        self._mutations = numba_copies.noted.mutations.asked()
        self._known = 0
        """How many tables there were at the last look."""
        self._due: set[int] = set()
        """The numbers of tables that are to be compared with their copies."""
        self._lists: list[Any] = []
        """What each list and set held at the last look.  Equal is enough, and fast."""
        self._has_contexts = False
        self._found: dict[int, dict[str, Any]] = {}
        """By the numbers of tables, what is changed in them."""
        self.members: dict[str, Any] = {}
        """By ``module:name``, what is in there that isn't the toolchain's."""

    def look(self) -> dict[str, Any]:
        """`members` as they are now; the very same object as long as they are."""
        if next(reversed(sys.modules)) != self._last:
            self._take_in_modules()
        if not self._has_contexts:
            self._take_in_contexts()
        self._take_in_changes()
        if self._due or not _are_equal(numba_copies.noted.contents, self._lists):
            self._compare()
        return self.members

    def _take_in_modules(self) -> None:
        """Look from now on at what of Numba was loaded since this was done last."""
        names = [*sys.modules]
        fresh = names[len(names) - names[::-1].index(self._last) :] if self._last in sys.modules else names
        found = numba_copies.of_numba(fresh)
        # What another thread is importing is noted when that is over.
        specs = [vars(module).get("__spec__") for _name, module in found]
        ended = [each for each, spec in zip(found, specs, strict=True) if not getattr(spec, "_initializing", False)]
        numba_copies.note(ended, whole=False)
        if len(ended) == len(found):
            self._last = names[-1]

    def _take_in_contexts(self) -> None:
        """Take in what the contexts and their parts hold, once there are any: Numba makes them on first use."""
        made = vars(cpu_target)
        typing, target = made.get("_toplevel_typing_context"), made.get("_toplevel_target_context")
        if typing is not None and target is not None:
            numba_copies.note_parts([typing, typing.tm, target, target.data_model_manager, target.codegen()])
            self._has_contexts = True

    def _take_in_changes(self) -> None:
        self._due.update(self._mutations.changed())
        tables = numba_copies.noted.tables
        if len(tables) != self._known:
            self._due.update(number for number in range(self._known, len(tables)) if not tables[number].whole)
            self._known = len(tables)

    def _compare(self) -> None:
        numba_copies.note_loops_of_ufuncs()
        self._take_in_changes()
        now = [each.copy() for each in numba_copies.noted.contents]
        changed = {number: dict(_changes_in(numba_copies.noted.tables[number])) for number in self._due}
        found = {number: each for number, each in sorted({**self._found, **changed}.items()) if each}
        lists = {each.label: each.content for each in numba_copies.noted.lists if is_changed(each)}
        members = {label: value for each in (*found.values(), lists) for label, value in each.items()}
        if [*members] != [*self.members] or not are_same([*members.values()], [*self.members.values()]):
            self.members = members
        self._found, self._lists = found, now
        self._due.clear()


def _changes_in(table: Owner | Container | Part) -> Iterator[tuple[str, Any]]:
    """What in there is somebody else's, or isn't what Numba had there."""
    if isinstance(table, Owner):
        members = vars(table.thing)
        yield from _exchanged(table, members)
        if not table.whole:
            yield from ((label, then) for label, name, then in _foreign_in(table) if members.get(name) is then)
    elif isinstance(table, Container):
        if is_changed(table):
            yield table.label, table.content
    else:
        kind = type(table.thing)
        for name, value in [*vars(table.thing).items()]:
            if _is_foreign(value) or any(name in vars(base) for base in kind.__mro__):
                yield f"{kind.__module__}:{kind.__qualname__}[{name}]", value


def _are_equal(now: list[Any], before: list[Any]) -> bool:
    try:
        return now == before
    except Exception as raised:  # noqa: BLE001  what others put there may compare as it likes
        let_pass(raised)
        return False


def _exchanged(owner: Owner, members: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """What is in the place of something else that Numba had there, hides it, or says that there is nothing any more."""
    before = owner.members
    for name, then in before.items():
        now = members.get(name, _NOTHING)
        if now is not then and not _is_nbcaches(then) and _counts(owner, name, now):
            yield f"{owner.label}{name}", now
    for name, now in [*members.items()]:
        # Nobody looks for another name; but somebody's definition was hardly put there for nothing.
        if name not in before and (_is_foreign(now) or _hides(owner, name, now)) and _counts(owner, name, now):
            yield f"{owner.label}{name}", now


def _counts(owner: Owner, name: Any, now: Any) -> bool:
    """Whether neither Python nor Numba nor nbcache puts this there, such as an imported module."""
    if _is_nbcaches(now) or f"{owner.label}{name}" == _IN_TURN:
        return False
    if not isinstance(name, str) or (name.startswith("__") and not _is_definition(now)):
        return False
    if isinstance(owner.thing, ModuleType) and sys.modules.get(f"{owner.thing.__name__}.{name}") is now:
        return not is_toolchain_module(getattr(now, "__name__", None))
    return _is_foreign(now) or not is_set_later(owner.thing, name)


def _hides(owner: Owner, name: str, value: Any) -> bool:
    """Whether what is there by a new name hides something else that is inherited, or a builtin."""
    if isinstance(owner.thing, ModuleType):
        return isinstance(name, str) and hasattr(builtins, name)
    inherited = (vars(base)[name] for base in owner.thing.__mro__[1:] if name in vars(base))
    return next(inherited, value) is not value


def is_changed(container: Container) -> bool:
    """Whether somebody else than Numba changed what it holds, or its order where there is one."""
    was, now = container.copy, container.content
    kind = type(now)
    if kind is set:  # what was put back may have another place
        return bool(now != was)
    if kind is list:
        return len(now) != len(was) or not all(map(_are_alike, now, was))
    if kind is dict:
        same = len(now) == len(was) and all(map(is_, now, was))
        return not (same and all(map(_are_alike, now.values(), was.values())))
    # Such as Numba's registries by target, which it fills when it is asked.
    return not all(dict.get(now, key, was) is value for key, value in was.items())


def _are_alike(one: Any, other: Any) -> bool:
    """Whether they are the same or made alike: Numba makes some loops of ufuncs anew each time."""
    if one is not other and type(one) is type(other) is FunctionType and one.__code__ is other.__code__:
        return are_same([*cell_values(one)], [*cell_values(other)])
    return one is other


def _foreign_in(owner: Owner) -> Iterator[tuple[str, Any, Any]]:
    """Somebody's definitions that were there when it was copied, and that Numba doesn't import itself."""
    for name, value in owner.members.items():
        if _is_foreign(value) and not _is_nbcaches(value) and not _is_imported(owner.thing, name, value):
            yield f"{owner.label}{name}", name, value


def _is_foreign(value: Any) -> bool:
    """Whether a member of a module or class of Numba's is somebody else's definition."""
    kind = type(value)
    if kind is FunctionType:
        return not _is_compilers(value)
    if issubclass(kind, type):
        if not value.__flags__ & HEAP_TYPE:
            return False
        return not (is_toolchain_module(value.__module__) and has_toolchain_methods(value))
    if not all(map(_is_compilers, _functions_behind(value))):
        return True
    return callable(value) and not is_toolchain_module(kind.__module__)


def _is_compilers(function: FunctionType) -> bool:
    around = (value for value in cell_values(function) if type(value) is FunctionType)
    of_named_tuple = str(function.__globals__.get("__name__")).startswith("namedtuple_")
    return (of_named_tuple or is_compilers(function)) and all(map(is_compilers, around))


def _functions_behind(value: Any) -> list[FunctionType]:
    """The user's, or Numba's, Python functions inside partials, bound methods and wrappers."""
    parts = [getattr(value, name) for base in type(value).__mro__ for name in _WRAPPERS.get(base, ())]
    return [part for part in parts if isinstance(part, FunctionType)]


def _is_definition(value: Any) -> bool:
    kind = type(value)
    return kind is FunctionType or kind in _WRAPPERS or issubclass(kind, type)


def _is_nbcaches(value: Any) -> bool:
    if type(value) is FunctionType:
        return _is_of_nbcache(value.__globals__.get("__name__"))
    places = (type(value).__module__, *(part.__globals__.get("__name__") for part in _functions_behind(value)))
    return any(map(_is_of_nbcache, places))


def _is_of_nbcache(module: object) -> bool:
    return isinstance(module, str) and module.startswith("nbcache.")


@functools.cache
def is_set_later(owner: ModuleType | type, name: str) -> bool:
    """Whether functions in the file of a module or class assign to a name of it; attributes of ``self`` don't count."""
    if isinstance(owner, ModuleType):
        return name in _globals_set_in(owner)
    for code in _inner(_code_of(sys.modules.get(owner.__module__))):
        if name in code.co_names:
            before: Any = ""
            for each in dis.get_instructions(code):
                if each.opname == "STORE_ATTR" and each.argval == name and before != "self":
                    return True
                # One instruction may load two locals.
                before = each.argval[-1] if type(each.argval) is tuple and each.argval else each.argval
    return False


@functools.lru_cache(maxsize=8)
def _globals_set_in(module: ModuleType) -> frozenset[str]:
    """The global variables of a module that functions in its file assign to."""
    return frozenset().union(*map(assigned_globals, _inner(_code_of(module))))


def _is_imported(owner: ModuleType | type, name: str, value: Any) -> bool:
    """Whether a module of Numba's imports this itself, such as what ``numba.core.errors`` takes from colorama."""
    code = _code_of(owner) if isinstance(owner, ModuleType) else None
    where = attribute = ""
    for each in () if code is None else dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":
            where = each.argval
        elif each.opname == "IMPORT_FROM":
            attribute = each.argval
        elif each.opname == "STORE_NAME" and each.argval == name and attribute:
            return getattr(sys.modules.get(where), attribute, code) is value
    return False


@functools.lru_cache(maxsize=8)
def _code_of(module: ModuleType | None) -> CodeType | None:
    with suppressed(Exception):  # no loader, one of another kind, or files that are gone
        code = module.__spec__.loader.get_code(module.__name__)  # type: ignore[union-attr]
        return code if isinstance(code, CodeType) else None
    return None


def _inner(code: CodeType | None) -> Iterator[CodeType]:
    for each in () if code is None else code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _inner(each)


_WRAPPERS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    MethodType: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partial: ("func",),
    type(functools.cache(len)): ("__wrapped__",),
    Dispatcher: ("py_func",),
}
"""Whose functions are behind what isn't a function."""
