"""What a kernel is linked with: whether its key knows all of it, and whether that is what was linked.

A key covers the content of the files and objects of ``link=`` and ``declare_device``, and by its version what comes
with numba-cuda and the toolkit. CUDA C++ may include files, of which only the toolkit's are known.
Where these are, and what identifies them, is here as well.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from types import FunctionType
from typing import Any

import numba_cuda
from cuda import pathfinder
from numba.cuda import cuda_paths
from numba.cuda.core import config
from numba.cuda.memory_management.nrt import NRT_LIBRARY
from numba.cuda.utils import cached_file_read

from nbcache.glue.cuda.units import CudaUnit
from nbcache.glue.entries.verdicts import Unstorable
from nbcache.glue.identity.describe_cuda import declaration_of
from nbcache.glue.identity.ownership import is_compilers

_DIRECTIVE = re.compile(rb"(?:#|%:|\?\?=)\s*(?:\\\r?\n\s*)*(include_next|include|embed|import)\b([^\n]*)")
_ANGLED = re.compile(rb"\s*<([\w./+-]+)>\s*(?://[^\n]*|/\*[^\n]*\*/\s*)?")
_ASKS = re.compile(rb"__has_(?:include|embed)|__FILE__|__DATE__|__TIME__|__TIMESTAMP__|\?\?/")
"""What lets code depend on files without including them, on its place, or on the time."""


def known_links(unit: CudaUnit) -> list[Any]:
    """Paths and objects whose content is in the unit's key."""
    found: list[Any] = []
    for obj in unit.reach().objects():
        options = getattr(obj, "targetoptions", None)
        if isinstance(options, dict):
            found += options.get("link") or ()
        declared = declaration_of(obj) if type(obj).__name__ == "ExternFunction" else None
        if declared is not None:
            found += declared.link
    return found


def calls_others(library: Any) -> bool:
    """Whether anything of others' is called when the library's module is loaded or unloaded."""
    callbacks = (*library._setup_functions, *library._teardown_functions)
    return any(not (isinstance(each, FunctionType) and is_compilers(each)) for each in callbacks)


def verify(unit: CudaUnit, library: Any) -> bool:
    """See that the key covers what was linked; return whether CUDA C++ was compiled for it.  Raises Unstorable."""
    known = known_links(unit)
    compiled = False
    for each in library._linking_files:
        name = each if isinstance(each, str) else each.name
        if _is_shim(each) and not library._lto:
            raise Unstorable("it links what numba-cuda wrote down for all kernels of the process, and not at link time")
        if _is_toolkits(each):
            compiled = compiled or _is_source(each)
            continue
        if not any(each is other or (isinstance(each, str) and each == other) for other in known):
            raise Unstorable(f"it links {os.path.basename(name)}, which nothing that it refers to names")
        if isinstance(each, str):
            _verify_file(each)
        if _is_source(each):
            compiled = True
            _verify_source(os.path.basename(name), _content_of(each))
    return compiled


def _is_toolkits(each: Any) -> bool:
    """Whether it comes with numba-cuda."""
    if isinstance(each, str):
        root = os.path.dirname(numba_cuda.__file__) + os.sep
        return os.path.abspath(each).startswith(root) and f"{os.sep}tests{os.sep}" not in each
    return each is NRT_LIBRARY or _is_shim(each)


def _is_shim(each: Any) -> bool:
    """Whether it is CUDA C++ that grows with the functions for short floats that kernels of this process call.

    Optimised at link time, no kernel keeps what it doesn't call.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("numba.cuda._internal.")]
    return any(getattr(module, "shim_obj", None) is each for module in modules)


def _is_source(each: Any) -> bool:
    return os.path.splitext(each)[1] == ".cu" if isinstance(each, str) else each.kind == "cu"


def _content_of(each: Any) -> bytes:
    data = cached_file_read(each, how="rb") if isinstance(each, str) else each.data
    return data.encode() if isinstance(data, str) else bytes(data)


def _verify_file(path: str) -> None:
    """numba-cuda reads a file once in a process; its key was made of what it is now."""
    try:
        with open(path, "rb") as file:
            same = file.read() == cached_file_read(path, how="rb")
    except OSError:
        same = False
    if not same:
        raise Unstorable(f"it links {os.path.basename(path)}, which changed since this process read it first")


def _verify_source(name: str, source: bytes) -> None:
    """See that CUDA C++ depends on nothing but itself and the toolkit's headers.  Raises Unstorable."""
    if _ASKS.search(source):
        raise Unstorable(f"{name}, which it links, asks for files, its place or the time")
    for kind, rest in _DIRECTIVE.findall(source):
        header = _ANGLED.fullmatch(rest)
        if kind != b"include" or header is None or not _is_header_of_toolkit(header[1].decode()):
            raise Unstorable(f"{name}, which it links, includes a file that isn't known to be the toolkit's")


def _is_header_of_toolkit(name: str) -> bool:
    if config.CUDA_NVRTC_EXTRA_SEARCH_PATHS or ".." in name.split("/"):
        return False
    return any(os.path.isfile(os.path.join(root, name)) for root in directories())


@functools.cache
def directories() -> list[str]:
    """Where they are, the first to be looked into first."""
    cccl = pathfinder.locate_nvidia_header_directory("cccl")
    # Not get_cuda_paths(), which loads libraries to know where all the rest is.
    roots = [cuda_paths._get_include_dir().info, None if cccl is None else cccl.abs_path]
    return [root for root in roots if root is not None]


def headers_identity() -> str:
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
