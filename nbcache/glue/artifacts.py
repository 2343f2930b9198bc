"""Compile results as sections of an entry, and back.

``meta`` is a pickle of plain data, made by Numba's own pickler: what is needed to rebuild a
CompileResult around the object code.  Objects that only mean something in a process (dispatchers,
classes from ``__main__``) stand in it as tokens, like those in the object code.
"""

from __future__ import annotations

import copyreg
import enum
import hashlib
import importlib
import io
import itertools
import json
import pickle
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from numba.core import compiler, funcdesc, ir, pylowering, types, typing
from numba.core.dispatcher import Dispatcher, LiftedCode, LiftedLoop, LiftedWith
from numba.core.environment import Environment, lookup_environment
from numba.core.errors import ForceLiteralArg
from numba.core.extending import _Intrinsic
from numba.core.generators import GeneratorDescriptor
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys
from numba.core.serialize import NumbaPickler
from numba.core.typed_passes import _reload_parfors
from numba.core.types.abstract import Type, _type_reconstructor
from numba.core.typing.templates import builtin_registry
from numba.np.ufunc import parallel
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.stencils.stencil import StencilFunc

from nbcache.glue import caveats, tokens
from nbcache.glue.atoms import encode_atom
from nbcache.glue.consulted import Consulted
from nbcache.glue.describers import ADDRESS, by_address
from nbcache.glue.elf import symbols_of
from nbcache.glue.frames import build_in
from nbcache.glue.inspection import Annotation, Inspection, LoadedDescriptor, Metadata
from nbcache.glue.library import StoredLibrary, abort_unresolved
from nbcache.glue.ownership import is_toolchain_definition, is_toolchain_module, toolchain_name
from nbcache.glue.units import StencilUnit, Unit
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbcache.glue.consulted import Ask
    from nbcache.glue.frames import Frame
    from nbcache.glue.history import History
    from nbcache.glue.wrappers import RuntimeUnit, WrapperUnit

    LibraryUnit = RuntimeUnit | WrapperUnit

META_VERSION = 7
_ENVIRONMENT_PREFIXES = ("_ZN08NumbaEnv", ".NumbaEnv")


class Unstorable(Exception):  # noqa: N818  a verdict, not a malfunction
    """A compile result that can't be an entry; ``str()`` is the reason.

    ``linkable``: its code may still go into the entries of its callers.
    """

    def __init__(self, reason: str, *, linkable: bool = False) -> None:
        super().__init__(reason)
        self.linkable = linkable


class Unloadable(Exception):  # noqa: N818  a verdict, not a malfunction
    """An entry that can't be used in this process; ``str()`` is the reason."""


class InUse(Unloadable):
    """An entry that this process uses already, for a twin of the function: one more variant is needed."""


