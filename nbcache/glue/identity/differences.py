"""Identities in words for people: what of all that was read isn't what it was, and what a graph consists of."""

from __future__ import annotations

import gc
import hashlib
import weakref
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

from nbcache.glue.identity.dictionary_changes import dictionary_behind
from nbcache.glue.identity.marked_packages import verdicts
from nbcache.glue.identity.node import Node, Scope
from nbcache.glue.identity.watched import MISSING, are_same
from nbcache.passing_exceptions import suppressed

_DEPTH = 3
"""Through how many containers a name is looked for."""
_LONGEST = 300
"""How much of what something is called is said [characters]."""


CHANGED = "what it depends on changed while it was compiled"


def changed(scope: Scope | None) -> str:
    """The reason not to store what was compiled meanwhile, with what it was that changed."""
    change = "" if scope is None else first_change(scope)
    return f"{CHANGED}: {change}" if change else CHANGED


def first_change(scope: Scope) -> str:
    """The first thing that was read for *scope* and is another now, "" if all is as before.

    ``module.name`` where it has a name, else the sort of object that it is.
    """
    parts = scope.all()
    for part in parts:
        for obj, name in _changed_in(part):
            if obj is verdicts:
                return f"where walks through {name.rpartition('/')[2].removesuffix('.dist-info')} end"
            return _name_of(parts, obj, name)
    return ""


def _changed_in(part: Scope) -> Iterator[tuple[object, str]]:
    """What changed: an object, and the name of its attribute or item, "" for all of it."""
    for container, name, seen in part.items:
        get: Any = MappingProxyType.get if type(container) is MappingProxyType else dict.get
        if get(container, name, MISSING) is not seen:
            yield container, name
    for container, names in part.absent:
        yield from ((container, name) for name in sorted(names & container.keys()))
    for owner, name, seen in part.attributes:
        if _read(attrgetter(name), owner) is not seen:
            yield owner, name
    for sized, size in part.sizes:
        if _read(len, sized) != size:
            yield sized, ""
    for take, obj, before in part.snapshots:
        now = _read(take, obj)
        if not isinstance(now, list) or not are_same(now, before):
            yield obj, ""
    for function, obj, expected in part.checks:
        if _read(function, obj) != expected:
            yield obj, ""


def _read(read: Any, *args: Any) -> object:
    with suppressed(Exception):  # what can't be read any more did change
        return read(*args)
    return MISSING


def _name_of(parts: list[Scope], obj: object, attribute: str = "", depth: int = 0) -> str:
    """``module.name``, by who was seen to refer to what, or the sort of object that it is."""
    obj = obj() if isinstance(obj, weakref.ref) else obj
    name = _own_name(obj) or _held_as(parts, obj, depth) or f"an object of type {type(obj).__name__}"
    return f"{name}.{attribute}" if attribute else name


def _own_name(obj: Any) -> str:
    if isinstance(obj, str):  # what the toolchain tells, by who tells it
        return obj.replace(":", ".")
    if isinstance(obj, ModuleType):
        return obj.__name__
    if isinstance(obj, FunctionType | type):
        return f"{obj.__module__}.{obj.__qualname__}"
    function = getattr(obj, "py_func", None)
    if isinstance(function, FunctionType):
        return _own_name(function)
    if type(obj) is dict and isinstance(obj.get("__name__"), str):
        return str(obj["__name__"])
    if isinstance(obj, MappingProxyType):  # what a class has
        referring = gc.get_referrers(dictionary_behind(obj))
        return next((_own_name(each) for each in referring if isinstance(each, type)), "")
    return ""


def _held_as(parts: list[Scope], obj: object, depth: int) -> str:
    if depth == _DEPTH:
        return ""
    for part in parts:
        for owner, name, seen in chain(part.items, part.attributes):
            if seen is obj:
                return _name_of(parts, owner, name, depth + 1)
        for _take, holder, before in part.snapshots:
            if holder is not obj and any(each is obj for each in before):
                return _name_of(parts, holder, "", depth + 1)
    return ""


def node_components(nodes: list[Node], prefix: str) -> list[tuple[str, str]]:
    """Parts in words, under the label of whoever holds them: an array under the global's name."""
    found: list[tuple[str, str]] = []
    for node in nodes:
        if node is not nodes[0] and _is_leaf(node):
            continue
        owner = "" if node.title.startswith("function ") else f"{_title(node)}: "
        for label, content, words in node.parts:
            if content == b"@":
                continue  # nothing but the edge of this label
            found.append((f"{prefix}{owner}{label}", words or hashlib.blake2b(content, digest_size=6).hexdigest()))
        for (label, _obj), child, compiled in zip(node.edges, node.children, node.ways, strict=True):
            title = _title(child)
            words = ", ".join([title, *(part[2] for part in child.parts)]) if _is_leaf(child) else title
            # The third kind says so in its title: "reference to".
            found.append((f"{prefix}{owner}{label}", words if compiled else f"{words} (run while compiling)"))
    return found


def _title(node: Node) -> str:
    """What a node is called. A type may be called by all that is in it, and stand before a thousand parts."""
    return node.title if len(node.title) <= _LONGEST else f"{node.title[:_LONGEST]}…"


def _is_leaf(node: Node) -> bool:
    return not node.edges and not node.title.startswith("function ")
