"""Making a random program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from randprog.model import ACCESS, KINDS, Const, Func, Program, Ref, Term, draw_value

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
}
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
    rank = program.modules.index(module)
    visible = [const for const in program.consts.values() if program.modules.index(const.module) <= rank]
    if not visible or rng.random() < 0.15:
        return Ref(text=rng.choice(["1", "2", "1.0", "3.5", "True", "-0.0"]))
    const = rng.choice(visible)
    return Ref(const=const.name, form=rng.randrange(3), access=rng.choice(ACCESS[const.kind]))


def draw_func_ref(rng: random.Random, program: Program, func: Func) -> Ref:
    """Draw a reference to a function that ``func`` may call, or to a constant when there is none."""
    choices = [other for other in program.before(func) if other.kind != "guvectorize"]
    if not choices:
        return draw_const_ref(rng, program, func.module)
    return Ref(func=rng.choice(choices).name, form=rng.randrange(3))


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
    if func.kind in {"apply", "functuple"}:
        func.refs = [draw_func_ref(rng, program, func), draw_func_ref(rng, program, func)]
        if not all(ref.func for ref in func.refs):
            func.kind = "njit"
    if func.kind not in {"apply", "functuple"}:
        func.refs = [draw_const_ref(rng, program, module), draw_const_ref(rng, program, module)]
    func.options = draw_options(rng)
    program.funcs[func.name] = func
    return func


def grow(rng: random.Random, functions: int | None = None) -> Program:
    """Make a random program of 3 to 6 modules."""
    inner = [f"pkg.m{index}" for index in range(rng.choice([1, 2, 2, 3]))]
    program = Program(["pkg.cfg", "util", *inner, "main"], {}, {}, [])
    for index in range(rng.randint(4, 8)):
        kind = weighted(rng, KINDS)
        home = rng.choice(["pkg.cfg", "pkg.cfg", "util", *inner])
        program.consts[f"K{index}"] = Const(f"K{index}", home, kind, draw_value(rng, kind))
    homes = sorted(
        rng.choices(["util", *inner, *inner, "main"], k=functions or rng.randint(3, 6)), key=program.modules.index
    )
    for home in homes:
        add_func(rng, program, home)
    draw_calls(rng, program)
    return program


def draw_calls(rng: random.Random, program: Program) -> None:
    """Let ``main`` call every function, one of them with a second argument type."""
    program.calls = [(name, rng.choice(ARGUMENTS)) for name in program.funcs]
    program.calls.append((rng.choice(list(program.funcs)), rng.choice(ARGUMENTS)))