class TokenPickler(NumbaPickler):
    """Numba's pickler, with tokens for what must not come back as a copy."""

    def __init__(self, file: io.BytesIO, frame: Frame) -> None:
        super().__init__(file, protocol=4)
        self._frame = frame

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _DEFINITIONS):
            token = tokens.live_reference(self._frame, obj)
            if token is not None:
                return tokens.recall, (token,)
        elif type(obj) is np.ndarray and by_address(obj):
            # Identity covers the head of such an array; only here is its content written down, for object mode.
            self._frame.taint = self._frame.taint or "it writes down an array that counts by its address"
        elif isinstance(obj, LiftedCode):
            rebuild, state = obj.__reduce__()
            origin = _numbered(obj, self._frame)
            return (rebuild, state) if origin is None else (_lifted_from, (origin, rebuild, state))
        elif isinstance(obj, types.BoundFunction):
            return self._method(obj)
        elif isinstance(obj, types.Function):
            return self._function(obj)
        elif isinstance(obj, Type) and ADDRESS.search(obj.name):
            return self._addressed_type(obj)
        elif isinstance(obj, _HOLDERS) and not _is_value(obj.value):
            # Code lifted out of a function is compiled when it is entered, with the objects that the function had.
            live = tokens.live_value(self._frame, obj.value, getattr(obj, "name", ""))
            return copyreg.__newobj__, (type(obj),), {**vars(obj), "value": live}  # type: ignore[attr-defined]
        return super().reducer_override(obj)

    def _method(self, obj: Any) -> Any:
        """A method of a type refers to the context it was resolved in, and is resolved again where it is needed."""
        key = obj.typing_key
        attribute = key[1] if isinstance(key, tuple) else key.rpartition(".")[2]
        chooser = getattr(obj.template, "_overload_func", None)
        if is_toolchain_definition(chooser):
            chooser = None
        if _resolve(obj.this, attribute) != obj:
            msg = f"a method {attribute} that {obj.this} is not known to have"
            raise pickle.PicklingError(msg)
        return _method_of, (obj.this, attribute, key, chooser)

    def _function(self, obj: Any) -> Any:
        """A function that Numba was told how to compile is looked up again by the function it stands for."""
        if all(toolchain_name(template) is not None for template in obj.templates):
            return super().reducer_override(obj)
        if _registered_for(obj.typing_key) != obj:
            msg = f"the type {ADDRESS.sub('', obj.name)} has something that is not registered with Numba"
            raise pickle.PicklingError(msg)
        return _function_of, (obj.typing_key,)

    def _addressed_type(self, obj: Any) -> Any:
        """A type that is named by an address must be made again, around what it stands for here."""
        if isinstance(obj, types.Generator):
            return types.Generator, (obj.gen_func, obj.yield_type, obj.arg_types, obj.state_types, obj.has_finalizer)
        if isinstance(obj, types.Dispatcher):
            return type(obj), (obj.dispatcher,)
        if isinstance(obj, types.ClassInstanceType):
            return type(obj), (obj.class_type,)
        if self._frame.reach is not None and self._frame.reach.reference(obj) is not None:
            return tokens.recall, (tokens.live_reference(self._frame, obj),)
        # A container of such a type: its name has the others' names in it.
        state = {field: value for field, value in vars(obj).items() if field not in {"_code", "name"}}
        parts = _addressed_in(state.values())
        name = obj.name
        for i, part in enumerate(parts):
            name = name.replace(part.name, f"\0{i}\0")
        if ADDRESS.search(name):
            msg = f"the type {ADDRESS.sub('', obj.name)} is named by an address"
            raise pickle.PicklingError(msg)
        return _type_of_parts, (type(obj), state, name, parts)


def _resolve(this: Type, attribute: str) -> Any:
    return cpu_target.typing_context.resolve_getattr(this, attribute)


def _method_of(this: Type, attribute: str, key: Any, chooser: Any) -> Type:
    """Called by unpickling: the type of a method, as it is resolved here.  Raises Unloadable."""
    found = _resolve(this, attribute)
    known = getattr(getattr(found, "template", None), "_overload_func", None)
    if getattr(found, "typing_key", None) != key or (chooser is not None and known is not chooser):
        msg = f"the method {attribute} of {this} is another one here"
        raise Unloadable(msg)
    return found


def _registered_for(function: Any) -> Type | None:
    """The type of *function*, put together as a typing context does; None if nothing is registered for it."""
    found: Any = None
    for value, typ in builtin_registry.globals:
        if value is function:
            found = typ if found is None else found.augment(typ)
    return found


def _function_of(function: Any) -> Type:
    """Called by unpickling: the type of a function that Numba was told how to compile.  Raises Unloadable."""
    found = _registered_for(function)
    if found is None:
        cpu_target.typing_context.refresh()  # Numba registers its own when they are needed
        found = _registered_for(function)
    if found is None:
        msg = f"nothing is registered with Numba for {getattr(function, '__qualname__', function)}"
        raise Unloadable(msg)
    return found


def _addressed_in(values: Iterable[Any]) -> list[Type]:
    """The types among *values*, and in tuples of them, that are named by an address; the longest name first."""
    found: dict[str, Type] = {}
    for value in values:
        if isinstance(value, Type) and ADDRESS.search(value.name):
            found[value.name] = value
        elif isinstance(value, tuple):
            found.update((typ.name, typ) for typ in _addressed_in(value))
    return sorted(found.values(), key=lambda typ: -len(typ.name))


def _type_of_parts(cls: type[Type], state: dict[str, Any], name: str, parts: list[Type]) -> Type:
    """Called by unpickling: a type whose name contains those of its *parts*, as they are called here."""
    for i, part in enumerate(parts):
        name = name.replace(f"\0{i}\0", part.name)
    return _type_reconstructor(copyreg._reconstructor, (cls, object, None), {**state, "name": name})  # type: ignore[attr-defined]


_ORIGIN = "_nbcache_origin"


def origin_of(lifted: LiftedCode, frame: Frame | None) -> tuple[str, int] | None:
    """The key of the unit that a piece of code was lifted from, and its number there; None if that has no key.

    An ``objmode`` block is compiled while that unit's *frame* is open. A loop is when it is first
    called, whatever is being compiled then: it has an origin once its unit was stored or loaded.
    """
    return _numbered(lifted, frame if isinstance(lifted, LiftedWith) else None)


