"""What compiled code was built for, as the facts that a node compares with its own."""

from __future__ import annotations

import os

import llvmlite.binding as llvm
from numba.core import config
from numba.core.registry import cpu_target

from nbcache import libm
from nbcache.protocol.manifests import Host
from nbcache.published import hosts

_KERNELS_NAMES = {
    "bmi": "bmi1",
    "lzcnt": "abm",
    "pclmul": "pclmulqdq",
    "prfchw": "3dnowprefetch",
    "rdrnd": "rdrand",
    "sahf": "lahf_lm",
    "sse3": "pni",
}
"""What the kernel (arch/x86/include/asm/cpufeatures.h) calls otherwise than LLVM does, dots and underscores aside."""


def host() -> Host:
    """This host, as far as code that Numba builds here needs it."""
    return Host(
        python=hosts.python(),
        machine=os.uname().machine,
        features=needed_features(),
        libc=hosts.libc(),
        libm=libm.answers(),
        numpy=hosts.numpy_abi(),
    )


def needed_features() -> tuple[str, ...]:
    """What the processor must be able to do, by the kernel's names.

    Those that LLVM may use and that this host's kernel names; what it doesn't name (x87, say) every processor of this
    machine type has, or it comes with one that it does name.
    """
    # They are asked of the object that compiles, so that NUMBA_CPU_FEATURES counts. What a processor that is named by
    # NUMBA_CPU_NAME can do besides, LLVM doesn't say: whatever this one can.
    wanted = set(cpu_target.target_context.codegen()._get_host_cpu_features().split(","))
    if config.CPU_NAME not in {None, "generic"}:
        wanted |= set(llvm.get_host_cpu_features().flatten().split(","))
    named = {_plain(name): name for name in hosts.features()}
    found = {named.get(_plain(_KERNELS_NAMES.get(each[1:], each[1:]))) for each in wanted if each.startswith("+")}
    return tuple(sorted(name for name in found if name is not None))


def _plain(name: str) -> str:
    return name.replace("_", "").replace(".", "").replace("-", "")
