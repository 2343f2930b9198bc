"""The places where nbcache takes part in Numba: one table, each attribute with its reason.

Every seam is checked before any is replaced: an attribute that is missing or does not look as
expected means another Numba than the verified ones, and then nothing is touched.

Attributes replaced are put back by `remove`; Dispatchers created meanwhile keep working, since
what they hold asks the session each time and a session that is off answers nothing.
"""

from __future__ import annotations

import copy
import importlib
from typing import TYPE_CHECKING

from numba.core import bytecode, callconv, cgutils, config, entrypoints, ir_utils, pythonapi, types, typing
from numba.core.base import BaseContext
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import Codegen, CPUCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.datamodel import models
from numba.core.datamodel.manager import DataModelManager
from numba.core.dispatcher import Dispatcher, LiftedLoop, LiftedWith, _DispatcherBase, _FunctionCompiler
from numba.core.generators import GeneratorDescriptor
from numba.core.runtime import nrtdynmod, rtsys
from numba.core.typed_passes import InlineOverloads
from numba.core.typing import templates
from numba.core.typing.asnumbatype import AsNumbaTypeRegistry
from numba.core.typing.templates import _IntrinsicTemplate, _OverloadFunctionTemplate
from numba.core.untyped_passes import MakeFunctionToJitFunction
from numba.np.ufunc import parallel, ufuncbuilder
from numba.np.ufunc.dufunc import DUFunc, DUFuncLowerer
from numba.np.ufunc.gufunc import GUFunc, GUFuncLowerer
from numba.np.ufunc.ufunc_base import UfuncBase

from nbcache.glue import replacing
from nbcache.glue.hooks import compiling, deferring, emission, observing, registry_reads
from nbcache.glue.replacing import Seam

if TYPE_CHECKING:
    from nbcache.glue.hooks.policy import Session


def forbid_files() -> None:
    """Have ``cache=True`` ask for nothing from here on: for those who want no cache at all, not even Numba's own."""

    def enable_caching(_self: object) -> None:
        """``cache=True``."""

    for seam in table():
        if seam.name == "enable_caching" and seam.problem() is None:
            setattr(seam.owner, seam.name, enable_caching)


