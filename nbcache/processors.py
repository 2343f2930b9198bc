"""Processors that code can be built for: their names, and what a host's processor must be able to do for each.

A name is one that LLVM knows, and stands for exactly that processor's features: code for it is the same wherever it is
built. What counts of a processor is what a compiler uses of its own accord. What only system software and explicit
calls use (protection keys, say, which a hypervisor likes to hide) keeps no host from running such code.

Sources: the levels as in the psABI (https://gitlab.com/x86-psABIs/x86-64-ABI), the others as in LLVM's
``X86TargetParser.cpp`` and ``AArch64Processors.td``; the features by LLVM's names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

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

_ARM: Final = frozenset({"fp-armv8", "neon"})
_N1: Final = _ARM | {"crc", "dotprod", "fullfp16", "lse", "rcpc", "rdm"}
_V8_4: Final = _N1 | {"bf16", "complxnum", "fp16fml", "i8mm", "jsconv", "lse2", "rcpc-immo", "sve"}
_V9: Final = _V8_4 | {"fptoint", "sve2", "sve-bitperm"}

_X86: Final[Mapping[str, frozenset[str]]] = {
    "generic": _BASE,
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
_AARCH64: Final[Mapping[str, frozenset[str]]] = {
    "generic": _ARM,
    "neoverse-n1": _N1,
    "neoverse-v1": _V8_4 | {"sha3"},
    "neoverse-n2": _V9,
    "neoverse-v2": _V9,
}
_BY_MACHINE: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {"x86_64": _X86, "aarch64": _AARCH64}
"""What each processor has, by LLVM's names; the processors by what ``uname`` calls their machines."""

_LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"),
    "aarch64": ("neoverse-v2", "neoverse-n2", "neoverse-v1", "neoverse-n1", "generic"),
}
_COMMON: Final = {"x86_64": "x86-64-v3", "aarch64": "neoverse-n1"}
_SHORT: Final = {"v4": "x86-64-v4", "v3": "x86-64-v3", "v2": "x86-64-v2"}

KERNELS_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    # arch/x86/include/asm/cpufeatures.h
    "bmi": ("bmi1",), "lzcnt": ("abm",), "pclmul": ("pclmulqdq",), "prfchw": ("3dnowprefetch",), "rdrnd": ("rdrand",),
    "sahf": ("lahf_lm",), "sse3": ("pni",), "sha": ("sha_ni",), "avxvnni": ("avx_vnni",),
    "avx512bf16": ("avx512_bf16",), "avx512bitalg": ("avx512_bitalg",), "avx512fp16": ("avx512_fp16",),
    "avx512vbmi2": ("avx512_vbmi2",), "avx512vnni": ("avx512_vnni",), "avx512vpopcntdq": ("avx512_vpopcntdq",),
    # arch/arm64/kernel/cpuinfo.c
    "fp-armv8": ("fp",), "neon": ("asimd",), "crc": ("crc32",), "lse": ("atomics",), "rdm": ("asimdrdm",),
    "fullfp16": ("fphp", "asimdhp"), "dotprod": ("asimddp",), "rcpc": ("lrcpc",), "rcpc-immo": ("ilrcpc",),
    "complxnum": ("fcma",), "jsconv": ("jscvt",), "fp16fml": ("asimdfhm",), "lse2": ("uscat",), "fptoint": ("frint",),
    "sve-bitperm": ("svebitperm",), "sve2-bitperm": ("svebitperm",), "rand": ("rng",),
}  # fmt: skip
"""What the kernel calls otherwise than LLVM does, dots aside; all of several names together."""


def levels() -> tuple[str, ...]:
    """Return the processors that others are measured by on a machine like this one, the highest first.

    Of x86-64 the levels of its psABI; of AArch64 the cores that clouds are made of, and what each has.
    """
    return _LEVELS.get(os.uname().machine, ())


def common() -> str | None:
    """Return what nearly every server like this one is able to do; None where no processor is known."""
    return _COMMON.get(os.uname().machine)


def here() -> Mapping[str, frozenset[str]]:
    """Return the processors that code can be built for on a machine like this one, each with what it has."""
    return _BY_MACHINE.get(os.uname().machine, {})


def told_by_kernel(names: frozenset[str]) -> frozenset[str]:
    """Return what an AArch64 processor has, by the names that its kernel has for it; elsewhere LLVM knows it all."""
    if os.uname().machine != "aarch64":
        return frozenset()
    known = frozenset().union(*_AARCH64.values())
    return frozenset(each for each in known if names.issuperset(KERNELS_NAMES.get(each, (each,))))


def told_to_kernel(name: str) -> tuple[str, ...]:
    """Return what code that was built here for a processor needs, by the kernel's names, sorted."""
    # Of these the kernel names one, which comes with the other.
    needed = here()[name] - {"crc32"}
    told = (KERNELS_NAMES.get(each, (each.replace(".", "_"),)) for each in needed)
    return tuple(sorted({word for words in told for word in words}))


def named(text: str) -> str:
    """Return the processor that a user means by a name, ``v3`` being short for x86-64-v3. Raises ValueError."""
    name = text.strip().lower()
    name = _SHORT.get(name, name)
    if not any(name in known for known in _BY_MACHINE.values()):
        raise ValueError(text)
    return name


def missing(name: str, features: frozenset[str]) -> list[str]:
    """Return what a processor with these *features* lacks to run code that was built here for the one called *name*."""
    return sorted(here()[name] - features)
