"""A publication of compiled functions: its manifest, and the files and entries that it refers to."""

from __future__ import annotations

import inspect
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
from numba.core.dispatcher import Dispatcher

from nbcache.errors import NotPublishableError
from nbcache.glue import marks
from nbcache.glue.entries.verdicts import Unstorable
from nbcache.glue.identity.ownership import resolve
from nbcache.glue.published import target
from nbcache.glue.published.code import Codes
from nbcache.glue.published.constants import constant
from nbcache.glue.published.types import check_result, type_data
from nbcache.glue.published.verdicts import Refused
from nbcache.passing import suppressed
from nbcache.protocol import manifests
from nbcache.published.extensions import file_of
from nbcache.store.files import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbcache.store.directory import Store


class Described(NamedTuple):
    """A manifest, and the content of the files that it names, by digest."""

    manifest: manifests.Manifest
    files: Mapping[str, bytes]

    @property
    def entries(self) -> frozenset[str]:
        """The keys of the entries that it refers to."""
        return frozenset(code.key for code in self.manifest.codes)


def describe(
    name: str,
    functions: Mapping[str, Any],
    signatures: Iterable[Any] | None,
    store: Store,
    *,
    keep_refused: bool = False,
) -> Described:
    """Describe compiled functions by attribute, all of them published under one *name*.

    *signatures* are those to publish, or None for all there are.  With *keep_refused*, what can't go without Numba is
    described as that.  Raises NotPublishableError.
    """
    wanted = None if signatures is None else [_argument_types(each) for each in signatures]
    codes = Codes(store)
    described = {}
    for attribute, function in functions.items():
        try:
            described[attribute] = _function(function, wanted, codes)
        except (Refused, Unstorable) as exc:
            found = _unusable(function, str(exc)) if keep_refused else None
            if found is None:
                raise NotPublishableError(_name_of(function), str(exc)) from exc
            described[attribute] = found
    return _publication(name, described, codes)


def _publication(name: str, functions: Mapping[str, manifests.Function], codes: Codes) -> Described:
    files: dict[str, bytes] = {}

    def add(data: bytes) -> str:
        digest = digest_of(data)
        files[digest] = data
        return digest

    extensions = []
    for module in sorted(codes.extensions):
        path = file_of(module)
        if path is not None:
            with open(path, "rb") as file:
                data = file.read()
            extensions.append(manifests.Extension(module, add(data), len(data)))
    manifest = manifests.Manifest(
        name=name,
        created=time.time(),
        numba=numba.__version__,
        host=target.host(),
        extensions=tuple(extensions),
        codes=tuple(codes.codes),
        tokens=codes.tokens,
        arrays={symbol: manifests.Array(add(data), what) for symbol, (data, what) in codes.arrays.items()},
        imports=tuple(sorted(codes.imports)),
        functions=functions,
    )
    return Described(manifest, files)


def _argument_types(signature: Any) -> tuple[Any, ...]:
    from numba.core import sigutils

    args, _return_type = sigutils.normalize_signature(signature)
    return tuple(args)


def _function(function: Any, wanted: list[tuple[Any, ...]] | None, codes: Codes) -> manifests.Function:
    for kind, describer in _DESCRIBERS:
        if isinstance(function, kind):
            return describer(function, wanted, codes)
    raise Refused(f"it is a {type(function).__name__}: publish what @njit, @vectorize, @guvectorize or @cfunc return")


def key_of(library: Any) -> str:
    """The key of the entry that a library's code came from, or went to.  Raises Refused."""
    unit = marks.unit_of(library)
    if unit is None:
        reason = marks.taint_of(library) or "it was compiled before nbcache was on, or can't be cached"
        raise Refused(f"it is in no entry: {reason} (`nbcache why` tells more)")
    return unit.key


# -- functions -------------------------------------------------------------------------------------


def _njit(dispatcher: Any, wanted: list[tuple[Any, ...]] | None, codes: Codes) -> manifests.Function:
    chosen = list(dispatcher.overloads) if wanted is None else wanted
    if not chosen:
        raise Refused("it has not been compiled for any signature yet: say which in signatures=[…], or call it first")
    signatures = tuple(_signature(dispatcher.overloads[args], codes) for args in chosen)
    parameters, star, defaults = _parameters(dispatcher.py_func)
    return manifests.Function(
        what="njit",
        **_said(dispatcher.py_func),
        parameters=parameters,
        defaults=defaults,
        star=star,
        signatures=signatures,
        ufunc=None,
        reason=None,
    )


def _signature(cres: Any, codes: Codes) -> manifests.Signature:
    if cres.objectmode or cres.lifted:
        raise Refused("it runs Python code of its own (objmode), which needs Numba")
    args = tuple(map(type_data, cres.signature.args))
    check_result(cres.signature.return_type)
    number = codes.add(cres.library, key_of(cres.library))
    symbol = cres.fndesc.llvm_cpython_wrapper_name
    return manifests.Signature(number, symbol, args, str(cres.signature.return_type), ())


def _parameters(function: Any) -> tuple[tuple[str, ...], bool, tuple[manifests.Constant, ...]]:
    found = list(inspect.signature(function).parameters.values())
    star = bool(found) and found[-1].kind is inspect.Parameter.VAR_POSITIONAL
    defaults = tuple(constant(each, "a default value") for each in function.__defaults__ or ())
    return tuple(each.name for each in found), star, defaults


# -- what a function says of itself ----------------------------------------------------------------


def _said(function: Any) -> dict[str, Any]:
    return {
        "name": function.__name__,
        "module": function.__module__,
        "doc": function.__doc__,
        "source": _source(function),
    }


def _source(function: Any) -> str | None:
    """Where a function can be imported from, if anywhere."""
    module, qualname = function.__module__, function.__qualname__
    if module in sys.modules and module != "__main__":
        with suppressed(Exception):  # a module's __getattr__ may raise anything
            resolve(module, qualname)
            return f"{module}:{qualname}"
    return None


def _python_function(function: Any) -> Any:
    for attribute in ("py_func", "_pyfunc", "__wrapped__"):
        found = getattr(function, attribute, None)
        if inspect.isfunction(found):
            return found
    return getattr(getattr(function, "gufunc_builder", None), "py_func", None)


def _name_of(function: Any) -> str:
    found = _python_function(function)
    return str(getattr(found, "__qualname__", type(function).__name__))


def _unusable(function: Any, reason: str) -> manifests.Function | None:
    """A function that only Numba can run, if it can be imported where that is done."""
    python_function = _python_function(function)
    said = None if python_function is None else _said(python_function)
    if said is None or said["source"] is None:
        return None
    return manifests.Function(
        what="numba", **said, parameters=(), defaults=(), star=False, signatures=(), ufunc=None, reason=reason
    )


_DESCRIBERS = ((Dispatcher, _njit),)
