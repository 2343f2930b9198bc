"""What object mode finds when it runs: what the blocks of ``objmode`` in compiled code name.

Such a block is lifted out and compiled in object mode.  Python looks a global up by its name when the block runs.  What
a closure has is bound to the block as the very object that it is, or pickled where nobody can tell a copy from it.  So
of what only such blocks read counts what is pickled, and where that is found which is pickled by reference.  The rest
is only referred to, by the name of a variable.
"""

from __future__ import annotations

import enum
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import objmode
from numba.core import pylowering
from numba.core.dispatcher import Dispatcher, LiftedCode
from numba.core.extending import _Intrinsic
from numba.core.types.abstract import Type
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.stencils.stencil import StencilFunc

from nbcache.glue.identity.blocks import blocks_of
from nbcache.glue.identity.bytecode import CodePlan, Variable, variables_of
from nbcache.glue.identity.constant_bytes import encode_value
from nbcache.glue.identity.node import Node
from nbcache.glue.identity.only_named import refer, reference_to
from nbcache.glue.identity.ownership import module_name, toolchain_name

DEFINITIONS = (type, FunctionType, Dispatcher, DUFunc, GUFunc, StencilFunc, _Intrinsic)
"""What a compiled function means as this very object, never as a copy."""
_BY_REFERENCE = (*DEFINITIONS, Type, LiftedCode, CodeType, enum.Enum, np.ufunc)
_UNDEFINED = getattr(pylowering, "_UNDEFINED", None)
"""What object mode puts into variables before they are assigned; nobody gets to see it."""


def is_value(obj: Any) -> bool:
    """Whether nobody can tell *obj* from what it is pickled as: it can't change, or it is pickled by where it is."""
    if encode_value(obj) is not None or obj is _UNDEFINED:
        return True
    if type(obj) is tuple or type(obj) is frozenset:
        return all(map(is_value, obj))
    if isinstance(obj, ModuleType):
        return sys.modules.get(obj.__name__) is obj
    return isinstance(obj, _BY_REFERENCE) or toolchain_name(obj) is not None


def with_blocks(plan: CodePlan, function: FunctionType) -> CodePlan:
    """The *plan* of a *function*'s code with what only its blocks of ``objmode`` read."""
    blocks = blocks_of(function.__code__)
    if blocks is None or not all(_found(function, *context) is objmode for context in blocks.contexts):
        return plan
    return plan._replace(inside=blocks.inside)


def _found(function: FunctionType, variable: Variable, chain: tuple[str, ...]) -> object:
    """What is found by a *variable* and attributes of modules; None if it isn't."""
    value = dict(variables_of(function)).get(variable)
    for attribute in chain:
        value = vars(value).get(attribute) if isinstance(value, ModuleType) else None
    return value


def refer_from_block(node: Node, label: str, value: object) -> bool:
    """Add to *node* what such a variable holds; False if it has to be described."""
    if isinstance(value, ModuleType):
        node.part(label, (module_name(value.__name__) or "").encode(), f"module {value.__name__}")
        return True
    if isinstance(value, Dispatcher):
        node.edge(label, reference_to(value))
        return True
    if toolchain_name(value) is None and refer(node, label, value):
        return True
    return not is_value(value)
