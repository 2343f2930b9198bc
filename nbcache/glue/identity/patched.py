"""What others have put into Numba's modules, classes and tables of functions, a helper in the place of its own say.

Numba's definitions count by their names, and so does all that they call. Somebody's function in the place of one of
them is under that name now and changes what is compiled, so it counts by its content for everything that is.

To look at all members of all modules and classes takes as long as a hit. But CPython numbers what it does to
dictionaries (PEP 509): whatever changes one gives it a number that is higher than all that there were before. So only
the numbers are read, all in one pass over memory, and then the members of the dictionaries that were changed since the
last look. Where the numbers aren't where they are expected, that is all of them.

One of Numba's own functions in the place of another counts as well, and so does another number or text than the one
that is written there: what should be there is read in the code of the module (`sources.py`).

Beside modules and classes, what Numba's contexts and their parts (rules of conversion, data models, code generator)
hold themselves is looked at: a function that is set on one of these hides the method. And so are the lists, sets and
dictionaries that modules and classes have (`held.py`).

Not noticed: what is changed inside other objects of Numba's, such as a function (``__code__``), an array, a registry
from which something is taken, or a context that gets another class or other data; and what is done before Numba was
imported, or before `nbcache.enable` if that comes later, unless somebody's own function is in it.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from itertools import repeat
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.registry import cpu_target

from nbcache.glue.identity import held, told
from nbcache.glue.identity.others import Held, Owner, called, changes_of, is_changed, module_of, was_seen_whole
from nbcache.glue.identity.told import newest_number, number_of
from nbcache.glue.identity.watched import are_same
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_WORD = 8  # [bytes]
_MEMORY = np.frombuffer(memoryview((ctypes.c_uint64 * (1 << 44)).from_address(_WORD)), np.int64)
"""All that a process can address, from its second word on (an array can't be at 0), to read many words at once.

Nothing is touched but what is asked for.
"""
_NUMBER = 3 - 1
"""Where from the address of a dictionary `number_of` is [words]."""
_DICTIONARY = 33 - 1
"""Where from the address of a class that of its dictionary is (``tp_dict``) [words]."""


@functools.cache
def are_numbered() -> bool:
    """Whether this Python has numbers and addresses where they are expected."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14) or sys.maxsize.bit_length() != 63:
        return False
    cls = type("Example", (), {})
    (members,) = (each for each in gc.get_referents(vars(cls)) if type(each) is dict)
    if _MEMORY[id(cls) // _WORD + _DICTIONARY] != id(members):
        return False
    one, other = {"a": 1}, {"a": 1}
    before = number_of(one), number_of(other)
    one["a"] = 2
    return 0 < before[0] < before[1] == number_of(other) < number_of(one) < newest_number()


class Patches:
    """What of others is in Numba's modules and classes, if these were Numba's alone at the number *since*; 0: never."""

    def __init__(self, since: int) -> None:
        self._seen = since
        self._last = ""
        """The module that was loaded last when modules were looked through."""
        self._owners: list[Owner] = []
        """What is looked at.  It lives as long as this does, or addresses would come to mean something else."""
        self._tables: set[int] = set()
        """The ids of the tables among these."""
        self._taken = (0, 0, 0)
        """How many of the modules, classes and containers that are noted (`held.py`) are among these."""
        self._lists: list[Held] = []
        """The lists and sets, which have no numbers."""
        self._contents: list[Any] = []
        self._copies: list[Any] = []
        """What these held at the last look.  Equal is enough: nobody puts 1 where True was, and all at once is fast."""
        self._contexts: tuple[object, ...] = ()
        """Objects of Numba's whose own attributes are among what is looked at."""
        self._fresh = 0
        """From which of them on nobody looked at any yet."""
        self._places = np.empty(0, np.int64)
        """The words in memory that have the numbers of these dictionaries of members."""
        self._whole = np.empty(0, np.int64)
        """What these were at most when nobody but Numba itself could have changed anything there; 0: nobody knows."""
        self._numbers = b""
        """What they were at the last look."""
        self._found: dict[int, dict[str, Any]] = {}
        """By position among the owners, which members are others'."""
        self.members: dict[str, Any] = {}
        """By ``module:name``, what is in there that isn't the toolchain's."""

    def look(self) -> dict[str, Any]:
        """`members` as they are now; the very same object as long as they are."""
        if next(reversed(sys.modules)) != self._last:
            self._look_through_modules()
        if not self._contexts:
            self._look_into_contexts()
        if not _are_equal(self._contents, self._copies):
            self._look_into_lists()
        if not are_numbered():
            self._look_at(range(len(self._owners)))
            return self.members
        numbers = _MEMORY.take(self._places, mode="wrap")  # all are within
        now = numbers.tobytes()
        if now != self._numbers:  # comparing them all takes a tenth of what looking for the highest takes
            changed = np.flatnonzero((numbers > self._seen) & (numbers > self._whole)).tolist()
            if changed:
                self._look_at(changed)
            # Behind it: after an exception, all of it is looked at again.
            self._numbers = now
            self._seen = max(self._seen, int(numbers.max(initial=0)))
        return self.members

    def skip(self) -> None:
        """Whatever was changed since the last look, nbcache did."""
        self._seen = newest_number()

    def _look_through_modules(self) -> None:
        """Take in what of Numba was loaded since this was done last."""
        names = [*sys.modules]
        fresh = names[len(names) - names[::-1].index(self._last) :] if self._last in sys.modules else names
        found = told.of_numba(fresh)
        # What another thread is importing is noted when that is over.
        whole = [(name, module) for name, module in found if not _is_being_imported(module)]
        held.note(whole)
        self._take_in()
        if len(whole) == len(found):
            self._last = names[-1]

    def _take_in(self) -> None:
        """Look from now on at what was noted since this was done last."""
        modules, classes = held.modules[self._taken[0] :], held.classes[self._taken[1] :]
        containers = [Held(*each) for each in held.containers[self._taken[2] :]]
        self._taken = len(held.modules), len(held.classes), len(held.containers)
        tables = [each for each in containers if isinstance(each.content, dict)]
        self._tables.update(id(table.content) for table in tables)
        owners: list[Owner] = [*modules, *tables, *classes]
        self._owners += owners
        if are_numbered():
            plain = [*map(vars, modules), *(table.content for table in tables)]
            members = _MEMORY.take(np.array([*map(id, classes)], np.int64) // _WORD + _DICTIONARY) // _WORD
            numbers = np.array([*map(id, plain)], np.int64) // _WORD + _NUMBER
            self._places = np.concatenate([self._places, numbers, members + _NUMBER])
            were_whole = [*map(told.parts_were_whole.get, map(module_of, owners), repeat(0))]
            self._whole = np.concatenate([self._whole, np.array(were_whole, np.int64)])
        if lists := [each for each in containers if not isinstance(each.content, dict)]:
            self._lists += lists
            self._contents = [each.content for each in self._lists]
            self._look_into_lists()

    def _take_in_tables(self, changed: list[int]) -> list[int]:
        """Where among the owners the tables are that those which were *changed* have and that nobody noted.

        Numba makes its table of ufuncs, each with a table of its own, when somebody asks for one.
        """
        found = (table for at in changed for table in _tables_of(self._owners[at]))
        tables = [table for table in found if id(table.content) not in self._tables]
        return self._watch(tables)

    def _watch(self, tables: list[Held]) -> list[int]:
        """Where among the owners *tables* are from now on."""
        start = len(self._owners)
        self._tables.update(id(table.content) for table in tables)
        self._owners += tables
        if are_numbered():
            numbers = np.array([id(table.content) for table in tables], np.int64) // _WORD + _NUMBER
            self._places = np.concatenate([self._places, numbers])
            self._whole = np.concatenate([self._whole, np.zeros(len(tables), np.int64)])
        return [*range(start, len(self._owners))]

    def _look_into_contexts(self) -> None:
        """Take in what the contexts and their parts hold, once there are any: Numba makes them on first use."""
        made = vars(cpu_target)
        typing, target = made.get("_toplevel_typing_context"), made.get("_toplevel_target_context")
        if typing is not None and target is not None:
            contexts = (typing, typing.tm, target, target.data_model_manager, target.codegen())
            kinds = [type(each) for each in contexts]
            named = [f"{kind.__module__}:{kind.__qualname__}" for kind in kinds]
            each_of = zip(named, map(vars, contexts), repeat(None), kinds)
            self._look_at(self._watch([Held(*each) for each in each_of]))
            self._contexts = contexts

    def _look_into_lists(self) -> None:
        copies = [each.copy() for each in self._contents]
        self._found[_IN_LISTS] = {each.name: each.content for each in self._lists if is_changed(each)}
        self._gather()
        self._copies = copies

    def _look_at(self, which: Iterable[int]) -> None:
        which = [*which]
        for at in [*which, *self._take_in_tables(which)]:
            owner = self._owners[at]
            others = changes_of(owner, is_known=at < self._fresh or was_seen_whole(owner))
            if others:
                self._found[at] = others
            else:
                self._found.pop(at, None)
        self._fresh = len(self._owners)
        self._gather()

    def _gather(self) -> None:
        everything = {name: value for others in self._found.values() for name, value in others.items()}
        if [*everything] != [*self.members] or not are_same([*everything.values()], [*self.members.values()]):
            self.members = everything


_IN_LISTS = -1
"""Where, among positions of owners, that is found which is in lists."""


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(vars(module).get("__spec__"), "_initializing", False))


def _tables_of(owner: Owner) -> Iterator[Held]:
    """The tables of functions that a module has, or those in a table."""
    members = owner.content if isinstance(owner, Held) else vars(owner) if isinstance(owner, ModuleType) else {}
    loops = held.loops_of_ufuncs(owner.name) if isinstance(owner, Held) else {}
    for name, value in [*members.items()]:
        if type(value) is not dict:
            continue
        full_name = called(owner, name)
        filled = loops.get(name) or held.loops_of_ufuncs(full_name)
        if filled or _is_table(value) or (not value and held.is_for_others(name)):
            table = Held(full_name, value, held.contents(filled) if filled else None)
            yield table
            yield from _tables_of(table)


def _is_table(value: dict[Any, Any]) -> bool:
    """Whether a dictionary is one of functions, or one of such dictionaries."""
    first = next(iter(value.values()), None)
    first = next(iter(first.values()), None) if type(first) is dict else first
    return type(first) is FunctionType


def _are_equal(now: list[Any], before: list[Any]) -> bool:
    try:
        return now == before
    except Exception as raised:  # noqa: BLE001  what others put there may compare as it likes
        let_pass(raised)
        return False