def table() -> list[Seam]:
    """All seams."""
    return [
        Seam(
            Dispatcher, "compile",
            "each @jit function, each callee and overload is looked up and published; frames end here",
            compiling.scoped("_cache", compiling.for_cpu, has_past=True), ("self", "sig"),
        ),
        Seam(
            _FunctionCompiler, "compile", "compilations inside others have no more frames than in plain Numba",
            compiling.in_one_frame, ("self", "args", "return_type"),
        ),
        Seam(
            Dispatcher, "get_overload", "a callee that isn't compiled any more was made of something, too",
            compiling.used_as_it_is, ("self", "sig"),
        ),
        Seam(
            Dispatcher, "get_compile_result", "the same of a function that is passed on",
            compiling.used_as_it_is, ("self", "sig"),
        ),
        Seam(
            Dispatcher, "disable_compile", "from then on the overloads that hits promised can't be compiled",
            compiling.complete_first, ("self", "val"),
        ),
        Seam(
            Dispatcher, "enable_caching",
            "cache=True must neither raise for functions without a file nor use Numba's own cache",
            compiling.ask_session("_cache"), ("self",),
        ),
        Seam(
            ufuncbuilder.UFuncDispatcher, "_compile_core",
            "kernels of @vectorize, DUFunc and @guvectorize",
            compiling.scoped("cache", compiling.without_locals), ("self", "sig", "flags", "locals"),
        ),
        Seam(
            ufuncbuilder.UFuncDispatcher, "enable_caching", "as for Dispatcher", compiling.ask_session("cache"),
            ("self",),
        ),
        Seam(emission.cfunc_class(), "compile", "@cfunc", compiling.scoped("_cache", compiling.always)),
        Seam(
            emission.cfunc_class(), "enable_caching", "as for Dispatcher", compiling.ask_session("_cache"), ("self",),
        ),
        Seam(
            CompileResultCacheImpl, "check_cachable",
            "what a package keeps in files of Numba's is read where nobody knows of placeholders",
            emission.without_placeholders, ("self", "cres"),
        ),
        Seam(
            _DispatcherBase, "overloads",
            "a hit gives callees the overloads that compiling their caller would have given them",
            observing.complete_overloads, optional=True,
        ),
        Seam(
            _DispatcherBase, "typeof_pyval", "a hit loads no extensions, but some values get their type from them",
            deferring.typing_after_hits, ("self", "val"),
        ),
        Seam(
            importlib.import_module("numba.core.typing.typeof"), "_typeof_buffer",
            "a hit initialises nothing, but some values get their type from it",
            deferring.typeof_after_hits, ("val", "c"),
        ),
        Seam(
            type(rtsys), "_init_guard", "a hit initialises no runtime, and a compilation does",
            deferring.runtime_after_hits, ("self",),
        ),
        Seam(
            CPUContext, "load_additional_registries", "a hit loads none of Numba's registries, and a compilation all",
            deferring.loaded_whole, ("self",),
        ),
        Seam(
            typing.Context, "load_additional_registries", "the same", deferring.loaded_whole, ("self",),
        ),
        Seam(
            DUFuncLowerer, "__init__", "array functions are imported for who calls the ufunc from compiled code",
            observing.lowered_later, ("self", "dufunc"),
        ),
        Seam(
            GUFuncLowerer, "__init__", "the same", observing.lowered_later, ("self", "gufunc"),
        ),
        Seam(
            importlib.import_module("numba.core.typing.typeof"), "np", "numpy.ma is imported for one look at its class",
            replacing.without_masked_arrays,
        ),
        Seam(
            Dispatcher, "_compilation_chain_init_hook", "packages that extend Numba aren't loaded for a hit",
            deferring.before_types, ("self",),
        ),
        Seam(
            entrypoints, "init_all", "it parses the metadata of every distribution for the few that extend Numba",
            deferring.extensions,
            (),
        ),
        Seam(
            DUFunc, "_compile_for_argtys", "loops that compiling a caller adds to a ufunc",
            observing.noting_loops, ("self", "argtys", "return_type"),
        ),
        Seam(
            GUFunc, "_compile_for_argtys", "loops that compiling a caller adds to a gufunc",
            observing.noting_loops, ("self", "argtys", "return_type"),
        ),
        Seam(
            GUFunc, "add", "who asks for a gufunc's kernel", observing.known_kernels, ("self", "fty"),
        ),
        Seam(
            ufuncbuilder, "build_ufunc_wrapper", "the loop around a ufunc's kernel",
            compiling.wrapped_ufunc("ufunc wrapper"),
            ("library", "context", "fname", "signature", "objmode", "cres"),
        ),
        Seam(
            parallel, "build_ufunc_wrapper", "the same for target='parallel'",
            compiling.wrapped_ufunc("parallel ufunc wrapper"),
            ("library", "ctx", "fname", "signature", "cres"),
        ),
        Seam(
            ufuncbuilder, "build_gufunc_wrapper", "the loop around a gufunc's kernel",
            compiling.wrapped_gufunc("gufunc wrapper"), ("py_func", "cres", "sin", "sout", "cache", "is_parfors"),
        ),
        Seam(
            parallel, "build_gufunc_wrapper", "the same for target='parallel'",
            compiling.wrapped_gufunc("parallel gufunc wrapper"),
            ("py_func", "cres", "sin", "sout", "cache", "is_parfors"),
        ),
        Seam(
            emission.stencil_class(), "__call__", "stencils called from Python",
            compiling.stencil_call, ("self", "args", "kwargs"),
        ),
        Seam(
            emission.stencil_class(), "_stencil_wrapper", "the neighborhood that compiling a caller finds",
            observing.noting_neighborhoods, ("self", "result", "sigret", "return_type", "typemap", "calltypes", "args"),
        ),
        Seam(
            models.DeferredStructModel, "get_value_type", "deferred types that a hit left undefined",
            deferring.deferred_after_hits, ("self",),
        ),
        Seam(
            models.DeferredStructModel, "get_data_type", "the same", deferring.deferred_after_hits, ("self",),
        ),
        Seam(
            LiftedWith, "compile", "objmode blocks", compiling.lifted, ("self", "sig"),
        ),
        Seam(
            LiftedLoop, "compile", "loops lifted out of object mode", compiling.lifted, ("self", "sig"),
        ),
        Seam(
            nrtdynmod, "compile_nrt_functions", "the module of Numba's runtime", compiling.runtime, ("ctx",),
        ),
        Seam(
            Codegen, "create_library", "callees' own objects are kept: to what isn't exact, callers are bound",
            emission.kept_objects, ("self", "name", "kwargs"),
        ),
        Seam(
            cgutils, "normalize_ir_text", "the text of a module, which would have to be printed otherwise",
            emission.written_modules, ("text",),
        ),
        Seam(
            CPUCodeLibrary, "add_llvm_module", "digests of what the front end made are in every entry, to be compared",
            emission.noted_modules, ("self", "ll_module"),
        ),
        Seam(
            bytecode.ByteCode, "__init__", "what others' code has compiled counts as what runs",
            observing.code_that_is_read, ("self", "func_id"),
        ),
        Seam(
            bytecode.FunctionIdentity, "from_function",
            "symbol names come from a process-wide counter otherwise (numba#10486)",
            emission.unique_ids, ("cls", "pyfunc"),
        ),
        Seam(
            _OverloadFunctionTemplate, "_get_impl", "other people's choosers and their answers are noted",
            observing.known_choosers, ("self", "args", "kws"),
        ),
        Seam(
            InlineOverloads, "run_pass", "the same for those that are inlined, for which it asks again",
            observing.inlined_choices, ("self", "state"),
        ),
        Seam(
            _OverloadFunctionTemplate, "_get_jit_decorator", "the implementation that an overload chose is kept",
            observing.marked_choices, ("self",),
        ),
        Seam(
            _IntrinsicTemplate, "generic", "the same for intrinsics",
            observing.known_intrinsics, ("self", "args", "kws"),
        ),
        Seam(
            DUFunc, "find_ewise_function", "a caller of a ufunc uses loops that are there already",
            observing.with_loops, ("self", "ewise_types"),
        ),
        Seam(
            UfuncBase, "find_ewise_function", "the same for gufuncs", observing.with_loops, ("self", "ewise_types"),
        ),
        *_registries(),
        Seam(
            config, "reload_config", "Numba reads all variables: who does needn't be found out for each",
            observing.reading_settings, (),
        ),
        Seam(
            GeneratorDescriptor, "from_generator_fndesc", "a generator's next function has no unique id in its name",
            emission.generator_names, ("cls", "func_ir", "fndesc", "gentype", "mangler"),
        ),
        Seam(
            pythonapi, "serialize", "pickles inside compiled code must find live objects again, and what only Numba "
            "can't pickle need not become an address", emission.with_pickles,
        ),
        Seam(
            callconv.CPUCallConv, "build_excinfo_struct",
            "file and line in compiled exceptions are looked up where the function stands",
            emission.excinfo, ("self", "exc", "exc_args", "loc", "func_name"),
        ),
        Seam(
            ir_utils, "_create_function_from_code_obj", "closures in compiled code can be made again",
            emission.with_recipe,
            ("fcode", "func_env", "func_arg", "func_clo", "glbls"),
        ),
        Seam(
            MakeFunctionToJitFunction, "run_pass", "the same: the dispatchers that they become",
            emission.known_closures,
            ("self", "state"),
        ),
        Seam(
            BaseContext, "add_dynamic_addr", "addresses are bound anew in each process; says what one is that can't be",
            emission.dynamic_addresses, ("self", "builder", "intaddr", "info"),
        ),
    ]  # fmt: skip


