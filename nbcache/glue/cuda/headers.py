"""The headers of the toolkit that CUDA C++ may include: where they are, and what identifies them."""

from __future__ import annotations

import functools
import hashlib
import os

from cuda import pathfinder
from numba.cuda import cuda_paths


@functools.cache
def directories() -> list[str]:
    """Where they are, the first to be looked into first."""
    cccl = pathfinder.locate_nvidia_header_directory("cccl")
    # Not get_cuda_paths(), which loads libraries to know where all the rest is.
    roots = [cuda_paths._get_include_dir().info, None if cccl is None else cccl.abs_path]
    return [root for root in roots if root is not None]


def identity() -> str:
    """What identifies the toolkit's headers: the versions that they tell, and the names and sizes of the outermost."""
    found = []
    for root in directories():
        with os.scandir(root) as entries:
            found += [f"{each.name} {each.stat().st_size}" for each in entries if each.is_file()]
        found += [_head_of(os.path.join(root, *each)) for each in _VERSIONS]
    return repr(sorted(found))


_VERSIONS = (("cuda.h",), ("cuda", "std", "__cccl", "version.h"), ("cuda", "version"))
"""Headers that say near their beginnings which version they are of."""
_HEAD = 1 << 16


@functools.cache
def _head_of(path: str) -> str:
    """Digest of the beginning of a header; "" if there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(_HEAD), digest_size=16).hexdigest()
    except OSError:
        return ""
