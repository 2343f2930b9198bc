"""Writing a program as Python files.

Each function of the model becomes a block that defines a scalar function of its name, made the way its ``kind`` says
(those that choose while compiling in ``choosing``). The *style* of a module is how it comes by its names:

``getattr``   its constants are asked for by the module's ``__getattr__``; of ``pkg``, its modules are
``fresh``     so they are, and made anew each time
``class``     the module's class is the program's own
``replaced``  it puts another module object in its place
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from randprog import choosing

if TYPE_CHECKING:
    from pathlib import Path

    from randprog.model import Const, Func, Program, Ref, Term

_HEAD = """\
import collections, copy, enum, functools, importlib, json, os, pathlib, sys
import numpy as np
from numba import objmode, njit, vectorize, guvectorize, prange, stencil, cfunc, types, float64, int64, double
from numba.experimental import jitclass
from numba.extending import overload, register_jitable, intrinsic, overload_method, overload_attribute
ROOT = os.path.dirname(os.path.abspath(__file__)).removesuffix(os.sep + 'pkg')
"""
_MAIN = """
import threading, traceback, warnings
warnings.simplefilter('ignore')
HERE = os.path.dirname(os.path.abspath(__file__))

def where(error):
    frames = traceback.extract_tb(error.__traceback__)
    return [(os.path.relpath(f.filename, HERE), f.lineno, f.name) for f in frames if f.filename.startswith(HERE)]

def called(name, function, value):
    try:
        result = function(value)
    except Exception as error:
        numba_error = type(error).__module__.startswith('numba')
        return name, type(error).__name__, '' if numba_error else error.args, '' if numba_error else where(error)
    return name, type(result).__name__, repr(result)

def show(name, function, value):
    print(*called(name, function, value))
    if hasattr(function, 'signatures'):
        print('  ', function.signatures)
    if hasattr(function, 'types') and hasattr(function, 'nin'):
        print('  ', function.types)

def together(functions, value, each):
    jobs = [(name, function) for _ in range(each) for name, function in functions.items()]
    answers, barrier = [None] * len(jobs), threading.Barrier(len(jobs))
    def run(index):
        barrier.wait()
        answers[index] = called(*jobs[index], value)
    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        print('together', *answer)

def replace(name, **values):
    new = type(os)(name)
    new.__dict__.update(vars(importlib.import_module(name)), **values)
    sys.modules[name] = new
"""
# Kinds that Python cannot call: main gets a jitted function around them.
_WRAPPED = {"overload", "helper", "chooser", "same"}
_STYLES = {
    "class": "sys.modules[__name__].__class__ = type('Own', (type(os),), {})",
    "replaced": (
        "replacement = type(os)(__name__)\nreplacement.__dict__.update(globals())\nsys.modules[__name__] = replacement"
    ),
}
_LAZY_PACKAGE = """\
import importlib
def __getattr__(name):
    if name not in {'cfg', 'late', 'm0', 'm1', 'm2'}:
        raise AttributeError(name)
    return importlib.import_module('pkg.' + name)
"""
_SPELLINGS = ["{}", "copy.deepcopy({})", "(lambda: {})()", "[{}][0]"]


class Module:
    """The text of one module while it grows, with the imports its references need."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        self.imports: dict[str, None] = {}
        self.blocks: list[str] = []

    def target(self, ref: Ref) -> Const | Func | None:
        """Return what a reference is to, None for a literal."""
        if ref.const is None:
            return self.program.funcs[ref.func] if ref.func else None
        return self.program.consts[ref.const]

    def is_here(self, ref: Ref) -> bool:
        """Say whether no import is needed."""
        target = self.target(ref)
        return target is None or target.module == self.name

    def ref(self, ref: Ref) -> str:
        """Return the expression for a reference; of a function, the function itself."""
        return ref.access.format(r=self.raw(ref)) if ref.const else self.raw(ref)

    def raw(self, ref: Ref) -> str:
        """Return the expression for the object that is referred to."""
        target = self.target(ref)
        return ref.text if target is None else self.name_of(target.module, target.name, ref.form)

    def lazily(self, ref: Ref) -> tuple[str, str]:
        """Return an import statement for within a function, and the expression for a reference."""
        target = self.target(ref)
        statement, expression = self._import(target.module, target.name, ref.form)
        return statement, ref.access.format(r=expression) if ref.const else expression

    def name_of(self, home: str, name: str, form: int) -> str:
        """Return how ``name`` of module ``home`` is written here, and note the import."""
        if home == self.name:
            asked = self.program.styles.get(home) in {"getattr", "fresh"}
            return f"__getattr__('{name}')" if asked else name
        statement, expression = self._import(home, name, form)
        self.imports[statement] = None
        return expression

    def _import(self, home: str, name: str, form: int) -> tuple[str, str]:
        package, _, leaf = home.rpartition(".")
        match form:
            case 0:
                return f"from {home} import {name}", name
            case 1 if package:
                return f"from {package} import {leaf}", f"{leaf}.{name}"
            case 3:
                return f"import {home} as z_{leaf}", f"z_{leaf}.{name}"
            case 4:
                return f"import other_{leaf}", f"other_{leaf}.{name}"
            case 5:
                return f"from {home} import {name} as {name}_too", f"{name}_too"
            case 6 if package and self.program.styles.get(package) == "getattr":
                return f"import {package}", f"{home}.{name}"
        return f"import {home}", f"{home}.{name}"

    def body(self, func: Func, first: str = "x", indent: int = 4) -> str:
        """Return the steps of a function's body."""
        return _body(self, func, first, indent)

    def value(self, ref: Ref) -> str:
        """Return a scalar expression: a constant's, or a call of a function on ``x``."""
        return f"{self.ref(ref)}(x)" if ref.func else self.ref(ref)

    def text(self) -> str:
        """Return the whole module."""
        blank = "# line\n" * self.program.header.get(self.name, 0)
        return blank + _HEAD + "\n".join(self.imports) + "\n" + "\n".join(self.blocks) + "\n"