def _registries() -> list[Seam]:
    """What Numba asks its registries through: the names that it asks for are noted."""
    return [
        *(
            Seam(
                template, "apply", "which template answered", registry_reads.answering, ("self", "args", "kws"),
            )
            for template in (templates.AbstractTemplate, templates.CallableTemplate, templates.ConcreteTemplate)
        ),
        *(
            Seam(
                context, "install_registry", "others' registries come after Numba's, which a hit leaves for later",
                registry_reads.installing, ("self", "registry"),
            )
            for context in (typing.BaseContext, BaseContext)
        ),
        Seam(
            types.BaseFunction, "get_call_type", "how calls are typed", registry_reads.typing_of_calls,
            ("self", "context", "args", "kws"),
        ),
        Seam(
            typing.BaseContext, "_resolve_builtin_function_type", "how what has no value in Python is typed",
            registry_reads.typing_of_builtins, ("self", "func", "args", "kws"),
        ),
        Seam(
            typing.BaseContext, "find_matching_getattr_template", "how attributes are typed",
            registry_reads.attributes(0, 1), ("self", "typ", "attr"),
        ),
        Seam(
            typing.BaseContext, "resolve_setattr", "the same when they are set", registry_reads.attributes(0, 1),
            ("self", "target", "attr", "value"),
        ),
        Seam(
            typing.BaseContext, "resolve_value_type", "what type a global has", registry_reads.values, ("self", "val"),
        ),
        Seam(
            AsNumbaTypeRegistry, "infer", "what type a class stands for", registry_reads.annotated, ("self", "py_type"),
        ),
        Seam(
            type(types.Type), "_intern", "what others' types hold when they are made", registry_reads.interning,
            ("cls", "inst"),
        ),
        Seam(
            BaseContext, "get_function", "how calls are lowered", registry_reads.lowering,
            ("self", "fn", "sig", "_firstcall"),
        ),
        Seam(
            BaseContext, "get_getattr", "how attributes are lowered", registry_reads.attributes(0, 1),
            ("self", "typ", "attr"),
        ),
        Seam(
            BaseContext, "get_setattr", "the same when they are set", registry_reads.attributes(1, 0),
            ("self", "attr", "sig"),
        ),
        Seam(
            BaseContext, "cast", "how values are converted", registry_reads.types_at(3, 5),
            ("self", "builder", "val", "fromty", "toty"),
        ),
        Seam(
            BaseContext, "get_constant_generic", "how constants are lowered", registry_reads.types_at(2, 3),
            ("self", "builder", "ty", "val"),
        ),
        Seam(
            BaseContext, "compile_subroutine", "subroutines are compiled once and kept", observing.subroutines,
            ("self", "builder", "impl", "sig", "locals", "flags", "caching"),
        ),
        Seam(
            DataModelManager, "lookup", "what values consist of", registry_reads.data_models, ("self", "fetype"),
        ),
        Seam(
            pythonapi._Registry, "lookup", "how values are boxed and unboxed", registry_reads.boxing,
            ("self", "typeclass", "default"),
        ),
    ]  # fmt: skip


def problem() -> str | None:
    """Why nbcache stays off with this Numba, in one line; None when all is well."""
    return replacing.problem_of(table())


_installed: replacing.Replaced = []


def install(session: Session) -> str | None:
    """Replace every seam, or none: the return value says why not."""
    if _installed:
        return None
    seams = table()
    reason = replacing.problem_of(seams)
    if reason is not None:
        return reason
    _installed.extend(replacing.replace(seams, session))
    # At the first copy, Python notes in a class which slots that has. Noted now, it counts as a change of nbcache's;
    # with the first function that Numba copies its context for, it would pass for a change by somebody.
    copy.copy(CPUContext.__new__(CPUContext))
    return None


def remove() -> None:
    """Put every original back."""
    replacing.put_back(_installed)
