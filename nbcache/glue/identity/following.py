"""What installed distributions define, which counts by the distribution and not by its text.

A function or class that is found under its name in a module of an installed distribution ends the walk of the graph:
its code is the distribution's, whose files are digested (distributions.py). What a program may set counts still, so
the names are followed that such code reads, from one definition to the next: plain values by content, definitions by
name, so that one in the place of another is noticed; and whatever isn't installed (a function of the program's, put
there or handed to a table), arrays, dispatchers and Numba's types are edges of the graph, and described as ever. Of
all else (a lock, a logger, a cache) the class counts, for it can't be a setting.

Names are followed more coarsely than in others' code: all that a function names in its globals counts, all that it
names is read off each module among these, and what it imports when it runs counts by the distribution alone. All that
was read is compared before each key; if anything of it changed, everything is looked at again.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import sys
from importlib.machinery import PathFinder
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.types.abstract import Type
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from nbcache.glue import marks
from nbcache.glue.identity.attributes import ignored_members
from nbcache.glue.identity.bytecode import imports_of, plan_of
from nbcache.glue.identity.exact import encode_atom
from nbcache.glue.identity.instances import dictionary_of
from nbcache.glue.identity.node import Node
from nbcache.glue.identity.ownership import (
    cell_values,
    edition_of,
    is_toolchain_file,
    is_toolchain_module,
)
from nbcache.glue.identity.watched import MISSING, Readings, Watched, are_same, is_unchanged
from nbcache.passing import suppressed
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST = 1_500
"""How many definitions and containers are followed from one; nobody sets what is further off."""
MOST_ITEMS = 10_000
"""Of longer containers and texts only the length counts."""
_FEW = 16
"""From how many groups on what was read is compared in one."""
_DESCRIBED = frozenset({np.ndarray, np.generic, np.dtype, Dispatcher, DUFunc, GUFunc, Type})
"""What is described as it is in others' code."""
_FUNCTION_POINTER: type = ctypes._CFuncPtr  # type: ignore[attr-defined]
_TEXTS = (str, bytes)
_CONTAINERS = (tuple, list, dict, set, frozenset)
_PARTS: dict[type, tuple[str, ...]] = {
    MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.partial: ("func", "args", "keywords"),
    functools.cached_property: ("func",),
    type(functools.lru_cache(len)): ("__wrapped__",),
}
"""What is made around functions, and the attributes in which these are."""


@functools.lru_cache(maxsize=4096)
def _is_described(kind: type) -> bool:
    return not _DESCRIBED.isdisjoint(kind.__mro__)


class Reached(Record):
    """All that is read from one definition on.

    ``digest``: of the plain values, names and distributions; ``words``: the distributions; ``others``: what isn't
    installed, each with a label that says where it is; ``pointers``: native functions, which what is compiled calls.
    """

    digest: bytes
    words: str
    others: tuple[tuple[str, object], ...]
    pointers: tuple[tuple[str, object], ...]


class _Read(Readings):
    """What was read of one object."""

    __slots__ = ()

    def __init__(self) -> None:
        self.items, self.attributes, self.members, self.checks, self.snapshots, self.sizes = [], [], [], [], [], []
        self.volatile = False

    def holds(self) -> bool:
        """Whether it is what it was; that is known sooner of many together (`Watched`)."""
        return (
            all(scope.get(name, MISSING) is value for scope, name, value in chain(self.items, self.members))
            and all(getattr(owner, name, MISSING) is value for owner, name, value in self.attributes)
            and all(len(sized) == size for sized, size in self.sizes)
            and all(are_same(take(obj), seen) for take, obj, seen in self.snapshots)
        )


class _Seen:
    """What one object reads itself; ``next`` is what it leads to, once that was looked at."""

    __slots__ = ("content", "digest", "next", "obj", "others", "owners", "pointers", "read", "then")

    def __init__(self, obj: object) -> None:
        self.obj = obj  # while it lives, nothing else has its address
        self.read = _Read()
        self.content: list[bytes] = []
        self.digest = b""
        self.then: list[object] = []
        self.next: list[_Seen] | None = None
        self.others: list[tuple[str, object]] = []
        self.owners: set[str] = set()
        self.pointers: list[tuple[str, object]] = []

    @property
    def is_leaf(self) -> bool:
        """Whether its digest is all that counts of it: processes may share such constants or not."""
        return not (self.then or self.others or self.pointers)


