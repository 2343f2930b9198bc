"""Making a random program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from randprog.choosing import FLAVORS
from randprog.model import (
    ACCESS,
    CONTAINERS,
    FORMS,
    KINDS,
    OUTSIDE,
    Const,
    Crowd,
    Func,
    Program,
    Ref,
    Term,
    draw_value,
)

if TYPE_CHECKING:
    import random

FUNCTION_KINDS = {
    "njit": 10,
    "closure": 4,
    "lambda": 3,
    "exec": 2,
    "vectorize": 3,
    "guvectorize": 1.2,
    "overload": 3,
    "helper": 2,
    "intrinsic": 2,
    "recursion": 1.5,
    "mutual": 1,
    "generator": 1.5,
    "apply": 2,
    "functuple": 1,
    "default": 2,
    "twins": 2,
    "parallel": 0.3,
    "stencil": 0.3,
    "jitclass": 0.4,
    "cfunc": 0.5,
    "method": 0.5,
    "chooser": 8,
    "choosermethod": 3,
    "chooserattribute": 2,
    "choosingintrinsic": 3,
    "same": 3,
    "registered": 3,
    "objmode": 1,
    "boxed": 3,
    "alias": 3,
}
# Kinds whose ``refs`` are read by Python, so that they may be containers, lazy, or things outside.
CHOOSING = {"chooser", "choosermethod", "chooserattribute", "choosingintrinsic", "registered", "objmode"}
# Kinds whose ``refs`` are theirs alone.
SPECIAL = {"apply", "functuple", "same", "boxed", "alias", *CHOOSING}
# Kinds of constants that Numba knows inside a tuple.
_BOXABLE = {"scalar", "tuple", "nested", "array", "matrix", "named", "string", "arrays"}
OPERATORS = ["+", "-", "*", "+", "*"]
ARGUMENTS = ["1", "2", "2.5", "3", "7", "0.5", "True", "np.float32(1.5)"]
OPTIONS = {
    "fastmath": ["True", "{'nnan', 'contract'}"],
    "error_model": ["'numpy'"],
    "boundscheck": ["True"],
    "inline": ["'always'"],
    "nogil": ["True"],
    "no_cpython_wrapper": ["False"],
}


def weighted(rng: random.Random, table: dict[str, float]) -> str:
    """Draw a key of ``table`` by its weight."""
    return rng.choices(list(table), list(table.values()))[0]


def draw_options(rng: random.Random) -> dict[str, str]:
    """Draw options of a jit decorator; most often none."""
    names = rng.sample(list(OPTIONS), rng.choice([0, 0, 0, 1, 1, 2]))
    return {name: rng.choice(OPTIONS[name]) for name in names}


def draw_const_ref(rng: random.Random, program: Program, module: str) -> Ref:
    """Draw a reference to a constant visible from ``module``, or a literal."""
    choices = [const for const in visible(program, module) if const.kind in KINDS]
    if not any(const.module != "pkg.late" for const in choices) or rng.random() < 0.7:  # most often it stays late
        choices = [const for const in choices if const.module != "pkg.late"] or choices
    if not choices or rng.random() < 0.15:
        return Ref(text=rng.choice(["1", "2", "1.0", "3.5", "True", "-0.0"]))
    return _ref_to(rng, rng.choice(choices))


def visible(program: Program, module: str) -> list[Const]:
    """Return the constants that ``module`` may refer to."""
    rank = program.modules.index(module)
    return [const for const in program.consts.values() if program.modules.index(const.module) <= rank]


def _ref_to(rng: random.Random, const: Const, *, lazy: bool = False) -> Ref:
    return Ref(const=const.name, form=rng.randrange(FORMS), access=rng.choice(ACCESS[const.kind]), lazy=lazy)


def draw_source(rng: random.Random, program: Program, module: str) -> Ref:
    """Draw something that a chooser reads: a constant of any kind, imported late or not, or something outside."""
    choices = [const for const in visible(program, module) for _ in range(1 + 2 * (const.kind in CONTAINERS))]
    if not choices or rng.random() < 0.25:
        return Ref(text=rng.choice(OUTSIDE))
    const = rng.choice(choices)
    return _ref_to(rng, const, lazy=rng.random() < (0.9 if const.module == "pkg.late" else 0.4))


def draw_pair(rng: random.Random, program: Program, module: str, kinds: set[str]) -> list[Ref]:
    """Draw two constants of ``kinds``, an alias and what it names if there are such; nothing if there are none."""
    choices = [const for const in visible(program, module) if const.kind in kinds]
    if not choices:
        return []
    aliases = [const for const in choices if const.alias] or choices
    one = rng.choice(aliases)
    other = program.root(one) if one.alias and rng.random() < 0.8 else rng.choice(choices)
    return [_ref_to(rng, const) for const in rng.sample([one, other], 2)]


def draw_func_ref(rng: random.Random, program: Program, func: Func, *, lazy: bool = False) -> Ref:
    """Draw a reference to a function that ``func`` may call, or to a constant when there is none."""
    choices = [other for other in program.before(func) if other.kind != "guvectorize"]
    if not lazy and rng.random() < 0.7:
        choices = [other for other in choices if other.module != "pkg.late"] or choices
    if not choices:
        return draw_const_ref(rng, program, func.module)
    return Ref(func=rng.choice(choices).name, form=rng.randrange(FORMS), lazy=lazy)


def draw_refs(rng: random.Random, program: Program, func: Func) -> None:
    """Draw what the function's kind needs; where there is no such thing it becomes a plain one."""
    match func.kind:
        case "apply" | "functuple":
            func.refs = [draw_func_ref(rng, program, func), draw_func_ref(rng, program, func)]
        case "alias":
            func.refs = [draw_func_ref(rng, program, func)]
        case "same" | "boxed":
            kinds = _BOXABLE if func.kind == "boxed" else {*KINDS, *CONTAINERS}
            func.refs = draw_pair(rng, program, func.module, kinds)
        case kind if kind in CHOOSING:
            func.refs = [draw_source(rng, program, func.module), draw_source(rng, program, func.module)]
            callee = draw_func_ref(rng, program, func, lazy=rng.random() < 0.7)
            func.refs += [callee] if callee.func and kind.startswith("chooser") else []
            return
        case _:
            func.refs = [draw_const_ref(rng, program, func.module), draw_const_ref(rng, program, func.module)]
            return
    wanted = [ref.const if func.kind in {"same", "boxed"} else ref.func for ref in func.refs]
    if not wanted or not all(wanted):
        func.kind = "njit"
        draw_refs(rng, program, func)


