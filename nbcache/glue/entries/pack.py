"""Compile results as sections of an entry, and back.

``meta`` is a pickle of plain data, made by Numba's own pickler: what is needed to rebuild a
CompileResult around the object code.  Objects that only mean something in a process (dispatchers,
classes from ``__main__``) stand in it as tokens, like those in the object code.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from typing import TYPE_CHECKING, Any

from numba.core import types
from numba.core.dispatcher import LiftedLoop
from numba.core.environment import lookup_environment
from numba.core.typed_passes import _reload_parfors

from nbcache.glue import own_attributes
from nbcache.glue.capture import diagnostics, placeholders
from nbcache.glue.capture.addresses import has_bare, has_state
from nbcache.glue.capture.compilations import Effect, build_in
from nbcache.glue.entries import front_end
from nbcache.glue.entries.callees import callees_of, packed, symbols_in
from nbcache.glue.entries.externals import addresses
from nbcache.glue.entries.meta import (
    CALLEES,
    Asked,
    Environments,
    LibraryMeta,
    LiteralsMeta,
    LiteralsRequested,
    Meta,
    Packed,
    Symbols,
)
from nbcache.glue.entries.pickling import constants, dumps, dumps_each
from nbcache.glue.entries.verdicts import Unstorable
from nbcache.glue.identity.asked_names import Consulted
from nbcache.glue.identity.node import Unresolvable
from nbcache.glue.keys import targets
from nbcache.glue.keys.conditions import META_VERSION
from nbcache.glue.keys.key_maker import HIDDEN_LOOPS
from nbcache.glue.keys.units import StencilUnit, Unit
from nbcache.glue.own_attributes import taint_of
from nbcache.passing_exceptions import let_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbcache.glue.capture.compilations import Frame, FrameStack
    from nbcache.glue.entries.wrappers import LibraryUnit
    from nbcache.glue.overloads.uses import Uses

_ENVIRONMENT_PREFIXES = ("_ZN08NumbaEnv", ".NumbaEnv")


def pack(unit: Unit, frame: Frame, cres: Any, owners: Mapping[str, str], uses: Uses, past: str) -> Packed:
    """Turn a fresh result into an entry's sections.  Raises Unstorable.

    *owners* maps build ids to the keys of their units, for the other halves of recursions; *uses*
    and the *past* that they need are `History`'s.
    """
    if any(initialise is not _reload_parfors for initialise in cres.reload_init or ()):
        raise Unstorable("its pipeline initialises something when it is loaded")
    if frame.consulted.conflict:
        raise Unstorable(frame.refusal)
    look_again(unit)
    _refuse_hidden_loops(unit, frame)
    library = cres.library
    library._ensure_finalized()
    reason = frame.taint or taint_of(library)
    if reason:
        raise Unstorable(reason)
    if library.has_dynamic_globals:
        # Decided on the final module, a caller's as well: most addresses that lowering puts in are optimised away.
        what = addresses.get(library._dynamic_globals[0], "something in this process")
        raise Unstorable(f"it has the address of {what} built in", linkable=True)
    module = str(library._final_module)
    try:
        meta = _meta_of(unit, frame, cres, owners, uses, is_exact=targets.is_exact(module))
        data = dumps(meta.packed(), frame, for_entry=True)
        asked = _asked(frame)
    except Unstorable:
        raise
    except Unresolvable as exc:
        raise Unstorable(str(exc), linkable=not frame.taint) from exc
    except Exception as exc:
        let_pass(exc)
        raise Unstorable(f"it can't be written down ({type(exc).__name__}: {exc})", linkable=not frame.taint) from exc
    if frame.taint:
        raise Unstorable(frame.taint)
    return _sections(unit, library, module, meta, data, past, asked)


def look_again(unit: Unit) -> None:
    """See that compiling changed nothing of what *unit* was identified by: a counter, a setting that is read once.

    Which of the two its code was made from can't be told, and a process that asks for it has seen one of them only.
    """
    change = unit.change()
    if change:
        raise Unstorable(change, linkable=True)


def _refuse_hidden_loops(unit: Unit, frame: Frame) -> None:
    """Refuse what is compiled otherwise than it would be outside a parallel loop, where its key doesn't tell."""
    if not unit.is_parallel and unit.maker.hides_loops(frame.consulted):
        raise Unstorable(HIDDEN_LOOPS, linkable=True)