class Following:
    """What installed definitions read in this process, and what their names lead to."""

    def __init__(self, installation: Any) -> None:
        """*installation* is the `Installation` that this belongs to, which says who owns what."""
        self._installation = installation
        self.number = 0
        self._seen: dict[int, _Seen] = {}
        self._reached: dict[int, Reached] = {}
        self._by_name: dict[str, str | None] = {}
        """Who owns the modules that code imports when it runs."""
        self._watched: list[Watched] = []
        self._fresh: list[_Seen] = []

    def look_again(self) -> None:
        """See whether all that was read is what it was."""
        fresh, self._fresh = self._fresh, []
        if fresh:
            if len(self._watched) >= _FEW:
                self._watched, fresh = [], [*self._seen.values()]
            self._watched.append(Watched([each.read for each in fresh]))
        if not all(map(is_unchanged, self._watched)):
            self.number += 1
            self._reached.clear()
            self._seen = {key: each for key, each in self._seen.items() if each.read.holds()}
            for each in self._seen.values():
                each.next = None
            self._watched = [Watched([each.read for each in self._seen.values()])]

    def describe(self, node: Node, obj: FunctionType | type) -> None:
        """Add what counts of an installed definition, or of a function that installed code made when it ran."""
        whole = self._installation.is_definition(obj)
        node.title = f"installed {obj.__module__}:{obj.__qualname__}"
        reached = self._reach(obj) if whole else self._reach_of_closure(node, obj)
        node.part("distribution", reached.digest, reached.words)
        if whole:
            node.check(self._what_is_reached, obj)
        else:
            node.check(_number_of, self)
        node.names = _names_in(obj.__code__) if isinstance(obj, FunctionType) else frozenset()
        for label, value in (*reached.others, *(reached.pointers if node.compiled else ())):
            node.edge(label, value)
        if not whole:
            self._describe_closure(node, obj)

    def _describe_closure(self, node: Node, function: Any) -> None:
        """What the function was made with, which may be anything of the program's."""
        digest = plan_of(function.__code__).digest
        node.part("code", digest, digest.hex()[:12])
        for attribute in ("__code__", "__defaults__", "__kwdefaults__"):
            node.watch_attribute(function, attribute, getattr(function, attribute))
        node.value("defaults", (function.__defaults__, function.__kwdefaults__))
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                node.part(f"closure {variable}", b"empty", "empty")
                node.volatile = True
                continue
            node.watch_attribute(cell, "cell_contents", value)
            if isinstance(value, ModuleType) and (edition_of(value) is not None or self._owner_of(value) is not None):
                node.part(f"closure {variable}", value.__name__.encode(), f"module {value.__name__}")
            else:
                node.value(f"closure {variable}", value)

    # -- following names ---------------------------------------------------------------------------

    def _reach(self, root: FunctionType | type) -> Reached:
        """All that is read from a definition on."""
        known = self._reached.get(id(root))
        if known is None:
            known = self._reached[id(root)] = self._follow(self._look_once(root))
        return known

    def _what_is_reached(self, root: FunctionType | type) -> bytes:
        """What tells whether the same is read from a definition on: most that changes is read from others."""
        reached = self._reach(root)
        objects = [id(obj) for _label, obj in (*reached.others, *reached.pointers)]
        return reached.digest + repr(objects).encode()

    def _reach_of_closure(self, node: Node, function: Any) -> Reached:
        """The same of what isn't there for good: the *node* says what it reads itself, and nothing of it is kept."""
        seen = _Seen(function)
        self._look_at_function(seen, function, closure=True)
        node.watched_items += seen.read.items
        return self._follow(_closed(seen))

    def _look_once(self, obj: Any) -> _Seen:
        seen = self._seen.get(id(obj))
        if seen is None:
            seen = self._seen[id(obj)] = _closed(self._look_at(obj))
            self._fresh.append(seen)
        return seen

    def _follow(self, first: _Seen) -> Reached:
        order, known, pieces, owners = [first], {first: 0}, [], set[str]()
        others: list[tuple[str, object]] = []
        pointers: list[tuple[str, object]] = []
        for seen in order:
            pieces.append(seen.digest)
            owners |= seen.owners
            others += seen.others
            pointers += seen.pointers
            if len(order) < MOST:
                if seen.next is None:
                    seen.next = [self._look_once(each) for each in seen.then]
                for each in seen.next:
                    if each not in known:
                        known[each] = len(order)
                        order.append(each)
                # Which one it leads to, where several have one name: lambdas, and instances of one class.
                pieces.append(b"%a" % [each.digest if each.is_leaf else known[each] for each in seen.next])
        words = ", ".join(sorted(owners))
        content = b"".join((*pieces, words.encode("utf-8", "surrogateescape")))
        digest = hashlib.blake2b(content, digest_size=32, person=b"nbcache install").digest()
        return Reached(digest, words, _numbered(others), _numbered(pointers))

    def _look_at(self, obj: Any) -> _Seen:
        seen = _Seen(obj)
        kind = type(obj)
        if kind is FunctionType:
            self._look_at_function(seen, obj, closure=False)
        elif isinstance(obj, type):
            self._look_at_class(seen, obj)
        elif kind in _PARTS:
            for name in _PARTS[kind]:
                self._see(seen, name, getattr(obj, name, None))
        elif isinstance(obj, _CONTAINERS):
            self._look_at_items(seen, obj)
        else:
            self._see(seen, "class", kind)
            state = dictionary_of(obj)
            if state is not None:
                derived = self._installation.derived(kind)
                seen.read.snapshots.append((lambda obj: _state_of(obj, derived), obj, _state_of(obj, derived)))
                for value in _state_of(obj, derived):
                    self._see(seen, "state", value)
        return seen

    def _look_at_function(self, seen: _Seen, function: FunctionType, *, closure: bool) -> None:
        code = function.__code__
        self._own(seen, self._installation.owner(function))
        if code.co_filename.startswith("<") or not self._installation.is_definition(function):
            seen.content.append(plan_of(code).digest)  # its name doesn't tell which one it is
        seen.content.append(_name_of(function))
        if not closure:
            seen.read.attributes += [(function, each, getattr(function, each)) for each in ("__code__", *_DEFAULTS)]
            for each in (function.__defaults__, function.__kwdefaults__):
                if each:
                    self._see(seen, "defaults", each)
            for cell in function.__closure__ or ():
                with suppressed(ValueError):  # it is empty
                    seen.read.attributes.append((cell, "cell_contents", cell.cell_contents))
            for value in cell_values(function):
                self._see(seen, "closure", value)
        if is_toolchain_file(code.co_filename):  # it was made around something
            return
        names, scope = _names_in(code), function.__globals__
        self._look_at_names(seen, "", scope, names, set())
        for root in {name.partition(".")[0] for name in imports_of(code)} - {""}:
            self._own(seen, self._owner_by_name(root))

    def _look_at_names(self, seen: _Seen, at: str, scope: dict[str, Any], names: frozenset[str], on: set[int]) -> None:
        """What code finds in a *scope* by the *names* that it has, and what it could read by them off modules there."""
        for name in sorted(names & scope.keys()):
            value = scope[name]
            if not isinstance(value, ModuleType):
                seen.read.items.append((scope, name, value))
                self._see(seen, at + name, value)
                continue
            seen.content.append(f"{at}{name} module {value.__name__}".encode("utf-8", "surrogatepass"))
            if id(value) in on or is_toolchain_file(str(getattr(value, "__file__", None))):
                continue
            on.add(id(value))
            seen.read.items.append((scope, name, value))
            owner = self._owner_of(value)
            if owner is not None:
                self._own(seen, owner)
                self._look_at_names(seen, f"{at}{name}.", vars(value), names, on)
            elif edition_of(value) is None:
                seen.others.append((at + name, value))

    def _look_at_class(self, seen: _Seen, cls: type) -> None:
        self._own(seen, self._installation.owner(cls))
        seen.content.append(_name_of(cls))
        members, ignored = vars(cls), ignored_members(cls) | _OF_CLASSES
        seen.read.sizes.append((members, len(members)))
        seen.read.attributes.append((cls, "__bases__", cls.__bases__))
        for base in cls.__bases__:
            self._see(seen, "base", base)
        for name in sorted(name for name in members.keys() - ignored if not name.startswith(marks.PREFIX)):
            seen.read.members.append((members, name, members[name]))
            self._see(seen, name, members[name])

    def _look_at_items(self, seen: _Seen, content: Any) -> None:
        seen.content.append(b"%s %d" % (type(content).__name__.encode(), len(content)))
        if len(content) > MOST_ITEMS:
            seen.read.sizes.append((content, len(content)))
            return
        items = _items_of(content)
        if not isinstance(content, tuple | frozenset):
            seen.read.snapshots.append((_items_of, content, items))
        if isinstance(content, set | frozenset):
            atoms = sorted(atom for atom in map(encode_atom, items) if atom is not None)
            seen.content += atoms
            items = [item for item in items if encode_atom(item) is None] if len(items) - len(atoms) == 1 else []
        for item in items:
            self._see(seen, "item", item)

    def _see(self, seen: _Seen, label: str, value: Any) -> None:
        """Note a value that was met: by content, by name, to be followed, or as something of others."""
        kind, follow = type(value), False
        said = b"long %d" % len(value) if kind in _TEXTS and len(value) > MOST_ITEMS else encode_atom(value)
        if said is None and _is_described(kind):  # type: ignore[arg-type]
            seen.others.append((label, value))
            said = b"described"
        elif said is None and kind is FunctionType:
            path, said = value.__code__.co_filename, _name_of(value)
            own = is_toolchain_file(path)
            follow = (
                bool(value.__closure__)
                if own
                else path.startswith("<") or self._installation.owner_of_path(path) is not None
            )
            if not follow and not own:
                seen.others.append((label, value))
        elif said is None and isinstance(value, type):
            follow, said = self._installation.owner(value) is not None, _name_of(value)
            if not follow and not is_toolchain_module(value.__module__):
                seen.others.append((label, value))
        elif said is None and isinstance(value, ModuleType | BuiltinFunctionType):
            said = value.__name__.encode("utf-8", "surrogatepass")
        elif said is None and (isinstance(value, _FUNCTION_POINTER) or kind.__module__ == "_cffi_backend"):
            seen.pointers.append((label, value))
            said = b"pointer"
        elif said is None:
            said = _name_of(kind)
            follow = kind in _PARTS or isinstance(value, _CONTAINERS) or self._installation.owner(kind) is not None
            if not follow and not is_toolchain_module(kind.__module__):
                seen.others.append((label, value))
        seen.content.append(label.encode("utf-8", "surrogatepass") + b"=" + said)
        if follow:
            seen.then.append(value)

    def _own(self, seen: _Seen, owner: str | None) -> None:
        if owner is not None:
            seen.owners.add(owner)

    def _owner_of(self, module: ModuleType) -> str | None:
        return self._installation.owner_of_path(getattr(module, "__file__", None))

    def _owner_by_name(self, name: str) -> str | None:
        """Which distribution a module at the top is of, loaded or not."""
        if name not in self._by_name:
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if spec is None:
                with suppressed(ImportError, ValueError):
                    spec = PathFinder.find_spec(name)  # others' finders would run, amid a compilation
            self._by_name[name] = None if spec is None else self._installation.owner_of_path(spec.origin)
        return self._by_name[name]


