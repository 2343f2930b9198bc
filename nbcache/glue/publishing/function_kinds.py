"""Each kind of compiled function as a function of a manifest: what it is called, what it takes, which code it is."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from nbcache.glue import own_attributes
from nbcache.glue.identity.ownership import resolve
from nbcache.glue.publishing.constants import constant
from nbcache.glue.publishing.refusals import OBJECT_MODE, Refused
from nbcache.glue.publishing.type_data import c_types, check_result, loop_dtypes, type_data
from nbcache.glue.requests.requested import argument_types, python_function
from nbcache.passing_exceptions import suppressed
from nbcache.protocol import manifests, rare_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbcache.glue.publishing.library_code import Codes

Wanted = list[tuple[Any, ...]] | None
"""The argument types of the signatures to publish; None for all that there are."""

_NOT_YET = "it has not been compiled for any signature yet: say which in signatures=[…], or call it first"
# numpy/ufuncobject.h
_IDENTITIES = {0: 0, 1: 1, None: -1}
_REORDERABLE = -2


def function(public: Any, signatures: Iterable[Any] | None, codes: Codes) -> manifests.Function:
    """Describe a compiled function, and add its code; its *signatures* as users write them, or all that there are.
    Raises Refused.
    """
    wanted = None if signatures is None else [argument_types(public, each) for each in signatures]
    for kind, describe in _DESCRIBERS:
        if isinstance(public, kind):
            return describe(public, wanted, codes)
    if isinstance(public, np.ufunc):
        raise Refused("it is a ufunc with target='parallel', or somebody else's: publish one of the default target")
    raise Refused(f"it is a {type(public).__name__}: publish what @njit, @vectorize, @guvectorize or @cfunc return")


def name_of(public: Any) -> str:
    """What a person calls it."""
    found = python_function(public)
    return str(getattr(found, "__qualname__", type(public).__name__))


def unusable(public: Any, reason: str) -> manifests.Function | None:
    """A function that only Numba can run, if it can be imported where that is done."""
    found = python_function(public)
    said = None if found is None else _said(found)
    if said is None or said["source"] is None:
        return None
    return manifests.Function("numba", reason=reason, **said)


def _key_of(library: Any) -> str:
    """The key of the entry that a library's code came from, or went to.  Raises Refused."""
    unit = own_attributes.unit_of(library)
    if unit is None:
        reason = own_attributes.taint_of(library) or "it was compiled before nbcache was on, or can't be cached"
        raise Refused(f"it is in no entry of the store: {reason} (see `nbcache why`)")
    key: str = unit.key
    return key


# -- the kinds -------------------------------------------------------------------------------------


def _njit(dispatcher: Any, wanted: Wanted, codes: Codes) -> manifests.Function:
    chosen = list(dispatcher.overloads) if wanted is None else wanted
    if wanted is None:
        # Calls in compiled code have constants as types, and none from Python does.
        chosen = [args for args in chosen if tuple(map(types.unliteral, args)) == args] or chosen
    if not chosen:
        raise Refused(_NOT_YET)
    signatures = tuple(_signature(dispatcher.overloads[args], codes) for args in chosen)
    parameters = list(inspect.signature(dispatcher.py_func).parameters.values())
    star = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL
    defaults = tuple(map(_default, dispatcher.py_func.__defaults__ or ()))
    names = tuple(each.name for each in parameters)
    more = {"parameters": names, "defaults": defaults, "star": star, **_said(dispatcher.py_func)}
    return manifests.Function("njit", signatures=signatures, **more)


def _default(value: Any) -> manifests.Constant | None:
    """A default value; None for one that no node can make, as it may be compiled into the code all the same."""
    try:
        return constant(value, "a default value")
    except Refused:
        return None


def _signature(cres: Any, codes: Codes) -> manifests.Signature:
    if cres.objectmode or cres.lifted:
        raise Refused(OBJECT_MODE)
    args = tuple(map(type_data, cres.signature.args))
    check_result(cres.signature.return_type)
    number = codes.add(cres.library, _key_of(cres.library))
    symbol = cres.fndesc.llvm_cpython_wrapper_name
    return manifests.Signature(number, symbol, args, str(cres.signature.return_type), ())


def _ufunc(public: Any, wanted: Wanted, codes: Codes) -> manifests.Function:
    overloads = public._dispatcher.overloads
    loops = [(key, cres) for key, cres in overloads.items() if wanted is None or tuple(key.args) in wanted]
    if not loops:
        raise Refused(_NOT_YET)
    signatures = []
    for key, cres in loops:
        # What kernels return is what they were asked to, which their own signature may say in wider types.
        returns = key.return_type or cres.signature.return_type
        signatures.append(_loop(cres, "ufunc wrapper", [*key.args, returns], codes))
    identity = _REORDERABLE if public.identity is None and public.reorderable else _IDENTITIES[public.identity]
    facts = rare_parts.Ufunc(public.nin, public.nout, identity, None)
    return manifests.Function("ufunc", signatures=tuple(signatures), ufunc=facts, **_said(python_function(public)))


def _gufunc(public: Any, _wanted: Wanted, codes: Codes) -> manifests.Function:
    builder = public.gufunc_builder
    if builder.writable_args:
        raise Refused(
            "it writes to its inputs (writable_args), as NumPy lets only Numba's own ufuncs: write to an output"
        )
    if not builder._sigs:
        raise Refused(_NOT_YET)
    results = [builder._cres[each] for each in builder._sigs]
    signatures = tuple(_loop(cres, "gufunc wrapper", cres.signature.args, codes) for cres in results)
    facts = rare_parts.Ufunc(len(builder.sin), len(builder.sout), builder.identity, builder.signature)
    return manifests.Function("gufunc", signatures=signatures, ufunc=facts, **_said(builder.py_func))


def _loop(cres: Any, kind: str, operands: Iterable[Any], codes: Codes) -> manifests.Signature:
    if cres.objectmode or cres.lifted:
        raise Refused(OBJECT_MODE)
    wrapper = own_attributes.wrapper_of(cres.library, kind)
    if wrapper is None:
        _key_of(cres.library)
        raise Refused("the loop around its kernel is in no entry of the store: compile it while nbcache is on")
    unit, library, symbol = wrapper
    number = codes.add(library, unit.key)
    return manifests.Signature(number, symbol, (), "", loop_dtypes(operands))


def _cfunc(public: Any, _wanted: Wanted, codes: Codes) -> manifests.Function:
    signature = public._sig
    taken = c_types([*signature.args, signature.return_type])
    number = codes.add(public._library, _key_of(public._library))
    found = manifests.Signature(number, public._wrapper_name, (), str(signature.return_type), taken)
    names = tuple(inspect.signature(public._pyfunc).parameters)
    return manifests.Function("cfunc", signatures=(found,), parameters=names, **_said(public._pyfunc))


_DESCRIBERS = ((Dispatcher, _njit), (DUFunc, _ufunc), (GUFunc, _gufunc), (CFunc, _cfunc))


# -- what a function says of itself ----------------------------------------------------------------


def _said(python_function: Any) -> dict[str, Any]:
    return {
        "name": python_function.__name__,
        "module": python_function.__module__,
        "doc": python_function.__doc__,
        "source": _source(python_function),
    }


def _source(python_function: Any) -> str | None:
    """Where a function can be imported from, if anywhere."""
    module, qualname = python_function.__module__, python_function.__qualname__
    if module in sys.modules and module != "__main__":
        with suppressed(Exception):  # a module's __getattr__ may raise anything
            resolve(module, qualname)
            return f"{module}:{qualname}"
    return None
