"""Compile results out of the sections of an entry."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from numba.core import compiler, funcdesc, typing
from numba.core.environment import Environment, lookup_environment
from numba.core.generators import GeneratorDescriptor
from numba.core.typing.typeof import Purpose, _TypeofContext, typeof_impl

from nbcache.glue import own_attributes
from nbcache.glue.entries.externals import provide
from nbcache.glue.entries.inspection import Annotation, Inspection, LoadedDescriptor, Metadata
from nbcache.glue.entries.library import RenamedLibrary, StoredLibrary, abort_unresolved, entry_point
from nbcache.glue.entries.meta import (
    CALLEES,
    LIVING,
    Asked,
    Callee,
    Environments,
    LibraryMeta,
    LiteralsMeta,
    Meta,
    Read,
    Reader,
    Symbols,
)
from nbcache.glue.entries.verdicts import InUse, Unloadable
from nbcache.glue.identity.asked_names import Ask, Consulted
from nbcache.glue.identity.node import Unresolvable
from nbcache.glue.identity.ownership import is_toolchain_definition, is_toolchain_module
from nbcache.glue.identity.watched import are_same
from nbcache.glue.keys.conditions import META_VERSION
from nbcache.glue.keys.flags import flag_parts
from nbcache.glue.keys.units import Unit
from nbcache.glue.own_attributes import belongs_to, hold
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.records import Record

if TYPE_CHECKING:
    from nbcache.glue.capture.placeholders import Definition
    from nbcache.glue.entries.wrappers import LibraryUnit
    from nbcache.glue.overloads.history import History


class Opened(Record):
    """An entry whose placeholders are bound, and what it holds."""

    fields: tuple[Any, ...]
    """Packed metadata, of the kind that belongs to the unit."""
    definitions: dict[str, Definition]
    code: bytes
    """Empty if the result of the compilation was no code."""
    held: list[object]
    """What the code refers to and must not outlive."""
    consulted: Consulted | None
    """None for what no function was compiled for."""


def unpack(
    unit: Unit, target_context: Any, read: Read, build: str, find: Callable[[str, str], Read | None], history: History
) -> tuple[Any, Meta | LiteralsMeta]:
    """A CompileResult or LiteralsRequested like that of a fresh compile, and what the entry says of it.

    ``find(key, build)`` gives access to another entry, or None.  Raises Unloadable.
    """
    opened, meta = _open_result(unit, read)
    reason = history.objection(unit, meta.uses) or unit.maker.objection_besides(unit, meta.consulted)
    if reason is not None:
        raise Unloadable(reason)
    if isinstance(meta, LiteralsMeta):
        return meta.request, meta
    _refuse_other_globals(unit, meta)
    _load_needs(unit, target_context, meta, find, {build})
    library = load_library(target_context, meta, opened.code, read, lambda: _rebuilt(unit, build, meta))
    abort_unresolved(target_context)
    belongs_to(library, unit)
    hold(library, opened.held)
    own_attributes.keep_meta(library, meta, opened.definitions)
    return _assemble(unit, target_context, meta, library), meta


def _refuse_other_globals(unit: Unit, meta: Meta) -> None:
    """Object mode reads globals while it runs, and there is one environment to read them from."""
    environment = lookup_environment(meta.environment) if meta.objectmode else None
    if environment is not None and environment.globals is not unit.function.__globals__:
        raise InUse("the same code is loaded already, for a function with other globals")


def _load_needs(
    unit: Unit, target_context: Any, meta: Meta, find: Callable[[str, str], Read | None], loading: set[str]
) -> None:
    """Load the entries that recursive code calls; whatever they reach, *unit* reaches too."""
    engine = target_context.codegen()._engine
    for symbol, key, build in meta.needs:
        if build in loading or engine.is_symbol_defined(symbol):
            continue
        read = find(key, build)
        if read is None:
            raise Unloadable("the other half of a recursion is not in the store")
        loading.add(build)
        opened, other = _open_result(unit, read)
        if isinstance(other, LiteralsMeta):
            raise Unloadable("the other half of a recursion is no code")
        _load_needs(unit, target_context, other, find, loading)
        if other.consts and other.module is None:
            raise Unloadable("the other half of a recursion has no module")
        library = load_library(target_context, other, opened.code, read, _nothing_links_it)
        hold(library, opened.held)
        environment = (other.environment, other.module or "builtins", other.consts or [])
        _bind_environments(library, [environment, *other.environments])
        _halves.append(library)


_halves: list[StoredLibrary] = []


def _nothing_links_it() -> Any:
    raise RuntimeError("code that was loaded for a recursion alone is not linked")


def unpack_library(unit: LibraryUnit, read: Read, rebuild: Callable[[], Any]) -> tuple[Any, str]:
    """A library and the name of the function in it that is wanted; *rebuild* makes it anew.  Raises Unloadable."""
    opened = open_entry(unit, read)
    meta = LibraryMeta.unpacked(opened.fields)
    library = load_library(unit.target_context, meta, opened.code, read, rebuild)
    hold(library, opened.held)
    own_attributes.keep_meta(library, meta, opened.definitions)
    return library, meta.function


def _open_result(unit: Unit, read: Read) -> tuple[Opened, Meta | LiteralsMeta]:
    opened = open_entry(unit, read)
    assert opened.consulted is not None
    kind = Meta if opened.code else LiteralsMeta
    return opened, kind.unpacked(opened.fields, opened.consulted)


def open_entry(unit: Unit | LibraryUnit, read: Read) -> Opened:
    """An entry's metadata, with what it names found in this process.  Raises Unloadable."""
    data, code = read("meta"), read("object")
    if data is None or code is None:
        raise Unloadable("damaged")
    size = int.from_bytes(data[:8], "little")
    version, definitions, *rest = pickle.loads(data[8 : 8 + size])  # noqa: S301  of a trusted, checked entry
    if version != META_VERSION:
        raise Unloadable(f"metadata of version {version}")
    asked = Asked(*rest)
    held, consulted = _consult(unit, asked, definitions) if isinstance(unit, Unit) else ([], None)
    if consulted is not None and consulted.ran:
        _see_what_ran(unit, consulted)
    held += _bind(definitions, unit)
    if isinstance(unit, Unit) and LIVING in data:
        fields = _reader(data[8 + size :], unit, held).load()
    else:
        fields = pickle.loads(data[8 + size :])  # noqa: S301
    return Opened(fields, definitions, code, held, consulted)


