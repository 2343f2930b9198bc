"""Kernels and device functions as requests: as `nbcache.glue.requests.requested`, for CUDA.

A request says the compute capability and what identifies the toolkit. Whoever carries it out needs no GPU: a stand-in
answers for the device (`nbcache.glue.cuda.absent_gpu`).
"""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from numba.core import serialize as host_serialize
from numba.cuda import serialize
from numba.cuda.compiler import ExternFunction, declare_device_function
from numba.cuda.dispatcher import CUDADispatcher

from nbcache import capabilities
from nbcache.file_trust import Trust
from nbcache.glue import own_attributes
from nbcache.glue.cuda import absent_gpu, seams
from nbcache.glue.cuda.compiling import CudaCompilations
from nbcache.glue.cuda.toolkit import capability, toolchain_components
from nbcache.glue.cuda.units import CudaUnit
from nbcache.glue.identity.describe_cuda import declaration_of
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.ownership import resolve as loaded
from nbcache.glue.requests import carrying_out, requested
from nbcache.glue.requests.carrying_out import EnvironmentRefusedError, RefusedError
from nbcache.glue.requests.requested import UnaskableError
from nbcache.protocol.requests import CUDA_KINDS, MAX_ITEMS, MAX_TEXT, Request

_TOOLKIT = ("toolchain/numba-cuda", "toolchain/cuda-core", "toolchain/cuda-bindings", "toolkit/")
"""The components of a key that say what compiles, beside what every function's key says."""


def request_for(unit: CudaUnit, *, explain: bool = True, by_value: bool = True) -> Request:
    """What to ask a daemon for, or to write into a warm list.  Raises UnaskableError."""
    kernel, device_function = CUDA_KINDS
    if unit.kind not in {kernel, device_function}:
        raise UnaskableError("what cuda.compile returns is compiled by whoever needs it")
    public = _public(unit.owner)
    asked = requested.request_for(unit, explain=explain, by_value=by_value, public=public, dump=_dump)
    return asked._replace(
        # In the order in which they registered something: it counts.
        modules=tuple(unit.registering_modules())[:MAX_ITEMS],
        toolchain=unit.summary()[:MAX_TEXT],
        cc=capabilities.spelt(unit.cc),
        toolkit=_toolkit(),
    )


def _toolkit() -> dict[str, str]:
    return {label: words for label, words in toolchain_components() if label.startswith(_TOOLKIT)}


def _public(owner: Any) -> Any:
    """What other processes find under the function's name, if that compiles the same; else the owner itself.

    `specialize` and launches make dispatchers of their own, for the same function and options.
    """
    named: Any = loaded(owner.py_func.__module__, owner.py_func.__qualname__)
    same = (
        type(named) is CUDADispatcher
        and named.py_func is owner.py_func
        and named._can_compile == owner._can_compile
        and named.targetoptions == owner.targetoptions
    )
    return named if same else owner


def _dump(public: Any, file: io.BytesIO) -> None:
    _Pickler(file, protocol=4).dump(public)


class _Pickler(serialize.NumbaPickler):
    """numba-cuda's pickler, naming what other processes can import, kernels and functions for the CPU alike."""

    # What is Numba's goes into the same pickle, or objects that both refer to would become two.
    dispatch_table: ClassVar = ChainMap(
        {host_serialize._CustomPickled: host_serialize._custom_reduce__custompickled},
        serialize.NumbaPickler.dispatch_table,
    )

    def reducer_override(self, obj: Any) -> Any:
        found = requested.by_name(obj) if isinstance(obj, (CUDADispatcher, *requested.NAMED)) else None
        if found is None:
            found = _made_again(obj)
        return super().reducer_override(obj) if found is None else found


