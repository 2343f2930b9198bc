"""Programs that use numba-cuda: each compiles something, and "launches" it on a device that isn't there.

`PROGRAMS` maps a name to a main program. `UNCACHEABLE` names those of which something is compiled in each process, with
the reason that nbcache gives. `HEAD` comes before each.
"""

HEAD = """\
import math
import warnings

import numpy as np
from numba import cuda, float32, float64, guvectorize, int32, njit, vectorize, void
warnings.simplefilter("ignore")
a = np.ones(64, np.float32)
b = np.ones(64, np.float64)
m = np.ones((8, 8), np.float32)
"""

PROGRAMS = {}
UNCACHEABLE = {}


def _program(name, text, uncacheable=None):
    PROGRAMS[name] = HEAD + text.strip("\n") + "\n"
    if uncacheable is not None:
        UNCACHEABLE[name] = uncacheable


def _kernel(name, body, *, options="", arguments="a", before="", parameters="x", launch="1, 64", **more):
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    decorator = f"@cuda.jit({options})" if options else "@cuda.jit"
    _program(
        name, f"{before}\n{decorator}\ndef kernel({parameters}):\n{lines}\nkernel[{launch}]({arguments})\n", **more
    )


_AT = "i = cuda.grid(1)\nif i < x.size:\n    x[i] = "
_kernel("lazy", _AT + "x[i] * 2")
_kernel("lazy-two-types", _AT + "x[i] * 2", arguments="a)\nkernel[1, 64](b")
_kernel("eager", _AT + "x[i] + 1", options='"void(float32[:])"')
_kernel(
    "eager-several", _AT + "x[i] + 1", options='["void(float32[:])", void(float64[:])]', arguments="a)\nkernel[1, 64](b"
)
_program(
    "specialised",
    """
@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = 3
kernel.specialize(a)[1, 64](a)
""",
)
_program(
    "forall",
    """
@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 4
kernel.forall(64, tpb=32)(a)
""",
)
_kernel("cooperative", "x[cuda.grid(1)] = 1\ncuda.cg.this_grid().sync()\nx[cuda.grid(1)] += 2")
_kernel("fastmath", _AT + "math.sqrt(x[i]) / math.sin(x[i])", options="fastmath=True")
_kernel("max-registers", _AT + "math.sin(x[i]) * math.cos(x[i])", options="max_registers=24")
_kernel("launch-bounds", _AT + "x[i] / 3", options="launch_bounds=(128, 2)")
_kernel("lineinfo", _AT + "x[i] / 5", options="lineinfo=True")
_kernel(
    "debug",
    "i = cuda.grid(1)\nif x[i] < 0:\n    raise ValueError('negative')\nx[i] = 1 / x[i]",
    options="debug=True, opt=False",
)
_kernel("unoptimised", _AT + "x[i] * 7", options="opt=False")
_kernel("no-lto", _AT + "x[i] * 8", options="lto=False")
_kernel("carveout", _AT + "x[i] * 9", options='shared_memory_carveout="MaxL1"')
_kernel(
    "shared-memory",
    "s = cuda.shared.array(64, float32)\nt = cuda.threadIdx.x\ns[t] = x[t]\ncuda.syncthreads()\nx[t] = s[63 - t]",
)
_kernel(
    "dynamic-shared",
    "s = cuda.shared.array(0, float32)\nt = cuda.threadIdx.x\ns[t] = x[t]\ncuda.syncthreads()\nx[t] = s[63 - t]",
    launch="1, 64, 0, 256",
)
_kernel(
    "local-memory",
    "s = cuda.local.array(16, float32)\nfor k in range(16):\n    s[k] = x[k]\nx[cuda.grid(1)] = s[cuda.grid(1) % 16]",
)
_kernel(
    "constant-memory",
    "c = cuda.const.array_like(C)\nx[cuda.grid(1)] = c[cuda.threadIdx.x]",
    before="C = np.arange(64, dtype=np.float32)",
)
_kernel("global-array", "x[cuda.grid(1)] = C[cuda.threadIdx.x]", before="C = np.arange(64, dtype=np.float32)")
_kernel(
    "atomics",
    "cuda.atomic.add(x, 0, 1)\ncuda.atomic.max(x, 1, 2)\ncuda.atomic.cas(y, 0, 1, 2)",
    parameters="x, y",
    arguments="a, np.ones(4, np.int32)",
)
_kernel("warp", "x[cuda.grid(1)] = cuda.shfl_sync(0xffffffff, x[cuda.grid(1)], 1)\ncuda.syncwarp()")
_kernel(
    "two-dimensions",
    "i, j = cuda.grid(2)\nif i < x.shape[0] and j < x.shape[1]:\n    x[i, j] = i * j",
    arguments="m",
    launch="(1, 1), (8, 8)",
)
_kernel("reshape", "y = x.reshape((2, x.size // 2))\ny[0, 0] = 1")
_kernel(
    "libdevice", "x[cuda.grid(1)] = libdevice.fast_sinf(x[cuda.grid(1)])", before="from numba.cuda import libdevice"
)
_kernel("half", "x[0] = cuda.fp16.hsin(x[0])", arguments="np.ones(4, np.float16)")
_kernel(
    "records",
    "y[0] = x[cuda.grid(1)].q",
    parameters="x, y",
    arguments="np.zeros(64, np.dtype([('p', 'f8'), ('q', 'i8')])), b",
)
_kernel("complex", _AT + "x[i] * x[i].conjugate()", arguments="np.ones(4, np.complex64)")
_kernel("tuples", "x[0] = t[0] + t[1][0]", parameters="x, t", arguments="a, (1, (2.0, 3))")
_kernel("scalars", "x[0] = n * f", parameters="x, n, f", arguments="a, 3, 2.5")
_kernel("printing", "print('thread', cuda.threadIdx.x, x[0])")
_kernel(
    "random",
    "x[0] = xoroshiro128p_uniform_float32(s, 0)",
    parameters="x, s",
    before="from numba.cuda.random import xoroshiro128p_dtype, xoroshiro128p_uniform_float32",
    arguments="a, np.zeros(4, xoroshiro128p_dtype)",
)
_kernel(
    "device-function",
    _AT + "scaled(x[i])",
    before="@cuda.jit(device=True)\ndef scaled(v):\n    return v * FACTOR\nFACTOR = 3.0",
)
_kernel(
    "device-functions-nested",
    _AT + "outer(x[i])",
    before="@cuda.jit(device=True)\ndef inner(v):\n    return v + 1\n@cuda.jit(device=True)\ndef outer(v):\n    return inner(v) * inner(2)",
)
_kernel(
    "device-function-eager",
    _AT + "eager(x[i])",
    before="@cuda.jit('float32(float32)', device=True)\ndef eager(v):\n    return v + 1",
)
_kernel(
    "device-function-inlined",
    _AT + "inlined(x[i])",
    before="@cuda.jit(device=True, inline='always')\ndef inlined(v):\n    return v - 1",
)
_kernel(
    "device-function-forceinline",
    _AT + "forced(x[i])",
    before="@cuda.jit(device=True, forceinline=True)\ndef forced(v):\n    return v - 2",
)
_kernel(
    "device-function-recursive-closure",
    _AT + "made(x[i])",
    before="def make(n):\n    @cuda.jit(device=True)\n    def f(v):\n        return v * n\n    return f\nmade = make(5)",
)
_kernel("njit-callee", _AT + "both(x[i])", before="@njit\ndef both(v):\n    return v * v\nassert both(3) == 9")
_program(
    "njit-callee-afterwards",
    """
@njit
def both(v):
    return v * v
@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = both(x[cuda.grid(1)])
kernel[1, 64](a)
assert both(3.0) == 9
""",
)
_kernel("closure", _AT + "x[i] * N", before="N = 17")
_program(
    "closures-of-one-factory",
    """
def make(n):
    @cuda.jit
    def kernel(x):
        x[cuda.grid(1)] = n
    return kernel
for n in (1, 2, 3):
    make(n)[1, 64](a)
""",
)
_program(
    "vectorize",
    """
from numba.cuda.np import numpy_support
@vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
def add(x, y):
    return x + y * 2
for types, (_result, kernel) in add.functions.items():
    kernel.compile(tuple(numpy_support.from_dtype(each)[:] for each in (*types, _result)))
""",
)
_program(
    "guvectorize",
    """
@guvectorize(["void(float32[:], float32[:])"], "(n)->(n)", target="cuda")
def double(x, y):
    for i in range(x.size):
        y[i] = x[i] * 2
assert double.kernels if hasattr(double, "kernels") else True
""",
)
_program(
    "reduce",
    """
reduced = cuda.reduce(lambda x, y: x + y)
reduced._compile(a.dtype)[1, 64](a, a, np.float32(0), True)
""",
)
_program(
    "linked-cuda",
    """
source = cuda.CUSource("extern \\"C\\" __device__ int tripled(int *out, int v) { *out = 3 * v; return 0; }", "tripled.cu")
tripled = cuda.declare_device("tripled", "int32(int32)", link=source)
@cuda.jit
def kernel(x):
    x[0] = tripled(4)
kernel[1, 1](np.ones(4, np.int32))
""",
)
_program(
    "linked-ptx-file",
    """
import os, tempfile
PTX = '''.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b32 status) quadrupled(.param .b64 out, .param .b32 v) {
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [v]; shl.b32 %r2, %r1, 2; st.u32 [%rd1], %r2;
    mov.u32 %r3, 0; st.param.b32 [status], %r3; ret;
}'''
path = os.path.join(tempfile.mkdtemp(), "quadrupled.ptx")
open(path, "w").write(PTX)
quadrupled = cuda.declare_device("quadrupled", "int32(int32)")
@cuda.jit(link=[path], lto=False)
def kernel(x):
    x[0] = quadrupled(4)
kernel[1, 1](np.ones(4, np.int32))
""",
)
_program(
    "compile-ptx",
    """
def f(x, y):
    return x * y + 1
ptx, result = cuda.compile_ptx(f, (float32, float32), device=True, cc=(8, 0))
print(result, len(ptx) > 100)
ptx, result = cuda.compile(f, int32(int32, int32), cc=(9, 0), abi_info={"abi_name": "fused"})
assert "fused" in ptx
""",
)
_program(
    "compile-ltoir",
    """
def f(x):
    return x - 1
code, result = cuda.compile(f, (float64,), cc=(8, 0), output="ltoir")
assert len(code) > 100
codes, result = cuda.compile_all(f, float32(float32), cc=(7, 5), output="ptx")
assert len(codes) == 1
""",
)
_program(
    "overload",
    """
from numba.cuda.extending import overload
def doubled(v):
    return v * 2
@overload(doubled)
def ol_doubled(v):
    return lambda v: v * 2
@cuda.jit
def kernel(x):
    x[0] = doubled(x[1])
@cuda.jit
def another(x):
    x[0] = doubled(x[2]) + 1
kernel[1, 1](a)
another[1, 1](a)
""",
)
_program(
    "intrinsic",
    """
from numba.cuda.extending import intrinsic
@intrinsic
def plus_one(typingctx, v):
    def codegen(context, builder, signature, args):
        return builder.add(args[0], context.get_constant(signature.return_type, 1))
    return v(v), codegen
@cuda.jit
def kernel(x):
    x[0] = plus_one(x[1])
@cuda.jit
def another(x):
    x[0] = plus_one(x[2]) + 5
kernel[1, 1](np.ones(4, np.int32))
another[1, 1](np.ones(4, np.int32))
""",
)
_program(
    "pickled",
    """
import cloudpickle
@cuda.jit
def kernel(x):
    x[0] = 11
kernel[1, 1](a)
cloudpickle.loads(cloudpickle.dumps(kernel))[1, 1](a)
""",
)
