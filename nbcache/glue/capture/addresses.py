"""Addresses of this process inside compiled code, as symbols that every process binds anew.

Where Numba lowers a large array, a dispatcher as a value, a function of ctypes or cffi, or a jitclass's
box, it stores an address in the code.  While a frame is open such an address becomes an undefined
symbol instead, which is a token (placeholders.py) of a kind of its own: its definition says whose address it
is.  The symbol is bound to a cell that holds the live address, before the object that refers to it is
linked.

An address that belongs to nothing the unit reaches stays what it is, and makes the code uncacheable.
"""

from __future__ import annotations

import ctypes
import re
import sys
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np
from numba import njit
from numba.core import ir_utils, types

from nbcache.glue import own_attributes
from nbcache.glue.identity.marked_packages import is_installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbcache.glue.identity.counterparts import Reach

Owner = tuple[Any, ...]
"""Whose address: (kind, reference), or a name: ("native" or "exported", module, name), ("closure", recipe), ("library",
place)."""
NAMED = frozenset({"native", "exported", "closure", "library"})
"""Kinds that say what they mean in every process: Numba's own native functions, what Cython modules export, dispatchers
that Numba makes of closures in compiled code, and functions of libraries that the unit reaches."""


class Address:
    """An address and the object whose it is, if any, which lives as long as the library that refers to it."""

    def __init__(self, value: int, owner: object | None, *, made_for_it: bool = False) -> None:
        self.value = value
        self._owner = (lambda: None) if owner is None else weakref.ref(owner)
        self._kept = owner if made_for_it else None

    def handed_over(self) -> object:
        """The object, for somebody to hold from now on, or None when it is no more."""
        owner, self._kept = self.owner, None
        return owner

    @property
    def owner(self) -> object:
        """The object, or None when it is no more."""
        return self._owner()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


_cells: dict[str, ctypes.c_void_p] = {}


def provide(symbol: str, address: Address) -> None:
    """Define *symbol*: a pointer-sized variable that holds *address*; for good, code refers to it."""
    if symbol not in _cells:
        cell = _cells[symbol] = ctypes.c_void_p(address.value)
        llvm.add_symbol(symbol, ctypes.addressof(cell))


def owner_of(value: int, reach: Reach) -> tuple[Owner, Address] | None:
    """Whose address *value* is, or None when nothing, or more than one thing, has it."""
    found = _owners(value, reach.own_objects())
    if not found:
        # All that is reached by way of registrations comes last: it may be half of several packages.
        named = _native(value) or _exported(value) or _installed(value)
        if named is not None:
            return named
        found = _owners(value, reach.objects())
    if {kind for kind, _id in found} == {"function"}:
        from nbcache.glue.identity.c_functions import place_of

        place = place_of(value)
        if place is not None:
            return ("library", tuple(place)), Address(value, None)
    if len(found) != 1:
        return None
    ((kind, _id), obj), = found.items()  # fmt: skip
    return (kind, reach.lasting_reference(obj)), Address(value, obj)


def _installed(value: int) -> tuple[Owner, Address] | None:
    """The place of what lies in a library of an installed package."""
    from nbcache.glue.identity.c_functions import file_of, place_of

    place = place_of(value) if is_installed(file_of(value)) else None
    return None if place is None else (("library", tuple(place)), Address(value, None))


def owners_in_words(value: int, reach: Reach) -> str:
    """The arrays that begin at the address *value*, in words, where nobody can say whose it is for that; else ""."""
    found = (reach.variable_of(obj, "") for obj in _owners(value, reach.own_objects()).values())
    names = sorted({live.variable for live in found if live is not None})
    return f"the memory that the arrays {' and '.join(names)} share" if len(names) > 1 else ""


def _owners(value: int, objects: Iterable[object]) -> dict[tuple[str, int], object]:
    found = {}
    for obj in objects:
        for kind, address in _addresses_of(obj):
            if address == value:
                found[kind, id(obj)] = obj
        if ("object", value) in found:  # an object alone has its address, and the others may be thousands
            break
    return found


def owner_of_closure(value: int, closures: Iterable[Any], reach: Reach) -> tuple[Owner, Address] | None:
    """The same for dispatchers that Numba made of closures on the way, which are seldom found elsewhere."""
    for dispatcher in closures:
        if id(dispatcher) == value:
            code, *texts = vars(dispatcher.py_func)[own_attributes.RECIPE]
            place = reach.place_of(code)
            return None if place is None else (("closure", (*place, *texts)), Address(value, dispatcher))
    return None


def has_bare(module: str) -> bool:
    """Whether a final *module*, as text, follows numbers as pointers that somebody's own lowering put there."""
    return re.search(_BARE, module) is not None


