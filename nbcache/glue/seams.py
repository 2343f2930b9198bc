"""The places where nbcache takes part in Numba: one table, each attribute with its reason.

Every seam is checked before any is replaced: an attribute that is missing or does not look as
expected means another Numba than the verified ones, and then nothing is touched.

Attributes replaced are put back by `remove`; Dispatchers created meanwhile keep working, since
what they hold asks the session each time and a session that is off answers nothing.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import re
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from numba.core import (
    bytecode,
    callconv,
    cgutils,
    compiler_lock,
    entrypoints,
    ir,
    ir_utils,
    pythonapi,
    sigutils,
    types,
    typing,
)
from numba.core.base import BaseContext
from numba.core.caching import _Cache
from numba.core.datamodel import models
from numba.core.datamodel.manager import DataModelManager
from numba.core.dispatcher import Dispatcher, LiftedLoop, LiftedWith, _DispatcherBase
from numba.core.errors import ForceLiteralArg
from numba.core.generators import GeneratorDescriptor
from numba.core.registry import cpu_target
from numba.core.runtime import nrtdynmod
from numba.core.typed_passes import InlineOverloads
from numba.core.typing import templates
from numba.core.typing.asnumbatype import AsNumbaTypeRegistry
from numba.core.typing.templates import _IntrinsicTemplate, _OverloadFunctionTemplate
from numba.core.typing.typeof import typeof
from numba.core.untyped_passes import MakeFunctionToJitFunction
from numba.np import numpy_support
from numba.np.ufunc import parallel, ufuncbuilder
from numba.np.ufunc.dufunc import DUFunc, DUFuncLowerer
from numba.np.ufunc.gufunc import GUFunc, GUFuncLowerer

from nbcache.glue import addresses, artifacts, consulting, effects, releases, shortcuts, tokens
from nbcache.glue.faces import show_as
from nbcache.glue.frames import Effect, FrameStack, UniqueIds
from nbcache.glue.history import History, inherited
from nbcache.glue.past import CHOOSER, Question, past_of
from nbcache.glue.wrappers import build_runtime
from nbcache.passing import let_pass, suppressed

if TYPE_CHECKING:
    from nbcache.glue.units import KeyMaker

_log = logging.getLogger("nbcache")


class Session(Protocol):
    """What the seams need from the client: policy lives there, not here."""

    frames: FrameStack
    maker: KeyMaker
    history: History

    def load(self, owner: Any, sig: Any, target_context: Any) -> Any | None:
        """A CompileResult or LiteralsRequested, or None with a frame opened for the compilation that follows."""

    def load_block(self, lifted: Any, args: tuple[Any, ...]) -> Any | None:
        """The same for an ``objmode`` block; no frame is opened for one that can't be told from others."""

    def stencil(self, stencil: Any, args: tuple[Any, ...], out: bool, build: Callable[[], Any]) -> Any:
        """A CompileResult for a stencil that is called from Python, loaded or what *build* returns."""

    def save(self, cres: Any) -> None:
        """The compilation of the innermost frame succeeded."""

    def literals_requested(self, owner: Any, positions: Iterable[int]) -> None:
        """The compilation of the innermost frame asked for literals instead."""

    def wrapper(self, kind: str, cres: Any, signature: Any, shape: object, build: Callable[[], Any]) -> Any:
        """What *build* returns (library, environment, name), loaded instead if it can be."""

    def runtime(self, target_context: Any, build: Callable[[], Any]) -> Any:
        """The library of Numba's runtime, loaded or what *build* returns."""

    @property
    def cache_path(self) -> str | None:
        """Where entries lie."""

    @property
    def has_hits(self) -> bool:
        """Whether anything was loaded, and so possibly nothing of Numba's registries was."""


