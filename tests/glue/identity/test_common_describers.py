"""What is described without the tables of all kinds is described as they say."""

import pytest
from numba.core import types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import FunctionTemplate

from nbcache.glue.identity import describe, describe_c_functions, describe_cuda, describe_numpy, describe_python, kinds


def everything_below(cls):
    yield cls
    for derived in type.__subclasses__(cls):
        yield from everything_below(derived)


class Address(types.WrapperAddressProtocol):
    pass


class AddressAndType(types.WrapperAddressProtocol, types.Opaque):
    pass


class OfSomebody(CPUDispatcher):
    pass


class CallbackAndDispatcher(CFunc, CPUDispatcher):
    pass


Disguised = type("CUDADispatcher", (CPUDispatcher,), {"__module__": "numba.cuda.dispatcher"})
CLASSES = [
    *everything_below(types.Type),
    *everything_below(Dispatcher),
    *everything_below(FunctionTemplate),
    *kinds.DESCRIBERS,
    Address,
    AddressAndType,
    OfSomebody,
    CallbackAndDispatcher,
    Disguised,
    CFunc,
    object,
]


def test_every_class_has_the_describer_that_the_tables_give_it():
    assert len(CLASSES) > 200
    for cls in CLASSES:
        assert describe._describer_for(cls) == kinds.describer_for(cls), cls
    found = {describe._describer_for(cls) for cls in CLASSES}
    assert len(found) > 20


@pytest.mark.parametrize("tables", [describe_numpy, describe_python, describe_c_functions, describe_cuda])
def test_what_other_tables_have_is_not_of_numbas_core(tables):
    assert not [cls for cls in getattr(tables, "DESCRIBERS", ()) if str(cls.__module__).startswith("numba.core.")]
    assert not [name for name in getattr(tables, "BY_NAME", ()) if name.startswith("numba.core.")]