def _step(module: Module, func: Func, term: Term) -> str:
    value = module.value(term.ref)
    match term.shape:
        case "loop":
            return f"for i in range(3):\n    r = r {term.op} i * {value}"
        case "branch":
            return f"if r > {value}:\n    r = r {term.op} 1\nelse:\n    r = r {term.op} {value}"
        case "raise":
            return f"if r > 3 + {value}:\n    raise ValueError('{func.name}', 4)"
        case "divide":
            return f"r = r {term.op} 1 / {value}"
    return f"r = r {term.op} {value}"


def _body(module: Module, func: Func, first: str = "x", indent: int = 4) -> str:
    lines = [
        f"r = {first}",
        *["# comment"] * func.comment,
        *(_step(module, func, term) for term in func.terms),
        "return r",
    ]
    return textwrap.indent("\n".join(lines), " " * indent)


def _sum(module: Module, func: Func) -> str:
    return " + ".join(["x", *(f"({module.value(term.ref)})" for term in func.terms)])


def _options(func: Func, **more: str) -> str:
    options = {**func.options, **more}
    return "(" + ", ".join(f"{name}={value}" for name, value in options.items()) + ")" if options else ""


def _block(module: Module, func: Func) -> str:
    name, jit = func.name, f"@njit{_options(func)}"
    body = _body(module, func)
    parameters = [module.ref(ref) for ref in func.refs]
    match func.kind:
        case "njit":
            return f"{jit}\ndef {name}(x):\n{body}\n"
        case "closure":
            inner = _body(module, func, "x * k", 8)
            return (
                f"def make_{name}(k):\n    {jit}\n    def inner(x):\n{inner}\n    return inner\n"
                f"{name}_1 = make_{name}({parameters[0]})\n{name}_2 = make_{name}({parameters[1]})\n"
                f"@njit\ndef {name}(x):\n    return {name}_1(x) - 10 * {name}_2(x)\n"
            )
        case "lambda":
            return (
                f"{name}_1, {name}_2 = njit(lambda x: x + {parameters[0]}), njit(lambda x: x + {parameters[1]})\n"
                f"{name} = njit(lambda x: {name}_1({_sum(module, func)}) * {name}_2(x))\n"
            )
        case "exec":
            return f"exec('''def raw_{name}(x):\n{body}\n''')\n{name} = njit{_options(func) or '()'}(raw_{name})\n"
        case "vectorize":
            eager = "(['int64(int64)', 'float64(float64)'])" if parameters[0].startswith(("K", "1")) else ""
            return f"@vectorize{eager}\ndef {name}(x):\n{body}\n"
        case "guvectorize":
            inner = body.replace("return r", "out[0] = r")
            return (
                f"@guvectorize(['float64[:], float64[:]'], '(n)->()')\ndef {name}_g(a, out):\n    x = a.sum()\n{inner}\n"
                f"def {name}(x):\n    return {name}_g(np.array([x, 1.0]))\n"
            )
        case "overload":
            other = f"(x + {parameters[1]})"
            inline = ", inline='always'" if "inline" in func.options else ""
            return (
                f"def {name}(x):\n    raise NotImplementedError\n@overload({name}{inline})\ndef ov_{name}(x):\n"
                f"    if {parameters[0]} > 1:\n        def impl(x):\n{_body(module, func, 'x', 12)}\n"
                f"    else:\n        def impl(x):\n{_body(module, func, other, 12)}\n    return impl\n"
            )
        case "helper":
            return f"@register_jitable\ndef {name}(x):\n{body}\n"
        case "intrinsic":
            operation = {"+": "fadd", "-": "fsub", "*": "fmul"}[func.terms[0].op]
            return (
                f"@intrinsic\ndef in_{name}(typingctx, x):\n    sig = double(double)\n"
                f"    def codegen(context, builder, signature, args):\n"
                f"        k = context.get_constant(double, float({parameters[0]}))\n"
                f"        return builder.{operation}(args[0], k)\n    return sig, codegen\n"
                f"{jit}\ndef {name}(x):\n    return in_{name}({_sum(module, func)})\n"
            )
        case "recursion":
            jit = f"@njit{_options(func, inline=repr('never'))}"  # Numba inlines no recursion
            return (
                f"{jit}\ndef {name}_r(x, n):\n"
                f"    if n <= 0:\n        return x * 1.0\n    return {_sum(module, func)} + {name}_r(x, n - 1)\n"
                f"@njit\ndef {name}(x):\n    return {name}_r(x, 3)\n"
            )
        case "mutual":
            return (
                f"@njit\ndef {name}_a(x, n):\n    if n <= 0:\n        return x * 1.0\n    return {name}_b(x, n - 1) + 1\n"
                f"@njit\ndef {name}_b(x, n):\n    if n <= 0:\n        return x * 2.0\n"
                f"    return {name}_a(x, n - 1) * 2 + {_sum(module, func)}\n"
                f"@njit\ndef {name}(x):\n    return {name}_a(x, 4)\n"
            )
        case "generator":
            return (
                f"@njit\ndef {name}_g(x):\n    for i in range(3):\n        yield i * ({_sum(module, func)})\n"
                f"{jit}\ndef {name}(x):\n    t = 0\n    for v in {name}_g(x):\n        t += v\n    return t\n"
            )
        case "apply":
            return (
                f"@njit\ndef {name}_ap(fn, x):\n    return fn(x) + {_sum(module, func)}\n"
                f"@njit\ndef {name}(x):\n    return {name}_ap({parameters[0]}, x) - {name}_ap({parameters[1]}, x)\n"
            )
        case "functuple":
            return (
                f"{name}_t = ({parameters[0]}, {parameters[1]})\n{jit}\ndef {name}(x):\n"
                f"    return {name}_t[0](x) - 3 * {name}_t[1](x)\n"
            )
        case "default":
            return f"{jit}\ndef {name}(x, k={parameters[0]}):\n{_body(module, func, 'x + k')}\n"
        case "twins":
            return (
                f"def raw_{name}(x):\n{body}\n{name}_1 = njit(fastmath=True)(raw_{name})\n"
                f"{name}_2 = njit(error_model='numpy')(raw_{name})\n{name} = njit{_options(func) or '()'}(raw_{name})\n"
            )
        case "parallel":
            return (
                f"@njit(parallel=True)\ndef {name}(x):\n    out = np.zeros(8)\n    for i in prange(8):\n"
                f"        out[i] = i * {_sum(module, func)}\n    return out[3]\n"
            )
        case "stencil":
            return (
                f"@stencil\ndef {name}_s(a):\n    return a[-1] + a[1] * {parameters[0]}\n"
                f"@njit\ndef {name}(x):\n    return {name}_s(np.arange(6.0) * x)[2]\n"
            )
        case "jitclass":
            method = _body(module, func, "self.v", 8).replace("r = self.v", "x = self.v\n        r = x", 1)
            return (
                f"@jitclass([('v', float64)])\nclass {name}_C:\n    def __init__(self, v):\n        self.v = v\n"
                f"    def get(self):\n{method}\n@njit\ndef {name}(x):\n    return {name}_C(x).get()\n"
            )
        case "cfunc":
            return (
                f"@cfunc('float64(float64)')\ndef {name}_c(x):\n    return x + {parameters[0]}\n"
                f"@njit\ndef {name}(x):\n    return {name}_c(x * 1.0)\n"
                f"if __name__ == '__main__':\n    print({name}_c.ctypes(2.0))\n"
            )
        case "method":
            return (
                f"@overload_method(types.Array, 'm_{name}')\ndef ov_{name}(a):\n"
                f"    def impl(a):\n        x = a[0]\n        return {_sum(module, func)}\n    return impl\n"
                f"@njit\ndef {name}(x):\n    return np.array([x, x]).m_{name}()\n"
            )
        case "chooser" | "choosermethod" | "chooserattribute":
            return choosing.chooser_block(module, func)
        case "choosingintrinsic":
            return choosing.intrinsic_block(module, func, _sum(module, func))
        case "same":
            return choosing.same_block(module, func)
        case "registered":
            return choosing.registered_block(module, func)
        case "objmode":
            return choosing.objmode_block(module, func)
        case "boxed":
            return choosing.boxed_block(module, func)
        case "alias":
            return choosing.alias_block(module, func)
    raise AssertionError(func.kind)


