"""Random edits: each changes a program in place and says what it did."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING

from randprog.choosing import FLAVORS
from randprog.grow import (
    ARGUMENTS,
    CHOOSING,
    OPERATORS,
    SPECIAL,
    add_alias,
    add_func,
    draw_const_ref,
    draw_crowd,
    draw_func_ref,
    draw_options,
    draw_refs,
    draw_source,
    draw_style,
    draw_term,
    grow,
    weighted,
)
from randprog.model import ACCESS, CONTAINERS, FORMS, draw_value

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from randprog.model import Const, Func, Program

NUMBA_SETTINGS = [
    ("NUMBA_BOUNDSCHECK", "1"),
    ("NUMBA_OPT", "1"),
    ("NUMBA_OPT", "0"),
    ("NUMBA_LOOP_VECTORIZE", "0"),
    ("NUMBA_SLP_VECTORIZE", "1"),
    ("NUMBA_DEBUGINFO", "1"),
    ("NUMBA_DISABLE_JIT", "1"),
    ("NUMBA_CPU_NAME", "generic"),
]
_RETYPED = {
    "1": "1.0",
    "1.0": "True",
    "True": "1",
    "0.0": "-0.0",
    "-0.0": "0.0",
    "0": "0.0",
    "2": "2.0",
    "2.0": "np.float32(2.0)",
    "np.float32(2.0)": "np.int64(2)",
    "np.int64(2)": "2",
    "False": "0",
    "3": "3.0",
    "3.0": "np.uint8(3)",
}

# Kinds that a function may turn into.
_CONVERTIBLE = [
    "njit",
    "closure",
    "lambda",
    "exec",
    "vectorize",
    "overload",
    "helper",
    "default",
    "twins",
    "recursion",
    "chooser",
    "chooser",
    "choosermethod",
    "chooserattribute",
    "choosingintrinsic",
    "registered",
    "boxed",
]


def _roots(program: Program) -> list[Const]:
    return [const for const in program.consts.values() if not const.alias]


def _const_value(rng: random.Random, program: Program) -> str:
    const = rng.choice(_roots(program))
    old, const.value = const.value, draw_value(rng, const.kind)
    return f"{const.module}.{const.name}: {old} -> {const.value}"


def _const_type(rng: random.Random, program: Program) -> str:
    candidates = [const for const in _roots(program) if const.value in _RETYPED]
    if not candidates:
        return _array_type(rng, program)
    const = rng.choice(candidates)
    old, const.value = const.value, _RETYPED[const.value]
    return f"{const.module}.{const.name}: {old} -> {const.value}"


def _array_type(rng: random.Random, program: Program) -> str:
    for const in _roots(program):
        for old, new in (
            ("float64", "int64"),
            ("int64", "float64"),
            ("'C'", "'F'"),
            ("'F'", "'C'"),
            ("'a b'", "'b a'"),
            ("'b a'", "'a b'"),
        ):
            if old in const.value:
                const.value = const.value.replace(old, new)
                return f"{const.module}.{const.name}: {old} -> {new}"
    return _const_value(rng, program)


def _func(rng: random.Random, program: Program) -> Func:
    return rng.choice(list(program.funcs.values()))


def _operator(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    rng.choice(func.terms).op = rng.choice(OPERATORS)
    return f"an operator in {func.name}"


def _shape(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    func.terms[rng.randrange(len(func.terms))] = draw_term(rng, program, func)
    return f"a step of {func.name}"


def _literal(rng: random.Random, program: Program) -> str:
    refs = [(func, ref) for func in program.funcs.values() for ref in func.all_refs() if not ref.const and not ref.func]
    refs = [(func, ref) for func, ref in refs if "(" not in ref.text]
    if not refs:
        return _operator(rng, program)
    func, ref = rng.choice(refs)
    old, ref.text = ref.text, _RETYPED.get(ref.text, rng.choice(["1", "2", "2.0", "1.0"]))
    return f"a literal in {func.name}: {old} -> {ref.text}"


def _option(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    func.options = draw_options(rng)
    return f"options of {func.name}: {func.options}"


def _kind(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    if func.kind in {"apply", "functuple", "alias"}:
        return _option(rng, program)
    special = func.kind in SPECIAL
    func.kind = rng.choice(_CONVERTIBLE)
    if special or func.kind in SPECIAL:
        draw_refs(rng, program, func)
    return f"{func.name} is now a {func.kind}"


def _parameter(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    if func.kind in {"apply", "functuple"}:
        func.refs.reverse()
        return f"callees of {func.name} swapped"
    if not func.refs:
        return _option(rng, program)
    if func.kind in CHOOSING:
        func.refs[rng.randrange(2)] = draw_source(rng, program, func.module)
    elif func.kind in SPECIAL:
        draw_refs(rng, program, func)
    else:
        func.refs[rng.randrange(len(func.refs))] = draw_const_ref(rng, program, func.module)
    return f"a parameter of {func.name}"


def _callee(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    rng.choice(func.terms).ref = draw_func_ref(rng, program, func)
    return f"a callee of {func.name}"


def _reference_form(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    for ref in func.all_refs():
        ref.form = rng.randrange(FORMS)
        if func.kind in CHOOSING and ref in func.refs:
            ref.lazy = rng.random() < 0.5
    return f"how {func.name} imports what it uses"


def _swap(rng: random.Random, program: Program) -> str:
    """Exchange the contents of two functions of one module: same names, other code."""
    first = _func(rng, program)
    others = [func for func in program.funcs.values() if func.module == first.module and func is not first]
    callers_free = [func for func in others if not any(ref.func for ref in func.all_refs() + first.all_refs())]
    if not callers_free:
        return _const_value(rng, program)
    second = rng.choice(callers_free)
    first.terms, second.terms = second.terms, first.terms
    return f"bodies of {first.name} and {second.name} swapped"


def _line_shift(rng: random.Random, program: Program) -> str:
    if rng.random() < 0.5:
        module = rng.choice(program.modules)
        program.header[module] = rng.randrange(4)
        return f"lines at the top of {module}"
    func = _func(rng, program)
    func.above = rng.randrange(4)
    return f"lines above {func.name}"


def _comment(rng: random.Random, program: Program) -> str:
    func = _func(rng, program)
    func.comment = rng.randrange(3)
    return f"a comment in {func.name}"


def _move(rng: random.Random, program: Program) -> str:
    program.place = rng.choice(["a", "b", "deep/er/c"])
    return f"tree moved to {program.place}"


def _cwd(rng: random.Random, program: Program) -> str:
    program.cwd = rng.choice([".", "..", "pkg"])
    return f"run in {program.cwd}"


def _touch(rng: random.Random, program: Program) -> str:
    program.touched += 1
    return "all files touched"


def _environment(rng: random.Random, program: Program) -> str:
    program.env["RT_VALUE"] = rng.choice(["1", "2", "3", "4"])
    return f"RT_VALUE={program.env['RT_VALUE']}"


def _numba_setting(rng: random.Random, program: Program) -> str:
    name, value = rng.choice(NUMBA_SETTINGS)
    program.env[name] = value
    return f"{name}={value}"


def _patch(rng: random.Random, program: Program) -> str:
    if program.patches and rng.random() < 0.5:
        program.patches = []
        return "no monkeypatch"
    if rng.random() < 0.6:
        const = rng.choice(_roots(program))
        program.patches = [(const.name, draw_value(rng, const.kind))]
    else:
        func = _func(rng, program)
        program.patches = [(func.name, f"njit(lambda x: x {rng.choice('+-*')} {rng.choice('234')})")]
    return f"monkeypatch {program.patches}"


def _argument(rng: random.Random, program: Program) -> str:
    index = rng.randrange(len(program.calls))
    program.calls[index] = (program.calls[index][0], rng.choice(ARGUMENTS))
    return f"argument of {program.calls[index]}"


def _more(rng: random.Random, program: Program) -> str:
    if len(program.funcs) > 7:
        return _operator(rng, program)
    func = add_func(rng, program, program.modules[-1])
    program.calls.append((func.name, rng.choice(ARGUMENTS)))
    return f"new function {func.name} ({func.kind})"


def _retype_kind(rng: random.Random, program: Program) -> str:
    const = rng.choice(_roots(program))
    if const.kind in CONTAINERS:
        const.kind = weighted(rng, CONTAINERS)
    else:
        const.kind = rng.choice(
            ["scalar", "tuple", "string", "array", "named", "enum", "nested", "arrays", "heir", "row"]
        )
    const.value = draw_value(rng, const.kind)
    names = {const.name}
    for alias in program.consts.values():
        if alias.alias == const.name:
            alias.kind = const.kind
            names.add(alias.name)
    for func in program.funcs.values():
        for ref in func.all_refs():
            if ref.const in names:
                ref.access = rng.choice(ACCESS[const.kind])
    return f"{const.name} is now {const.value}"


def _container_value(rng: random.Random, program: Program) -> str:
    """Change a container; most often choosers are all that reads it."""
    containers = [const for const in _roots(program) if const.kind in CONTAINERS]
    if not containers:
        return _const_value(rng, program)
    const = rng.choice(containers)
    const.value = draw_value(rng, const.kind)
    return f"{const.module}.{const.name}: {const.value}"


def _container_spelling(rng: random.Random, program: Program) -> str:
    containers = [const for const in _roots(program) if const.kind in CONTAINERS]
    if not containers:
        return _nothing(rng, program)
    const = rng.choice(containers)
    const.spelling = rng.randrange(4)
    return f"how {const.name} is written"


def _flavor(rng: random.Random, program: Program) -> str:
    funcs = [func for func in program.funcs.values() if func.kind in SPECIAL]
    if not funcs:
        return _kind(rng, program)
    func = rng.choice(funcs)
    func.flavor = rng.randrange(FLAVORS)
    return f"{func.name} ({func.kind}) is made in way {func.flavor}"


def _source(rng: random.Random, program: Program) -> str:
    funcs = [func for func in program.funcs.values() if func.kind in CHOOSING]
    if not funcs:
        return _kind(rng, program)
    func = rng.choice(funcs)
    func.refs[rng.randrange(2)] = draw_source(rng, program, func.module)
    return f"what {func.name} reads"


def _data_file(rng: random.Random, program: Program) -> str:
    match rng.randrange(4):
        case 0:
            program.data["a.txt"] = rng.choice(["", "a", "abc", "abd"])
        case 1:
            program.data["b.json"] = rng.choice(['{"a": 1}', '{"a": 2}', '{"a": 2.0}', '{"a": true}'])
        case 2 if "c" in program.data:
            del program.data["c"]
        case 2:
            program.data["c"] = ""
        case _:
            program.data["d"] = rng.choice("12")
    return f"files {program.data}"


def _flag(rng: random.Random, program: Program) -> str:
    if "RT_FLAG" in program.env and rng.random() < 0.4:
        del program.env["RT_FLAG"]
        return "no RT_FLAG"
    program.env["RT_FLAG"] = rng.choice(["", "1", "22"])
    return f"RT_FLAG={program.env['RT_FLAG']}"


def _alias(rng: random.Random, program: Program) -> str:
    """Split an alias or join it; or name something once more."""
    aliases = [const for const in program.consts.values() if const.alias]
    if len(aliases) < 3 and rng.random() < 0.2:
        return f"another name of a constant: {add_alias(rng, program).name}"
    alias = rng.choice(aliases)
    alias.joined = not alias.joined
    return f"{alias.name} is {alias.alias}: {alias.joined}"


def _alias_form(rng: random.Random, program: Program) -> str:
    alias = rng.choice([const for const in program.consts.values() if const.alias])
    alias.form = rng.randrange(FORMS)
    return f"how {alias.name} refers to {alias.alias}"


def _style(rng: random.Random, program: Program) -> str:
    module = rng.choice(["pkg", "pkg.cfg", *program.modules[:-1]])
    if module == "pkg":
        program.styles["pkg"] = "" if program.styles["pkg"] else "getattr"
    else:
        program.styles[module] = draw_style(rng, module)
    return f"module {module}: {program.styles[module] or 'plain'}"


def _unread(rng: random.Random, program: Program) -> str:
    module = rng.choice(program.modules)
    program.unread[module] = rng.randrange(9)
    return f"unread constant in {module}"


def _crowd(rng: random.Random, program: Program) -> str:
    if program.crowds and rng.random() < 0.5:
        crowd = rng.choice(program.crowds)
        crowd.first = not crowd.first
        return f"threads first: {crowd.first}"
    program.crowds = [draw_crowd(rng, program) for _ in range(rng.choice([0, 1, 1, 2]))]
    return f"threads: {[crowd.names for crowd in program.crowds]}"


def _crowd_size(rng: random.Random, program: Program) -> str:
    for crowd in program.crowds:
        crowd.each = rng.choice([1, 2, 3, 4])
    return "how many threads"


def _between(rng: random.Random, program: Program) -> str:
    """Let the program change something between two calls, and call something with other types after it."""
    if program.between and rng.random() < 0.5:
        program.between = []
        return "nothing between calls"
    # Nothing in main itself, which would be imported once more.
    const = rng.choice([const for const in program.consts.values() if const.module != "main"])
    value = draw_value(rng, const.kind)
    choices = [
        f"importlib.import_module('{{m}}').{{n}} = {value}",
        f"replace('{{m}}', {{n}}={value})",
        f"os.environ['RT_VALUE'] = '{rng.choice('56')}'",
        f"os.environ['RT_FLAG'] = '{'x' * rng.randint(0, 4)}'",
        *{
            "list": ["{r}.append(9)", "{r}[0] = 8"],
            "listheir": ["{r}.insert(0, 6)", "type({r}).factor = 9"],
            "dict": ["{r}['a'] = 9", "{r}['new'] = 3", "{r}['a'] = {r}.pop('a')"],
            "dictheir": ["{r}['a'] = 9", "type({r}).factor = 9", "{r}['missing'] = 3"],
            "tupleheir": ["type({r}).factor = 9"],
            "tree": ["{r}['a'][1:] = [(8, 8)]", "{r}['b']['c'].insert(0, 7)"],
            "space": ["{r}.a = 9", "{r}.b = 9"],
            "set": ["{r}.add(12)"],
        }.get(const.kind, []),
    ]
    index = rng.randrange(len(program.calls))
    program.between = [*program.between[-1:], (index, const.name, rng.choice(choices))]
    if len(program.calls) < 12:
        program.calls.append((rng.choice(program.calls)[0], rng.choice(ARGUMENTS)))
    return f"between calls: {program.between}"


def _nothing(rng: random.Random, program: Program) -> str:
    return "nothing"


EDITS = {
    _const_value: 6,
    _const_type: 5,
    _array_type: 2,
    _operator: 3,
    _shape: 3,
    _literal: 2,
    _option: 3,
    _kind: 2,
    _parameter: 3,
    _callee: 3,
    _reference_form: 2,
    _swap: 2,
    _line_shift: 3,
    _comment: 2,
    _move: 2,
    _cwd: 1,
    _touch: 1,
    _environment: 2,
    _numba_setting: 0.8,
    _patch: 3,
    _argument: 2,
    _more: 1,
    _retype_kind: 2,
    _container_value: 4,
    _container_spelling: 2,
    _flavor: 3,
    _source: 3,
    _data_file: 3,
    _flag: 2,
    _alias: 5,
    _alias_form: 1,
    _style: 3,
    _unread: 2,
    _crowd: 2,
    _crowd_size: 1,
    _between: 4,
    _nothing: 2,
}


class History:
    """A program, its earlier versions, and random steps from one to the next."""

    def __init__(self, rng: random.Random, episode: int = 25) -> None:
        self.rng, self.episode = rng, episode
        self.program = grow(rng)
        self.past: list[Program] = []

    def step(self) -> str:
        """Edit the program at random; return what was done. Every ``episode`` steps a new program is grown."""
        self.past.append(copy.deepcopy(self.program))
        if len(self.past) >= self.episode:
            self.program, self.past = grow(self.rng), []
            return "new program"
        had_setting = any(name.startswith("NUMBA_") for name in self.program.env)
        if self.rng.random() < 0.08:
            self.program = copy.deepcopy(self.rng.choice(self.past))
            return "back to an earlier version"
        if had_setting and self.rng.random() < 0.6:
            self.program.env = {
                name: value for name, value in self.program.env.items() if not name.startswith("NUMBA_")
            }
            return "no NUMBA_ settings"
        names = {edit.__name__: weight for edit, weight in EDITS.items()}
        chosen = weighted(self.rng, names)
        return next(edit for edit in EDITS if edit.__name__ == chosen)(self.rng, self.program)


def touch(folder: Path) -> None:
    """Give every file a new time stamp."""
    for path in folder.rglob("*.py"):
        os.utime(path)