def _reader(data: bytes, unit: Unit, held: list[object]) -> Reader:
    return Reader(data, unit.maker, lambda: _types_of_values(unit), held)


def _types_of_values(unit: Unit) -> list[object]:
    """The types of what *unit* has in variables, where others say how values are typed: compiling it makes them."""
    values = [obj for obj in unit.reach().own_objects() if not is_toolchain_definition(typeof_impl.dispatch(type(obj)))]
    found: list[object] = []
    for value in values:
        with suppressed(Exception):  # compiling what comes across it fails as well
            found.append(typeof_impl(value, _OF_A_VARIABLE))
    return found


_OF_A_VARIABLE = _TypeofContext(Purpose.constant)


def _consult(unit: Unit, asked: Asked, definitions: dict[str, Definition]) -> tuple[list[object], Consulted]:
    """See that this process would build with the same; what questions refer to must live on.  Raises Unloadable.

    Choosers are asked before the rest is looked for, which some of them make when they are asked first.
    """
    _meet(unit, asked)
    unit.answered(())
    if not asked.asks:
        return [], asked.consulted(unit)
    from nbcache.glue.capture.placeholders import tokens_in

    held = _bind({token: definitions[token] for token in tokens_in(asked.asks)}, unit)
    consulted = asked.consulted(unit)
    _agree(unit, consulted, _each(_reader(asked.asks, unit, held)))
    unit.answered(consulted.asks, took_more=bool(consulted.after))
    unit.meets(unit.maker.extensions.relevant(asked.names))
    return held, consulted