_BARE = r"inttoptr \(i64 [0-9]{6,} to "
"""No object lies below the first hundred thousand bytes; small numbers stand for something else. Hits don't search."""


def has_state(module: str) -> bool:
    """Whether a final *module*, as text, has a variable that somebody's own lowering put there.

    Each function that is compiled has its own, and those of one key would share one.
    """
    return re.search(_STATE, module.partition("\ndefine ")[0]) is not None  # variables come first


_STATE = (
    r'(?m)^@(?!"?(?:[^" ]*NumbaEnv|cached_objmode_dispatcher|numba\.dynamic\.globals\.))(?:"[^"]*"|[^" ]+) = '
    r"(?!external )(?:[a-z_]+(?:\(\w+\))? )*global "
)
"""Numba's own are environments, and what is found once for a process."""


def locate(owner: Owner, reach: Callable[[], Reach]) -> Address:
    """The address that *owner* means here.

    Raises placeholders.Unresolvable for what isn't reachable, LookupError for a name that means nothing here.
    """
    if owner[0] in NAMED:
        return _named(owner, reach)
    kind, reference = owner
    obj = reach().referent(reference)
    return Address(dict(_addresses_of(obj, making=True))[kind], obj)


def _named(owner: Owner, reach: Callable[[], Reach]) -> Address:
    if owner[0] == "closure":
        digest, qualname, *texts = owner[1]
        function, code = reach().closure(digest, qualname)
        dispatcher = njit(ir_utils._create_function_from_code_obj(code, *texts, function.__globals__))
        return Address(id(dispatcher), dispatcher, made_for_it=True)
    if owner[0] == "library":
        return _address_at(owner[1], reach)
    return (_native_address if owner[0] == "native" else _exported_address)(*owner[1:])


def _address_at(place: tuple[Any, ...], reach: Callable[[], Reach]) -> Address:
    from nbcache.glue.identity.c_functions import Place, address_at

    where = Place._make(place)
    if address_at(where) is None:
        # The function is described by now, unless it is only reached by way of registrations.
        deque(reach().objects(), maxlen=0)
    value = address_at(where)
    if value is None:
        raise LookupError("it calls a function of a library that nothing leads to here")
    return Address(value, None)


def _addresses_of(obj: Any, *, making: bool = False) -> list[tuple[str, int]]:
    """(kind, address) of everything about *obj* that code may point to."""
    found = [("object", id(obj))]
    if isinstance(obj, np.ndarray):
        found.append(("data", obj.ctypes.data))
    elif isinstance(obj, types.ClassType):
        box = _box_of(obj, making=making)
        if box is not None:
            found.append(("box", id(box)))
    elif isinstance(obj, types.WrapperAddressProtocol):
        found.append(("function", obj.__wrapper_address__()))
    elif type(obj).__module__ == "numba.core.ccallback":
        found.append(("wrapper", obj._wrapper_address))
    else:
        from nbcache.glue.identity import c_functions  # what follows on arrays needs none of it

        if c_functions.is_ctypes_function(obj) or c_functions.is_cffi_function(obj):
            found.append(("function", c_functions.address_of(obj)))
    return found


def _box_of(class_type: types.ClassType, *, making: bool) -> Any | None:
    """The class of a jitclass's instances as Python sees them; making it compiles its accessors."""
    boxing = sys.modules["numba.experimental.jitclass.boxing"]
    instance = class_type.instance_type
    return boxing._specialize_box(instance) if making else boxing._cache_specialized_box.get(instance)


# -- what is known by its name -------------------------------------------------------------------


def _native(value: int) -> tuple[Owner, Address] | None:
    from nbcache.glue.identity import c_functions

    for name, module in sorted(sys.modules.items()):
        if name.startswith("numba."):
            for attribute, function in sorted(vars(module).items()):
                if c_functions.is_ctypes_function(function) and c_functions.address_of(function) == value:
                    return ("native", name, attribute), Address(value, function)
    return None


def _native_address(module: str, name: str) -> Address:
    from nbcache.glue.identity import c_functions

    if module == "numba.np.ufunc.parallel":
        from nbcache.glue import threads

        # It has these from the moment the threads are there, and compiling would have launched them.
        threads.launch()
    function = getattr(sys.modules[module], name)
    return Address(c_functions.address_of(function), function)


def _exported(value: int) -> tuple[Owner, Address] | None:
    from nbcache.glue.identity import c_functions

    name = c_functions.exported_as(value)
    return None if name is None else (("exported", *name), Address(value, sys.modules[name[0]]))


def _exported_address(module: str, name: str) -> Address:
    from nbcache.glue.identity import c_functions

    value = c_functions.exported_address(module, name)
    if value is None:
        raise LookupError(f"{module} exports no {name}")
    return Address(value, sys.modules[module])
