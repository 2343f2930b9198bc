"""What others have put into a compiler's modules, classes and tables, a helper in the place of its own say.

Numba's definitions count by their names, and so does all that they call. Somebody's function in the place of one of
them is under that name now and changes what is compiled, so it counts by its content for everything that is. So does
what isn't what it was when the import was over (originals.py): another one of Numba's functions, a number, an operator
in a table.

To look at all members of all modules and classes takes as long as a hit. But CPython numbers what it does to
dictionaries (PEP 509): whatever changes one gives it a number that is higher than all that there were before. So only
the numbers are read, all in one pass over memory, and then the members of the dictionaries that were changed since the
last look. Where the numbers aren't where they are expected, that is all of them. Lists and sets have no numbers: their
sizes and what they refer to are read in the same way.

Not noticed: what is changed inside a function or an instance, and tables that were empty. Of numba-cuda's modules
nobody keeps copies, so in these only somebody's definitions are noticed.
"""

from __future__ import annotations

import ctypes
import dis
import functools
import gc
import os
import sys
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba.core.dispatcher import Dispatcher

from nbcache.glue.identity import originals
from nbcache.glue.identity.consulted import spelling_of
from nbcache.glue.identity.node import are_same
from nbcache.glue.identity.originals import Table
from nbcache.glue.identity.ownership import (
    HEAP_TYPE,
    cell_values,
    has_toolchain_methods,
    is_compilers,
    is_toolchain_module,
)
from nbcache.glue.identity.told import newest_number, number_of
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nbcache.glue.identity.originals import Members, Original

