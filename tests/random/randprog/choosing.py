"""Blocks of functions that choose: overloads, methods, attributes and intrinsics that read something while compiling.

What they read is in the function's ``refs``: two sources and perhaps a callee. A lazy one is imported by the chooser.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from randprog.model import Func, Ref
    from randprog.render import Module

FLAVORS = 8


def reading(module: Module, ref: Ref) -> tuple[str, str]:
    """Return the lines that a chooser begins with, and the expression for what it reads."""
    if not ref.lazy or module.is_here(ref):
        return "", module.ref(ref)
    imports, expression = module.lazily(ref)
    return f"{imports}\n", expression


def _function(name: str, arg: str, body: str) -> str:
    return f"def {name}({arg}):\n" + textwrap.indent(body, "    ")


def chooser_block(module: Module, func: Func) -> str:
    """Return a scalar function whose implementation a chooser chooses, by a call, a method or an attribute."""
    name, inline = func.name, ", inline='always'" if "inline" in func.options else ""
    match func.kind:
        case "chooser":
            return (
                f"def {name}(x):\n    raise NotImplementedError\n"
                f"{_choosing(module, func, f'@overload({name}{inline})', 'x', '')}"
            )
        case "choosermethod":
            decorator, call = f"@overload_method(types.Array, 'm_{name}'{inline})", f"m_{name}()"
        case _:
            decorator, call = f"@overload_attribute(types.Array, 'p_{name}'{inline})", f"p_{name}"
    chosen = _choosing(module, func, decorator, "a", "x = a[0]\n")
    return f"{chosen}@njit\ndef {name}(x):\n    return np.array([x, x]).{call}\n"


def _choosing(module: Module, func: Func, decorator: str, arg: str, start: str) -> str:
    name = func.name
    (lines_a, a), (lines_b, b) = (reading(module, ref) for ref in func.refs[:2])

    def impl(first: str, of: str = "impl") -> str:
        return _function(of, arg, start + module.body(func, first, 0))

    def chooser(*parts: str, of: str = f"ov_{name}") -> str:
        return f"{decorator}\n{_function(of, arg, ''.join(parts[:1]) + _lines(*parts[1:]))}\n"

    match func.flavor:
        case 0:  # a flag
            branches = f"if {a} > 1:\n{_in(impl('x'))}\nelse:\n{_in(impl('x + k'))}"
            return chooser(lines_a + lines_b, f"k = {b}", branches, "return impl")
        case 1:  # a value that the implementation holds
            return chooser(lines_b, f"k = {b}", impl("x * k"), "return impl")
        case 2:  # the first one asked may decline
            declining = chooser(lines_a, f"if {a} > 1:\n    return None", impl("x"), "return impl")
            condition = f"if {a} <= 1:\n    return None"
            return declining + chooser(
                lines_a + lines_b, condition, f"k = {b}", impl("x - k"), "return impl", of=f"ov_{name}_too"
            )
        case 3:  # a setting that is read once
            once = chooser(lines_b, f"k = memo_{name}.setdefault('k', {b})", impl("x + k"), "return impl")
            return f"memo_{name} = {{}}\n{once}"
        case 4:  # a container of implementations
            kinds = ["[{}, {}]", "({}, {})", "{{0: {}, 1: {}}}", "type('I', (list,), {{}})([{}, {}])"]
            table = kinds[len(a) % 4].format(f"{name}_one", f"{name}_two")
            both = _lines(impl("x", f"{name}_one"), impl("x * 2", f"{name}_two"), f"table_{name} = {table}")
            return f"{both}\n{chooser(lines_a, f'return table_{name}[int({a}) % 2]')}"
        case 5:  # a helper that remembers
            ask = f"@functools.lru_cache(None)\n{_function(f'ask_{name}', '', f'{lines_b}return {b}')}"
            return f"{ask}\n{chooser('', f'k = ask_{name}()', impl('x - k'), 'return impl')}"
        case 6 if len(func.refs) > 2:  # a callee
            lines, callee = reading(module, func.refs[2])
            return chooser(lines, f"fn = {callee}", impl("fn(x)"), "return impl")
        case _:  # an instance that was told when it was made
            choose = _function("choose", f"self, {arg}", f"k = self.k\n{impl('x + k')}\nreturn impl")
            return (
                f"class Ask_{name}:\n    def __init__(self, k):\n        self.k = k\n{_in(choose)}\n"
                f"{lines_b}{decorator[1:]}(Ask_{name}({b}).choose)\n"
            )


def intrinsic_block(module: Module, func: Func, total: str) -> str:
    """Return a scalar function around an intrinsic whose two halves read something."""
    name = func.name
    (lines_a, a), (lines_b, b) = (reading(module, ref) for ref in func.refs[:2])
    codegen = _function(
        "codegen",
        "context, builder, signature, args",
        f"{lines_b}k = context.get_constant(double, float({b}))\n"
        "return (builder.fadd if flag > 1 else builder.fmul)(args[0], k)",
    )
    typing = _function(
        f"in_{name}", "typingctx, x", f"{lines_a}flag = {a}\nsig = double(double)\n{codegen}\nreturn sig, codegen"
    )
    return f"@intrinsic\n{typing}\n@njit\ndef {name}(x):\n    return in_{name}({total})\n"


def same_block(module: Module, func: Func) -> str:
    """Return a scalar function that depends on whether two names are one object."""
    one, other = (module.raw(ref) for ref in func.refs[:2])
    if func.flavor % 2:
        one, other = f"{{'one': {one}}}['one']", f"[{other}][0]"
    same, distinct = (_in(_function("impl", "x", module.body(func, first, 0))) for first in ("x", "x + 5"))
    chosen = _function(f"ov_{func.name}", "x", f"if {one} is {other}:\n{same}\nelse:\n{distinct}\nreturn impl")
    return f"def {func.name}(x):\n    raise NotImplementedError\n@overload({func.name})\n{chosen}\n"


def registered_block(module: Module, func: Func) -> str:
    """Return a scalar function that calls what ``register_jitable`` marked."""
    name = func.name
    (lines_a, a), (lines_b, b) = (reading(module, ref) for ref in func.refs[:2])
    match func.flavor % 3:
        case 0:
            inner = f"@register_jitable\n{_function('helper', 'x', module.body(func, 'x * k', 0))}\nreturn helper"
            helper = f"{_function(f'make_{name}', 'k', inner)}\n{lines_b}helper_{name} = make_{name}({b})"
        case 1:
            both = [
                _function(f"{name}_{word}", "x", module.body(func, first, 0))
                for word, first in (("one", "x"), ("two", "x + 3"))
            ]
            marked = f"[register_jitable(f) for f in ({name}_one, {name}_two)]"
            helper = f"{_lines(*both)}\n{lines_a}helper_{name} = {marked}[int({a}) % 2]"
        case _:
            raw = _function(f"{name}_one", "x", module.body(func, "x", 0))
            helper = f"{raw}\nhelper_{name} = register_jitable(inline='always')({name}_one)"
    return f"{helper}\n@njit\ndef {name}(x):\n    return helper_{name}(x)\n"


def objmode_block(module: Module, func: Func) -> str:
    """Return a scalar function that asks Python for a number while it runs."""
    name = func.name
    lines, b = reading(module, func.refs[1])
    return (
        f"{_function(f'ask_{name}', '', f'{lines}return {b}')}\n@njit\ndef {name}(x):\n"
        f"    with objmode(k='float64'):\n        k = float(ask_{name}())\n{module.body(func, 'x * k')}\n"
    )


def boxed_block(module: Module, func: Func) -> str:
    """Return a scalar function that reads constants out of a tuple which it knows as a global."""
    name = func.name
    one, other = (module.raw(ref) for ref in func.refs[:2])
    box, places = [
        (f"({one}, {other})", ("[0]", "[1]")),
        (f"(({one},), {other})", ("[0][0]", "[1]")),
        (f"collections.namedtuple('Box', 'p q')({one}, {other})", (".p", ".q")),
        (f"tuple([{one}] * 2 + [{other}])", ("[1]", "[2]")),
    ][func.flavor % 4]
    reads = [ref.access.format(r=f"box_{name}{place}") for ref, place in zip(func.refs, places, strict=False)]
    return f"box_{name} = {box}\n@njit\ndef {name}(x):\n{module.body(func, f'x * {reads[0]} + {reads[1]}')}\n"


def alias_block(module: Module, func: Func) -> str:
    """Return another name of a function, or a name of its twin."""
    name, target = func.name, module.ref(func.refs[0])
    match func.flavor % 4:
        case 0:
            return f"{name} = {target}\n"
        case 1:
            return f"{name} = njit({target}.py_func) if hasattr({target}, 'py_func') else {target}\n"
        case 2:
            return f"box_{name} = {{'a': {target}, 'b': [{target}]}}\n{name} = box_{name}['b'][0]\n"
    return f"{name} = njit(lambda x: {target}(x))\n"


def _lines(*parts: str) -> str:
    return "\n".join(parts)


def _in(text: str) -> str:
    return textwrap.indent(text, "    ")
