"""The objects of callees that code was bound to when it was compiled, where its results depend on that.

Numba links callees into their caller. What LLVM doesn't inline there is in the caller's object once more, optimised
again, and weak: a process that compiles has the callee's own object by then, and binds the calls to that. Of exact code
the two compute the same. Where LLVM may reorder or contract (``fastmath``) they needn't, so an entry has the callees'
own objects in a section of its own, and a hit first loads those that the process doesn't have yet.

Exact code, and whatever has all its callees inlined, which is nearly all code, has no such section.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from nbcache import elf
from nbcache.glue import own_attributes
from nbcache.glue.capture.addresses import has_bare, has_state
from nbcache.glue.entries.meta import Callee, Symbols
from nbcache.glue.entries.verdicts import Unstorable
from nbcache.glue.keys import targets
from nbcache.passing_exceptions import suppressed


def callees_of(library: Any) -> list[Callee]:
    """Those that a finished library's code was bound to and that aren't exact, each after what it calls itself.

    Raises Unstorable.
    """
    found: list[Callee] = own_attributes.once(library, own_attributes.CALLEES, lambda: list(_called_by(library)))
    return found


def packed(callees: Iterable[Callee]) -> bytes:
    """The section."""
    return pickle.dumps([(each.function, tuple(each.symbols), each.code) for each in callees], protocol=4)


def symbols_in(library: Any) -> Symbols:
    """The symbols of a finished library's object.  Raises Unstorable."""
    undefined, functions, variables, _weak = _symbols_of(library)
    prefix = library.codegen._rtlinker.PREFIX
    unresolved = tuple(name for name in undefined if name.startswith(prefix))
    externals = tuple(name for name in undefined if not name.startswith(prefix))
    return Symbols(functions, externals, variables, unresolved)


def _called_by(library: Any) -> Iterator[Callee]:
    # Nearly all code has Numba's runtime inside, which is exact.
    pending = [name for name in _symbols_of(library).weak if not name.startswith("NRT_")]
    if not pending:
        return
    linked = [each for each in _linked(library) if _has_object(each)]
    owners = {name: place for place, each in enumerate(linked) for name in _own_functions(each)}
    wanted: set[int] = set()
    while pending:
        place = owners.get(pending.pop())
        if place is not None and place not in wanted and not _is_exact(linked[place]):
            wanted.add(place)
            pending += _symbols_of(linked[place]).weak
    for place in sorted(wanted):
        yield linked[place] if isinstance(linked[place], Callee) else _callee(linked[place])


def _linked(library: Any) -> Iterator[Any]:
    """Yield each library that was linked into one, behind those that were linked into it.

    One that came out of an entry has no others, but the callees that the entry has.
    """
    seen = {id(library)}
    open_libraries = [iter(library._linking_libraries)]
    behind: list[Any] = []
    while open_libraries:
        each = next(open_libraries[-1], None)
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            behind.append(each)
            open_libraries.append(iter(each._linking_libraries))
        elif each is None:
            open_libraries.pop()
            if behind:
                done = behind.pop()
                yield from () if done._linking_libraries else getattr(done, own_attributes.CALLEES, ())
                yield done


def _callee(library: Any) -> Callee:
    module = str(library._final_module)
    if library.has_dynamic_globals or has_bare(module) or has_state(module):
        raise Unstorable("something that it calls has an address or a variable of this process built in", linkable=True)
    return Callee(_own_functions(library)[0], symbols_in(library), bytes(library._get_compiled_object()))


def _has_object(library: Any) -> bool:
    """Whether a library's object was kept.  Raises Unstorable where it would matter."""
    if isinstance(library, Callee):
        return True
    with suppressed(ValueError, RuntimeError):  # what Numba raises where it wasn't
        _symbols_of(library)
        return True
    if not _is_exact(library):
        raise Unstorable("it was compiled with something whose own code wasn't kept", linkable=True)
    return False


def _symbols_of(library: Any) -> elf.Symbols:
    if isinstance(library, Callee):
        return _parsed(library.code)
    found: elf.Symbols = own_attributes.once(
        library, own_attributes.SYMBOLS, lambda: _parsed(bytes(library._get_compiled_object()))
    )
    return found


def _parsed(code: bytes) -> elf.Symbols:
    symbols = elf.symbols_of(code)
    if symbols is None:
        raise Unstorable("its object code is in no format that is known")
    return symbols


def _own_functions(library: Any) -> list[str]:
    symbols = _symbols_of(library)
    return [name for name in symbols.functions if name not in symbols.weak]


def _is_exact(library: Any) -> bool:
    if isinstance(library, Callee):
        return False
    if own_attributes.has_meta(library):  # to print its module takes longer than to load it
        return bool(own_attributes.meta_of(library)[0].is_exact)
    found: bool = own_attributes.once(
        library, own_attributes.EXACT, lambda: targets.is_exact(str(library._final_module))
    )
    return found
