"""Descriptions of NumPy's arrays, dtypes, scalars and ufuncs."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from nbcache.glue.identity.constant_bytes import encode_dtype, extras_of
from nbcache.glue.identity.node import Describer, Node, Unidentifiable

# -- NumPy -------------------------------------------------------------------------------------


def array_head(array: np.ndarray) -> bytes:
    """What the compiler reads of a captured array besides its content."""
    flags = array.flags
    return encode_dtype(array.dtype) + repr((array.shape, array.strides, flags.aligned, flags.writeable)).encode()


def array_bytes(array: np.ndarray) -> bytes:
    """Everything that compiled code can see of a captured array, content included."""
    hasher = hashlib.blake2b(array_head(array), digest_size=32)
    plain = array.view(np.ndarray)
    if plain.flags.f_contiguous:
        plain = plain.T
    if plain.flags.c_contiguous:
        if plain.nbytes:
            hasher.update(plain.reshape(-1).view(np.uint8).data)  # where it lies
    else:
        with np.nditer(plain, flags=["external_loop", "buffered", "zerosize_ok"], order="C") as blocks:
            for block in blocks:
                hasher.update(block.tobytes())  # type: ignore[attr-defined]
    return hasher.digest()


def by_address(array: np.ndarray) -> bool:
    """Whether Numba lowers a captured array as its address; `BaseContext.make_constant_array` has the rule.

    Of somebody's own kind of array, more may be read than what it holds.
    """
    flags = array.flags
    large = not (flags.c_contiguous or flags.f_contiguous) or array.nbytes > _LARGEST_CONSTANT
    return large and type(array) in _NUMPYS


_LARGEST_CONSTANT = 10**6
_NUMPYS = frozenset({np.ndarray, np.memmap})


def _describe_array(node: Node, array: np.ndarray) -> None:
    if array.dtype.hasobject:
        raise Unidentifiable("an array of Python objects")
    node.title = "array"
    for extra in extras_of(array.dtype):
        node.value("dtype", extra, owned=True)
    if node.compiled and by_address(array):
        node.live = True
        head = node.check(array_head, array)
        node.part("array by address", head, f"array {array.dtype} {array.shape}")
        return
    content = node.check(array_bytes, array)
    node.part("array", content, f"array {array.dtype} {array.shape} {content.hex()[:8]}")


def _describe_memmap(node: Node, array: np.memmap) -> None:
    """An array in a file: to compiled code it is one like others; code that runs may read where it is from."""
    _describe_array(node, array)
    node.title = "memmap"
    if not node.compiled:
        node.value("file", _file_of(array), owned=True)
        node.snapshot(_file_of, array)


def _file_of(array: np.memmap) -> list[object]:
    """What a memmap says of its file, but for the object that maps it, which is another one in each process."""
    return [part for name, value in vars(array).items() if name != "_mmap" for part in (name, value)]


def _describe_dtype(node: Node, dtype: np.dtype) -> None:
    node.title = "dtype"
    node.part("dtype", node.check(encode_dtype, dtype), str(dtype))  # its fields can be renamed
    for extra in extras_of(dtype):
        node.value("extra", extra, owned=True)


def _describe_scalar(node: Node, value: np.generic) -> None:
    if value.dtype.hasobject:
        raise Unidentifiable("a record of Python objects")
    node.title = "scalar"
    node.value("dtype", value.dtype)
    node.part("content", node.check(np.generic.tobytes, value), repr(value)[:200])


def _describe_ufunc(node: Node, ufunc: np.ufunc) -> None:
    if getattr(np, ufunc.__name__, None) is not ufunc:
        module = sys.modules.get("scipy.special")
        if module is None or getattr(module, ufunc.__name__, None) is not ufunc:
            raise Unidentifiable(f"the ufunc {ufunc.__name__} has no source that can be seen")
    node.title = f"ufunc {ufunc.__name__}"


DESCRIBERS: dict[type, Describer] = {
    np.ndarray: _describe_array,
    np.memmap: _describe_memmap,
    np.dtype: _describe_dtype,
    np.generic: _describe_scalar,
    np.ufunc: _describe_ufunc,
}