def _each(reader: Reader) -> Iterator[Ask]:
    """The questions of an entry, each of which is read when it is needed.  Raises Unloadable."""
    while not reader.is_over:
        try:
            ask = reader.load()
        except Unloadable:
            raise
        except Exception as raised:  # what others' types say how they are made again
            let_pass(raised)
            raise Unloadable(f"what was asked for can't be read here ({type(raised).__name__})") from raised
        yield ask


def _see_what_ran(unit: Any, consulted: Consulted) -> None:
    """Refuse what would be other today, unless modules are missing that are loaded later.  Raises Unloadable.

    It also finds the functions in C that the code is bound to.
    """
    if all(each.partition(":")[0] in sys.modules for each in consulted.ran):
        reason = unit.maker.marked.objection(consulted)
        if reason is not None:
            raise Unloadable(reason)


def _bind(definitions: dict[str, Definition], unit: Unit | LibraryUnit) -> list[object]:
    """Find what the code names of this process; return what must live as long as the code.  Raises Unloadable."""
    if not definitions:
        return []
    from nbcache.glue.capture import placeholders

    try:
        return placeholders.bind(definitions, unit.reach, unit.bound if isinstance(unit, Unit) else ())
    except placeholders.Taken as exc:
        raise InUse(str(exc)) from exc
    except Unresolvable as exc:
        raise Unloadable(str(exc)) from exc


def _meet(unit: Unit, asked: Asked) -> None:
    """Let *unit* reach what is registered for what was asked for.  Raises Unloadable where that alone says no."""
    relevant = unit.maker.meet(asked.names, asked.declined)
    if not asked.asks and (relevant or asked.snapshot):
        _agree(unit, asked.consulted(unit), ())
    unit.meets(relevant)


def _agree(unit: Unit, consulted: Consulted, asks: Iterable[Ask]) -> None:
    """See that this process would build with the same, the questions *asks* included.  Raises Unloadable."""
    reason = unit.maker.objection(consulted, asks)
    if reason is not None:
        raise Unloadable(reason)


def share(unit: Unit, target_context: Any, history: History, library: Any) -> tuple[Any, Meta] | None:
    """What `unpack` returns, for code that this process has already; None when it must not be shared.

    Object-mode code looks up globals in its environment while it runs, and an exception blames the
    lines of the function that the code was bound to first.
    """
    meta, definitions = own_attributes.meta_of(library)
    if meta.objectmode or meta.has_blocks or unit.flags.force_pyobject:
        return None
    unit.maker.meet(meta.consulted.packed, meta.consulted.declined)
    unit.answered(meta.consulted.asks)
    reason = history.objection(unit, meta.uses) or unit.maker.objection(meta.consulted, [*meta.consulted.asks])
    if reason or unit.maker.objection_besides(unit, meta.consulted):
        return None
    try:
        hold(library, _bind(definitions, unit))
    except Unloadable:
        return None
    return _assemble(unit, target_context, meta, library), meta


def _assemble(unit: Unit, target_context: Any, meta: Meta, library: Any) -> Any:
    inspection = Inspection(unit)
    fndesc = _descriptor(unit, meta.descriptor, inspection)
    environment = _environment(fndesc, meta.consts)
    if isinstance(library, StoredLibrary):
        executable = entry_point(library, fndesc, environment)
    else:
        executable = target_context.get_executable(library, fndesc, environment)
    _bind_environments(library, meta.environments)
    args = unit.args if meta.args is None else meta.args
    if meta.generator is not None:
        _insert_generator(target_context, fndesc, meta.generator, library)
    return compiler.CompileResult(
        typing_context=target_context.typing_context,
        target_context=_subtarget(target_context, unit.flags),
        entry_point=executable,
        typing_error=None,
        type_annotation=Annotation(inspection, meta.lifted),
        signature=typing.signature(meta.return_type, *args),
        objectmode=meta.objectmode,
        lifted=meta.lifted,
        fndesc=fndesc,
        library=library,
        call_helper=None,
        environment=environment,
        metadata=Metadata(inspection),
        reload_init=[],
        referenced_envs=(),
    )