def _const(module: Module, const: Const) -> str:
    """Return the expression that a constant is set to."""
    root = module.program.root(const)
    if const.alias and const.joined:
        return module.name_of(root.module, root.name, const.form)
    return _SPELLINGS[const.spelling].format(root.value)


def _constants(module: Module) -> str:
    program, style = module.program, module.program.styles.get(module.name)
    values = {const.name: _const(module, const) for const in program.consts.values() if const.module == module.name}
    unread = f"UNREAD = {program.unread[module.name]}\n" if module.name in program.unread else ""
    if style not in {"getattr", "fresh"}:
        return unread + "\n".join(f"{name} = {value}" for name, value in values.items())
    entry = "made['{}'] = {}" if style == "getattr" else "made['{}'] = lambda: {}"
    call = "" if style == "getattr" else "()"
    return (
        f"{unread}made = {{}}\ndef __getattr__(name):\n    if name not in made:\n        raise AttributeError(name)\n"
        f"    return made[name]{call}\n" + "\n".join(entry.format(name, value) for name, value in values.items())
    )


def render(program: Program) -> dict[str, str]:
    """Return the files of ``program``: relative path to text."""
    package = _LAZY_PACKAGE if program.styles.get("pkg") == "getattr" else ""
    files = {"pkg/__init__.py": package, **{f"data/{name}": text for name, text in program.data.items()}}
    for name in program.modules:
        module = Module(program, name)
        module.blocks.append(_constants(module))
        for func in program.funcs.values():
            if func.module == name:
                module.blocks.append("# above\n" * func.above + _block(module, func))
        if name == "main":
            _render_calls(module)
        else:
            module.blocks.append(_STYLES.get(program.styles.get(name, ""), ""))
            leaf = name.rpartition(".")[2]
            files[f"other_{leaf}.py"] = f"import sys\nimport {name} as target\nsys.modules[__name__] = target\n"
        files[name.replace(".", "/") + ".py"] = module.text()
    return files


