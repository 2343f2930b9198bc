"""A random program as data.

A program is the package ``pkg`` (``cfg`` and ``m0``..``mN``), a module ``util`` beside it, and ``main.py``. Modules are
ordered (``ORDER``); a function refers only to constants and functions of earlier modules or defined earlier in its own,
so imports have no cycles. Every function is a scalar function of one argument as seen by the others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

# How a constant is reached as a scalar, by kind; {r} is the reference to it.
ACCESS = {
    "scalar": ["{r}"],
    "env": ["{r}"],
    "tuple": ["{r}[0]", "{r}[1]", "len({r})"],
    "nested": ["{r}[1][0]", "{r}[0][1]"],
    "string": ["len({r})", "(1 if {r} == 'abc' else 5)"],
    "array": ["{r}[1]", "{r}.shape[0]", "{r}[{r}.size - 1]"],
    "matrix": ["{r}[0, 1]", "{r}.T[1, 0]"],
    "big": ["{r}[190001]"],
    "named": ["{r}.a", "{r}[0]"],
    "enum": ["{r}.A.value", "(2 if {r}.A == {r}.B else 7)"],
    "record": ["{r}[0]['a']", "{r}[1]['b']"],
}
_SCALARS = [
    "0",
    "1",
    "2",
    "3",
    "5",
    "-1",
    "0.0",
    "-0.0",
    "1.0",
    "2.0",
    "3.0",
    "2.5",
    "True",
    "False",
    "np.float32(2.0)",
    "np.float32(2.5)",
    "np.int64(2)",
    "np.int8(2)",
    "np.float64(2.0)",
    "np.uint8(3)",
    "np.bool_(True)",
]
_ELEMENTS = ["0", "1", "2", "3", "1.0", "2.0", "0.0", "-0.0", "True", "2.5"]
KINDS = {
    "scalar": 8,
    "env": 2,
    "tuple": 3,
    "nested": 2,
    "string": 2,
    "array": 3,
    "matrix": 1,
    "big": 0.15,
    "named": 2,
    "enum": 2,
    "record": 1,
}


def draw_value(rng: random.Random, kind: str) -> str:
    """Return source text for a random value of ``kind``."""

    def pick() -> str:
        return rng.choice(_ELEMENTS)

    dtype = rng.choice(["int64", "float64", "int32", "float32", "uint8"])
    match kind:
        case "scalar":
            return rng.choice(_SCALARS)
        case "env":
            return f"{rng.choice(['int', 'float'])}(os.environ.get('RT_VALUE', '3'))"
        case "tuple":
            return f"({pick()}, {pick()}{rng.choice(['', ', 4', ', 4.0', ', 9'])})"
        case "nested":
            return f"(({pick()}, {pick()}), ({pick()}, ({pick()},)))"
        case "string":
            return repr(rng.choice(["abc", "abd", "ab", "", "abcd", "é"]))
        case "array":
            values = [rng.choice("01234") for _ in range(rng.choice([3, 3, 4]))]
            return f"np.array([{', '.join(values)}], dtype=np.{dtype})" + rng.choice([""] * 14 + ["[::-1]", "[::2]"])
        case "matrix":
            values = ", ".join(rng.choice("0123") for _ in range(4))
            return f"np.array([{values}], dtype=np.{dtype}).reshape((2, 2), order='{rng.choice('CF')}')"
        case "big":
            return f"np.arange(200000.0) * {rng.choice('123')}"
        case "named":
            fields = rng.choice(["a b", "b a", "a c"])
            return f"collections.namedtuple('{rng.choice(['P', 'Q'])}', '{fields}')({pick()}, {pick()})"
        case "enum":
            base = rng.choice(["Enum", "IntEnum"])
            return f"enum.{base}('E', [('A', {rng.choice('123')}), ('B', {rng.choice('456')})])"
        case "record":
            fields = rng.choice(["('a', 'i4'), ('b', 'f8')", "('b', 'f8'), ('a', 'i4')", "('a', 'f4'), ('b', 'i8')"])
            return f"np.array([({rng.choice('123')}, {rng.choice('456')}), (7, 8)], dtype=[{fields}])"
    raise AssertionError(kind)


@dataclass
class Const:
    """A module-level value. ``value`` is source text."""

    name: str
    module: str
    kind: str
    value: str


@dataclass
class Ref:
    """A reference from code to a constant (with ``access``), to a function, or (both None) a literal in ``text``.

    ``form`` 0: ``from m import x``; 1: ``from pkg import m`` and ``m.x``; 2: ``import pkg.m`` and ``pkg.m.x``.
    """

    const: str | None = None
    func: str | None = None
    text: str = "1"
    form: int = 0
    access: str = "{r}"


@dataclass
class Term:
    """One step of a body: ``r = r <op> <ref>``, or a loop, a branch, a raise around it."""

    shape: str  # "plain", "loop", "branch", "raise", "divide"
    op: str
    ref: Ref


@dataclass
class Func:
    """A scalar function of the program. ``kind`` says how it is made (see ``render``)."""

    name: str
    module: str
    kind: str
    terms: list[Term]
    options: dict[str, str] = field(default_factory=dict)
    refs: list[Ref] = field(default_factory=list)  # what the kind needs besides terms: callees, parameters
    comment: int = 0  # comment lines within the body
    above: int = 0  # lines above the definition

    def all_refs(self) -> list[Ref]:
        """Every reference in it."""
        return [term.ref for term in self.terms] + self.refs


@dataclass
class Program:
    """A whole program, and the environment its next run gets."""

    modules: list[str]  # in import order
    consts: dict[str, Const]
    funcs: dict[str, Func]  # in definition order
    calls: list[tuple[str, str]]  # (function, argument text)
    patches: list[tuple[str, str]] = field(default_factory=list)  # (constant or function, replacement text)
    env: dict[str, str] = field(default_factory=dict)
    header: dict[str, int] = field(default_factory=dict)  # module -> blank lines at its top
    place: str = "a"  # folder of the tree
    cwd: str = "."
    touched: int = 0

    def before(self, func: Func) -> list[Func]:
        """Functions that ``func`` may refer to."""
        names = list(self.funcs)
        rank = self.modules.index(func.module)
        mine = names.index(func.name) if func.name in self.funcs else len(names)
        return [
            other
            for index, other in enumerate(self.funcs.values())
            if self.modules.index(other.module) < rank or (other.module == func.module and index < mine)
        ]
