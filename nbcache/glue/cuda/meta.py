"""What an entry for CUDA says of itself."""

from __future__ import annotations

from typing import Any

from nbcache.records import Record

CUDA_META_VERSION = 6

Exceptions = tuple[tuple[int, Any, Any, Any], ...]
"""Code, class, arguments and place of each exception that a kernel may report (under ``debug=True``)."""


class KernelMeta(Record):
    """A kernel, or code of ``cuda.compile``, without its code."""

    cc: tuple[Any, ...]
    """As numba-cuda keeps what it has for it: a kernel's with a suffix, that of ``cuda.compile`` as it was given."""
    name: str
    """The library's."""
    entry_name: str | None
    """The kernel's symbol; None for a device function."""
    return_type: Any
    use_cooperative: bool
    needs_cudadevrt: bool
    max_registers: int | None
    lto: bool
    nvvm_options: tuple[tuple[str, Any], ...]
    linker_info: Any
    exceptions: Exceptions
    headers: str
    """What identified the toolkit's headers; "" if no CUDA C++ was compiled for it."""
    cudadevrt: str
    """Digest of the toolkit's library for cooperative kernels; "" if that wasn't linked."""
    caveats: list[tuple[Any, ...]]


class DeviceMeta(Record):
    """A device function that can be compiled for some types, and what it returns then."""

    return_type: Any
    caveats: list[tuple[Any, ...]]