class Seam(NamedTuple):
    """One attribute of Numba: *owner*.*name*, replaced by what *replace* makes of the original."""

    owner: Any
    name: str
    why: str
    replace: Callable[[Any, Session], Any]
    parameters: tuple[str, ...] | None = None
    optional: bool = False
    """Not on the class, but on its instances."""

    def problem(self) -> str | None:
        """What is wrong with this seam on the Numba at hand, or None."""
        original = inspect.getattr_static(self.owner, self.name, None)
        where = f"{getattr(self.owner, '__name__', self.owner)}.{self.name}"
        if original is None:
            return None if self.optional else f"{where} does not exist"
        if self.parameters is None:
            return None
        function = original.__func__ if isinstance(original, classmethod | staticmethod) else original
        found = _parameters(function)
        if found is None:
            return f"{where} has no signature"
        return None if found == self.parameters else f"{where} takes {found}, not {self.parameters}"


def _parameters(function: Any) -> tuple[str, ...] | None:
    """The names of parameters, as `inspect.signature` gives them, which takes a hundred times as long."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    count += sum(bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    return tuple(code.co_varnames[:count])


class SessionCache(_Cache):
    """Numba's own cache protocol, answered by the session.  One per Dispatcher."""

    def __init__(self, owner: Any, session: Session) -> None:
        self._owner = weakref.ref(owner)
        self.session = session

    @property
    def cache_path(self) -> str | None:
        return self.session.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any | None:
        owner = self._owner()
        found = self.session.load(owner, sig, target_context)
        if isinstance(found, artifacts.LiteralsRequested):
            raise found.error(owner)
        return found

    def save_overload(self, _sig: Any, data: Any) -> None:
        self.session.save(data)

    def enable(self) -> None:
        """Nothing to do: the environment decides."""

    def disable(self) -> None:
        """Nothing to do: the environment decides."""

    def flush(self) -> None:
        """A recompilation asks the store again, as Numba's own cache does after a flush."""