def _number_of(following: Following) -> bytes:
    return b"%d" % following.number


_DEFAULTS = ("__defaults__", "__kwdefaults__")
_OF_CLASSES = frozenset({"__annotations__", "__orig_bases__", "__parameters__", "__slots__", "__abstractmethods__"})


def _closed(seen: _Seen) -> _Seen:
    """What was seen, once all of it was."""
    content = b"".join([piece for part in seen.content for piece in (b"%d:" % len(part), part)])
    seen.digest = hashlib.blake2b(content, digest_size=16).digest()
    seen.content.clear()
    return seen


def _numbered(found: list[tuple[str, object]]) -> tuple[tuple[str, object], ...]:
    return tuple((f"{i} {label}", obj) for i, (label, obj) in enumerate(found))


def _name_of(obj: Any) -> bytes:
    module = obj.__module__ if isinstance(obj.__module__, str) else ""
    return f"{module}:{obj.__qualname__}".encode("utf-8", "surrogatepass")


def _names_in(code: CodeType) -> frozenset[str]:
    """All that code names, nested code included."""
    nested = (_names_in(each) for each in code.co_consts if type(each) is CodeType)
    return frozenset(chain(code.co_names, *nested))


def _state_of(obj: object, derived: frozenset[str]) -> list[object]:
    return [part for item in (dictionary_of(obj) or {}).items() if item[0] not in derived for part in item]


def _items_of(content: Any) -> list[object]:
    """What is in a container of any class, one after the other, without asking that class."""
    if isinstance(content, dict):
        return [*dict.keys(content), *dict.values(content)]
    kind: Callable[[Any], Iterable[object]] = next(each for each in _CONTAINERS if isinstance(content, each)).__iter__
    return list(kind(content))
