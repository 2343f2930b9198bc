"""Programs that change between two processes: a kernel that was stored by the first must not be what the second gets.

`STALE` maps a name to two main programs, `SETTINGS` to an environment for the second process, in which a program runs
as it is. What the second process has to do is what it does without a cache; that both differ is part of the test.
"""

from cuda_programs import HEAD

STALE = {}
SETTINGS = {}

_KERNEL = """
@cuda.jit{options}
def kernel(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = {value}
kernel[1, 64](a)
"""


def _pair(name, text, old, new):
    assert old in text, name
    before = HEAD + text.strip("\n") + "\n"
    STALE[name] = (before, before.replace(old, new))


def _value(name, before, value, old, new, options=""):
    _pair(name, before + _KERNEL.format(options=options, value=value), old, new)


def _option(name, old, new, value="math.sin(x[i]) / math.sqrt(x[i])"):
    _pair(name, _KERNEL.format(options=f"({old})", value=value), f"({old})", f"({new})")


_DEVICE = "@cuda.jit(device=True)\ndef f(v):\n    return v * {n}\n"

_value("global", "N = 3", "x[i] * N", "N = 3", "N = 4")
_value("global-of-callee", "N = 3\n" + _DEVICE.format(n="N"), "f(x[i])", "N = 3", "N = 4")
_value("global-type", "N = 1", "x[i] // N", "N = 1\n", "N = 1.5\n")
_value("body-of-callee", _DEVICE.format(n=3), "f(x[i])", "v * 3", "v * 4")
_value(
    "body-of-callees-callee",
    _DEVICE.format(n=3) + "@cuda.jit(device=True)\ndef g(v):\n    return f(v) + 1",
    "g(x[i])",
    "v * 3",
    "v * 4",
)
_value("body-of-njit", "@njit\ndef f(v):\n    return v * 3", "f(x[i])", "v * 3", "v * 4")
_value(
    "body-of-inlined",
    "@cuda.jit(device=True, inline='always')\ndef f(v):\n    return v * 3",
    "f(x[i])",
    "v * 3",
    "v * 4",
)
_value(
    "signature-of-callee",
    "@cuda.jit('float32(float32)', device=True)\ndef f(v):\n    return v / 3",
    "f(x[i])",
    "float32(float32)",
    "int32(int32)",
)
_value(
    "body-of-eager-callee",
    "@cuda.jit('float32(float32)', device=True)\ndef f(v):\n    return v / 3",
    "f(x[i])",
    "v / 3",
    "v / 4",
)
_value(
    "closure",
    "def make(n):\n    @cuda.jit(device=True)\n    def f(v):\n        return v * n\n    return f\nf = make(3)",
    "f(x[i])",
    "make(3)",
    "make(4)",
)
_value(
    "default",
    "@cuda.jit(device=True)\ndef f(v, n):\n    return v * n\nN = (3, 4)",
    "f(x[i], N[0])",
    "N = (3, 4)",
    "N = (4, 4)",
)
_value("array", "N = np.arange(4)", "x[i] * N[i]", "np.arange(4)", "np.arange(1, 5)")
_value(
    "constant-array",
    "N = np.arange(64, dtype=np.float32)",
    "x[i] * cuda.const.array_like(N)[i]",
    "np.arange(64",
    "np.arange(1, 65",
)
_pair(
    "size-of-shared-memory",
    """
N = 64
@cuda.jit
def kernel(x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    x[t] = s[63 - t]
kernel[1, 64](a)
""",
    "N = 64",
    "N = 128",
)
_value("namespace", "import types\nn = types.SimpleNamespace(v=3)\nN = n.v", "x[i] * N", "v=3", "v=4")
_value("enumeration", "import enum\nclass E(enum.IntEnum):\n    A = 3", "1.0 if i == E.A else x[i]", "A = 3", "A = 5")
_value(
    "which-function",
    _DEVICE.format(n=3) + "@cuda.jit(device=True)\ndef g(v):\n    return v * 9\nh = f",
    "h(x[i])",
    "h = f",
    "h = g",
)
_value(
    "fastmath-of-callee",
    "@cuda.jit(device=True, fastmath=False)\ndef f(v):\n    return math.sin(v)",
    "f(x[i])",
    "fastmath=False",
    "fastmath=True",
)
_option("fastmath", "fastmath=False", "fastmath=True")
_option(
    "max-registers",
    "max_registers=64",
    "max_registers=16",
    value="math.sin(x[i]) * math.cos(x[i]) * math.exp(x[i]) * math.tan(x[i])",
)
_option("opt", "opt=True", "opt=False")
_option("debug", "debug=False, opt=False", "debug=True, opt=False")
_option("carveout", "shared_memory_carveout=10", "shared_memory_carveout=20")
_pair(
    "exception",
    """
@cuda.jit(debug=True, opt=False)
def kernel(x):
    if x[0] < 0:
        raise ValueError("old")
kernel[1, 1](a)
""",
    '"old"',
    '"new"',
)
_pair(
    "line-of-exception",
    """
# a line
@cuda.jit(debug=True, opt=False)
def kernel(x):
    if x[0] < 0:
        raise ValueError("old")
kernel[1, 1](a)
""",
    "# a line",
    "# two\n# lines",
)
_OVERLOAD = """
from numba.cuda.extending import overload
def doubled(v):
    return v
N = 2
@overload(doubled)
def ol_doubled(v):
    if N > 2:
        return lambda v: v * 5
    return lambda v: v * 2
"""
_value("overload", _OVERLOAD, "doubled(x[i])", "v * 2", "v * 3")
_value("what-an-overload-reads", _OVERLOAD, "doubled(x[i])", "N = 2", "N = 3")
_value(
    "intrinsic",
    """
from numba.cuda.extending import intrinsic
@intrinsic
def shifted(typingctx, v):
    def codegen(context, builder, signature, args):
        return builder.fadd(args[0], context.get_constant(signature.return_type, 1))
    return v(v), codegen
""",
    "shifted(x[i])",
    "return_type, 1",
    "return_type, 2",
)
_LINKED = """
source = cuda.CUSource('extern "C" __device__ int f(int *out, int v) { *out = 3 * v; return 0; }', "f.cu")
f = cuda.declare_device("f", "int32(int32)", link=source)
@cuda.jit
def kernel(x):
    x[0] = f(x[1])
kernel[1, 1](np.ones(4, np.int32))
"""
_pair("linked-source", _LINKED, "3 * v", "4 * v")
_pair(
    "linked-file",
    """
import os
path = os.path.join(os.path.dirname(__file__), "linked.cu")
open(path, "w").write('extern "C" __device__ int f(int *out, int v) { *out = 3 * v; return 0; }')
f = cuda.declare_device("f", "int32(int32)")
@cuda.jit(link=[path])
def kernel(x):
    x[0] = f(x[1])
kernel[1, 1](np.ones(4, np.int32))
""",
    "3 * v",
    "4 * v",
)
_pair(
    "included-file",
    """
import os
path = os.path.join(os.path.dirname(__file__), "included.cuh")
open(path, "w").write('#define N 3')
f = cuda.declare_device("f", "int32(int32)", link=cuda.CUSource(
    f'#include "{path}"\\nextern "C" __device__ int f(int *out, int v) {{ *out = N * v; return 0; }}', "f.cu"))
@cuda.jit
def kernel(x):
    x[0] = f(x[1])
kernel[1, 1](np.ones(4, np.int32))
""",
    "#define N 3",
    "#define N 4",
)
_pair(
    "reduce",
    """
reduced = cuda.reduce(lambda x, y: x + y)
reduced._compile(a.dtype)[1, 64](a, a, np.float32(0), True)
""",
    "x + y",
    "x * y",
)
_pair(
    "vectorize",
    """
from numba.cuda.np import numpy_support
@vectorize(["float32(float32, float32)"], target="cuda")
def f(x, y):
    return x + y * 2
for types, (_result, kernel) in f.functions.items():
    kernel[1, 1](a, a, a)
""",
    "y * 2",
    "y * 3",
)

_LINES = HEAD + _KERNEL.format(options="", value="math.sin(x[i]) / math.sqrt(x[i])")
SETTINGS["opt"] = (_LINES, {"NUMBA_OPT": "0"})
SETTINGS["debuginfo"] = (_LINES, {"NUMBA_CUDA_DEBUGINFO": "1", "PYTHONWARNINGS": "ignore"})
_READS = HEAD + _OVERLOAD.replace("N > 2", 'os.environ.get("WHICH") == "other"').replace("N = 2", "import os")
SETTINGS["variable-that-an-overload-reads"] = (
    _READS + _KERNEL.format(options="", value="doubled(x[i])"),
    {"WHICH": "other"},
)
