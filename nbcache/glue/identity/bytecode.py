"""What a code object is, apart from where it stands: its digest and the names it reads.

A plan is computed once per code object (they are immutable) and kept until the code dies.
File name, first line and line table stay out: they are handled as *locations* (see placeholders.py).
"""

from __future__ import annotations

import dis
import hashlib
import re
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType

from nbcache.glue.identity.constant_bytes import encode_constant
from nbcache.records import Record

_CONTAINS_OP = dis.opmap["CONTAINS_OP"]
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_ENTERS = frozenset(dis.opmap[name] for name in ("BEFORE_WITH", "SETUP_WITH", "LOAD_SPECIAL") if name in dis.opmap)


def _shifts() -> dict[int, int]:
    """By how many bits, which say something else, the number of a name is shifted in an instruction's argument."""
    # Each has grown such bits in one release or another: each of these instructions reads the name with the number 1.
    example = compile("def f():\n global one\n import zero, one\n one.one", "", "exec").co_consts[0].co_code
    named = {dis.opmap[name] for name in ("IMPORT_NAME", "LOAD_ATTR", "LOAD_GLOBAL")}
    return {op: arg.bit_length() - 1 for op, arg in zip(example[::2], example[1::2], strict=True) if op in named}


# What the scanner does with an instruction.
_READ_GLOBAL, _READ_ATTRIBUTE, _READ_CELL, _READ, _READ_TWO = range(5)
_STORE, _STORES, _STORE_AND_READ, _IMPORT, _IMPORT_FROM = range(5, 10)
_Kinds = dict[int, tuple[int, int]]
"""By instruction, one of these, and its shift."""
_KINDS_OF_NAMES = {
    "LOAD_GLOBAL": _READ_GLOBAL, "LOAD_NAME": _READ_GLOBAL, "LOAD_FROM_DICT_OR_GLOBALS": _READ_GLOBAL,
    "LOAD_ATTR": _READ_ATTRIBUTE, "LOAD_METHOD": _READ_ATTRIBUTE,
    "IMPORT_NAME": _IMPORT, "IMPORT_FROM": _IMPORT_FROM,
}  # fmt: skip


def _kind_of(name: str) -> int | None:
    """What the scanner does with instructions of this *name*; local variables have more of them in each release."""
    if "_FAST" in name:
        return _KINDS_OF_LOCALS.get(tuple(part for part in name.split("_") if part in {"LOAD", "STORE"}))
    if name.startswith("LOAD_") and "DEREF" in name:
        return _READ_CELL
    return _KINDS_OF_NAMES.get(name)


_KINDS_OF_LOCALS = {
    ("LOAD",): _READ,
    ("LOAD", "LOAD"): _READ_TWO,
    ("STORE",): _STORE,
    ("STORE", "STORE"): _STORES,
    ("STORE", "LOAD"): _STORE_AND_READ,
}
_SHIFTS = _shifts()
_KINDS_WITH_LOCALS: _Kinds = {
    op: (kind, _SHIFTS.get(op, 0)) for name, op in dis.opmap.items() if (kind := _kind_of(name)) is not None
}
_KINDS: _Kinds = {op: known for op, known in _KINDS_WITH_LOCALS.items() if known[0] not in {_READ, _READ_TWO}}
_NAMING = frozenset(
    op for op, (kind, _shift) in _KINDS.items() if kind in {_READ_GLOBAL, _READ_CELL, _IMPORT, _IMPORT_FROM}
)
"""What begins to read off a variable that isn't local."""
_STORING = frozenset({_STORE, _STORES, _STORE_AND_READ})
_TESTING = frozenset(
    op for name, op in dis.opmap.items() if name in {"TO_BOOL", "UNARY_NOT"} or name.startswith("POP_JUMP_")
)
"""What asks a value whether it is true, or None, and leaves nothing else of it."""
_CACHE = dis.opmap.get("CACHE", -1)
_LOAD_CONST = dis.opmap["LOAD_CONST"]
_STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]

GLOBAL, CLOSURE, IMPORTED, _LOCAL = "global", "closure", "import", "local"
Variable = tuple[str, str]
"""Where a value comes from, and its name there."""
Read = tuple[tuple[str, ...], bool]
"""Attributes that code reads off a variable, one off the other: ``a.b.c`` is ``("b", "c")`` of ``a``; and whether
what is found at the end is handed on (to a call, a container), so that other code may read more off it."""

