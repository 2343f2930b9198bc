"""A random program as data.

A program is the package ``pkg`` (``cfg`` and ``m0``..``mN``), a module ``util`` beside it, and ``main.py``. Modules are
ordered (``ORDER``); a function refers only to constants and functions of earlier modules or defined earlier in its own,
so imports have no cycles. Every function is a scalar function of one argument as seen by the others. ``pkg.late`` is
most often imported by what runs while compiling, and ``other_X`` is a file that puts module ``X`` in its own place.
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
    "row": ["{r}['a']", "{r}['b']"],
    "arrays": ["{r}[0][1]", "{r}[1][0]", "({r}[0][0] + {r}[1][0])"],
    "heir": ["{r}.a", "{r}[1]"],
    # What only Python can read: choosers do, and what runs when modules are imported.
    "list": ["{r}[0]", "{r}[-1]", "len({r})", "sum({r})"],
    "dict": ["{r}['a']", "{r}['b']", "len({r})", "next(iter({r}.values()))"],
    "listheir": ["{r}[0]", "{r}.factor", "{r}.scaled()", "len({r})"],
    "dictheir": ["{r}['a']", "{r}['missing']", "{r}.factor", "list({r}.values())[0]"],
    "tupleheir": ["{r}[0]", "{r}.factor", "{r}.scaled()"],
    "tree": ["{r}['a'][1][0]", "{r}['b']['c'][0]", "len({r}['a'])"],
    "space": ["{r}.a", "len(vars({r}))"],
    "set": ["len({r})", "(1 in {r})", "max({r})"],
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
    "row": 1,
    "arrays": 1,
    "heir": 1,
}
# Kinds that only Python can read.
CONTAINERS = {
    "list": 2,
    "dict": 3,
    "listheir": 2,
    "dictheir": 2,
    "tupleheir": 2,
    "tree": 2,
    "space": 1.5,
    "set": 1,
}
# What the attributes of a subclass of a container are.
_HEIR = "{'factor': %s, 'scaled': lambda self: self[0] * self.factor}"
# What else choosers read.
OUTSIDE = [
    "int(os.environ.get('RT_VALUE', '3'))",
    "len(os.getenv('RT_FLAG', ''))",
    "('RT_FLAG' in os.environ)",
    "len(pathlib.Path(ROOT, 'data', 'a.txt').read_text())",
    "json.loads(pathlib.Path(ROOT, 'data', 'b.json').read_text())['a']",
    "os.path.exists(os.path.join(ROOT, 'data', 'c'))",
    "len(os.listdir(os.path.join(ROOT, 'data')))",
]


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
        case "row":
            return f"{draw_value(rng, 'record')}[0]"
        case "arrays":
            return f"(np.array([{pick()}, {pick()}]), np.array([{pick()}, 2], dtype=np.{dtype}))"
        case "heir":
            base = f"collections.namedtuple('{rng.choice('PQ')}', 'a b')"
            return f"type('H', ({base},), {{'factor': {pick()}}})({pick()}, {pick()})"
    return _draw_container(rng, kind)


def _draw_container(rng: random.Random, kind: str) -> str:
    first, second, factor = rng.choices(_ELEMENTS, k=3)
    heir = _HEIR % factor
    names = rng.choice(["'a': {}, 'b': {}", "'b': {}, 'a': {}", "'a': {}, 'b': {}, 'e': 4"]).format(first, second)
    match kind:
        case "list":
            return f"[{first}, {second}{rng.choice(['', ', 4'])}]"
        case "dict":
            return f"{{{names}}}"
        case "listheir":
            return f"type('L', (list,), {heir})([{first}, {second}])"
        case "dictheir":
            missing = f"{heir[:-1]}, '__missing__': lambda self, key: {second}}}"
            base = rng.choice(["dict", "collections.OrderedDict", "collections.defaultdict"])
            told = f"None, {{{names}}}" if base.endswith("defaultdict") else f"{{{names}}}"
            return f"type('D', ({base},), {missing})({told})"
        case "tupleheir":
            return f"type('T', (tuple,), {heir})(({first}, {second}))"
        case "tree":
            return f"{{'a': [{first}, ({second}, 3)], 'b': {{'c': [{factor}]}}}}"
        case "space":
            return rng.choice([f"type('S', (), {{'a': {first}}})", f"__import__('types').SimpleNamespace(a={first})"])
        case "set":
            return f"{{1, {rng.choice('123')}, {rng.choice('456')}}}"
    raise AssertionError(kind)


@dataclass
class Const:
    """A module-level value. ``value`` is source text.

    With ``alias`` it is another name of that constant's object, or, not ``joined``, of one made in the same way.
    """

    name: str
    module: str
    kind: str
    value: str
    alias: str | None = None
    joined: bool = True
    form: int = 0  # how the alias refers to what it names
    spelling: int = 0  # of a container: in which of several words that mean the same


@dataclass
class Ref:
    """A reference from code to a constant (with ``access``), to a function, or (both None) a literal in ``text``.

    ``form`` 0: ``from m import x``; 1: ``from pkg import m`` and ``m.x``; 2: ``import pkg.m`` and ``pkg.m.x``;
    3: ``import pkg.m as z_m``; 4: ``import other_m``; 5: ``from m import x as x_too``; 6: ``import pkg`` and ``pkg.m.x``,
    if ``pkg`` imports its modules when they are asked for. ``lazy``: what runs while compiling imports it itself.
    """

    const: str | None = None
    func: str | None = None
    text: str = "1"
    form: int = 0
    access: str = "{r}"
    lazy: bool = False


FORMS = 7


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
    flavor: int = 0  # which of the ways in which its kind is made

    def all_refs(self) -> list[Ref]:
        """Every reference in it."""
        return [term.ref for term in self.terms] + self.refs


@dataclass
class Crowd:
    """Functions called with one argument in threads that begin together, ``each`` threads for every function.

    No two of them reach one function, since which is compiled first decides what a callee becomes.
    """

    names: list[str]
    argument: str
    each: int = 2
    first: bool = True  # before all other calls


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
    styles: dict[str, str] = field(default_factory=dict)  # module -> how it comes by its names, see ``render``
    unread: dict[str, int] = field(default_factory=dict)  # module -> value of a constant that nobody reads
    data: dict[str, str] = field(default_factory=dict)  # files that choosers read
    crowds: list[Crowd] = field(default_factory=list)
    between: list[tuple[int, str, str]] = field(default_factory=list)  # (before which call, constant, statement)

    def root(self, const: Const) -> Const:
        """Return the constant that holds the value."""
        return self.consts[const.alias] if const.alias else const

    def reach(self, name: str) -> set[str]:
        """Return the functions that ``name`` may run, itself among them."""
        found, left = set(), [name]
        while left:
            current = left.pop()
            if current not in found:
                found.add(current)
                left += [ref.func for ref in self.funcs[current].all_refs() if ref.func]
        return found

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
