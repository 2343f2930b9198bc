"""The processor that this process compiles for, and the lower ones whose code it may run instead.

Processors are compared by their sets of features, as LLVM tells them, never by their names.
"""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, config
from numba.core.registry import cpu_target

from nbcache import environ, hosts, path_syntax, processors

_INEXACT = (
    # May be reordered, contracted or approximated, or must not be given NaNs or infinities.
    r"= (?:(?:tail|musttail|notail) )?(?:f[a-z]+|call|select|phi) (?:fast|reassoc|nnan|ninf|nsz|arcp|contract|afn)\b",
    r'fp-math"="true"',
    r"@llvm\.fmuladd\.",
    # Approximations, which differ with the width of vectors.
    r"@__svml_",
)
"""Instructions of LLVM whose results may differ in the last bits, by how it optimises them."""
_LOOSE = (
    *_INEXACT,
    # What they give for numbers that don't fit is left open, and differs: between AVX2 and AVX-512, say.
    r"= fptoui ",
    r"= fptosi \S.* to (?:<\d+ x )?i(?:1|8|16)\b",
    # So is a shift by more bits than there are, where the count is a variable; and where zero has its first bit.
    r"= (?:shl|lshr|ashr) [^,\n]*, %",
    r"@llvm\.ct[lt]z\.[^\n]*i1 true",
)
"""Instructions of LLVM whose results may differ between processors: in the last bits, or where nothing is promised.

(Which of two NaNs comes out of an operation isn't promised by anybody, and doesn't count.)
"""


def host_features() -> frozenset[str]:
    """What this host's processor can do, by LLVM's names.

    On AArch64 LLVM tells few of them, and goes by the processor's name for the others; so the kernel is asked as well.
    """
    try:
        found = frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)
    except RuntimeError:  # as Numba takes it, where LLVM knows no features
        found = frozenset()
    return found | processors.told_by_kernel(hosts.features())


def choose(cpu: str) -> str | None:
    """Have Numba compile for a processor of :mod:`nbcache.processors`; say in one line why that can't be.

    Sets ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` in the environment, which Numba reads before each compilation.
    """
    if cpu == path_syntax.HOST:
        return None
    inherited = cpu == config.CPU_NAME and config.CPU_FEATURES == ""
    if inherited and cpu in processors.here() and not lacks(cpu):
        return None
    if inherited and "_toplevel_target_context" not in vars(cpu_target):
        # A process on another host said so, which had what this one lacks: batch systems pass the environment on.
        environ.tell_numba_nothing()
        config.reload_config()
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return "NUMBA_CPU_NAME or NUMBA_CPU_FEATURES says otherwise"
    if cpu not in processors.here():
        return f"this machine is {platform.machine()}"
    lacking = lacks(cpu)
    if lacking:
        return f"this host's processor has no {', '.join(lacking)}"
    if "_toplevel_target_context" in vars(cpu_target):
        return "Numba has begun to compile"
    environ.tell_numba(cpu, "")
    config.reload_config()
    return None


def host_name() -> str:
    """What LLVM calls this host's processor."""
    return str(llvm.get_host_cpu_name())


def lacks(cpu: str) -> list[str]:
    """What this host's processor can't do that code for *cpu* may need."""
    return processors.missing(cpu, host_features())


def is_foreign() -> bool:
    """Whether what this process compiles is for another processor than the one it runs on, which may lack something."""
    cpu = config.CPU_NAME
    return cpu in processors.here() and config.CPU_FEATURES == "" and bool(lacks(cpu))


def name() -> str:
    """The processor that this process compiles for, in one word where it is exactly that processor."""
    _triple, cpu, features = _magic()
    return _in_a_word(cpu, features, config.ENABLE_AVX)


@functools.lru_cache(maxsize=8)
def _in_a_word(cpu: str, features: str, _avx: object) -> str:
    """The name for what `_magic` says under this setting, on which Numba's list of the host's features depends."""
    if not features or (cpu == host_name() and features == codegen.get_host_cpu_features()):
        return str(cpu)
    return f"{cpu} with other features"


def lower(names: Iterable[str]) -> tuple[str, ...]:
    """Those of these processors whose code can do nothing that this process's target and its host can't."""
    _triple, cpu, features = _magic()
    able = allowed(frozenset()) & host_features()
    # A host that compiles for itself isn't exactly the processor whose name it has.
    known = processors.here().keys() - ({cpu} if features == "" else set())
    return tuple(each for each in names if each in known and not processors.missing(each, able))


def allowed(unknown: frozenset[str]) -> frozenset[str]:
    """What LLVM may use in the code that this process compiles; that a processor has these, whose name says nothing."""
    _triple, cpu, features = _magic()
    is_host = features != "" and cpu == host_name()
    found = host_features() if is_host else processors.here().get(cpu, unknown)
    words = features.split(",")
    more, less = (frozenset(each[1:] for each in words if each.startswith(sign)) for sign in "+-")
    return (found | more) - less


def components(cpu: str) -> dict[str, str]:
    """The components of a key that name its target, as a process has them that compiles for *cpu*."""
    return {
        "target/cpu": cpu,
        "target/features": "",
        "config/NUMBA_CPU_NAME": repr(cpu),
        "config/NUMBA_CPU_FEATURES": repr(""),
    }


def is_strict(module: str) -> bool | None:
    """Whether the results of a library's final *module* are the same bits for every processor, whatever it is given.

    Everything is in it that was linked into the library. None where nobody asks, because this process compiles for no
    processor that has a name (`components`): then no key of another process leads here.
    """
    if config.CPU_NAME not in processors.here() or config.CPU_FEATURES != "":
        return None
    return re.search("|".join(_LOOSE), module) is None


def is_exact(module: str) -> bool:
    """Whether the results of a library's final *module* are the same bits, however often it is optimised."""
    return re.search("|".join(_INEXACT), module) is None


def _magic() -> tuple[str, str, str]:
    return _told_by(cpu_target.target_context.codegen(), config.CPU_NAME)


@functools.lru_cache(maxsize=8)
def _told_by(generator: Any, _cpu_name: str | None) -> tuple[str, str, str]:
    """What a code generator says of its target; a virtual machine's host takes 40 µs to say who it is."""
    triple, cpu, features = generator.magic_tuple()
    return triple, cpu, features