_WORD = 8  # [bytes]
_MEMORY = np.frombuffer(memoryview((ctypes.c_uint64 * (1 << 44)).from_address(_WORD)), np.int64)
"""All that a process can address, from its second word on (an array can't be at 0), to read many words at once.

Nothing is touched but what is asked for.
"""
_NUMBER = 3 - 1
"""Where from the address of a dictionary `number_of` is [words]."""
_DICTIONARY = 33 - 1
"""Where from the address of a class that of its dictionary is (``tp_dict``) [words]."""
_NBCACHE = os.path.dirname(sys.modules["nbcache"].__file__ or "") + os.sep
Words: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@functools.cache
def are_numbered() -> bool:
    """Whether this Python has numbers and addresses where they are expected."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14) or sys.maxsize.bit_length() != 63:
        return False
    cls = type("Example", (), {})
    (members,) = (each for each in gc.get_referents(vars(cls)) if type(each) is dict)
    if _MEMORY[id(cls) // _WORD + _DICTIONARY] != id(members):
        return False
    if not _are_items_where_expected():
        return False
    one, other = {"a": 1}, {"a": 1}
    before = number_of(one), number_of(other)
    one["a"] = 2
    return 0 < before[0] < before[1] == number_of(other) < number_of(one) < newest_number()


def _are_items_where_expected() -> bool:
    items, table = [int, str, float], {1, 2, 3}
    size, first = (_MEMORY[id(items) // _WORD + at] for at in range(*_HEADS[list]))
    mask, _items = (_MEMORY[id(table) // _WORD + at] for at in range(*_HEADS[set]))
    return bool(size == 3 and mask == 7 and _MEMORY[first // _WORD - 1] == id(int))


class Compiler(Record):
    """Whose modules are looked through."""

    modules: Callable[[Iterable[str]], Iterator[tuple[str, ModuleType]]]
    """Those of its modules that count, among those that are loaded under these names."""
    knows: Callable[[object], bool]
    """Whether a module of this name comes with it, or with what it is built upon."""


NUMBA = Compiler(originals.modules, is_toolchain_module)


class Patches:
    """What of others is in a compiler's modules and classes.

    They were its alone at the number *since*; 0: never.
    """

    def __init__(self, since: int, compiler: Compiler = NUMBA) -> None:
        self._seen = since
        self._compiler = compiler
        self._last = ""
        """The module that was loaded last when modules were looked through."""
        self._owners: list[_Owner] = []
        """What is looked at.  It lives as long as this does, or addresses would come to mean something else."""
        self._originals: list[Members | None] = []
        """What their dictionaries held when their module's import was over."""
        self._places = np.empty(0, np.int64)
        """The words in memory that have the numbers of these dictionaries of members."""
        self._lists = _Lists()
        self._tables: dict[int, Table] = {}
        """Those that are known, by the id of their content: several modules have one, under several names."""
        self._found: dict[int, dict[str, Any]] = {}
        """By the id of an owner or list, which members count."""
        self.members: dict[str, Any] = {}
        """By ``module:name``, what is in there that isn't the toolchain's, or isn't what it was."""

    def look(self) -> dict[str, Any]:
        """`members` as they are now; the very same object as long as they are."""
        if next(reversed(sys.modules)) != self._last:
            self._look_through_modules()
        if not are_numbered():
            self._look_at(range(len(self._owners)))
            self._look_at_lists()
            return self.members
        numbers = _MEMORY.take(self._places, mode="wrap")  # all are within
        newest = int(numbers.max(initial=0))
        if newest > self._seen:
            changed = np.flatnonzero(numbers > self._seen).tolist()
            self._seen = newest
            self._look_at(changed)
        if self._lists.are_changed():
            self._look_at_lists()
        return self.members

    def skip(self) -> None:
        """Whatever was changed since the last look, nbcache did."""
        self._seen = newest_number()

    def _look_through_modules(self) -> None:
        """Take in what of the compiler was loaded since this was done last."""
        names = [*sys.modules]
        fresh = names[len(names) - names[::-1].index(self._last) :] if self._last in sys.modules else names
        self._last = names[-1]
        modules = [*self._compiler.modules(fresh)]
        held = [originals.of(*each) for each in modules]
        for (_name, module), each in zip(modules, held, strict=True):
            if each.late:
                _take_out_others(module, each, self._compiler.knows)
        self._take_in([module for _name, module in modules], [each.members for each in held])
        for each in held:
            self._take_in(each.classes, each.of_classes)
        self._take_in_tables(table for each in held for table in each.tables)

    def _take_in_tables(self, tables: Iterable[Table]) -> int:
        """How many owners were added."""
        fresh = [table for table in tables if self._tables.setdefault(id(table.content), table) is table]
        dictionaries = [each for each in fresh if type(each.content) is dict and _counts(each)]
        self._take_in(dictionaries, [each.original for each in dictionaries])
        self._lists.add([each for each in fresh if type(each.content) is not dict and each.original is not None])
        return len(dictionaries)

    def _take_in(self, owners: Sequence[_Owner], members: Sequence[Members | None]) -> None:
        self._owners += owners
        self._originals += members
        if not owners or not are_numbered():
            return
        if isinstance(owners[0], type):
            places = _MEMORY.take(np.array([*map(id, owners)], np.int64) // _WORD + _DICTIONARY) // _WORD
        else:
            places = np.array([*map(id, map(_members_of, owners))], np.int64) // _WORD
        self._places = np.concatenate([self._places, places + _NUMBER])

    def _look_at(self, which: Iterable[int]) -> None:
        later: list[Table] = []
        for at in which:
            owner, original = self._owners[at], self._originals[at]
            self._note(owner, _changes(owner, original, self._compiler.knows))
            if isinstance(owner, ModuleType) and original is not None:
                later += originals.made_later(owner)
        self._sum_up()
        added = self._take_in_tables(later) if later else 0
        if added:
            self._look_at(range(len(self._owners) - added, len(self._owners)))

    def _look_at_lists(self) -> None:
        for table in self._lists.tables:
            self._note(table, {} if _is_as_it_was(table) else {table.name: table.content.copy()})
        self._sum_up()

    def _note(self, owner: _Owner, changes: dict[str, Any]) -> None:
        before = self._found.pop(id(owner), {})
        if changes:
            same = [*before] == [*changes] and all(map(_are_alike, before.values(), changes.values()))
            self._found[id(owner)] = before if same else changes

    def _sum_up(self) -> None:
        everything = {name: value for found in self._found.values() for name, value in found.items()}
        if [*everything] != [*self.members] or not are_same([*everything.values()], [*self.members.values()]):
            self.members = everything


class _Lists:
    """Lists and sets, watched where they lie in memory: no number tells that one of them was changed."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self._heads = self._items = np.empty(0, np.int64)
        """The words that say where they have their items, and how many; those items."""
        self._heads_were = self._items_were = b""

    def add(self, tables: list[Table]) -> None:
        """Watch these, too."""
        self.tables += tables
        self.tables.sort(key=lambda table: type(table.content) is set)
        heads = [range(*_HEADS[type(each.content)]) for each in self.tables]
        places = [id(each.content) // _WORD + at for each, head in zip(self.tables, heads, strict=True) for at in head]
        self._heads, self._heads_were = np.array(places, np.int64), b""

    def are_changed(self) -> bool:
        """Whether one of them may not be what it was when this was asked last."""
        heads = _MEMORY.take(self._heads, mode="wrap")
        # Where items lie is only true as long as the heads are the same, so these come first.
        if heads.tobytes() == self._heads_were and _MEMORY.take(self._items, mode="wrap").tobytes() == self._items_were:
            return False
        self._heads_were = heads.tobytes()
        self._items = self._find_items(heads)
        self._items_were = _MEMORY.take(self._items, mode="wrap").tobytes()
        return bool(self.tables)

    def _find_items(self, heads: Words) -> Words:
        lists = sum(type(table.content) is list for table in self.tables)
        of_lists, of_sets = heads[: 2 * lists].reshape(-1, 2), heads[2 * lists :].reshape(-1, 2)
        sizes = np.concatenate([of_lists[:, 0], 2 * (of_sets[:, 0] + 1)])
        starts = np.concatenate([of_lists[:, 1], of_sets[:, 1]]) // _WORD - 1
        return np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


_HEADS: dict[type, tuple[int, int]] = {list: (2 - 1, 4 - 1), set: (4 - 1, 6 - 1)}
"""Where from the address of a list its size and the address of its items are [words].

The same of a set, whose items are two words, itself and its hash, and whose size is that of its table, less one.
"""
_Owner: TypeAlias = "ModuleType | type | Table"


def _members_of(owner: _Owner) -> Any:
    return owner.content if isinstance(owner, Table) else vars(owner)


def _take_out_others(module: ModuleType, original: Original, knows: Callable[[object], bool]) -> None:
    """Leave in the *original* what is Numba's: the module may have imported what somebody had put elsewhere before."""
    members = original.members or {}
    others = [name for name, value in members.items() if _is_others(value, knows)]
    for name in [each for each in others if not _imports(module, each, members[each])]:
        del members[name]


def _counts(table: Table) -> bool:
    """Whether a dictionary is looked at: of one without a copy only functions can be told from Numba's."""
    return table.original is not None or type(next(iter(table.content.values()), None)) is FunctionType


def _changes(owner: _Owner, original: Members | None, knows: Callable[[object], bool]) -> dict[str, Any]:
    """What of an owner's members isn't the toolchain's, or isn't what it was, by what `Patches.members` call it."""
    members = dict(_members_of(owner))
    if original is None:
        return {
            _called(owner, name): value
            for name, value in members.items()
            if _is_others(value, knows) and not _imports(owner, name, value)
        }
    changed = {name: value for name, value in members.items() if original.get(name, owner) is not value}
    changed.update(dict.fromkeys(original.keys() - members.keys(), _GONE))
    if not isinstance(owner, Table):
        return {
            _called(owner, name): value
            for name, value in changed.items()
            if _is_others(value, knows) or not _is_own_state(owner, name, value)
        }
    if owner.grows:
        changed = {name: value for name, value in changed.items() if name in original and not _is_others(value, knows)}
    found = {_called(owner, name): value for name, value in changed.items() if _is_others(value, knows)}
    rest = [(name, value) for name, value in changed.items() if not _is_others(value, knows)]
    return {**found, owner.name: rest} if rest else found


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two members, or lists of what is in tables, are made of the very same objects."""
    if type(one) is type(other) is list and len(one) == len(other):
        return all(map(_are_alike, one, other))
    if type(one) is type(other) is tuple:
        return are_same(list(one), list(other))
    return one is other or (type(one) is type(other) is set and one == other)


_GONE = "nothing"
"""What is in the place of a member that somebody removed."""


def _is_as_it_was(table: Table) -> bool:
    if type(table.content) is list:
        return are_same(table.content, table.original)
    return table.content == table.original  # strings, functions and classes


def _is_own_state(owner: ModuleType | type, name: str, value: Any) -> bool:
    """Whether a member is another by what Numba, Python or nbcache do themselves."""
    if _is_nbcaches(value):
        return True
    if isinstance(owner, type):
        return name in _OF_CLASSES
    if isinstance(value, ModuleType) and value.__name__ == f"{owner.__name__}.{name}":
        return True
    return name.startswith("__") or name in originals.assigned_by(owner)


_OF_CLASSES = frozenset(
    {"__slotnames__", "__doc__", "__annotations__", "__annotate__", "__abstractmethods__", "aa_count", "id_counter"}
)
"""What copying, documentation and Numba's own counting change in classes."""


def _is_nbcaches(value: Any) -> bool:
    if type(value) in _AROUND:
        value = getattr(value, _AROUND[type(value)])
    if type(value) is FunctionType:
        return value.__code__.co_filename.startswith(_NBCACHE)
    return type(value).__module__.partition(".")[0] == "nbcache"


_AROUND: dict[type, str] = {property: "fget", staticmethod: "__func__", classmethod: "__func__"}


def _called(owner: _Owner, member: Any) -> str:
    if isinstance(owner, Table):
        return f"{owner.name}[{spelling_of(member)}]"
    if isinstance(owner, ModuleType):
        return f"{owner.__name__}:{member}"
    return f"{owner.__module__}:{owner.__qualname__}.{member}"


def _is_others(value: Any, knows: Callable[[object], bool]) -> bool:
    """Whether a member of a module or class is the definition of somebody whose modules nobody *knows*."""
    kind = type(value)
    if kind is FunctionType:
        return not _is_compilers(value)
    if issubclass(kind, type):
        if not value.__flags__ & HEAP_TYPE:
            return False
        return not (knows(value.__module__) and has_toolchain_methods(value))
    parts = [getattr(value, name) for base in kind.__mro__ for name in _WRAPPERS.get(base, ())]
    if not all(_is_compilers(part) for part in parts if isinstance(part, FunctionType)):
        return True
    return callable(value) and not knows(kind.__module__)


def _imports(owner: _Owner, name: str, value: Any) -> bool:
    """Whether a module of Numba's imports this itself, such as what ``numba.core.errors`` takes from colorama."""
    if not isinstance(owner, ModuleType):
        return False
    where, attribute = _imported_by(owner).get(name, ("", ""))
    return getattr(sys.modules.get(where), attribute, owner) is value


@functools.cache
def _imported_by(module: ModuleType) -> dict[str, tuple[str, str]]:
    """By the name that it gets in the module, what its code imports out of which other module."""
    get_code = getattr(getattr(module.__spec__, "loader", None), "get_code", None)
    code = None if get_code is None else get_code(module.__name__)
    found, where, attribute = {}, "", ""
    for instruction in () if code is None else dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            where = instruction.argval
        elif instruction.opname == "IMPORT_FROM":
            attribute = instruction.argval
        elif instruction.opname == "STORE_NAME" and attribute:
            found[instruction.argval] = (where, attribute)
            attribute = ""
    return found


def _is_compilers(function: FunctionType) -> bool:
    around = (value for value in cell_values(function) if type(value) is FunctionType)
    return (is_compilers(function) or _is_of_a_named_tuple(function)) and all(map(is_compilers, around))


def _is_of_a_named_tuple(function: FunctionType) -> bool:
    return str(function.__globals__.get("__name__")).startswith("namedtuple_")


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