def _numbered(lifted: LiftedCode, frame: Frame | None) -> tuple[str, int] | None:
    origin = vars(lifted).get(_ORIGIN)
    if origin is None and frame is not None and frame.unit is not None:
        origin = vars(lifted)[_ORIGIN] = (frame.unit.key, next(frame.blocks))
    return origin


def _lifted_from(origin: tuple[str, int], rebuild: Callable[..., LiftedCode], state: tuple[Any, ...]) -> LiftedCode:
    lifted = rebuild(*state)
    vars(lifted).setdefault(_ORIGIN, origin)
    return lifted


_DEFINITIONS = (type, FunctionType, Dispatcher, DUFunc, GUFunc, StencilFunc, _Intrinsic)
"""What a compiled function means as this very object, never as a copy."""
_HOLDERS = (ir.Const, ir.Global, ir.FreeVar)


def _is_value(obj: Any) -> bool:
    """Whether nobody can tell *obj* from what it is pickled as: it can't change, or it is pickled by where it is."""
    if encode_atom(obj) is not None or obj is _UNDEFINED:
        return True
    if type(obj) is tuple or type(obj) is frozenset:
        return all(map(_is_value, obj))
    if isinstance(obj, ModuleType):
        return sys.modules.get(obj.__name__) is obj
    return isinstance(obj, _BY_REFERENCE) or toolchain_name(obj) is not None


_BY_REFERENCE = (*_DEFINITIONS, Type, LiftedCode, CodeType, enum.Enum, np.ufunc)
_UNDEFINED = getattr(pylowering, "_UNDEFINED", None)
"""What object mode puts into variables before they are assigned; nobody gets to see it."""


def _constants(values: Iterable[Any], frame: Frame) -> list[Any]:
    """The constants of an environment, as they are pickled."""
    return [value if _is_value(value) else tokens.live_value(frame, value) for value in values]


def dumps(obj: object, frame: Frame) -> bytes:
    """Pickle *obj* for use in any process that can resolve *frame*'s tokens."""
    with io.BytesIO() as file:
        TokenPickler(file, frame).dump(obj)
        return file.getvalue()


# -- packing -----------------------------------------------------------------------------------


class LiteralsRequested(NamedTuple):
    """A compilation that came to nothing but a request: the arguments at these *positions* as literals, please."""

    positions: tuple[int, ...]

    def error(self, dispatcher: Any) -> ForceLiteralArg:
        """What Numba raises then."""

        def folded(args: Any, kws: Any) -> Any:
            return dispatcher.fold_argument_types(args, kws)[1]

        return ForceLiteralArg(self.positions, folded)


class Packed:
    """Sections for an entry, and what tells its variants apart."""

    def __init__(self, sections: dict[str, bytes], guard: str) -> None:
        self.sections = sections
        self.guard = guard


def pack(unit: Unit, frame: Frame, cres: Any, owners: Mapping[str, str], uses: dict[str, Any], past: str) -> Packed:
    """Turn a fresh result into an entry's sections.  Raises Unstorable.

    *owners* maps build ids to the keys of their units, for the other halves of recursions; *uses*
    and the *past* that they need are `History`'s.
    """
    if any(initialise is not _reload_parfors for initialise in cres.reload_init or ()):
        msg = "its pipeline initialises something when it is loaded"
        raise Unstorable(msg)
    if frame.consulted.conflict:
        raise Unstorable(frame.taint or frame.consulted.conflict)
    _look_again(unit, frame)
    library = cres.library
    library._ensure_finalized()
    reason = frame.taint or taint_of(library)
    if reason:
        raise Unstorable(reason)
    if library.has_dynamic_globals:
        # Decided on the final module, a caller's as well: most addresses that lowering puts in are optimised away.
        what = _addresses.get(library._dynamic_globals[0], "something in this process")
        msg = f"it has the address of {what} built in"
        raise Unstorable(msg, linkable=True)
    try:
        symbols = _pack_symbols(library)
        fields = _pack_result(unit, frame, cres)
        fields["environments"] = _pack_environments(frame, cres, symbols["variables"])
        fields["uses"] = uses
        fields["caveats"] = caveats.pack(frame)
        fields["symbols"] = symbols
        fields["needs"] = _needs(fields["symbols"], library.codegen._rtlinker.PREFIX, owners)
        meta = dumps(fields, frame)
        asked = Asked.of(frame)
    except Unstorable:
        raise
    except tokens.Unresolvable as exc:
        raise Unstorable(str(exc), linkable=not frame.taint) from exc
    except Exception as exc:
        let_pass(exc)
        msg = f"it can't be written down ({type(exc).__name__}: {exc})"
        raise Unstorable(msg, linkable=not frame.taint) from exc
    if frame.taint:
        raise Unstorable(frame.taint)
    fields["consulted"] = frame.consulted
    return _sections(unit, library, fields, meta, past, asked)


