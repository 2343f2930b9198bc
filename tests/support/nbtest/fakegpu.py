"""A GPU that isn't there: numba-cuda compiles, links and "loads" for any compute capability, and nothing is launched.

    python -m nbtest.fakegpu CC REPORT PROGRAM...

runs programs in this process, one after the other, with such a device and writes what happened as JSON: for each, how
often numba-cuda's front end, NVVM, NVRTC and nvJitLink ran, what each launch executed or would have, what the
program's arrays hold in the end, and the exception that ended it. NVIDIA's compilers and linker are the real
ones, which need no driver; the device is the one that nbcache's own workers have. With `REAL` in the place of a
compute capability there is no such device: kernels run on the GPU of this host.
"""

import functools
import hashlib
import json
import runpy
import sys
import time
import traceback
from collections import Counter
from types import FunctionType

from nbtest import cubins

REAL = "gpu"
runs = Counter()
launched = []
loaded = []


INSTEAD = {}
"""By number, what is called in the place of a function of numba-cuda's."""


def instead(function, do):
    """Have ``do(original, …)`` called for *function*.

    Its code is exchanged, and nothing put into its place: whoever puts something into numba-cuda has other keys.
    """
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    number = len(INSTEAD)
    INSTEAD[number] = functools.partial(do, original)
    called = f"__import__('sys').modules['nbtest.fakegpu'].INSTEAD[{number}](*args, **kwargs)"
    function.__code__ = eval(f"lambda *args, **kwargs: {called}").__code__.replace(
        co_filename=function.__code__.co_filename
    )


def parse(text):
    """Return ``(9, 0)`` for ``"9.0a"``: the device of which 9.0a is the code."""
    major, minor = text.rstrip("af").split(".")
    return int(major), int(minor)


def install(cc):
    """Put a device with this compute capability where numba-cuda looks for one."""
    from numba.cuda import dispatcher

    from nbcache import capabilities
    from nbcache.glue.cuda import standin

    class Function(standin.Function):
        def set_shared_memory_carveout(self, carveout):
            launched.append({"carveout": carveout})

    class Module(standin.Module):
        initialized = False

        def __init__(self, cc, cubin, setup):
            super().__init__(cc)
            self.cubin = cubin
            self.to_do = setup or []

        def setup(self):
            self.initialized = True
            for function in self.to_do:
                function(self)

        def get_function(self, name):
            assert name.encode() in self.cubin.code, f"the cubin has no {name}"
            return Function(capability, self, name)

    class Context(standin.Context):
        def create_module_image(self, cubin, setup=None, _teardown=None):
            loaded.append(cubin)
            return Module(capability, cubin, setup)

    sys.modules["nbtest.fakegpu"] = sys.modules[__name__]
    capability = capabilities.of_device(*cc)
    standin.install(capability, Context(capability))
    instead(dispatcher._Kernel.launch, _launch)


def use_real():
    """Note what the GPU of this host is given to execute, and let it do so."""
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import driver

    def noted(launch, kernel, *args, **kwargs):
        _note(kernel, kernel._codelibrary.get_cufunc().name, kernel._codelibrary.get_cubin())
        return launch(kernel, *args, **kwargs)

    def preferred(prefer, function, carveout):
        launched.append({"carveout": carveout})
        return prefer(function, carveout)

    sys.modules["nbtest.fakegpu"] = sys.modules[__name__]
    instead(dispatcher._Kernel.launch, noted)
    instead(driver.CudaPythonFunction.set_shared_memory_carveout, preferred)


def _launch(_original, kernel, *_args, **_kwargs):
    function = kernel._codelibrary.get_cufunc()
    _note(kernel, function.name, function.module.cubin)


def _note(kernel, name, cubin):
    launched.append(
        {
            "kernel": cubins.plain_name(name.encode()).decode(),
            "code": code_digest(cubin.code),
            "cooperative": bool(kernel.cooperative),
            "debug": bool(kernel.debug),
            "arguments": [str(each) for each in kernel.argument_types],
            "exceptions": sorted(map(repr, kernel.call_helper.exceptions.items())) if kernel.debug else [],
        }
    )


def code_digest(cubin):
    """Identify a cubin's code, whatever numbers are in its names: sections by normalised name, and their content."""
    return hashlib.blake2b(repr(cubins.normalised(cubin)).encode(), digest_size=12).hexdigest()


def count():
    """Count what compiles and links."""
    from numba.cuda import compiler
    from numba.cuda.cudadrv import driver, nvrtc, nvvm

    def counting(function, label):
        def counted(original, *args, **kwargs):
            runs[label] += 1
            return original(*args, **kwargs)

        instead(function, counted)

    counting(compiler.compile_extra, "front end")
    counting(compiler.compile_internal, "front end")
    counting(nvvm.compile_ir, "NVVM")
    counting(nvrtc.compile, "NVRTC")
    counting(driver._Linker.complete, "nvJitLink")


def run(program):
    """Run one program as a main program; what it did."""
    from numba.cuda.descriptor import cuda_target

    runs.clear()
    launched.clear()
    # What earlier programs compiled, under other options, would otherwise become part of what this one compiles.
    cuda_target.target_context.cached_internal_func.clear()
    started, failure, left = time.process_time(), "", {}
    sys.argv = [program]
    try:
        left = runpy.run_path(program, run_name="__main__")
    except Exception:  # whatever it is, it is part of what the program did
        failure = traceback.format_exc()
    seconds = time.process_time() - started
    return {
        "runs": dict(runs), "launched": list(launched), "seconds": seconds, "failure": failure,
        "arrays": {name: _digest(each) for name, each in left.items() if hasattr(each, "__array_interface__")},
    }  # fmt: skip


def _digest(array):
    return hashlib.blake2b(f"{array.dtype}{array.shape}".encode() + array.tobytes(), digest_size=12).hexdigest()


def main():
    cc, report, *programs = sys.argv[1:]
    from numba.cuda import dispatcher  # noqa: F401

    if cc == REAL:
        use_real()
    else:
        install(parse(cc))
    count()
    found = {"programs": {program: run(program) for program in programs}, "stats": {}}
    if "nbcache" in sys.modules:
        import nbcache

        found["stats"] = nbcache.stats()
    with open(report, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
