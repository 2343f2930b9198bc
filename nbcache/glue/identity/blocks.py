"""The blocks of ``with`` in code: what their contexts are made of, and which variables are read nowhere but in them.

For ``with objmode(y=T):`` the context is what the first variable of its expression leads to; ``T`` is read outside the
block.  A variable counts as read only in blocks where every instruction that reads it is certainly in one, those of
functions and comprehensions that are made there included.
"""

from __future__ import annotations

import dis
import itertools
from collections.abc import Callable, Iterator
from types import CodeType

from nbcache.glue.identity.bytecode import CLOSURE, GLOBAL, Variable
from nbcache.records import Record

_KINDS = {
    "LOAD_GLOBAL": GLOBAL, "LOAD_NAME": GLOBAL, "LOAD_DEREF": CLOSURE, "LOAD_CLASSDEREF": CLOSURE,
    "LOAD_FROM_DICT_OR_DEREF": CLOSURE, "LOAD_FROM_DICT_OR_GLOBALS": GLOBAL,
}  # fmt: skip
_ENTERS = frozenset({"BEFORE_WITH", "SETUP_WITH"})
_EXITS = "__exit__"
"""What is looked up first where a block is entered, since 3.14."""


class Blocks(Record):
    """All blocks of one code object.

    ``contexts``: for each the variable that its context is found by, and the attributes read off that one after the
    other. ``inside``: variables that are read in blocks only.
    """

    contexts: frozenset[tuple[Variable, tuple[str, ...]]]
    inside: frozenset[Variable]


def blocks_of(code: CodeType) -> Blocks | None:
    """The blocks of *code*; None if it has none, or one whose extent or context isn't clear."""
    steps = list(dis.get_instructions(code))
    entered = [i for i, step in enumerate(steps) if step.opname in _ENTERS or _looks_up_exit(step)]
    contexts = [_context(steps, i) for i in entered]
    if not entered or None in contexts:
        return None
    within = _within(code, steps, entered)
    if within is None:
        return None
    inside: set[Variable] = set()
    outside: set[Variable] = set()
    for step in steps:
        (inside if within(step.offset) else outside).update(_read_by(step))
    return Blocks(frozenset(filter(None, contexts)), frozenset(inside - outside))


def _looks_up_exit(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_SPECIAL" and _EXITS in (step.argrepr, step.argval)


def _read_by(step: dis.Instruction) -> Iterator[Variable]:
    if step.opname in _KINDS:
        yield _KINDS[step.opname], step.argval
    elif isinstance(step.argval, CodeType):
        for each in dis.get_instructions(step.argval):
            yield from _read_by(each)


def _context(steps: list[dis.Instruction], position: int) -> tuple[Variable, tuple[str, ...]] | None:
    """What the expression begins with whose value is entered at *position*; None where that is no variable."""
    wanted = 1
    while wanted > 0 and position > 0:
        position -= 1
        step = steps[position]
        if step.opname != "COPY" or not _looks_up_exit(steps[position + 1]):
            wanted -= dis.stack_effect(step.opcode, step.arg, jump=False)
    while steps[position].opname in {"PUSH_NULL", "EXTENDED_ARG"}:
        position += 1
    kind = _KINDS.get(steps[position].opname)
    if wanted != 0 or kind is None:
        return None
    chain = []
    for step in steps[position + 1 :]:
        if step.opname not in {"LOAD_ATTR", "LOAD_METHOD"}:
            break
        chain.append(step.argval)
    return (kind, steps[position].argval), tuple(chain)


def _within(code: CodeType, steps: list[dis.Instruction], entered: list[int]) -> Callable[[int], bool] | None:
    """What tells whether an offset is in a block."""
    if steps[entered[0]].opname == "SETUP_WITH":
        return _within_setups(steps, entered)
    entries = getattr(dis.Bytecode(code), "exception_entries", None)
    if entries is None:
        return None
    pairs = itertools.pairwise(steps)
    ends = {each.offset for each, then in pairs if (each.opname, then.opname) == ("PUSH_EXC_INFO", "WITH_EXCEPT_START")}

    def within(offset: int) -> bool:
        """Whether an exception there leads, by way of other handlers, to where a context is left by an exception."""
        seen: set[int] = set()
        while offset not in seen:
            seen.add(offset)
            offset = next((each.target for each in entries if each.start <= offset < each.end), offset)
            if offset in ends:
                return True
        return False

    return within


def _within_setups(steps: list[dis.Instruction], entered: list[int]) -> Callable[[int], bool] | None:
    """The same for bytecode that says where a block begins and ends (Python 3.10)."""
    ranges = []
    for position in entered:
        depth = 1
        for step in steps[position + 1 :]:
            if step.offset >= steps[position].argval:  # the handler: there was no end
                return None
            depth += step.opname.startswith("SETUP_") - (step.opname == "POP_BLOCK")
            if depth == 0:
                ranges.append((steps[position].offset, step.offset))
                break
    return lambda offset: any(start < offset < end for start, end in ranges)
