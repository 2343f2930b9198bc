"""What compiled code was built for, as the facts that a node compares with its own."""

from __future__ import annotations

import os

from nbcache import hosts, processors
from nbcache.glue.keys import targets
from nbcache.protocol.manifests import Host

_API = 0x10
"""That of NumPy 1.23, the oldest that any C extension built with NumPy 2 asks for unless told otherwise
(numpy/numpyconfig.h: NPY_FEATURE_VERSION)."""


def host() -> Host:
    """This host, as far as code that Numba builds here needs it."""
    return Host(
        python=hosts.python(),
        machine=os.uname().machine,
        features=needed_features(),
        libc=hosts.libc(),
        libm=hosts.libm(),
        numpy=_numpy(),
    )


def _numpy() -> tuple[int, int]:
    """NumPy's ABI, and the oldest version of its C API that will do, which isn't that of the NumPy here.

    Code that Numba compiled reads arrays where the ABI has their fields, and calls no function of NumPy's but through
    Numba's C extensions, which are built for the oldest NumPy that Numba runs with and say so when they are loaded.
    """
    abi, api = hosts.numpy_abi()
    return abi, min(api, _API)


def needed_features() -> tuple[str, ...]:
    """What the processor must be able to do, by the kernel's names.

    Those that LLVM may use and that this host's kernel names; what it doesn't name (x87, say) every processor of this
    machine type has, or it comes with one that it does name.
    """
    # What a processor that is named by NUMBA_CPU_NAME can do, nbcache may not know: then whatever this one can.
    wanted = targets.allowed(targets.host_features())
    named = {_plain(name): name for name in hosts.features()}
    names = (name for each in wanted for name in processors.KERNELS_NAMES.get(each, (each,)))
    return tuple(sorted({named[_plain(name)] for name in names if _plain(name) in named}))


def _plain(name: str) -> str:
    return name.replace("_", "").replace(".", "").replace("-", "")
