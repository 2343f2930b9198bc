"""What a code object is, apart from where it stands: its digest and the names it reads.

A plan is computed once per code object (they are immutable) and kept until the code dies.
File name, first line and line table stay out: they are handled as *locations* (see tokens.py).
"""

from __future__ import annotations

import dis
import hashlib
import weakref
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

from nbcache.glue.atoms import encode_constant

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_LOAD_NAME = dis.opmap["LOAD_NAME"]
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
# Since 3.11 the lowest bit of LOAD_GLOBAL's argument says whether a NULL is pushed.
_GLOBAL_SHIFT = 1 if "CACHE" in dis.opmap else 0


class CodePlan(NamedTuple):
    """The identity of one code object, nested code included.

    ``digest``: covers bytecode, constants (type-exact), names, flags, exception table.
    ``global_names``: names looked up in globals or builtins, sorted.
    ``attribute_names``: every name that could be read off a module: attribute names and string
    constants (Numba folds ``getattr(module, "K")``).  A superset on purpose: an alias such as
    ``m = mod; m.K`` needs no data-flow analysis then.
    ``imports``: modules imported inside the body.
    """

    digest: bytes
    global_names: tuple[str, ...]
    attribute_names: frozenset[str]
    imports: tuple[str, ...]


_plans: dict[int, tuple[weakref.ref[CodeType], CodePlan]] = {}


def plan_of(code: CodeType) -> CodePlan:
    """The plan of *code*; microseconds when it was asked for before."""
    key = id(code)
    known = _plans.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    plan = _make_plan(code)
    # The callback keeps a dead code object's id from being mistaken for its successor's.
    _plans[key] = (weakref.ref(code, lambda _ref: _plans.pop(key, None)), plan)
    return plan


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """*code* and every code object among its constants, outermost first."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from nested_codes(const)


def _make_plan(code: CodeType) -> CodePlan:
    global_names: set[str] = set()
    attribute_names: set[str] = set()
    imports: set[str] = set()
    for each in nested_codes(code):
        _collect_names(each, global_names, imports)
        attribute_names.update(each.co_names)
        attribute_names.update(c for c in each.co_consts if isinstance(c, str) and c.isidentifier())
    return CodePlan(
        digest=_digest(code),
        global_names=tuple(sorted(global_names)),
        attribute_names=frozenset(attribute_names),
        imports=tuple(sorted(imports)),
    )


def _collect_names(code: CodeType, global_names: set[str], imports: set[str]) -> None:
    names = code.co_names
    raw = code.co_code
    extended = 0
    for position in range(0, len(raw), 2):
        op = raw[position]
        arg = raw[position + 1] | extended
        if op == _EXTENDED_ARG:
            extended = arg << 8
            continue
        extended = 0
        if op == _LOAD_GLOBAL:
            global_names.add(names[arg >> _GLOBAL_SHIFT])
        elif op == _LOAD_NAME:
            global_names.add(names[arg])
        elif op == _IMPORT_NAME:
            imports.add(names[arg])


def _digest(code: CodeType) -> bytes:
    hasher = hashlib.blake2b(digest_size=32, person=b"nbcache code")
    for part in (
        code.co_code,
        repr(
            (
                code.co_name,
                code.co_argcount,
                code.co_posonlyargcount,
                code.co_kwonlyargcount,
                code.co_nlocals,
                code.co_flags,
                code.co_names,
                code.co_varnames,
                code.co_freevars,
                code.co_cellvars,
            )
        ).encode(),
        getattr(code, "co_exceptiontable", b""),
    ):
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    for const in code.co_consts:
        part = plan_of(const).digest if isinstance(const, CodeType) else encode_constant(const)
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()