def _wrapped(program: Program, func: Func) -> bool:
    while func.kind == "alias" and func.flavor % 4 != 3:
        func = program.funcs[func.refs[0].func]
    return func.kind in _WRAPPED


def _render_calls(module: Module) -> None:
    program = module.program
    module.blocks.append(_MAIN)
    for name, text in program.patches:
        target = program.consts.get(name) or program.funcs.get(name)
        if target is not None:
            module.blocks.append(f"{module.name_of(target.module, name, 2)} = {text}")
    _render_crowds(module, first=True)
    for index, (name, argument) in enumerate(program.calls):
        _render_between(module, index)
        reference = _callable(module, name, f"call_{index}", index % 3)
        module.blocks.append(f"show('{name}', {reference}, {argument})")
    _render_crowds(module, first=False)


def _render_between(module: Module, index: int) -> None:
    for place, name, statement in module.program.between:
        const = module.program.consts.get(name)
        if place == index and const is not None:
            text = statement.replace("{m}", const.module).replace("{n}", name)
            if "{r}" in text:
                text = text.replace("{r}", f"importlib.import_module('{const.module}').{name}")
            module.blocks.append(f"try:\n    {text}\nexcept Exception as error:\n    print(type(error).__name__)")


def _render_crowds(module: Module, *, first: bool) -> None:
    for number, crowd in enumerate(module.program.crowds):
        names = [name for name in crowd.names if name in module.program.funcs]
        if crowd.first == first and names:
            functions = [f"'{name}': {_callable(module, name, f'crowd_{number}_{name}', 1)}" for name in names]
            module.blocks.append(f"together({{{', '.join(functions)}}}, {crowd.argument}, {crowd.each})")


def _callable(module: Module, name: str, wrapper: str, form: int) -> str:
    """Return what Python can call; a module that is to come late is imported where it is needed."""
    func = module.program.funcs[name]
    if func.module == "pkg.late":
        module.blocks.append(f"{wrapper}_late = importlib.import_module('pkg.late').{name}")
        reference = f"{wrapper}_late"
    else:
        reference = module.name_of(func.module, name, form)
    if not _wrapped(module.program, func):
        return reference
    module.blocks.append(f"@njit\ndef {wrapper}(x):\n    return {reference}(x)")
    return wrapper


def write(program: Program, folder: Path) -> None:
    """Write the files of ``program`` under ``folder``; files that didn't change aren't written again."""
    files = render(program)
    for path in folder.glob("data/*"):
        if f"data/{path.name}" not in files:
            path.unlink()
    for relative, text in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