_FIELD, _NAME = r"\{[^{}\s]*", r"[^\W\d]\w*"
"""Patterns; compiling them takes longer than a hit, which seldom needs them."""
_SERIALIZE = "serialize_object"
_LOADS = frozenset(dis.opname[op] for op, (kind, _shift) in _KINDS.items() if kind in {_READ_GLOBAL, _READ_CELL})
_CALLS = frozenset({"CALL", "CALL_METHOD", "CALL_FUNCTION"})
SILENT = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL"})
"""Instructions that say nothing of what a function does."""


class CodePlan(Record):
    """The identity of one code object, nested code included.

    ``digest``: covers bytecode, constants (type-exact), names, flags, exception table.
    ``global_names``: names looked up in globals or builtins, sorted.
    ``attribute_names``: every name that could be read off a module: attribute names and string
    constants (Numba folds ``getattr(module, "K")``).  A superset on purpose: an alias such as
    ``m = mod; m.K`` needs no data-flow analysis then.
    ``imports``: modules imported inside the body.
    ``reads``: what is read off each variable for certain, or handed on; nothing else is read off it here. Of a variable
    with which code does nothing but ask whether it is true, nothing is.
    ``asks_membership``: whether there is an ``in``, which Numba answers while compiling if it can.
    ``serialized``: names of variables that the code does nothing with but hand them to ``serialize_object``, the way
    in which boxing has compiled code refer to a class.
    ``enters_blocks``: whether it has blocks of ``with``, nested code aside.
    ``inside``: the variables that a function with this code reads in blocks of ``objmode`` only (object_mode.py).
    """

    digest: bytes
    global_names: tuple[str, ...]
    attribute_names: frozenset[str]
    imports: tuple[str, ...]
    reads: dict[Variable, set[Read]]
    asks_membership: bool
    serialized: frozenset[str]
    enters_blocks: bool
    inside: frozenset[Variable]


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