def _look_again(unit: Unit, frame: Frame) -> None:
    """See that compiling changed nothing of what *unit* was identified by: a counter, a setting that is read once.

    Which of the two its code was made from can't be told, and a process that asks for it has seen one of them only.
    Loops that it gave to ufuncs are given by a hit too, and modules that it loaded are among its readings.
    """
    late = itertools.islice(sys.modules, frame.modules, None)
    if not any(effect.kind == "ufunc" for effect in frame.effects.values()) and unit.changed(late):
        msg = "what it depends on changed while it was compiled"
        raise Unstorable(msg, linkable=True)


def pack_request(unit: Unit, frame: Frame, request: LiteralsRequested, uses: dict[str, Any], past: str) -> Packed:
    """Turn a *request* for literals into an entry's sections.  Raises Unstorable."""
    if frame.taint or frame.consulted.conflict:
        raise Unstorable(frame.taint or frame.consulted.conflict)
    _look_again(unit, frame)
    try:
        meta = dumps({"literals": request.positions, "uses": uses, "caveats": caveats.pack(frame)}, frame)
        asked = Asked.of(frame)
    except Exception as exc:
        let_pass(exc)
        msg = f"it can't be written down ({type(exc).__name__}: {exc})"
        raise Unstorable(msg) from exc
    definitions = _definitions_in(b"", meta + asked.asks, unit)
    return Packed(_encoded(unit, b"", meta, definitions, asked), _guard(definitions, past, frame.consulted))


def pack_library(unit: LibraryUnit, library: Any, name: str) -> Packed:
    """Turn a library, of which the function called *name* is wanted, into an entry's sections.  Raises Unstorable."""
    library._ensure_finalized()
    reason = taint_of(library)
    if reason or library.has_dynamic_globals:
        raise Unstorable(reason or "it has the address of something in this process built in")
    fields = {
        "name": library.name,
        "function": name,
        "symbols": _pack_symbols(library),
    }
    return _sections(unit, library, fields, pickle.dumps(fields, protocol=4))


class Asked(NamedTuple):
    """What an entry says of Numba's registries, ahead of everything that can only be read where it is right.

    ``names`` and ``snapshot`` as in `Consulted`; ``asks``: pickled, b"" if nobody's chooser was asked.
    """

    names: bytes
    snapshot: dict[bytes, bytes]
    asks: bytes

    @classmethod
    def of(cls, frame: Frame) -> Asked:
        """What *frame*'s compilation asked for."""
        consulted = frame.consulted
        return cls(consulted.packed, consulted.snapshot, dumps(tuple(consulted.asks), frame) if consulted.asks else b"")

    def consulted(self, asks: tuple[Ask, ...], unit: Unit) -> Consulted:
        """The same as a compilation in this process would have it."""
        return Consulted.of_an_entry(self.names, self.snapshot, asks, unit.maker.extensions.generation)


def _sections(
    unit: Unit | LibraryUnit,
    library: Any,
    fields: dict[str, Any],
    meta: bytes,
    past: str = "",
    asked: Asked | None = None,
) -> Packed:
    code = bytes(library._get_compiled_object())
    asked = asked or Asked(b"", {}, b"")
    definitions = _definitions_in(code, meta + asked.asks, unit)
    sections = _encoded(unit, code, meta, definitions, asked)
    # Not of _get_module_for_linking(): that makes a copy, which few functions ever need.
    sections["bitcode"] = library._final_module.as_bitcode()
    library._nbcache_kept = (fields, definitions)
    return Packed(sections, _guard(definitions, past, fields.get("consulted")))


def _encoded(
    unit: Unit | LibraryUnit, code: bytes, meta: bytes, definitions: dict[str, tokens.Definition], asked: Asked
) -> dict[str, bytes]:
    head = pickle.dumps((META_VERSION, definitions, *asked), protocol=4)
    return {
        "meta": len(head).to_bytes(8, "little") + head + meta,
        "object": code,
        "components": json.dumps(unit.components(), ensure_ascii=False).encode("utf-8", "surrogatepass"),
    }


