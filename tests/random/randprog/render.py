"""Writing a program as Python files.

Each function of the model becomes a block that defines a scalar function of its name, made the way its ``kind`` says.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from randprog.model import Func, Program, Ref, Term

_HEAD = """\
import collections, enum, os
import numpy as np
from numba import njit, vectorize, guvectorize, prange, stencil, cfunc, types, float64, int64, double
from numba.experimental import jitclass
from numba.extending import overload, register_jitable, intrinsic, overload_method
"""
_MAIN = """
import sys, traceback, warnings
warnings.simplefilter('ignore')
HERE = os.path.dirname(os.path.abspath(__file__))

def where(error):
    frames = traceback.extract_tb(error.__traceback__)
    return [(os.path.relpath(f.filename, HERE), f.lineno, f.name) for f in frames if f.filename.startswith(HERE)]

def show(name, function, value):
    try:
        result = function(value)
    except Exception as error:
        numba_error = type(error).__module__.startswith('numba')
        print(name, type(error).__name__, '' if numba_error else error.args, '' if numba_error else where(error))
    else:
        print(name, type(result).__name__, repr(result))
    if hasattr(function, 'signatures'):
        print('  ', function.signatures)
    if hasattr(function, 'types') and hasattr(function, 'nin'):
        print('  ', function.types)
"""
# Kinds that Python cannot call: main gets a jitted function around them.
_WRAPPED = {"overload", "helper"}


class _Module:
    """The text of one module while it grows, with the imports its references need."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        self.imports: dict[str, None] = {}
        self.blocks: list[str] = []

    def ref(self, ref: Ref) -> str:
        """Return the expression for a reference; of a function, the function itself."""
        if ref.const is None and ref.func is None:
            return ref.text
        target = self.program.consts[ref.const] if ref.const else self.program.funcs[ref.func or ""]
        expression = self.name_of(target.module, target.name, ref.form)
        return ref.access.format(r=expression) if ref.const else expression

    def name_of(self, home: str, name: str, form: int) -> str:
        """Return how ``name`` of module ``home`` is written here, and note the import."""
        if home == self.name:
            return name
        package, _, leaf = home.rpartition(".")
        if form == 0:
            self.imports[f"from {home} import {name}"] = None
            return name
        if form == 1 or not package:
            self.imports[f"from {package} import {leaf}" if package else f"import {leaf}"] = None
            return f"{leaf}.{name}"
        self.imports[f"import {home}"] = None
        return f"{home}.{name}"

    def value(self, ref: Ref) -> str:
        """Return a scalar expression: a constant's, or a call of a function on ``x``."""
        return f"{self.ref(ref)}(x)" if ref.func else self.ref(ref)

    def text(self) -> str:
        """Return the whole module."""
        blank = "# line\n" * self.program.header.get(self.name, 0)
        return blank + _HEAD + "\n".join(self.imports) + "\n" + "\n".join(self.blocks)


def _step(module: _Module, func: Func, term: Term) -> str:
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


def _body(module: _Module, func: Func, first: str = "x", indent: int = 4) -> str:
    lines = [
        f"r = {first}",
        *["# comment"] * func.comment,
        *(_step(module, func, term) for term in func.terms),
        "return r",
    ]
    return textwrap.indent("\n".join(lines), " " * indent)


def _sum(module: _Module, func: Func) -> str:
    return " + ".join(["x", *(f"({module.value(term.ref)})" for term in func.terms)])


def _options(func: Func, **more: str) -> str:
    options = {**func.options, **more}
    return "(" + ", ".join(f"{name}={value}" for name, value in options.items()) + ")" if options else ""


def _block(module: _Module, func: Func) -> str:
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
            return (
                f"{jit.replace('inline', 'nogil') if 'inline' in func.options else jit}\ndef {name}_r(x, n):\n"
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
    raise AssertionError(func.kind)


def render(program: Program) -> dict[str, str]:
    """Return the files of ``program``: relative path to text."""
    files = {"pkg/__init__.py": ""}
    for name in program.modules:
        module = _Module(program, name)
        for const in program.consts.values():
            if const.module == name:
                module.blocks.append(f"{const.name} = {const.value}")
        for func in program.funcs.values():
            if func.module == name:
                module.blocks.append("# above\n" * func.above + _block(module, func))
        if name == "main":
            _render_calls(module)
        files[name.replace(".", "/") + ".py"] = module.text()
    return files


def _render_calls(module: _Module) -> None:
    module.blocks.append(_MAIN)
    for name, text in module.program.patches:
        target = module.program.consts.get(name) or module.program.funcs.get(name)
        if target is not None:
            module.blocks.append(f"{module.name_of(target.module, name, 2)} = {text}")
    for index, (name, argument) in enumerate(module.program.calls):
        func = module.program.funcs[name]
        reference = module.name_of(func.module, name, index % 3)
        if func.kind in _WRAPPED:
            module.blocks.append(f"@njit\ndef call_{index}(x):\n    return {reference}(x)")
            reference = f"call_{index}"
        module.blocks.append(f"show('{name}', {reference}, {argument})")


def write(program: Program, folder: Path) -> None:
    """Write the files of ``program`` under ``folder``; files that didn't change aren't written again."""
    for relative, text in render(program).items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