def _made_again(obj: Any) -> Any | None:
    """How what numba-cuda's pickles lose a part of is pickled; None for all else."""
    if type(obj) is CUDADispatcher and obj.targetoptions.get("device") and not obj._can_compile:
        # Calls are resolved among the signatures that it has.
        signatures = [(args, _declared_type(obj, args)) for args in obj.overloads]
        return device_function, (obj.py_func, obj.targetoptions, signatures)
    if type(obj) is ExternFunction and (said := declaration_of(obj)) is not None:
        sig = obj.sig
        return declared_function, (obj.name, sig.return_type, sig.args, said.link, said.use_cooperative, said.abi)
    return None


def _declared_type(dispatcher: Any, args: Any) -> Any:
    """The return type that a device function was declared with for these arguments; None if it was left open."""
    birth = own_attributes.birth_of(dispatcher, args)
    return dispatcher.overloads[args].signature.return_type if birth is not None and birth.declared else None


def device_function(function: Any, options: dict[str, Any], signatures: list[tuple[Any, Any]]) -> Any:
    """A device function that has these signatures and gets no others, as one that was decorated with them."""
    made = CUDADispatcher(function, options)
    for args, return_type in signatures:
        made.compile_device(args, return_type)
    made.disable_compile()
    return made


def declared_function(name: str, return_type: Any, args: Any, link: Any, use_cooperative: bool, abi: str) -> Any:
    """A function that comes out of linked code, as ``declare_device`` returns one."""
    return declare_device_function(name, return_type, args, link, use_cooperative, abi).key


# -- the worker's side -------------------------------------------------------------------------


def carry_out(request: Request, trust: Trust, is_built: Callable[[str], bool], *, insist: bool) -> str | None:
    """As `carrying_out.carry_out`, for the compute capability of the request.  Raises RefusedError.

    This process builds for that one from now on, and for no other.
    """
    known = become_device(request.cc)
    if insist:
        _insist_on_toolkit(request)
    carrying_out.become(request.path, trust)
    public, types = carrying_out.fetch(request, insist=insist)
    if insist and is_built(request.key):
        return request.key
    if not isinstance(public, CUDADispatcher):
        raise RefusedError(f"{type(public).__name__} is nothing that can be compiled for a GPU")
    args, return_type = types or carrying_out.signature(request, public)
    if args in public.overloads:
        # Compiled where it is defined: under a key of that moment.
        return request.key if insist else None
    kind = request.kind

    def identify() -> CudaUnit:
        return known.unit(kind, public, args, return_type, capability())

    key = carrying_out.key_of(request, identify, insist=insist)
    if not is_built(key):
        with carrying_out.complaining():
            _compile(kind, public, args, return_type)
    return key


def become_device(cc: str) -> CudaCompilations:
    """Have this process build for the compute capability *cc*.  Raises RefusedError."""
    known = seams.known()
    if known is None:
        raise EnvironmentRefusedError("kernels aren't cached in this process")
    absent_gpu.install(capabilities.named(cc))
    return known


def import_trusted(name: str, cc: str, path: Iterable[str], trust: Trust) -> None:
    """Import a module as `carry_out` imports those of a request.  Raises RefusedError."""
    become_device(cc)
    carrying_out.import_trusted(name, path, trust)


def _insist_on_toolkit(request: Request) -> None:
    try:
        ours = _toolkit()
    except Unidentifiable as exc:
        raise EnvironmentRefusedError(f"it can't be built here: there is no {exc}") from exc
    for label in {**request.toolkit, **ours}:
        theirs, own = request.toolkit.get(label, "absent"), ours.get(label, "absent")
        if theirs != own:
            name = label.partition("/")[2]
            msg = f"{name} of the CUDA toolkit here is another than the client's ({own[:60]}, not {theirs[:60]})"
            raise EnvironmentRefusedError(msg)


def _compile(kind: str, public: Any, args: tuple[Any, ...], return_type: Any) -> None:
    if kind == CUDA_KINDS[0]:
        public.compile(args)
    else:
        public.compile_device(args, return_type)