def _scoped(attribute: str, covers: Callable[..., bool]) -> Callable[[Any, Session], Any]:
    """Attach a SessionCache, and close the frames a compilation leaves behind when it raises.

    ``covers(self, *args)``: whether the compilation is one that keys describe in full.
    """

    def replace(original: Any, session: Session) -> Any:
        @functools.wraps(original)
        def compile_in_scope(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not covers(self, *args, **kwargs):
                return original(self, *args, **kwargs)
            # The lock itself: going through its wrapper would trigger Numba's lock events twice.
            with compiler_lock.global_compiler_lock._lock:
                cache = getattr(self, attribute)
                if type(cache) is not SessionCache or cache.session is not session:
                    setattr(self, attribute, SessionCache(self, session))
                depth = len(session.frames)
                signature = args[0] if args else self._sig
                if depth:
                    session.frames.settle()
                    _include_existing(session, self, _argument_types(signature))
                closed = None
                try:
                    if isinstance(self, Dispatcher):
                        with session.history.compiling(self, *args) as uses:
                            compiled = original(self, *args, **kwargs)
                    else:
                        compiled, uses = original(self, *args, **kwargs), []
                except ForceLiteralArg as exc:
                    if len(session.frames) == depth + 1:
                        session.literals_requested(self, exc.requested_args)
                    session.frames.note(*effects.remembered(self, _argument_types(signature)))
                    raise
                finally:
                    closed = session.frames.pop_to(depth)
                if closed is not None:
                    past_of(self).consulted[_argument_types(signature)] = closed
                if depth:
                    session.frames.note(*effects.remembered(self, _argument_types(signature)), *uses)
                return compiled

        return compile_in_scope

    return replace


def _include_existing(session: Session, dispatcher: Any, args: tuple[Any, ...]) -> None:
    """What is being compiled uses an overload that is there already, and so what was asked for when it was made."""
    consulted = past_of(dispatcher).consulted.get(args)
    session.frames.include(consulted)
    if consulted is None and args in vars(dispatcher).get("overloads", ()):
        frame = session.frames.top()
        if frame is not None:
            frame.taint = frame.taint or "it uses a function that was compiled before the cache was switched on"


def _for_cpu(self: Any, *_args: Any) -> bool:
    return self.targetdescr is cpu_target


def _without_locals(_self: Any, _sig: Any, _flags: Any, locals: Any) -> bool:  # noqa: A002  Numba's name
    return not locals


def _always(_self: Any) -> bool:
    return True


def _argument_types(sig: Any) -> tuple[Any, ...]:
    return tuple(sigutils.normalize_signature(sig)[0])


def _noting_loops(dispatcher_of: Callable[[Any], Any]) -> Callable[[Any, Session], Any]:
    def replace(original: Any, session: Session) -> Any:
        @functools.wraps(original)
        def compile_for_argtys(self: Any, argtys: Any, return_type: Any = None) -> Any:
            dispatcher, args = dispatcher_of(self), tuple(argtys)
            show_as(self, dispatcher)
            given = inherited(dispatcher.targetdescr, dispatcher.targetoptions)
            if len(session.frames):
                session.frames.settle()
                session.frames.note(Effect("ufunc", self, args, return_type, given, True))
            compiled = original(self, argtys, return_type)
            session.history.loop_made(self, dispatcher, args, given)
            return compiled

        return compile_for_argtys

    return replace


def _known_kernels(original: Any, _session: Session) -> Any:
    @functools.wraps(original)
    def add(self: Any, fty: Any) -> Any:
        show_as(self, self.gufunc_builder.nb_func)
        return original(self, fty)

    return add


def _typing_after_hits(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def typeof_pyval(self: Any, val: Any) -> Any:
        typ = original(self, val)
        if typ is types.pyobject and session.maker.installed.waiting:
            session.maker.installed.load()
            typ = original(self, val)
        if typ is types.pyobject and session.has_hits:
            # A compilation would have imported this by now; it says what type a CFunc has.
            importlib.import_module("numba.experimental.function_type")
            typ = original(self, val)
        return typ

    return typeof_pyval


def _lowered_later(original: Any, _session: Session) -> Any:
    @functools.wraps(original)
    def initialize(self: Any, ufunc: Any) -> None:
        this = weakref.ref(self)

        def make_ufunc_kernel(context: Any, builder: Any, sig: Any, args: Any, ufunc: Any, _kernel: None) -> Any:
            lowerer: Any = this()
            libraries = lowerer.libs
            original(lowerer, ufunc)
            lowerer.libs = libraries
            return lowerer(context, builder, sig, args)

        self.ufunc, self.kernel, self.make_ufunc_kernel_fn, self.libs = ufunc, None, make_ufunc_kernel, []

    return initialize


def _without_masked_arrays(original: Any, _session: Session) -> Any:
    return shortcuts.NumPy(original)


def _extensions(original: Any, _session: Session) -> Any:
    @functools.wraps(original)
    def init_all() -> None:
        if not entrypoints._already_initialized:
            entrypoints._already_initialized = not shortcuts.declares_extensions()
        original()

    return init_all


def _before_types(_original: Any, session: Session) -> Any:
    def _compilation_chain_init_hook(_self: Any) -> None:
        """As Numba's, which loads every package that extends it before it looks at an argument."""
        session.maker.installed.prepare()

    return _compilation_chain_init_hook


def _known_choosers(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def _get_impl(self: Any, args: Any, kws: Any) -> Any:
        choices = session.maker.choices
        if not choices.concerns(self):
            return original(self, args, kws)
        self._nbcache_question = Question(type(self), tuple(args), tuple(kws.items()))
        return choices.overload(original, self, args, kws, session.frames.top())

    return _get_impl


def _inlined_choices(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def _do_work_expr(self: Any, *args: Any) -> Any:
        with session.maker.choices.inlining(session.frames.top()):
            return original(self, *args)

    return _do_work_expr


def _marked_choices(original: Any, _session: Session) -> Any:
    @functools.wraps(original)
    def _get_jit_decorator(self: Any) -> Any:
        decorator, question = original(self), vars(self).get("_nbcache_question")
        if question is None:
            return decorator

        def jit(**options: Any) -> Callable[[Any], Any]:
            def dispatcher_for(implementation: Any) -> Any:
                dispatcher = decorator(**options)(implementation)
                vars(dispatcher)[CHOOSER] = question
                return dispatcher

            return dispatcher_for

        return jit

    return _get_jit_decorator


def _known_intrinsics(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def generic(self: Any, args: Any, kws: Any) -> Any:
        choices = session.maker.choices
        if not choices.concerns(self):
            return original(self, args, kws)
        return choices.intrinsic(original, self, args, kws, session.frames.top())

    return generic


def _with_loops(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def _type_me(self: Any, *args: Any, **named: Any) -> Any:
        dispatcher = self._dispatcher if isinstance(self, DUFunc) else self.gufunc_builder.nb_func
        for consulted in past_of(dispatcher).consulted.values():
            session.frames.include(consulted)
        return original(self, *args, **named)

    return _type_me


def _generator_names(original: Any, _session: Session) -> Any:
    @functools.wraps(original.__func__)
    def from_generator_fndesc(cls: Any, func_ir: Any, fndesc: Any, gentype: Any, mangler: Any) -> Any:
        descriptor = original.__func__(cls, func_ir, fndesc, gentype, mangler)
        # Numba leaves the unique id out, and the generator's type is named by its function's address.
        descriptor.mangled_name = f"{descriptor.mangled_name}.{fndesc.uid}"
        return descriptor

    return classmethod(from_generator_fndesc)


def _complete_overloads(_original: Any, session: Session) -> Any:
    return effects.Overloads(session.frames)


def _wrapped_ufunc(kind: str) -> Callable[[Any, Session], Any]:
    def replace(original: Any, session: Session) -> Any:
        @functools.wraps(original)
        def build_ufunc_wrapper(
            library: Any, context: Any, fname: Any, signature: Any, *rest: Any, **named: Any
        ) -> Any:
            cres = named["cres"] if "cres" in named else rest[-1]
            return session.wrapper(
                kind, cres, signature, None, lambda: original(library, context, fname, signature, *rest, **named)
            )

        return build_ufunc_wrapper

    return replace


def _wrapped_gufunc(kind: str) -> Callable[[Any, Session], Any]:
    def replace(original: Any, session: Session) -> Any:
        @functools.wraps(original)
        def build_gufunc_wrapper(py_func: Any, cres: Any, sin: Any, sout: Any, cache: Any, is_parfors: Any) -> Any:
            if is_parfors:
                # Linked into the caller, and stored as part of it.
                return original(py_func, cres, sin, sout, cache, is_parfors)
            # Numba's own cache of wrappers, which knows nothing of builds, stays out.
            return session.wrapper(
                kind, cres, cres.signature, (sin, sout), lambda: original(py_func, cres, sin, sout, False, is_parfors)
            )

        return build_gufunc_wrapper

    return replace


def _lifted(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def compile_block(self: Any, sig: Any) -> Any:
        with compiler_lock.global_compiler_lock._lock:
            args = _argument_types(sig)
            if args in self.overloads:
                return original(self, sig)
            depth = len(session.frames)
            try:
                cres = session.load_block(self, args)
                if cres is not None:
                    self.add_overload(cres)
                    return cres.entry_point
                compiled = original(self, sig)
                if len(session.frames) > depth:
                    session.save(self.overloads[args])
                return compiled
            finally:
                session.frames.pop_to(depth)

    return compile_block


def _stencil_call(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # As in the original, which compiles anew for each call.
        if self.neighborhood is not None and len(self.neighborhood) != args[0].ndim:
            return original(self, *args, **kwargs)
        out = kwargs.get("out")
        if out is None and "out" in kwargs:
            return original(self, *args, **kwargs)  # to say what is wrong
        array_types = tuple(map(typeof, args))
        arguments = args
        full_types = array_types
        if out is not None:
            arguments = (*args, out)
            layout = numpy_support.map_layout(out)
            full_types = (*array_types, types.Array(numpy_support.from_dtype(out.dtype), out.ndim, layout))

        def build() -> Any:
            self._typingctx.refresh()
            return self._stencil_wrapper(out, None, *self.get_return_type(array_types), *full_types)

        with compiler_lock.global_compiler_lock._lock:
            depth = len(session.frames)
            try:
                cres = session.stencil(self, full_types, out is not None, build)
            finally:
                session.frames.pop_to(depth)
        return cres.entry_point(*arguments)

    return call


def _noting_neighborhoods(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def _stencil_wrapper(
        self: Any, result: Any, sigret: Any, return_type: Any, typemap: Any, calltypes: Any, *args: Any
    ) -> Any:
        compiled = original(self, result, sigret, return_type, typemap, calltypes, *args)
        # Also where it was known by now: whoever loads the caller may be the first of its process.
        if self.options.get("neighborhood") is None:
            session.frames.note(Effect("stencil", self, (), self.neighborhood, (), True))
        return compiled

    return _stencil_wrapper


def _deferred_after_hits(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def get_type(self: Any) -> Any:
        found = original(self)
        if found.is_opaque and session.has_hits and not vars(self).get("_nbcache_defining"):
            # Lowering the code that was loaded instead would have defined it; without a size LLVM ends the process.
            self._nbcache_defining = True
            try:
                self._define()
            finally:
                self._nbcache_defining = False
        return found

    return get_type


def _runtime(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def compile_nrt_functions(ctx: Any) -> Any:
        return session.runtime(ctx, lambda: build_runtime(ctx))

    return compile_nrt_functions


def _keep_null_cache(_original: Any, _session: Session) -> Any:
    def enable_caching(_self: Any) -> None:
        """``cache=True``: there is one cache already, and it refuses no function for its file."""

    return enable_caching


def _complete_first(original: Any, _session: Session) -> Any:
    @functools.wraps(original)
    def disable_compile(self: Any, val: bool = True) -> None:
        # Whoever looks is given what hits promised; the original looks only where assertions are on.
        len(self.overloads)
        original(self, val)

    return disable_compile


def _unique_ids(_original: Any, session: Session) -> Any:
    return UniqueIds(session.frames)


class _Pickles:
    """Stands in for the module ``serialize`` where Numba puts pickles into code.

    Other callers of that module pickle for somebody else: who sends a dispatcher to another process
    may do so while something is compiled.
    """

    def __init__(self, original: Any, frames: FrameStack) -> None:
        self._original = original
        self._frames = frames
        # The second is how it was spelt before 0.67.
        name = "is_serializable" if hasattr(original, "is_serializable") else "is_serialiable"
        self._is_serializable = getattr(original, name)
        setattr(self, name, self._can_be_written_down)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def dumps(self, obj: Any) -> bytes:
        frame = self._frames.top()
        if frame is None or not frame.portable:
            return self._original.dumps(obj)
        try:
            return artifacts.dumps(obj, frame)
        except Exception as exc:  # noqa: BLE001  what plain Numba can pickle must go on compiling
            let_pass(exc)
            pickled = self._original.dumps(obj)
            frame.taint = frame.taint or f"it holds something that can't be written down ({exc})"
            return pickled

    def _can_be_written_down(self, obj: Any) -> bool:
        if self._is_serializable(obj):  # before 0.67 this raises for some objects, and a program gets to see that
            return True
        frame = self._frames.top()
        if frame is not None and frame.portable:
            with suppressed(Exception):
                artifacts.dumps(obj, frame)
                return True
        return False


def _pickling(original: Any, session: Session) -> Any:
    return _Pickles(original, session.frames)


def _excinfo(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def build_excinfo_struct(self: Any, exc: Any, exc_args: Any, loc: Any, func_name: Any) -> Any:
        exc, exc_args, location = original(self, exc, exc_args, loc, func_name)
        frame = session.frames.top()
        if location is not None and frame is not None and frame.portable:
            location = tokens.live_location(frame, location)
        return exc, exc_args, location

    return build_excinfo_struct


def _dynamic_addresses(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def add_dynamic_addr(self: Any, builder: Any, intaddr: int, info: Any) -> Any:
        frame = session.frames.top()
        symbol = tokens.live_address(frame, intaddr) if frame is not None and frame.portable else None
        if symbol is None:
            artifacts.note_address(intaddr, _ADDRESS.sub("", str(info)))
            return original(self, builder, intaddr, info)
        variable = builder.module.globals.get(symbol)
        if variable is None:
            variable = cgutils.add_global_variable(builder.module, self.get_value_type(types.voidptr), symbol)
        return builder.load(variable)

    return add_dynamic_addr


def _with_recipe(original: Any, _session: Session) -> Any:
    @functools.wraps(original)
    def _create_function_from_code_obj(fcode: Any, func_env: str, func_arg: str, func_clo: str, glbls: Any) -> Any:
        function = original(fcode, func_env, func_arg, func_clo, glbls)
        vars(function)[addresses.RECIPE] = (fcode, func_env, func_arg, func_clo)
        return function

    return _create_function_from_code_obj


def _known_closures(original: Any, session: Session) -> Any:
    @functools.wraps(original)
    def run_pass(self: Any, state: Any) -> Any:
        mutated = original(self, state)
        frame = session.frames.top()
        if mutated and frame is not None:
            assignments = (stmt for block in state.func_ir.blocks.values() for stmt in block.find_insts(ir.Assign))
            values = [stmt.value.value for stmt in assignments if isinstance(stmt.value, ir.Global)]
            frame.closures += [
                value for value in values if isinstance(value, Dispatcher) and addresses.RECIPE in vars(value.py_func)
            ]
        return mutated

    return run_pass


_ADDRESS = re.compile(r"\s*(at )?0x[0-9a-fA-F]+")


def _cfunc_class() -> Any:
    from numba.core.ccallback import CFunc

    return CFunc


def _stencil_class() -> Any:
    from numba.stencils.stencil import StencilFunc

    return StencilFunc


def table() -> list[Seam]:
    """All seams."""
    return [
        Seam(
            Dispatcher, "compile",
            "each @jit function, each callee and overload is looked up and published; frames end here",
            _scoped("_cache", _for_cpu), ("self", "sig"),
        ),
        Seam(
            Dispatcher, "disable_compile", "from then on the overloads that hits promised can't be compiled",
            _complete_first, ("self", "val"),
        ),
        Seam(
            Dispatcher, "enable_caching",
            "cache=True must neither raise for functions without a file nor use Numba's own cache",
            _keep_null_cache, ("self",),
        ),
        Seam(
            ufuncbuilder.UFuncDispatcher, "_compile_core",
            "kernels of @vectorize, DUFunc and @guvectorize",
            _scoped("cache", _without_locals), ("self", "sig", "flags", "locals"),
        ),
        Seam(
            ufuncbuilder.UFuncDispatcher, "enable_caching", "as for Dispatcher", _keep_null_cache, ("self",),
        ),
        Seam(_cfunc_class(), "compile", "@cfunc", _scoped("_cache", _always)),
        Seam(_cfunc_class(), "enable_caching", "as for Dispatcher", _keep_null_cache, ("self",)),
        Seam(
            _DispatcherBase, "overloads",
            "a hit gives callees the overloads that compiling their caller would have given them",
            _complete_overloads, optional=True,
        ),
        Seam(
            _DispatcherBase, "typeof_pyval", "a hit initialises nothing, but some values get their type from it",
            _typing_after_hits, ("self", "val"),
        ),
        Seam(
            DUFuncLowerer, "__init__", "array functions are imported for who calls the ufunc from compiled code",
            _lowered_later, ("self", "dufunc"),
        ),
        Seam(
            GUFuncLowerer, "__init__", "the same", _lowered_later, ("self", "gufunc"),
        ),
        Seam(
            importlib.import_module("numba.core.typing.typeof"), "np", "numpy.ma is imported for one look at its class",
            _without_masked_arrays,
        ),
        Seam(
            Dispatcher, "_compilation_chain_init_hook", "packages that extend Numba aren't loaded for a hit",
            _before_types, ("self",),
        ),
        Seam(
            entrypoints, "init_all", "it parses the metadata of every distribution for the few that extend Numba",
            _extensions,
            (),
        ),
        Seam(
            DUFunc, "_compile_for_argtys", "loops that compiling a caller adds to a ufunc",
            _noting_loops(lambda ufunc: ufunc._dispatcher), ("self", "argtys", "return_type"),
        ),
        Seam(
            GUFunc, "_compile_for_argtys", "loops that compiling a caller adds to a gufunc",
            _noting_loops(lambda gufunc: gufunc.gufunc_builder.nb_func), ("self", "argtys", "return_type"),
        ),
        Seam(
            GUFunc, "add", "who asks for a gufunc's kernel", _known_kernels, ("self", "fty"),
        ),
        Seam(
            ufuncbuilder, "build_ufunc_wrapper", "the loop around a ufunc's kernel", _wrapped_ufunc("ufunc wrapper"),
            ("library", "context", "fname", "signature", "objmode", "cres"),
        ),
        Seam(
            parallel, "build_ufunc_wrapper", "the same for target='parallel'", _wrapped_ufunc("parallel ufunc wrapper"),
            ("library", "ctx", "fname", "signature", "cres"),
        ),
        Seam(
            ufuncbuilder, "build_gufunc_wrapper", "the loop around a gufunc's kernel",
            _wrapped_gufunc("gufunc wrapper"), ("py_func", "cres", "sin", "sout", "cache", "is_parfors"),
        ),
        Seam(
            parallel, "build_gufunc_wrapper", "the same for target='parallel'",
            _wrapped_gufunc("parallel gufunc wrapper"), ("py_func", "cres", "sin", "sout", "cache", "is_parfors"),
        ),
        Seam(
            _stencil_class(), "__call__", "stencils called from Python", _stencil_call, ("self", "args", "kwargs"),
        ),
        Seam(
            _stencil_class(), "_stencil_wrapper", "the neighborhood that compiling a caller finds",
            _noting_neighborhoods, ("self", "result", "sigret", "return_type", "typemap", "calltypes", "args"),
        ),
        Seam(
            models.DeferredStructModel, "get_value_type", "deferred types that a hit left undefined",
            _deferred_after_hits, ("self",),
        ),
        Seam(
            models.DeferredStructModel, "get_data_type", "the same", _deferred_after_hits, ("self",),
        ),
        Seam(
            LiftedWith, "compile", "objmode blocks", _lifted, ("self", "sig"),
        ),
        Seam(
            LiftedLoop, "compile", "loops lifted out of object mode", _lifted, ("self", "sig"),
        ),
        Seam(
            nrtdynmod, "compile_nrt_functions", "the module of Numba's runtime", _runtime, ("ctx",),
        ),
        Seam(
            bytecode.FunctionIdentity, "_unique_ids",
            "symbol names come from a process-wide counter otherwise (numba#10486)", _unique_ids,
        ),
        Seam(
            _OverloadFunctionTemplate, "_get_impl", "other people's choosers and their answers are noted",
            _known_choosers, ("self", "args", "kws"),
        ),
        Seam(
            InlineOverloads, "_do_work_expr", "the same for those that are inlined, for which it asks again",
            _inlined_choices, ("self", "state", "work_list", "block", "i", "expr", "inline_worker"),
        ),
        Seam(
            _OverloadFunctionTemplate, "_get_jit_decorator", "the implementation that an overload chose is kept",
            _marked_choices, ("self",),
        ),
        Seam(
            _IntrinsicTemplate, "generic", "the same for intrinsics", _known_intrinsics, ("self", "args", "kws"),
        ),
        Seam(
            DUFunc, "_type_me", "a caller of a ufunc uses loops that are there already", _with_loops,
        ),
        Seam(
            GUFunc, "_type_me", "the same", _with_loops,
        ),
        *_registries(),
        Seam(
            GeneratorDescriptor, "from_generator_fndesc", "a generator's next function has no unique id in its name",
            _generator_names, ("cls", "func_ir", "fndesc", "gentype", "mangler"),
        ),
        Seam(
            pythonapi, "serialize", "pickles inside compiled code must find live objects again, and what only Numba "
            "can't pickle need not become an address", _pickling,
        ),
        Seam(
            callconv.CPUCallConv, "build_excinfo_struct",
            "file and line in compiled exceptions are looked up where the function stands",
            _excinfo, ("self", "exc", "exc_args", "loc", "func_name"),
        ),
        Seam(
            ir_utils, "_create_function_from_code_obj", "closures in compiled code can be made again", _with_recipe,
            ("fcode", "func_env", "func_arg", "func_clo", "glbls"),
        ),
        Seam(
            MakeFunctionToJitFunction, "run_pass", "the same: the dispatchers that they become", _known_closures,
            ("self", "state"),
        ),
        Seam(
            BaseContext, "add_dynamic_addr", "addresses are bound anew in each process; says what one is that can't be",
            _dynamic_addresses, ("self", "builder", "intaddr", "info"),
        ),
    ]  # fmt: skip


def _registries() -> list[Seam]:
    """What Numba asks its registries through: the names that it asks for are noted."""
    return [
        *(
            Seam(
                template, "apply", "which template answered", consulting.answering, ("self", "args", "kws"),
            )
            for template in (templates.AbstractTemplate, templates.CallableTemplate, templates.ConcreteTemplate)
        ),
        Seam(
            types.BaseFunction, "get_call_type", "how calls are typed", consulting.typing_of_calls,
            ("self", "context", "args", "kws"),
        ),
        Seam(
            typing.BaseContext, "_resolve_builtin_function_type", "how what has no value in Python is typed",
            consulting.typing_of_builtins, ("self", "func", "args", "kws"),
        ),
        Seam(
            typing.BaseContext, "find_matching_getattr_template", "how attributes are typed",
            consulting.attributes(0, 1), ("self", "typ", "attr"),
        ),
        Seam(
            typing.BaseContext, "resolve_setattr", "the same when they are set", consulting.attributes(0, 1),
            ("self", "target", "attr", "value"),
        ),
        Seam(
            typing.BaseContext, "resolve_value_type", "what type a global has", consulting.values, ("self", "val"),
        ),
        Seam(
            AsNumbaTypeRegistry, "infer", "what type a class stands for", consulting.annotated, ("self", "py_type"),
        ),
        Seam(
            BaseContext, "get_function", "how calls are lowered", consulting.lowering,
            ("self", "fn", "sig", "_firstcall"),
        ),
        Seam(
            BaseContext, "get_getattr", "how attributes are lowered", consulting.attributes(0, 1),
            ("self", "typ", "attr"),
        ),
        Seam(
            BaseContext, "get_setattr", "the same when they are set", consulting.attributes(1, 0),
            ("self", "attr", "sig"),
        ),
        Seam(
            BaseContext, "cast", "how values are converted", consulting.types_at(2, 3),
            ("self", "builder", "val", "fromty", "toty"),
        ),
        Seam(
            BaseContext, "get_constant_generic", "how constants are lowered", consulting.types_at(1),
            ("self", "builder", "ty", "val"),
        ),
        Seam(
            BaseContext, "compile_subroutine", "subroutines are compiled once and kept", consulting.subroutines,
            ("self", "builder", "impl", "sig", "locals", "flags", "caching"),
        ),
        Seam(
            DataModelManager, "lookup", "what values consist of", consulting.data_models, ("self", "fetype"),
        ),
        Seam(
            pythonapi._Registry, "lookup", "how values are boxed and unboxed", consulting.boxing,
            ("self", "typeclass", "default"),
        ),
    ]  # fmt: skip


def problem() -> str | None:
    """Why nbcache stays off with this Numba, in one line; None when all is well."""
    reason = releases.problem()
    return reason or next((text for seam in table() if (text := seam.problem()) is not None), None)


_ABSENT = object()
_installed: list[tuple[Seam, Any]] = []


def install(session: Session) -> str | None:
    """Replace every seam, or none: the return value says why not."""
    if _installed:
        return None
    reason = problem()
    if reason is not None:
        return reason
    for seam in table():
        original = inspect.getattr_static(seam.owner, seam.name, _ABSENT)
        _installed.append((seam, original))
        setattr(seam.owner, seam.name, seam.replace(original, session))
    return None


def remove() -> None:
    """Put every original back."""
    while _installed:
        seam, original = _installed.pop()
        if original is _ABSENT:
            delattr(seam.owner, seam.name)
        else:
            setattr(seam.owner, seam.name, original)
