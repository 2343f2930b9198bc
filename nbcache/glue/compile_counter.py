"""The counter of the truth: what Numba compiles in this process, whether or not nbcache is on.

Three kinds of events are counted, each at the one place where all work of that kind passes:

compile   Numba's own event, which only a Dispatcher triggers.
pipeline  a run of the compiler over one function (`CompilerBase`: also kernels of ufuncs, subroutines that lowering
          compiles, objmode blocks, lifted loops), or a type inference outside any such run (stencils).
llvm      a library that LLVM's passes were run on: also wrappers and the NRT's module, which have no pipeline.

Nothing of what Numba does is changed.  Without this module imported nothing is counted and nothing costs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from numba.core import event, typed_passes
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase

from nbcache.count_record import COMPILE, LLVM, PIPELINE, Tally
from nbcache.glue import own_attributes

_counting = False


def count_into(directory: str) -> None:
    """From here on, record into *directory* what this process and the children it forks compile.  Idempotent."""
    global _counting
    if _counting:
        return
    _counting = True
    tally = Tally(directory)
    event.register("numba:compile", _CompileEvents(tally))
    _count_pipelines(tally)
    _count_libraries(tally)


class _CompileEvents(event.Listener):
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        self._tally.note(COMPILE, _described(function.__module__, function.__qualname__, event.data["args"]))

    def on_end(self, event: Any) -> None:
        """Nothing to do: what has begun is counted, also if it fails."""


def _count_pipelines(tally: Tally) -> None:
    run, infer = CompilerBase._compile_core, typed_passes.type_inference_stage
    depth = threading.local()

    @functools.wraps(run)
    def compile_core(self: Any) -> Any:
        identity = self.state.func_id
        tally.note(PIPELINE, _described(identity.modname, identity.func_qualname, self.state.args))
        depth.now = getattr(depth, "now", 0) + 1
        try:
            return run(self)
        finally:
            depth.now -= 1

    @functools.wraps(infer)
    def type_inference_stage(typingctx: Any, targetctx: Any, interp: Any, args: Any, *rest: Any, **named: Any) -> Any:
        if not getattr(depth, "now", 0):
            identity = interp.func_id
            tally.note(PIPELINE, _described(identity.modname, identity.func_qualname, args))
        return infer(typingctx, targetctx, interp, args, *rest, **named)

    CompilerBase._compile_core = compile_core
    typed_passes.type_inference_stage = type_inference_stage


def _count_libraries(tally: Tally) -> None:
    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def optimize(self: Any, *args: Any) -> Any:
            # Once a library: passes over its functions come first, and some libraries get no others.
            if own_attributes.COUNTED not in vars(self):
                setattr(self, own_attributes.COUNTED, True)
                tally.note(LLVM, self.name)
            return original(self, *args)

        return optimize

    CPUCodeLibrary._optimize_functions = counted(CPUCodeLibrary._optimize_functions)
    CPUCodeLibrary._optimize_final_module = counted(CPUCodeLibrary._optimize_final_module)


def _described(module: str, name: str, args: Any) -> str:
    return f"{module}:{name}({', '.join(map(str, args))})"
