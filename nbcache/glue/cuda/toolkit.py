"""The conditions a kernel is compiled under: numba-cuda, NVIDIA's toolkit, the compute capability, settings.

Versions that the toolkit's libraries tell are too coarse: libnvvm calls itself 2.0 in CUDA 12.9 and in 13.5. So they
count by their build ids, which the linker made of their content. The processor of the host is in no kernel's key.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import platform
import sys
from typing import Any

import cuda.bindings
import cuda.core
import llvmlite
import numba
import numba_cuda
import numpy as np
from cuda import pathfinder
from numba.cuda import cuda_paths, dispatcher
from numba.cuda.core import config
from numba.cuda.cudadrv import nvrtc

from nbcache import capabilities, hosts
from nbcache.capabilities import Capability, spelt
from nbcache.elf import build_id
from nbcache.glue.identity.distributions import Distributions
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys import conditions
from nbcache.glue.keys.conditions import (
    IRRELEVANT_SETTINGS,
    SHOWING_SETTINGS,
    Conditions,
    namespace_components,
    shown_by,
)

_Component = tuple[str, str]

LIBRARIES = ("nvvm", "nvJitLink", "nvrtc")
"""What turns a kernel into machine code, as `cuda.pathfinder` calls it."""

# Settings that can't change a kernel's code. All that isn't listed is in the key.
_IRRELEVANT = {
    **IRRELEVANT_SETTINGS,
    "CUDA_LOG_LEVEL": "logs", "CUDA_LOG_API_ARGS": "logs", "CUDA_VERBOSE_JIT_LOG": "logs", "CUDA_LOG_SIZE": "logs",
    "CUDA_LOW_OCCUPANCY_WARNINGS": "warns at a launch", "CUDA_WARN_ON_IMPLICIT_COPY": "warns at a launch",
    "CUDA_DEALLOCS_RATIO": "when memory is freed", "CUDA_DEALLOCS_COUNT": "when memory is freed",
    "CUDA_ARRAY_INTERFACE_SYNC": "whether an array waits for its stream",
    "CUDA_PER_THREAD_DEFAULT_STREAM": "which stream is the default",
    "CUDA_MEMORY_MANAGER": "who allocates device arrays", "CUDA_IPC": "sharing device arrays",
    "CPU_NAME": "the host's processor", "CPU_FEATURES": "the host's processor", "ENABLE_AVX": "the host's processor",
}  # fmt: skip


def capability() -> Capability:
    """The compute capability that numba-cuda compiles for at this moment, as its code generator spells it."""
    return capabilities.of_device(*dispatcher.get_current_device().compute_capability)


def supported() -> list[tuple[int, int]]:
    """The compute capabilities that the toolkit compiles for, the lowest first.  Raises what looking raises."""
    return sorted({(int(each[0]), int(each[1])) for each in nvrtc.get_supported_ccs()})


@functools.cache
def library_path(name: str) -> str:
    """Where a library of the toolkit lies, which is the file that numba-cuda would load.  Raises Unidentifiable."""
    try:
        path = _in_a_package(name) or pathfinder.load_nvidia_dynamic_lib(name).abs_path
    except Exception as exc:
        raise Unidentifiable(f"{name} of the CUDA toolkit, which isn't found") from exc
    if path is None:
        raise Unidentifiable(f"{name} of the CUDA toolkit, whose file nobody knows")
    return path


def _in_a_package(name: str) -> str | None:
    """Where cuda.pathfinder would load a library from if that isn't loaded yet and a Python package or Conda has it.

    Otherwise, or if it doesn't look as it does in cuda-pathfinder 1.4 to 1.9, it has to load the library to know: the
    three take 30 ms, more than eight hits, which need none of them.
    """
    try:
        loading = importlib.import_module("cuda.pathfinder._dynamic_libs.load_nvidia_dynamic_lib")
        library = loading.LIB_DESCRIPTORS[name]
        if loading.LOADER.check_if_already_loaded_from_elsewhere(library) is not None:
            return None
        found = loading.run_find_steps(loading.SearchContext(library), loading.EARLY_FIND_STEPS)
    except (ImportError, AttributeError, KeyError, TypeError):
        return None
    return None if found is None else str(found.abs_path)


def _identity_of_library(name: str) -> str:
    path = library_path(name)
    return build_id(path) or digest_of(path)


@functools.cache
def digest_of(path: str | None) -> str:
    """Of a file of the toolkit, which is read once in a process; "" if there is none.  Raises OSError."""
    if path is None or not os.path.isfile(path):
        return ""
    hasher, part = hashlib.blake2b(digest_size=16), memoryview(bytearray(1 << 16))
    with open(path, "rb", buffering=0) as file:  # piece by piece: memory for a megabyte costs as much as its digest
        while size := file.readinto(part):
            hasher.update(part[:size])
    return hasher.hexdigest()


def cudadevrt() -> str:
    """Digest of the library that cooperative kernels are linked with, the only ones: it is in no key but in entries."""
    # Where get_cudalib() finds it, which loads three libraries to know where all else is.
    folder = cuda_paths._get_static_cudalib_dir().info or os.path.join(sys.prefix, "lib")
    return digest_of(os.path.join(folder, "libcudadevrt.a"))


@functools.cache
def toolchain_components() -> list[_Component]:
    """Versions of everything that turns Python into a cubin.  Raises Unidentifiable."""
    found = [*conditions.python_components(), *conditions.numba_components()]
    try:
        found += [
            ("toolchain/numba-cuda", numba_cuda.__version__),
            *conditions.files_of([numba, llvmlite, np, numba_cuda], Distributions()),
            ("toolchain/cuda-core", cuda.core.__version__),
            ("toolchain/cuda-bindings", cuda.bindings.__version__),
        ]
        found += [(f"toolkit/{name}", _identity_of_library(name)) for name in LIBRARIES]
        # Not get_cuda_paths(), which loads libraries to know where all the rest is.
        found.append(("toolkit/libdevice", digest_of(cuda_paths._get_libdevice_path().info)))
    except (OSError, KeyError, AttributeError) as exc:
        raise Unidentifiable(f"the CUDA toolkit, of which not all is found ({type(exc).__name__}: {exc})") from exc
    return found


def _settings() -> list[str]:
    return sorted(
        name
        for name, value in vars(config).items()
        if name.isupper() and not name.startswith("_") and not callable(value) and name not in _IRRELEVANT
    )


class KernelConditions:
    """Digests of all of the above, by compute capability."""

    def __init__(self, host: Conditions) -> None:
        self._host = host
        self.shown = ""
        """Which setting of numba-cuda's asks to see what it does, in words."""
        self._values: list[tuple[str, Any]] = []
        self._digests: dict[tuple[Capability, str], bytes] = {}

    def digest(self, cc: Capability) -> bytes:
        """32 bytes.  numba-cuda re-reads its environment before it compiles; so does this.  Raises Unidentifiable."""
        self._host.reread()
        scope = vars(config)
        if not self._values or any(scope.get(name) is not value for name, value in self._values):
            showing = [name for name in SHOWING_SETTINGS if name in scope]
            self._values = [(name, scope[name]) for name in (*_settings(), *showing)]
            self.shown = shown_by(scope)
            self._digests.clear()
        state = cc, hosts.floating_point()
        found = self._digests.get(state)
        if found is None:
            found = self._digests[state] = conditions.digest_of(self.components(cc), b"nbcache cuda")
        return found

    def components(self, cc: Capability) -> list[_Component]:
        """The labelled parts behind `digest`.  Raises Unidentifiable."""
        settings = [(f"config/NUMBA_{name}", repr(getattr(config, name))) for name in _settings()]
        # libnvvm computes what is constant in this thread.
        floats = ("target/floating point", hosts.floating_point() or "as usual")
        return [*toolchain_components(), ("target/cc", spelt(cc)), floats, *settings, *namespace_components()]

    def summary(self, cc: Capability) -> str:
        """One line for people."""
        versions = f"numba {numba.__version__} numba-cuda {numba_cuda.__version__} python {platform.python_version()}"
        return f"{versions} cc {spelt(cc)}"