def _definitions_in(code: bytes, meta: bytes, unit: Unit | LibraryUnit) -> dict[str, tokens.Definition]:
    found = tokens.tokens_in(code) | tokens.tokens_in(meta)
    if not found <= tokens.definitions.keys():
        msg = "it refers to something whose definition is lost"
        raise Unstorable(msg)
    try:
        return {token: tokens.definition_for(token, unit.reach) for token in sorted(found)}
    except tokens.Unresolvable as exc:
        raise Unstorable(str(exc), linkable=True) from exc


def _guard(definitions: dict[str, tokens.Definition], past: str, consulted: Consulted | None) -> str:
    """The same for two builds that may stand in for one another wherever one of them may be used."""
    registered = [] if consulted is None else [*sorted(consulted.snapshot.items()), *(a.answer for a in consulted.asks)]
    if not definitions and not past and not registered:
        return ""
    text = "\n".join([*sorted(map(repr, definitions.values())), past, *map(repr, registered)])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _pack_result(unit: Unit, frame: Frame, cres: Any) -> dict[str, Any]:
    fndesc = cres.fndesc
    same_args = tuple(cres.signature.args) == tuple(unit.args)
    return {
        "name": cres.library.name,
        "fndesc": {
            "native": fndesc.native,
            "unique_name": fndesc.unique_name,
            "args": fndesc.args,
            "kws": fndesc.kws,
            "restype": fndesc.restype,
            "argtypes": None if tuple(fndesc.argtypes) == tuple(unit.args) else fndesc.argtypes,
            "mangled_name": fndesc.mangled_name,
            "env_name": fndesc.env_name,
            "inline": fndesc.inline,
            "noalias": fndesc.noalias,
            "abi_tags": fndesc.abi_tags,
            "uid": getattr(fndesc, "uid", None),
        },
        "args": None if same_args else cres.signature.args,
        "return_type": cres.signature.return_type,
        "module": unit.function.__module__,
        "consts": _constants(cres.environment.consts, frame) if cres.environment is not None else None,
        "generator": _generator_symbol(cres),
        "objectmode": cres.objectmode,
        # Blocks are in the code, pickled, and Numba reads them there when they are first entered.
        "lifted": tuple(each for each in cres.lifted or () if isinstance(each, LiftedLoop)),
        "blocks": bool(cres.lifted),
        "neighborhood": unit.owner.neighborhood if isinstance(unit, StencilUnit) else None,
    }


