"""What the source of a module or class says about what is under a name in it.

One of Numba's own functions in the place of another, or another number than the one that is written there, looks as if
it were Numba's. But what code puts under a name can be read in that code, so nothing has to be copied beforehand.
"""

from __future__ import annotations

import dis
import functools
import importlib.util
import sys
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from nbcache.passing import let_pass
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator


class Definitions(Record):
    """What the code of a module, or the body of a class, puts under its names. Nothing is known of a name in none."""

    imported: dict[str, tuple[str, str]]
    """The module and its attribute that were imported last."""
    defined: frozenset[str]
    """Nothing is put there but what is written there with ``def`` or ``class``, and decorated perhaps."""
    constants: dict[str, tuple[Any, ...]]
    """All that is put there, if these are constants."""
    aliases: dict[str, tuple[str, ...]]
    """The other names whose values are put there, if nothing else is."""
    put: frozenset[str]
    """All names."""


_NOTHING = Definitions({}, frozenset(), {}, {}, frozenset())


@functools.cache
def definitions_of(owner: ModuleType | type) -> Definitions:
    """Read the code of a module or class; where there is none, nothing is known."""
    code = _code_of(owner)
    return _NOTHING if code is None else _read(code, getattr(owner, "__package__", ""))


@functools.cache
def is_set_later(owner: ModuleType | type, name: str) -> bool:
    """Whether functions in the file of a module or class assign to a name of it; attributes of ``self`` don't count."""
    module = _module_of(owner)
    code = None if module is None else _code_of_module(module)
    store = _STORE_GLOBAL if isinstance(owner, ModuleType) else _STORE_ATTR
    for each in () if code is None else _everything_in(code):
        if name not in each.co_names:
            continue
        before = (_NOP, 0)
        for operation, argument in _instructions(each):
            if operation == store and each.co_names[argument] == name and not _is_self(each, *before):
                return True
            before = operation, argument
    return False


def _is_self(code: CodeType, operation: int, argument: int) -> bool:
    return operation == _LOAD_FAST and code.co_varnames[argument : argument + 1] == ("self",)


def _module_of(owner: ModuleType | type) -> ModuleType | None:
    return owner if isinstance(owner, ModuleType) else sys.modules.get(owner.__module__)


def _code_of(owner: ModuleType | type) -> CodeType | None:
    module = _module_of(owner)
    code = None if module is None else _code_of_module(module)
    if code is None or isinstance(owner, ModuleType):
        return code
    found = [code]
    for part in owner.__qualname__.split("."):
        if part != "<locals>":
            found = [inner for outer in found for inner in _inner(outer) if inner.co_name == part]
    return found[0] if len(found) == 1 else None


@functools.lru_cache(maxsize=8)
def _code_of_module(module: ModuleType) -> CodeType | None:
    try:
        code = module.__spec__.loader.get_code(module.__name__)  # type: ignore[union-attr]
    except Exception as raised:  # noqa: BLE001  no loader, one of another kind, or files that are gone
        let_pass(raised)
        return None
    return code if isinstance(code, CodeType) else None


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (each for each in code.co_consts if isinstance(each, CodeType))


def _everything_in(code: CodeType) -> Iterator[CodeType]:
    for each in _inner(code):
        yield each
        yield from _everything_in(each)


def _instructions(code: CodeType) -> Iterator[tuple[int, int]]:
    """Operations and their arguments, as ``dis`` tells them in ten times the time: a hit may wait for it."""
    raw, extended = code.co_code, 0
    for operation, argument in zip(raw[::2], raw[1::2], strict=True):
        if operation == dis.EXTENDED_ARG:
            extended = (extended | argument) << 8
        elif operation != _CACHE:
            yield operation, extended | argument
            extended = 0


def _read(code: CodeType, package: str) -> Definitions:
    written = {each.co_name for each in _inner(code)}
    imported: dict[str, tuple[str, str]] = {}
    put: dict[str, list[tuple[int, int]]] = {}
    where = attribute = ""
    level = before = (_NOP, 0)  # what came second to last, and last
    for operation, argument in _instructions(code):
        if operation == _IMPORT_NAME:
            where = code.co_names[argument]
            dots = code.co_consts[level[1]] if level[0] in _CONSTANTS else 0
            if dots:
                where = importlib.util.resolve_name("." * dots + where, package)
        elif operation == _IMPORT_FROM:
            attribute = code.co_names[argument]
        elif operation in _PUTS:
            name = code.co_names[argument]
            if attribute:
                imported[name] = (where, attribute)
                attribute = ""
            put.setdefault(name, []).append(before)
        level, before = before, (operation, argument)

    def put_by(operations: frozenset[int]) -> dict[str, list[int]]:
        return {
            name: [argument for _, argument in values]
            for name, values in put.items()
            if {operation for operation, _ in values} <= operations
        }

    return Definitions(
        imported,
        frozenset(name for name in put_by(_MAKES) if name in written),
        {name: tuple(code.co_consts[each] for each in values) for name, values in put_by(_CONSTANTS).items()},
        {name: tuple(code.co_names[each] for each in values) for name, values in put_by(_NAMES).items()},
        frozenset(put),
    )


def _operations(*names: str) -> frozenset[int]:
    """The numbers of those that this Python has."""
    return frozenset(dis.opmap[name] for name in names if name in dis.opmap)


_NOP, _CACHE = dis.opmap["NOP"], dis.opmap.get("CACHE", -1)
_IMPORT_NAME, _IMPORT_FROM = dis.opmap["IMPORT_NAME"], dis.opmap["IMPORT_FROM"]
_STORE_GLOBAL, _STORE_ATTR, _LOAD_FAST = (dis.opmap[name] for name in ("STORE_GLOBAL", "STORE_ATTR", "LOAD_FAST"))
_PUTS = _operations("STORE_NAME", "DELETE_NAME")
_MAKES = _operations("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE", "CALL", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_KW")
"""What comes before a name that is given to what ``def`` or ``class`` made."""
_CONSTANTS = _operations("LOAD_CONST")
_NAMES = _operations("LOAD_NAME")
