"""Values and dtypes as the constants of a manifest, and what pickles refer to."""

from __future__ import annotations

import base64
import io
import pickle
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nbcache.glue.publishing.refusals import Refused
from nbcache.passing_exceptions import let_pass
from nbcache.protocol.manifests import Constant
from nbcache.published.runtime import dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

_PICKLE = re.compile(rb"\x80\x04\x95")
"""How a pickle of protocol 4 begins that refers to anything: with a frame."""


def dtype_data(described: np.dtype[Any]) -> Any:
    """A dtype as a manifest has it.  Raises Refused for one that doesn't come back the same."""
    data = described.str if described.fields is None else _laid_out(described)
    if described.hasobject or not _is_same(dtype(data), described):
        raise Refused(
            f"it has to do with {described}, a dtype that can't be written down: use fields of numbers and text"
        )
    return data


def _laid_out(described: np.dtype[Any]) -> Any:
    fields = []
    for name in described.names or ():
        kind, offset, *title = described.fields[name]  # type: ignore[index]  # it has fields
        fields.append([[*title, name] if title else name, dtype_data(kind.base), list(kind.shape), offset])
    return {"fields": fields, "size": described.itemsize, "aligned": described.isalignedstruct}


def _is_same(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Whether they are equal, and say the same of their alignment, which NumPy doesn't compare."""
    alike = one == other and one.isalignedstruct == other.isalignedstruct
    return alike and all(_is_same(one[name].base, other[name].base) for name in one.names or ())


def constant(value: Any, what: str) -> Constant:
    """A value as a constant.  Raises Refused, calling it *what*."""
    if value is None or (isinstance(value, bool | int | str) and type(value) in {bool, int, str}):
        return {"json": value}
    if isinstance(value, np.dtype):
        return {"dtype": dtype_data(value)}
    try:
        data = pickle.dumps(value, protocol=4)
    except Exception as exc:
        let_pass(exc)
        raise Refused(
            f"{what} can't be pickled ({type(exc).__name__}: {exc}): use one of numbers, text or tuples"
        ) from exc
    for module, name in names_in(data):
        if module.partition(".")[0] in {"numba", "llvmlite", "__main__"}:
            raise Refused(
                f"{what} is made of {module}.{name}, which a node can't import: define it in a module of its own"
            )
    return {"pickle": base64.b64encode(data).decode()}


def names_in_code(code: bytes) -> Iterator[tuple[str, str]]:
    """What the pickles inside object code refer to, as of :func:`names_in`."""
    for found in _PICKLE.finditer(code):
        data = code[found.start() :]
        try:
            yield from names_in(data)
        except Refused:
            if _is_pickle(data):
                raise


def _is_pickle(data: bytes) -> bool:
    """Whether bytes begin with a pickle, or only look as one begins."""
    import pickletools  # takes longer than to examine them, and most can be

    try:
        for _operation in pickletools.genops(data):
            pass
    except ValueError:
        return False
    return True


def names_in(data: bytes) -> list[tuple[str, str]]:
    """The module and name of everything that a pickle refers to.  Nothing is imported or called.  Raises Refused."""
    reader = _Names(io.BytesIO(data))
    try:
        reader.load()
    except Exception as exc:
        let_pass(exc)
        raise Refused(f"there is a pickle in its code that can't be examined ({type(exc).__name__}: {exc})") from exc
    return reader.names


class _Stand:
    """Stands for whatever a pickle refers to."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        pass

    def __call__(self, *_args: object, **_kwargs: object) -> _Stand:
        return self

    def __setstate__(self, _state: object) -> None:
        pass

    def __setitem__(self, _key: object, _value: object) -> None:
        pass

    def append(self, _item: object) -> None:
        pass

    def extend(self, _items: object) -> None:
        pass


class _Names(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.names: list[tuple[str, str]] = []

    def find_class(self, module: str, name: str) -> Any:
        self.names.append((module, name))
        return _Stand
