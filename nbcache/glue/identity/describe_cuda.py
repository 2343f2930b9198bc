"""Descriptions of what numba-cuda makes: kernels and device functions, declared functions, code that is linked.

By name: a process that doesn't use numba-cuda never imports any of it, nor does this.
"""

from __future__ import annotations

import hashlib
import os
import sys
import weakref
from typing import Any

from nbcache.glue import own_attributes
from nbcache.glue.identity.describe_functions import edge_to_code, function_name
from nbcache.glue.identity.node import Describer, Node, Unidentifiable
from nbcache.glue.identity.ownership import toolchain_name
from nbcache.passing_exceptions import let_pass
from nbcache.records import Record


class Declaration(Record):
    """What a device function was declared with, besides its signature; ``link`` in an order of our own."""

    link: tuple[Any, ...]
    use_cooperative: bool
    abi: str


_OF_THE_PROCESS = frozenset({"extensions", "link"})
"""Options that say nothing of the code by themselves: what marshals arguments, and names of files."""


def _describe_kernel(node: Node, dispatcher: Any) -> None:
    """A kernel or device function: its function and options, and the overloads of one that compiles no more."""
    node.title = f"{type(dispatcher).__name__} {function_name(dispatcher.py_func)}"
    weakly = weakref.proxy(dispatcher)
    node.watch_attribute(weakly, "py_func", dispatcher.py_func)
    pipeline = dispatcher._compiler.pipeline_class
    node.compiled &= dispatcher.targetoptions.get("inline", "never") == "never" and toolchain_name(pipeline) is not None
    edge_to_code(node, "py_func", dispatcher.py_func)
    node.compiled = False
    for option, value in sorted(dispatcher.targetoptions.items()):
        if option not in _OF_THE_PROCESS:
            node.watch_item(dispatcher.targetoptions, option, value)
            node.value(f"option {option}", value)
    links = dispatcher.targetoptions.get("link")
    if links:
        _describe_links(node, links)
    node.edge("pipeline", pipeline)
    name = toolchain_name(type(dispatcher))
    if name is None:
        raise Unidentifiable(f"{type(dispatcher).__qualname__}, a kind of kernel that numba-cuda doesn't know")
    node.part("class", name.encode(), name)
    can_compile = dispatcher._can_compile
    node.watch_attribute(weakly, "_can_compile", can_compile)
    node.part("can compile", b"%d" % can_compile, str(can_compile))
    if not can_compile and dispatcher.targetoptions.get("device"):
        # Calls are resolved among what there is, with conversions: what there is decides.
        known = weakref.ref(dispatcher)
        node.part("overloads made from", node.check(_births, known))
        for i, overload in enumerate(dispatcher.overloads.values()):
            node.value(f"overload {i}", (*overload.signature.args, overload.signature.return_type))
    # Nothing that an option holds is edited in place but what is watched.
    node.volatile = False


def _births(known: weakref.ref[Any]) -> bytes:
    dispatcher: Any = known()
    found = [own_attributes.birth_of(dispatcher, args) for args in dispatcher.overloads]
    if None in found:
        raise Unidentifiable("a device function that was compiled before the cache was switched on")
    return repr(found).encode()


def _describe_links(node: Node, links: Any) -> None:
    for i, each in enumerate(links):
        if isinstance(each, str):
            node.part(f"link {i}", node.check(_content, each), os.path.basename(each))
        else:
            node.edge(f"link {i}", each)


def _content(path: str) -> bytes:
    """What identifies a file that is linked, which is read each time: its kind and its content."""
    return os.path.splitext(path)[1].encode() + digest_of_file(path)


def digest_of_file(path: str) -> bytes:
    """Digest of a file's content.  Raises Unidentifiable."""
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=32).digest()
    except (OSError, ValueError) as raised:
        let_pass(raised)
        raise Unidentifiable(f"the file {os.path.basename(path)}, which is linked and can't be read") from raised


def _describe_linkable(node: Node, code: Any) -> None:
    """Code in memory that is linked; what is called when its module is loaded is the live object's own."""
    node.title = f"{type(code).__name__} {code.name}"
    node.part("content", node.check(_data_of, code))
    node.value("nrt", bool(code.nrt))
    node.value("callbacks", (code.setup_callback is not None, code.teardown_callback is not None))


def _data_of(code: Any) -> bytes:
    data = code.data
    content = data.encode() if isinstance(data, str) else bytes(data)
    return hashlib.blake2b(content, digest_size=32).digest()


def declaration_of(function: Any) -> Declaration | None:
    """What a function was declared with, whenever that was; None if numba-cuda doesn't tell.

    It keeps that where calls are lowered: in the closure that calls the function, and in a library without code.
    """
    descriptor = sys.modules.get("numba.cuda.descriptor")
    try:
        ((_types, call),) = descriptor.cuda_target.target_context._defns.get(function).versions  # type: ignore[union-attr]
        (library,), (called,) = call.libs, call.__defaults__
        abi = _ABIS[type(called.call_conv).__name__]
        return Declaration(tuple(sorted(library._linking_files, key=_name_of)), bool(library.use_cooperative), abi)
    except (AttributeError, TypeError, ValueError, KeyError):
        return None


_ABIS = {"CUDACallConv": "numba", "CUDACABICallConv": "c"}


def _name_of(link: Any) -> tuple[str, str]:
    """By what linked code is put in order: numba-cuda keeps it in a set."""
    return (type(link).__name__, link if isinstance(link, str) else link.name)


def _describe_declared(node: Node, function: Any) -> None:
    """A function that is declared and comes out of linked code."""
    node.title = f"declared {function.name}"
    node.value("signature", (*function.sig.args, function.sig.return_type))
    declared = declaration_of(function)
    if declared is None:
        raise Unidentifiable(f"{function.name}, of which numba-cuda doesn't tell how it was declared")
    node.value("declared", (declared.use_cooperative, declared.abi))
    _describe_links(node, declared.link)


def _describe_intrinsic(node: Node, intrinsic: Any) -> None:
    node.title = f"intrinsic {function_name(intrinsic._defn)}"
    node.compiled = False
    node.edge("definition", intrinsic._defn)
    node.value("options", tuple(sorted(intrinsic._ctor_kwargs.items())))
    node.value("prefer_literal", bool(intrinsic._prefer_literal))


BY_NAME: dict[str, Describer] = {
    "numba.cuda.compiler:ExternFunction": _describe_declared,
    "numba.cuda.cudadrv.linkable_code:LinkableCode": _describe_linkable,
    "numba.cuda.dispatcher:CUDADispatcher": _describe_kernel,
    "numba.cuda.extending:_Intrinsic": _describe_intrinsic,
}