def pack_request(unit: Unit, frame: Frame, request: LiteralsRequested, uses: Uses, past: str) -> Packed:
    """Turn a *request* for literals into an entry's sections.  Raises Unstorable."""
    if frame.refusal:
        raise Unstorable(frame.refusal)
    look_again(unit)
    _refuse_hidden_loops(unit, frame)
    try:
        meta = LiteralsMeta(request, uses, diagnostics.pack(frame), frame.consulted)
        data = dumps(meta.packed(), frame, for_entry=True)
        asked = _asked(frame)
    except Exception as exc:
        let_pass(exc)
        raise Unstorable(f"it can't be written down ({type(exc).__name__}: {exc})") from exc
    definitions = definitions_in(data, asked.asks, unit)
    guard = _guard(definitions, past, frame.consulted)
    sections = encoded(unit, b"", data, definitions, asked)
    sections[front_end.SECTION] = front_end.section_of_request(request.positions)
    return Packed(sections, guard, strict=True)


def pack_library(unit: LibraryUnit, library: Any, name: str) -> Packed:
    """Turn a library, of which the function called *name* is wanted, into an entry's sections.  Raises Unstorable."""
    library._ensure_finalized()
    reason = taint_of(library)
    if reason or library.has_dynamic_globals:
        raise Unstorable(reason or "it has the address of something in this process built in")
    module = str(library._final_module)
    has_callees, is_exact = bool(callees_of(library)), targets.is_exact(module)
    meta = LibraryMeta(library.name, symbols_in(library), has_callees, is_exact, name)
    return _sections(unit, library, module, meta, pickle.dumps(meta.packed(), protocol=4))


def _sections(
    unit: Unit | LibraryUnit,
    library: Any,
    module: str,
    meta: Meta | LibraryMeta,
    data: bytes,
    past: str = "",
    asked: Asked | None = None,
) -> Packed:
    if has_bare(module):
        raise Unstorable("it has a number built in that it takes for an address in this process")
    if has_state(module):
        raise Unstorable("it has a variable of its own, which it may change")
    code = bytes(library._get_compiled_object())
    asked = asked or Asked(b"", {}, b"")
    callees = packed(callees_of(library)) if meta.has_callees else b""
    definitions = definitions_in(code + callees + data, asked.asks, unit)
    sections = encoded(unit, code, data, definitions, asked)
    if callees:
        sections[CALLEES] = callees
    front = front_end.section_of(library, code)
    if front is not None:
        sections[front_end.SECTION] = front
    # Not of _get_module_for_linking(): that makes a copy, which few functions ever need.
    sections["bitcode"] = library._final_module.as_bitcode()
    own_attributes.keep_meta(library, meta, definitions)
    guard = _guard(definitions, past, meta.consulted if isinstance(meta, Meta) else None)
    return Packed(sections, guard, strict=targets.is_strict(module))


def _asked(frame: Frame) -> Asked:
    consulted = frame.consulted
    asks = dumps_each(consulted.asks, frame)
    ran = consulted.ran_digest, tuple(sorted(consulted.ran))
    unread, declined, after = consulted.unread, consulted.declined, consulted.after
    return Asked(consulted.packed, consulted.snapshot, asks, unread, ran, declined, after, consulted.alike)


def encoded(
    unit: Unit | LibraryUnit, code: bytes, data: bytes, definitions: dict[str, placeholders.Definition], asked: Asked
) -> dict[str, bytes]:
    """The sections that every entry has.  Raises Unidentifiable."""
    head = pickle.dumps((META_VERSION, definitions, *asked), protocol=4)
    text = json.dumps(unit.components(), ensure_ascii=False)
    return {
        "meta": len(head).to_bytes(8, "little") + head + data,
        "object": code,
        "components": text.encode("utf-8", "surrogatepass"),
    }


def definitions_in(data: bytes, asks: bytes, unit: Unit | LibraryUnit) -> dict[str, placeholders.Definition]:
    """What the tokens in an entry's code and metadata stand for, and in its questions.  Raises Unstorable."""
    in_asks = placeholders.tokens_in(asks)
    found = placeholders.tokens_in(data) | in_asks
    if not found <= placeholders.definitions.keys():
        raise Unstorable("it refers to something whose definition is lost")
    try:
        defined = _before_asking(unit, in_asks) if isinstance(unit, Unit) and in_asks else {}
        return {token: defined.get(token) or placeholders.definition_for(token, unit.reach) for token in sorted(found)}
    except Unresolvable as exc:
        raise Unstorable(str(exc), linkable=True) from exc


def _before_asking(unit: Unit, tokens: set[str]) -> dict[str, placeholders.Definition]:
    """What they stand for among what whoever loads the entry reaches before any chooser has answered there."""
    answered = unit.asks
    unit.answered(())
    try:
        return {token: placeholders.definition_for(token, unit.reach) for token in tokens}
    finally:
        unit.answered(answered)


