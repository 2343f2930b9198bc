"""The places where nbcache takes part in numba-cuda: one table, each attribute with its reason.

As for Numba's (`nbcache.glue.hooks.seams`): all are checked before any is replaced, and all are put back.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numba_cuda
from numba.cuda import compiler
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.typing import typeof

from nbcache.glue import replacing
from nbcache.glue.capture import witness
from nbcache.glue.cuda import compiling
from nbcache.glue.cuda.compiling import CudaCompilations
from nbcache.glue.replacing import Seam
from nbcache.passing_exceptions import suppressed

if TYPE_CHECKING:
    from nbcache.glue.cuda.policy import KernelSession

VERIFIED = ((0, 30), (0, 30))
"""The first and the last release of numba-cuda that nbcache works with."""


def table() -> list[Seam]:
    """All seams."""
    return [
        Seam(
            CUDADispatcher, "compile", "each kernel is looked up and published; frames end here",
            compiling.kernels, ("self", "sig"),
        ),
        Seam(
            CUDADispatcher, "compile_device", "device functions, whose past counts for the kernels that call them",
            compiling.devices, ("self", "args", "return_type"),
        ),
        Seam(
            CUDADispatcher, "enable_caching", "cache=True must not use numba-cuda's own cache",
            compiling.keep_session_cache, ("self",),
        ),
        Seam(
            compiler, "_compile_pyfunc_with_fixup", "cuda.compile, compile_ptx and their like", compiling.code,
            ("pyfunc", "sig", "debug", "lineinfo", "device", "fastmath", "cc", "opt", "abi", "abi_info",
             "forceinline", "launch_bounds", "lto"),
        ),
        Seam(
            compiler, "compile_cuda", "whoever compiles without a dispatcher may call what a hit put off",
            compiling.delivered,
            ("pyfunc", "return_type", "args", "debug", "lineinfo", "forceinline", "inline", "fastmath",
             "nvvm_options", "cc", "max_registers", "lto", "abi", "abi_info"),
        ),
        Seam(typeof, "np", "numpy.ma is imported for one look at its class", replacing.without_masked_arrays),
    ]  # fmt: skip


def problem() -> str | None:
    """Why kernels aren't cached with this numba-cuda, in one line; None when all is well."""
    return _problem_of_release() or replacing.problem_of(table())


def _problem_of_release() -> str | None:
    numbers = numba_cuda.__version__.split(".")[:2]
    if all(map(str.isdecimal, numbers)) and VERIFIED[0] <= tuple(map(int, numbers)) <= VERIFIED[1]:
        return None
    return f"numba-cuda {numba_cuda.__version__} is not a release that nbcache was verified with"


_installed: replacing.Replaced = []
_known: list[CudaCompilations] = []


def install(session: KernelSession) -> str | None:
    """Replace every seam, or none: the return value says why not."""
    if _installed:
        return None
    reason = _problem_of_release()
    if reason is None:
        seams = table()
        reason = replacing.problem_of(seams)
    if reason is not None:
        return reason
    witness.belongs_to_compiler(os.path.dirname(numba_cuda.__file__), *_toolkit())
    compilations = CudaCompilations(session)
    _known.append(compilations)
    _installed.extend(replacing.replace(seams, compilations))
    return None


def known() -> CudaCompilations | None:
    """What is known of this process's compilations; None where the seams aren't installed."""
    return _known[-1] if _known else None


def _toolkit() -> list[str]:
    """The directories of NVIDIA's Python packages, which read for themselves while a kernel is compiled."""
    names = ("cuda.bindings", "cuda.core", "cuda.pathfinder")
    return [path for name in names if name in sys.modules for path in sys.modules[name].__path__]


def remove() -> None:
    """Put every original back, once all that hits put off was compiled: later nobody would."""
    while _known:
        with suppressed(Exception):
            _known.pop().deliver()
    replacing.put_back(_installed)