def draw_term(rng: random.Random, program: Program, func: Func) -> Term:
    """Draw one step of a body."""
    call = rng.random() < 0.45 and func.kind != "intrinsic"
    ref = draw_func_ref(rng, program, func) if call else draw_const_ref(rng, program, func.module)
    shape = rng.choices(["plain", "loop", "branch", "raise", "divide"], [10, 2, 2, 1, 1])[0]
    if shape in {"raise", "divide"} and ref.func:
        shape = "plain"
    return Term(shape, rng.choice(OPERATORS), ref)


def add_func(rng: random.Random, program: Program, module: str, kind: str | None = None) -> Func:
    """Add a random function at the end of ``module``."""
    number = 1 + max((int(name.rpartition("_")[2]) for name in program.funcs), default=0)
    func = Func(f"{rng.choice('fgh')}_{number}", module, kind or weighted(rng, FUNCTION_KINDS), [])
    func.terms = [draw_term(rng, program, func) for _ in range(rng.choice([1, 2, 2, 3]))]
    func.flavor = rng.randrange(FLAVORS)
    draw_refs(rng, program, func)
    func.options = draw_options(rng)
    program.funcs[func.name] = func
    return func


def grow(rng: random.Random, functions: int | None = None) -> Program:
    """Make a random program of 3 to 6 modules."""
    inner = [f"pkg.m{index}" for index in range(rng.choice([1, 2, 2, 3]))]
    program = Program(["pkg.cfg", "pkg.late", "util", *inner, "main"], {}, {}, [])
    program.data = {"a.txt": "abc", "b.json": '{"a": 2}'}
    for index in range(rng.randint(4, 8)):
        kind = weighted(rng, KINDS if rng.random() < 0.65 else CONTAINERS)
        home = rng.choice(["pkg.cfg", "pkg.cfg", "pkg.late", "util", *inner])
        program.consts[f"K{index}"] = Const(f"K{index}", home, kind, draw_value(rng, kind))
    for _ in range(rng.randint(1, 3)):
        add_alias(rng, program)
    for module in program.modules[:-1]:
        program.styles[module] = draw_style(rng, module)
    program.styles["pkg"] = rng.choice(["", "getattr"])
    homes = sorted(
        rng.choices(["pkg.late", "util", *inner, *inner, "main"], k=functions or rng.randint(3, 6)),
        key=program.modules.index,
    )
    for home in homes:
        add_func(rng, program, home)
    draw_calls(rng, program)
    return program


def draw_calls(rng: random.Random, program: Program) -> None:
    """Let ``main`` call every function, one of them with a second argument type."""
    program.calls = [(name, rng.choice(ARGUMENTS)) for name in program.funcs]
    program.calls.append((rng.choice(list(program.funcs)), rng.choice(ARGUMENTS)))
    program.crowds = [draw_crowd(rng, program)] if rng.random() < 0.5 else []


def add_alias(rng: random.Random, program: Program) -> Const:
    """Add another name of a constant, in any module that may refer to it."""
    target = rng.choice([const for const in program.consts.values() if not const.alias])
    home = rng.choice(program.modules[program.modules.index(target.module) :])
    number = sum(bool(const.alias) for const in program.consts.values())
    alias = Const(f"A{number}", home, target.kind, "", target.name, rng.random() < 0.6, rng.randrange(FORMS))
    program.consts[alias.name] = alias
    return alias


def draw_style(rng: random.Random, module: str) -> str:
    """Draw how a module comes by its names; only ``pkg.cfg`` has nothing but constants."""
    styles = ["class", "replaced", *(["getattr", "getattr", "fresh"] if module == "pkg.cfg" else [])]
    return rng.choice(["", "", *styles])


def draw_crowd(rng: random.Random, program: Program) -> Crowd:
    """Draw functions to call in threads, such that no function is reached from two of them."""
    taken, names = set(), []
    for name in rng.sample(list(program.funcs), rng.randint(1, len(program.funcs))):
        reach = program.reach(name)
        if not taken & reach and not any(program.funcs[other].kind == "parallel" for other in reach):
            taken |= reach
            names.append(name)
    return Crowd(names, rng.choice(ARGUMENTS), rng.choice([1, 2, 3]), rng.random() < 0.7)
