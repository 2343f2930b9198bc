"""A GPU that isn't there: numba-cuda compiles, links and "loads" for any compute capability, and nothing is launched.

    python -m nbtest.fakegpu CC REPORT PROGRAM...

runs programs in this process, one after the other, with such a device and writes what happened as JSON: for each, how
often numba-cuda's front end, NVVM, NVRTC and nvJitLink ran, what each launch executed or would have, what the
program's arrays hold in the end, and the exception that ended it. NVIDIA's compilers and linker are the real
ones, which need no driver; look-ups of a device or context get the one made here. With `REAL` in the place of a
compute capability there is no such device: kernels run on the GPU of this host.
"""

import hashlib
import json
import runpy
import sys
import time
import traceback
from collections import Counter

from nbtest import cubins

REAL = "gpu"
runs = Counter()
launched = []
loaded = []


class _Device:
    id = 0
    name = b"fake"

    def __init__(self, cc):
        self.compute_capability = cc
        self.uuid = "GPU-fake"


class _Function:
    kernel = None

    def __init__(self, module, name):
        self.module = module
        self.name = name

    def set_shared_memory_carveout(self, carveout):
        launched.append({"carveout": carveout})


class _Module:
    initialized = False

    def __init__(self, cubin, setup):
        self.cubin = cubin
        self._setup = setup or []

    def setup(self):
        self.initialized = True
        for function in self._setup:
            function(self)

    def get_function(self, name):
        assert name.encode() in self.cubin.code, f"the cubin has no {name}"
        return _Function(self, name)


class _Context:
    id = 0

    def __init__(self, cc):
        self.device = _Device(cc)

    def create_module_image(self, cubin, setup=None, _teardown=None):
        loaded.append(cubin)
        return _Module(cubin, setup)


def parse(text):
    """Return ``(9, 0)`` for ``"9.0a"``: the device of which 9.0a is the code."""
    major, minor = text.rstrip("af").split(".")
    return int(major), int(minor)


def install(cc):
    """Put a device with this compute capability where numba-cuda looks for one."""
    from numba.cuda import api, dispatcher
    from numba.cuda.cudadrv import devices

    context = _Context(cc)
    dispatcher.get_current_device = api.get_current_device = lambda: context.device
    sys.modules["numba.cuda.compiler"].get_current_device = dispatcher.get_current_device
    devices.get_context = dispatcher.get_context = api.current_context = lambda _number=None: context
    dispatcher._Kernel.launch = _launch
    return context


def use_real():
    """Note what the GPU of this host is given to execute, and let it do so."""
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import driver

    launch, prefer = dispatcher._Kernel.launch, driver.CudaPythonFunction.set_shared_memory_carveout

    def noted(kernel, *args, **kwargs):
        _note(kernel, kernel._codelibrary.get_cufunc().name, kernel._codelibrary.get_cubin())
        return launch(kernel, *args, **kwargs)

    def preferred(function, carveout):
        launched.append({"carveout": carveout})
        return prefer(function, carveout)

    dispatcher._Kernel.launch = noted
    driver.CudaPythonFunction.set_shared_memory_carveout = preferred


def _launch(kernel, args, griddim, blockdim, stream=0, sharedmem=0):
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

    def counting(owner, name, label):
        original = getattr(owner, name)

        def counted(*args, **kwargs):
            runs[label] += 1
            return original(*args, **kwargs)

        setattr(owner, name, counted)

    counting(compiler, "compile_extra", "front end")
    counting(compiler, "compile_internal", "front end")
    counting(nvvm, "compile_ir", "NVVM")
    counting(nvrtc, "compile", "NVRTC")
    counting(driver._Linker, "complete", "nvJitLink")


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