def _subtarget(target_context: Any, flags: compiler.Flags) -> Any:
    """As `compiler._make_subtarget`, which takes six times as long; made anew for other flags than last time.

    So it is for a context that is another one now, or has something else set on it. Each result has a copy of its own:
    a program may set things on it.
    """
    global _copied
    key = target_context, flag_parts(flags)
    content = [*vars(target_context), *vars(target_context).values()]
    known, before, made = _copied
    if known != key or not are_same(content, before):
        made = compiler._make_subtarget(target_context, flags)
        _copied = key, content, made
    copy = object.__new__(type(made))
    vars(copy).update(vars(made))
    return copy


_copied: tuple[tuple[Any, bytes], list[Any], Any] = (None, b""), [], None
"""The last one: context and flags, what was set on the context, what Numba made."""


def settle_stencil(stencil: Any, cres: Any) -> None:
    """Leave a stencil as compiling it would: with the neighborhood that its kernel reaches."""
    own_attributes.learn_neighborhood(stencil, own_attributes.meta_of(cres.library)[0].neighborhood)


def _rebuilt(unit: Unit, build: str, meta: Meta) -> Any:
    """The library of an entry that is gone or damaged, compiled again under the names it had.

    Names of types are part of them, and some of these, of classes say, are other ones in each process.
    """
    cres = unit.compile_again(build)
    names = {cres.fndesc.mangled_name: meta.descriptor["mangled_name"]}
    if meta.generator is not None:
        descriptor = cres.target_context.get_generator_desc(cres.fndesc.restype)
        names[descriptor.mangled_name] = meta.generator
    names = {name: wanted for name, wanted in names.items() if name != wanted}
    return RenamedLibrary(cres.library, names) if names else cres.library


def load_library(
    target_context: Any,
    meta: Meta | LibraryMeta,
    code: bytes,
    read: Read,
    rebuild: Callable[[], Any],
) -> StoredLibrary:
    """Put an object into the engine, once everything it needs is there.  Raises Unloadable."""
    callees = _callees(read) if meta.has_callees else []
    for symbols in (*(each.symbols for each in callees), meta.symbols):
        provide(symbols.externals, target_context)
    return StoredLibrary(target_context.codegen(), meta.name, code, meta.symbols, callees, read, rebuild)


def _callees(read: Read) -> list[Callee]:
    data = read(CALLEES)
    if data is None:
        raise Unloadable("damaged")
    return [Callee(name, Symbols._make(symbols), code) for name, symbols, code in pickle.loads(data)]  # noqa: S301


def _descriptor(unit: Unit, described: dict[str, Any], inspection: Inspection) -> Any:
    """The function descriptor, as `FunctionDescriptor._get_function_info` would fill it here."""
    function = unit.function
    fndesc = LoadedDescriptor.__new__(LoadedDescriptor)
    fndesc.inspection = inspection
    for name, value in described.items():
        if name in _DESCRIBED:
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


_DESCRIBED = frozenset(funcdesc.FunctionDescriptor.__slots__)


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


def _bind_environments(library: StoredLibrary, environments: Environments) -> None:
    kept: list[object] = []
    for name, module, consts in environments:
        environment = lookup_environment(name)
        if environment is None:
            environment = Environment(_globals_of(module))
            environment.env_name = name
            environment.consts[:] = consts
            Environment._memo[name] = environment
        library.codegen.set_env(name, environment)
        # With the module, as the callee's own result would be.
        kept += environment, sys.modules.get(module)
    # The code holds bare pointers to these.
    own_attributes.keep_environments(library, kept)