def _needs(
    symbols: Mapping[str, tuple[str, ...]], prefix: str, owners: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """(symbol, key, build) of functions that recursive code calls and that lie in other entries.

    Numba calls a function that is still being compiled through a pointer filled in later.
    """
    found = []
    for symbol in sorted({name[len(prefix) :] for name in symbols["unresolved"]} - set(symbols["functions"])):
        build = build_in(symbol)
        key = owners.get(build) if build is not None else None
        if build is None or key is None:
            msg = "it is part of a recursion through a function that can't be cached"
            raise Unstorable(msg, linkable=True)
        found.append((symbol, key, build))
    return found


def _generator_symbol(cres: Any) -> str | None:
    """The name of the function that resumes the generator which this function returns."""
    if not isinstance(cres.fndesc.restype, types.Generator):
        return None
    return cres.target_context.get_generator_desc(cres.fndesc.restype).mangled_name


def _pack_environments(frame: Frame, cres: Any, variables: tuple[str, ...]) -> list[tuple[str, str, list[Any]]]:
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
        found.append((name, module, _constants(environment.consts, frame)))
    return found


def _pack_symbols(library: Any) -> dict[str, tuple[str, ...]]:
    symbols = symbols_of(bytes(library._get_compiled_object()))
    if symbols is None:
        msg = "its object code is in no format that is known"
        raise Unstorable(msg)
    prefix = library.codegen._rtlinker.PREFIX
    unresolved = tuple(name for name in symbols.undefined if name.startswith(prefix))
    return {
        "functions": symbols.functions,
        "externals": tuple(name for name in symbols.undefined if name not in unresolved),
        "variables": symbols.variables,
        "unresolved": unresolved,
    }


_addresses: dict[str, str] = {}


def note_address(address: int, what: str) -> None:
    """Remember what an address stands for, under the name that Numba gives its global variable."""
    _addresses[f"numba.dynamic.globals.{address:x}"] = what


def taint(library: Any, reason: str) -> None:
    """Note that *library*'s code can't leave this process, nor anything linked with it."""
    library._nbcache_taint = reason


def belongs_to(library: Any, unit: Unit) -> None:
    """Note whose code *library* is, for the wrappers around it."""
    library._nbcache_unit = unit


def hold(library: Any, live: list[object]) -> None:
    """Keep what the code refers to for as long as the code can run."""
    library._nbcache_held = [*getattr(library, "_nbcache_held", ()), *live]


def taint_of(library: Any) -> str:
    """Why code linked into *library* can't leave this process, or ""."""
    pending, seen = [library], set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        reason = getattr(each, "_nbcache_taint", "")
        if reason:
            return reason
        pending += each._linking_libraries
    return ""


# -- unpacking ---------------------------------------------------------------------------------


Read = Callable[[str], "bytes | None"]


def unpack(
    unit: Unit, target_context: Any, read: Read, build: str, find: Callable[[str, str], Read | None], history: History
) -> tuple[Any, dict[str, Any]]:
    """A CompileResult or LiteralsRequested like that of a fresh compile, and the entry's fields.

    ``find(key, build)`` gives access to another entry, or None.  Raises Unloadable.
    """
    fields, definitions, code, held = _open(unit, read)
    reason = history.objection(unit, fields["uses"])
    if reason is not None:
        raise Unloadable(reason)
    if "literals" in fields:
        return LiteralsRequested(fields["literals"]), fields
    _refuse_other_globals(unit, fields)
    _load_needs(unit, target_context, fields, find, {build})
    library = load_library(target_context, fields, code, read, lambda: _rebuild_module(unit, build, fields))
    abort_unresolved(target_context)
    belongs_to(library, unit)
    hold(library, held)
    library._nbcache_kept = (fields, definitions)
    return _assemble(unit, target_context, fields, library), fields


def _refuse_other_globals(unit: Unit, fields: dict[str, Any]) -> None:
    """Object mode reads globals while it runs, and there is one environment to read them from."""
    environment = lookup_environment(fields["fndesc"]["env_name"]) if fields["objectmode"] else None
    if environment is not None and environment.globals is not unit.function.__globals__:
        msg = "the same code is loaded already, for a function with other globals"
        raise InUse(msg)


def _load_needs(
    unit: Unit, target_context: Any, fields: dict[str, Any], find: Callable[[str, str], Read | None], loading: set[str]
) -> None:
    """Load the entries that recursive code calls; whatever they reach, *unit* reaches too."""
    engine = target_context.codegen()._engine
    for symbol, key, build in fields["needs"]:
        if build in loading or engine.is_symbol_defined(symbol):
            continue
        read = find(key, build)
        if read is None:
            msg = "the other half of a recursion is not in the store"
            raise Unloadable(msg)
        loading.add(build)
        other, _definitions, code, held = _open(unit, read)
        _load_needs(unit, target_context, other, find, loading)
        module = other["module"]
        if other["consts"] and module is None:
            msg = "the other half of a recursion has no module"
            raise Unloadable(msg)
        library = load_library(target_context, other, code, read, _nothing_links_it)
        hold(library, held)
        environment = (other["fndesc"]["env_name"], module or "builtins", other["consts"] or [])
        _bind_environments(library, [environment, *other["environments"]])
        _halves.append(library)


_halves: list[StoredLibrary] = []


def _nothing_links_it() -> Any:
    msg = "code that was loaded for a recursion alone is not linked"
    raise RuntimeError(msg)


def unpack_library(unit: LibraryUnit, read: Read) -> tuple[Any, str]:
    """A library and the name of the function in it that is wanted.  Raises Unloadable."""
    fields, _definitions, code, held = _open(unit, read)

    def rebuild() -> Any:
        msg = f"the entry of {unit.name} is gone from the store"
        raise RuntimeError(msg)

    library = load_library(unit.target_context, fields, code, read, rebuild)
    hold(library, held)
    return library, fields["function"]


def _open(
    unit: Unit | LibraryUnit, read: Callable[[str], bytes | None]
) -> tuple[dict[str, Any], dict[str, Any], bytes, list[object]]:
    meta, code = read("meta"), read("object")
    if meta is None or code is None:
        msg = "damaged"
        raise Unloadable(msg)
    size = int.from_bytes(meta[:8], "little")
    version, definitions, *rest = pickle.loads(meta[8 : 8 + size])  # noqa: S301  of a trusted, checked entry
    if version != META_VERSION:
        msg = f"metadata of version {version}"
        raise Unloadable(msg)
    asked = Asked(*rest)
    if isinstance(unit, Unit):
        _meet(unit, asked)
    try:
        held = tokens.bind(definitions, unit.reach)
    except tokens.Taken as exc:
        raise InUse(str(exc)) from exc
    except tokens.Unresolvable as exc:
        raise Unloadable(str(exc)) from exc
    consulted = None
    if isinstance(unit, Unit):
        consulted = asked.consulted(pickle.loads(asked.asks) if asked.asks else (), unit)  # noqa: S301
        if asked.asks:
            _agree(unit, consulted)
    fields = pickle.loads(meta[8 + size :])  # noqa: S301
    fields["consulted"] = consulted
    return fields, definitions, code, held


def _meet(unit: Unit, asked: Asked) -> None:
    """Let *unit* reach what is registered for what was asked for.  Raises Unloadable where that alone says no."""
    relevant = unit.maker.meet(asked.names)
    if not asked.asks and (relevant or asked.snapshot):
        _agree(unit, asked.consulted((), unit))
    unit.meets(relevant)


def _agree(unit: Unit, consulted: Consulted) -> None:
    """See that this process would build with the same.  Raises Unloadable."""
    reason = unit.maker.objection(consulted)
    if reason is not None:
        raise Unloadable(reason)


def share(unit: Unit, target_context: Any, history: History, library: Any) -> tuple[Any, dict[str, Any]] | None:
    """What `unpack` returns, for code that this process has already; None when it must not be shared.

    Object-mode code looks up globals in its environment while it runs, and an exception blames the
    lines of the function that the code was bound to first.
    """
    fields, definitions = library._nbcache_kept
    if fields["objectmode"] or fields["blocks"] or unit.flags.force_pyobject:
        return None
    unit.maker.meet(fields["consulted"].packed)
    if history.objection(unit, fields["uses"]) is not None or unit.maker.objection(fields["consulted"]) is not None:
        return None
    try:
        hold(library, tokens.bind(definitions, unit.reach))
    except tokens.Unresolvable:
        return None
    return _assemble(unit, target_context, fields, library), fields


def _assemble(unit: Unit, target_context: Any, fields: dict[str, Any], library: Any) -> Any:
    inspection = Inspection(unit)
    fndesc = _descriptor(unit, fields["fndesc"], inspection)
    environment = _environment(fndesc, fields["consts"])
    entry_point = target_context.get_executable(library, fndesc, environment)
    _bind_environments(library, fields["environments"])
    args = unit.args if fields["args"] is None else fields["args"]
    if fields["generator"] is not None:
        _insert_generator(target_context, fndesc, fields["generator"], library)
    return compiler.CompileResult(
        typing_context=target_context.typing_context,
        target_context=compiler._make_subtarget(target_context, unit.flags),
        entry_point=entry_point,
        typing_error=None,
        type_annotation=Annotation(inspection, fields["lifted"]),
        signature=typing.signature(fields["return_type"], *args),
        objectmode=fields["objectmode"],
        lifted=fields["lifted"],
        fndesc=fndesc,
        library=library,
        call_helper=None,
        environment=environment,
        metadata=Metadata(inspection),
        reload_init=[],
        referenced_envs=(),
    )


def settle_stencil(stencil: Any, cres: Any) -> None:
    """Leave a stencil as compiling it would: with the neighborhood that its kernel reaches."""
    if stencil.neighborhood is None:
        stencil.neighborhood = cres.library._nbcache_kept[0]["neighborhood"]


def _rebuild_module(unit: Unit, build: str, fields: dict[str, Any]) -> Any:
    """Compile again what an entry held whose file is gone, under the names it had."""
    cres = unit.compile_again(build)
    symbol = fields["fndesc"]["mangled_name"]
    if cres.fndesc.mangled_name != symbol:
        msg = f"the entry of {unit.name} is gone, and compiling it again gave another name"
        raise RuntimeError(msg)
    return cres.library._get_module_for_linking()


def load_library(
    target_context: Any,
    fields: Mapping[str, Any],
    code: bytes,
    read: Callable[[str], bytes | None],
    rebuild: Callable[[], Any],
) -> StoredLibrary:
    """Put an object into the engine, once everything it needs is there.  Raises Unloadable."""
    symbols = fields["symbols"]
    _provide(symbols["externals"], target_context)
    return StoredLibrary(target_context.codegen(), fields["name"], code, symbols, read, rebuild)


def _descriptor(unit: Unit, fields: dict[str, Any], inspection: Inspection) -> Any:
    """The function descriptor, as `FunctionDescriptor._get_function_info` would fill it here."""
    function = unit.function
    fndesc = LoadedDescriptor.__new__(LoadedDescriptor)
    fndesc.inspection = inspection
    for name, value in fields.items():
        if name in funcdesc.FunctionDescriptor.__slots__:
            setattr(fndesc, name, value)
    fndesc.modname = function.__module__
    fndesc.qualname = function.__qualname__
    fndesc.doc = function.__doc__ or ""
    fndesc.global_dict = None
    if fndesc.modname is None:
        fndesc.modname = funcdesc._dynamic_modname
        fndesc.global_dict = function.__globals__
    if fndesc.argtypes is None:
        fndesc.argtypes = tuple(unit.args)
    return fndesc


def _insert_generator(target_context: Any, fndesc: Any, symbol: str, library: Any) -> None:
    """Tell Numba how to resume the generator; lowering would have."""
    # Not GeneratorDescriptor.from_generator_fndesc: that reads the types of variables, which lowering alone needs.
    descriptor = GeneratorDescriptor(
        fndesc.native, fndesc.modname, f"{fndesc.qualname}.next", f"{fndesc.unique_name}.next", fndesc.doc,
        None, fndesc.restype.yield_type, None, ["gen"], fndesc.kws, argtypes=(fndesc.restype,),
        mangler=target_context.mangler, inline=False, env_name=fndesc.env_name,
    )  # fmt: skip
    descriptor.mangled_name = symbol
    target_context.insert_generator(fndesc.restype, descriptor, [library])


def _environment(fndesc: Any, consts: list[Any] | None) -> Any:
    environment = lookup_environment(fndesc.env_name)
    if environment is None:
        environment = Environment.from_fndesc(fndesc)
        environment.consts[:] = consts or []
    return environment


def _globals_of(module: str) -> dict[str, Any]:
    """The globals for code in nopython mode, which never reads them: they are in its constants.

    Numba's own modules are not imported for it: those of array functions bring SciPy along.
    """
    if module in sys.modules or not is_toolchain_module(module):
        return vars(importlib.import_module(module))
    return {"__name__": module}


def _bind_environments(library: StoredLibrary, environments: list[tuple[str, str, list[Any]]]) -> None:
    kept = []
    for name, module, consts in environments:
        environment = lookup_environment(name)
        if environment is None:
            environment = Environment(_globals_of(module))
            environment.env_name = name
            environment.consts[:] = consts
            Environment._memo[name] = environment
        library.codegen.set_env(name, environment)
        kept.append(environment)
    # The code holds bare pointers to these.
    library._nbcache_environments = kept


# -- symbols that must exist before an object is loaded ------------------------------------------

_present: set[str] = set()
_THREADING_SYMBOLS = frozenset({
    "numba_parallel_for", "do_scheduling_signed", "do_scheduling_unsigned", "allocate_sched", "deallocate_sched",
    "get_num_threads", "set_num_threads", "get_thread_id",
    "set_parallel_chunksize", "get_parallel_chunksize", "get_sched_size",
})  # fmt: skip
"""Those of the threading layer: it is chosen and started when code that needs it is compiled or loaded.

Numba says so in ``reload_init``, but for callers of such code not before 0.63.
"""


def _provide(names: tuple[str, ...], target_context: Any) -> None:
    """See that every external symbol resolves: MCJIT ends the process over one that doesn't."""
    if not _THREADING_SYMBOLS.isdisjoint(names):
        parallel._launch_threads()
    missing = _missing(names)
    if missing:
        _add_runtime_symbols(missing)
        missing = _missing(names)
    if any(name.startswith("_numba_hashsecret_") for name in missing):
        importlib.import_module("numba.cpython.hashing")  # defines them when it is imported
        missing = _missing(names)
    if missing:
        # Whatever else registers symbols does so while Numba's registries are initialised.
        target_context.refresh()
        missing = _missing(names)
    if missing:
        msg = f"the symbol {missing[0]} does not exist in this process"
        raise Unloadable(msg)


def _missing(names: tuple[str, ...]) -> list[str]:
    missing = []
    for name in names:
        if name in _present:
            continue
        if llvm.address_of_symbol(name):
            _present.add(name)
        else:
            missing.append(name)
    return missing


def _add_runtime_symbols(names: list[str]) -> None:
    """The part of the NRT's initialisation that compiles nothing (see ``_Runtime.initialize``), for these symbols."""
    if rtsys._init:
        return
    for name, address in _nrt_python.c_helpers.items():
        symbol = name if name.startswith("_") else f"NRT_{name}"
        if symbol in names:
            llvm.add_symbol(symbol, address)