def variables_of(function: FunctionType) -> Iterator[tuple[Variable, object]]:
    """What the variables hold that the code of a *function* reads and that aren't local, as far as they are there."""
    scope = function.__globals__
    for name in plan_of(function.__code__).global_names:
        if name in scope:
            yield (GLOBAL, name), scope[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # it is empty
            yield (CLOSURE, name), cell.cell_contents


def assigned_globals(code: CodeType) -> frozenset[str]:
    """The global variables that functions in *code*, which is a module's, assign to."""
    return frozenset(
        instruction.argval
        for each in nested_codes(code)
        if _STORE_GLOBAL in each.co_code[::2]
        for instruction in dis.get_instructions(each)
        if instruction.opcode == _STORE_GLOBAL
    )


def names_in(text: str) -> list[str]:
    """The names by which code that has *text* may read something off a module."""
    # Several at once, too: ``resolve_name("pkg.cfg:K")``, ``attrgetter("a.b")``.
    parts = text.replace(":", ".").split(".")
    if all(map(str.isidentifier, parts)):
        return parts
    return re.findall(_NAME, " ".join(re.findall(_FIELD, text))) if "{" in text else []  # "{0.K}".format(cfg)


def _make_plan(code: CodeType) -> CodePlan:
    attribute_names: set[str] = set()
    reads: dict[Variable, set[Read]] = {}
    asks_membership = False
    for each in nested_codes(code):
        raw = each.co_code  # a copy each time
        for variable, found in _reads(each, raw).items():
            reads.setdefault(variable, set()).update(found)
        asks_membership = asks_membership or _CONTAINS_OP in raw[::2]
        attribute_names.update(each.co_names)
        for const in each.co_consts:
            if isinstance(const, str):
                attribute_names.update(names_in(const))
    return CodePlan(
        _digest(code),
        tuple(sorted([name for kind, name in reads if kind == GLOBAL])),
        frozenset(attribute_names),
        tuple(sorted([name for kind, name in reads if kind == IMPORTED])),
        reads,
        asks_membership,
        _serialized(code) if _SERIALIZE in attribute_names else frozenset(),
        not _ENTERS.isdisjoint(code.co_code[::2]),
        frozenset(),
    )


def _serialized(code: CodeType) -> frozenset[str]:
    handed: set[str] = set()
    other: set[str] = set()
    for each in nested_codes(code):
        steps = [step for step in dis.get_instructions(each) if step.opname not in SILENT]
        for i, step in enumerate(steps):
            if step.opname in _LOADS:
                before, after = steps[max(0, i - 1)], steps[min(i + 1, len(steps) - 1)]
                whole = before.argval == _SERIALIZE and after.opname in _CALLS and after.arg == 1
                (handed if whole else other).add(step.argval)
    return frozenset(handed - other)


def _reads(code: CodeType, raw: bytes) -> dict[Variable, set[Read]]:
    """What one code object, whose bytecode is *raw*, reads off its variables, without its nested code."""
    if _NAMING.isdisjoint(raw[::2]):  # nothing but arguments and constants
        return {}
    chains = _Chains()
    chains.scan(code, raw, _KINDS)
    if chains.aliases:  # what is read off local variables matters only if they stand for something else
        chains = _Chains()
        chains.scan(code, raw, _KINDS_WITH_LOCALS)
        chains.follow_aliases()
    return {variable: found for variable, found in chains.found.items() if variable[0] != _LOCAL}


class _Chains:
    """A chain is a variable and the attributes read off it, each by the instruction that follows.

    It ends in a local variable, of which more may be read, or what was found is handed on.
    """

    def __init__(self) -> None:
        self.found: dict[Variable, set[Read]] = {}
        self.aliases: list[tuple[Variable, tuple[str, ...], str]] = []
        """Chains that end in local variables."""
        self._module: Variable = (IMPORTED, "")
        """What ``from ... import`` reads from."""

    def scan(self, code: CodeType, raw: bytes, kinds: _Kinds) -> None:
        """One pass over the bytecode."""
        names, slots, cells, found = code.co_names, *_slots(code), self.found
        variable: Variable | None = None
        chain: tuple[str, ...] = ()
        extended = 0
        for position, (op, low) in enumerate(zip(raw[::2], raw[1::2], strict=True)):
            if op == _CACHE:
                continue
            entry = kinds.get(op)
            if entry is None:  # most instructions
                extended = (low | extended) << 8 if op == _EXTENDED_ARG else 0
                if variable is not None and not extended:
                    self._hand_on(variable, chain, op)
                    variable, chain = None, ()
                continue
            kind, arg = entry[0], (low | extended) >> entry[1]
            extended = 0
            if kind == _READ_ATTRIBUTE:
                chain = (*chain, names[arg])
                continue
            if variable is not None:
                self._end(variable, chain, kind, slots[arg if kind == _STORE else arg >> 4] if kind in _STORING else "")
            chain = ()
            if kind == _READ_GLOBAL:
                variable = (GLOBAL, names[arg])
            elif kind == _READ:
                variable = (_LOCAL, slots[arg])
            elif kind == _READ_CELL:
                variable = (CLOSURE, cells[arg])
            elif kind == _IMPORT:
                found.setdefault((IMPORTED, names[arg]), set())
                variable = self._module = (IMPORTED, _bound_by_import(code, names[arg], 2 * position))
            elif kind == _IMPORT_FROM:
                variable, chain = self._module, (names[arg],)
            else:
                variable = self._read_last(kind, arg, slots)

    def _hand_on(self, variable: Variable, chain: tuple[str, ...], op: int) -> None:
        """What was found by *chain* is for the instruction *op*, which may only test it."""
        found = self.found.setdefault(variable, set())
        if chain or op not in _TESTING or variable[0] == _LOCAL:
            found.add((chain, True))

    def _read_last(self, kind: int, arg: int, slots: tuple[str, ...]) -> Variable | None:
        """What an instruction with two local variables leaves to be read off."""
        if kind == _READ_TWO:
            self.found.setdefault((_LOCAL, slots[arg >> 4]), set()).add(((), True))
        return (_LOCAL, slots[arg & 15]) if kind in {_STORE_AND_READ, _READ_TWO} else None

    def _end(self, variable: Variable, chain: tuple[str, ...], kind: int, local: str) -> None:
        """What was found by *chain* meets an instruction of this kind, which may store it in *local*."""
        found = self.found.setdefault(variable, set())
        if kind in _STORING:
            self.aliases.append((variable, chain, local))
        elif kind != _IMPORT_FROM or chain:
            found.add((chain, True))

    def follow_aliases(self) -> None:
        """Count what is read off local variables for what they stand for."""
        for variable, names, local in self.aliases:
            if variable[0] != _LOCAL:
                self.found[variable] |= self._read_off(local, names, ())

    def _read_off(self, local: str, before: tuple[str, ...], through: tuple[str, ...]) -> set[Read]:
        """What is read off *local*, which is found by the names *before*."""
        if local in through:  # x = x.next
            return {(before, True)}
        found = {(before + names, passed) for names, passed in self.found.get((_LOCAL, local), ())}
        for variable, names, other in self.aliases:
            if variable == (_LOCAL, local):
                found |= self._read_off(other, before + names, (*through, local))
        return found or {(before, False)}


def _slots(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of local variables, and of those in cells, as instructions number them."""
    if _CACHE < 0:
        return code.co_varnames, (*code.co_cellvars, *code.co_freevars)
    if not code.co_cellvars and not code.co_freevars:
        return code.co_varnames, ()
    cells = (name for name in code.co_cellvars if name not in code.co_varnames)
    together = (*code.co_varnames, *cells, *code.co_freevars)
    return together, together


def _bound_by_import(code: CodeType, name: str, position: int) -> str:
    """The module that ``import`` at *position* finds: without names after it, the package at the root of *name*."""
    raw = code.co_code
    while raw[position - 2] == _EXTENDED_ARG:  # that of the import
        position -= 2
    high = raw[position - 3] << 8 if raw[position - 4] == _EXTENDED_ARG else 0
    wanted = code.co_consts[raw[position - 1] | high] if raw[position - 2] == _LOAD_CONST else ()
    return name if wanted else name.partition(".")[0]


def _digest(code: CodeType) -> bytes:
    said = (
        code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_flags,
        code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
    )  # fmt: skip
    parts = [code.co_code, repr(said).encode(), getattr(code, "co_exceptiontable", b"")]
    in_no_order = _only_searched(code)
    parts += [
        plan_of(const).digest if isinstance(const, CodeType) else encode_constant(const, ordered=i not in in_no_order)
        for i, const in enumerate(code.co_consts)
    ]
    content = b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "little"), part)])
    return hashlib.blake2b(content, digest_size=32, person=b"nbcache code").digest()


def _only_searched(code: CodeType) -> set[int]:
    """Which of the constants are frozen sets that nobody goes through: it is only asked what is in them."""
    sets = {i for i, const in enumerate(code.co_consts) if type(const) is frozenset}
    if not sets:
        return sets
    steps = [step for step in dis.get_instructions(code) if step.opname not in SILENT]
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if step.opcode in dis.hasconst and (following is None or following.opcode != _CONTAINS_OP):
            sets.discard(step.arg if step.arg is not None else -1)
    return sets


_OF_EACH_MODULE = frozenset({"__doc__", "__file__", "__name__", "__package__", "__path__"})


class Wanted:
    """What of a module is wanted by the code that has it.

    ``names``: all that it could read, of which what is there counts. ``reads``: what it does read, which
    counts even if it is only there when asked for. ``everywhere``: whether the names are looked for in the toolchain's
    modules below a module of the toolchain as well.
    """

    __slots__ = ("everywhere", "handed_on", "names", "reads")

    def __init__(self, names: frozenset[str], reads: Iterable[Read], *, everywhere: bool = False) -> None:
        self.names = names
        self.everywhere = everywhere
        self.handed_on = False
        self.reads: dict[str, list[Read]] = {}
        for chain, handed_on in reads:
            if chain:
                self.reads.setdefault(chain[0], []).append((chain[1:], handed_on))
            else:
                self.handed_on |= handed_on

    def asks(self, attribute: str) -> bool:
        """Whether more is read off *attribute* than what one writes to."""
        return any(chain and chain[0] not in {"write", "flush"} for chain, _handed_on in self.reads.get(attribute, ()))

    @property
    def certainly(self) -> bool:
        """Whether the code has the module, and doesn't only find it in another one by its name.

        Of the toolchain's modules some are loaded late, which must not matter.
        """
        return bool(self.reads) or self.handed_on or not self.everywhere

    def names_in(self, *, of_toolchain: bool) -> frozenset[str]:
        """The names that count of a module: those that each has say no more than that it is there."""
        return self.names - _OF_EACH_MODULE if of_toolchain and not self.certainly else self.names

    def below(self, attribute: str, names: frozenset[str]) -> Wanted:
        """What is wanted of a module that is found as *attribute* of this one."""
        return Wanted(names, self.reads.get(attribute, ()), everywhere=self.everywhere)