def _guard(definitions: dict[str, placeholders.Definition], past: str, consulted: Consulted | None) -> str:
    """The same for two builds that may stand in for one another wherever one of them may be used."""
    registered: list[object] = []
    if consulted is not None:
        registered = [*sorted(consulted.snapshot.items()), *(ask.answer for ask in consulted.asks)]
        registered += filter(None, [consulted.unread, consulted.ran_digest])
    if not definitions and not past and not registered:
        return ""
    text = "\n".join([*sorted(map(repr, definitions.values())), past, *map(repr, registered)])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_DESCRIBED = (
    "native", "unique_name", "args", "kws", "restype", "mangled_name", "env_name", "inline", "noalias", "abi_tags",
)  # fmt: skip
"""Attributes of a FunctionDescriptor that say something of the code; the others are the live function's."""


def _meta_of(unit: Unit, frame: Frame, cres: Any, owners: Mapping[str, str], uses: Uses, *, is_exact: bool) -> Meta:
    symbols, fndesc, callees = symbols_in(cres.library), cres.fndesc, callees_of(cres.library)
    objects = [symbols, *(each.symbols for each in callees)]
    descriptor = {name: getattr(fndesc, name) for name in _DESCRIBED}
    # What is None here is the unit's.
    descriptor["argtypes"] = None if tuple(fndesc.argtypes) == tuple(unit.args) else fndesc.argtypes
    descriptor["uid"] = getattr(fndesc, "uid", None)
    return Meta(
        name=cres.library.name,
        symbols=symbols,
        has_callees=bool(callees),
        is_exact=is_exact,
        descriptor=descriptor,
        args=None if tuple(cres.signature.args) == tuple(unit.args) else cres.signature.args,
        return_type=cres.signature.return_type,
        module=unit.function.__module__,
        consts=constants(cres.environment.consts, frame) if cres.environment is not None else None,
        environments=_environments_in(frame, cres, dict.fromkeys(name for each in objects for name in each.variables)),
        generator=_generator_symbol(cres),
        objectmode=cres.objectmode,
        # Blocks are in the code, pickled, and Numba reads them there when they are first entered.
        lifted=tuple(each for each in cres.lifted or () if isinstance(each, LiftedLoop)),
        has_blocks=bool(cres.lifted),
        neighborhood=unit.owner.neighborhood if isinstance(unit, StencilUnit) else None,
        needs=_needs(objects, cres.library.codegen._rtlinker.PREFIX, owners),
        uses=uses,
        caveats=diagnostics.pack(frame),
        consulted=frame.consulted,
    )


def _needs(objects: list[Symbols], prefix: str, owners: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(symbol, key, build) of functions that recursive code calls and that lie in other entries.

    Numba calls a function that is still being compiled through a pointer filled in later.
    """
    found = []
    for symbol in _left_open(objects, prefix):
        build = build_in(symbol)
        key = owners.get(build) if build is not None else None
        if build is None or key is None:
            raise Unstorable("it is part of a recursion through a function that can't be cached", linkable=True)
        found.append((symbol, key, build))
    return found


def _left_open(objects: list[Symbols], prefix: str) -> list[str]:
    """The functions that recursive code calls and that aren't in the entry with it."""
    called = {name[len(prefix) :] for each in objects for name in each.unresolved}
    return sorted(called.difference(*(each.functions for each in objects)))


def note_other_halves(frames: FrameStack, library: Any, owners: Mapping[str, str]) -> None:
    """Note for the frames that are open which of their own functions a *library* calls: nobody compiles those again."""
    prefix = library.codegen._rtlinker.PREFIX
    if prefix.encode() not in library._get_compiled_object():
        return
    keys = {
        owners.get(build) for build in map(build_in, _left_open([symbols_in(library)], prefix)) if build is not None
    }
    for half in frames.units():
        if half.kind == "dispatcher" and half.key in keys:
            frames.note(Effect("dispatcher", half.owner, half.args, None, (), True))


def _generator_symbol(cres: Any) -> str | None:
    """The name of the function that resumes the generator which this function returns."""
    if not isinstance(cres.fndesc.restype, types.Generator):
        return None
    return cres.target_context.get_generator_desc(cres.fndesc.restype).mangled_name


def _environments_in(frame: Frame, cres: Any, variables: Iterable[str]) -> Environments:
    """(name, module, constants) of the environments of functions linked into this one."""
    found = []
    for name in variables:
        if not name.startswith(_ENVIRONMENT_PREFIXES) or name == cres.fndesc.env_name:
            continue
        environment = lookup_environment(name)
        if environment is None:
            continue
        scope = environment.globals
        module = scope.get("__name__")
        if not isinstance(module, str) or getattr(sys.modules.get(module), "__dict__", None) is not scope:
            # A parallel loop's function, made with exec.  Only object mode looks at globals, which is never linked.
            module = "builtins"
        found.append((name, module, constants(environment.consts, frame)))
    return found
