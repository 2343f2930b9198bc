"""Processors that code can be built for: their names, and what a host's processor must be able to do for each.

A name is one that LLVM knows, and stands for exactly that processor's features: code for it is the same wherever it is
built. What counts of a processor is what a compiler uses of its own accord. What only system software and explicit
calls use (protection keys, say, which a hypervisor likes to hide) keeps no host from running such code.

Sources: the levels as in the psABI (https://gitlab.com/x86-psABIs/x86-64-ABI), the others as in LLVM's
``X86TargetParser.cpp``; the features by LLVM's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MACHINES: Final = frozenset({"x86_64", "AMD64"})
"""What ``platform.machine()`` says where the processors below are."""

_BASE: Final = frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_V2: Final = _BASE | {"cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2", "crc32"}
_V3: Final = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4: Final = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_HASWELL: Final = _V3 | {"pclmul"}
_SKYLAKE: Final = _HASWELL | {"adx", "aes"}
_ICELAKE: Final = frozenset({
    "avx512vnni", "avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq", "gfni", "sha", "vaes",
    "vpclmulqdq",
})  # fmt: skip
_ZEN: Final = _SKYLAKE | {"sha", "sse4a"}
_ZEN3: Final = _ZEN | {"vaes", "vpclmulqdq"}

FEATURES: Final[Mapping[str, frozenset[str]]] = {
    "x86-64": _BASE,
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "nehalem": _V2,
    "haswell": _HASWELL,
    "broadwell": _HASWELL | {"adx"},
    "skylake": _SKYLAKE,
    "skylake-avx512": _SKYLAKE | _V4,
    "cascadelake": _SKYLAKE | _V4 | {"avx512vnni"},
    "icelake-server": _SKYLAKE | _V4 | _ICELAKE,
    "sapphirerapids": _SKYLAKE | _V4 | _ICELAKE | {"avx512bf16", "avx512fp16", "avxvnni"},
    "znver1": _ZEN,
    "znver2": _ZEN,
    "znver3": _ZEN3,
    "znver4": _ZEN3 | _V4 | _ICELAKE | {"avx512bf16"},
}
"""What each of them has, by LLVM's names."""

LEVELS: Final = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")
"""The levels of the psABI, the highest first."""


def named(text: str) -> str:
    """Return the processor that a user means by a name, ``v3`` being short for x86-64-v3. Raises ValueError."""
    name = text.strip().lower()
    name = f"x86-64-{name}" if f"x86-64-{name}" in LEVELS else name
    if name not in FEATURES:
        raise ValueError(text)
    return name


def missing(name: str, features: frozenset[str]) -> list[str]:
    """Return what a processor with these *features* lacks to run code that was built for the one called *name*."""
    return sorted(FEATURES[name] - features)
