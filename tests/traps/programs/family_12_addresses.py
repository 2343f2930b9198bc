"""Family 12: addresses of one process in the code of another."""

from numba.core import serialize

from ..harness import Program, main, replaced, trap

_CTYPES = {
    "main.py": main("""
        import ctypes
        import ctypes.util

        libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
        c_function = libm.sin
        c_function.restype = ctypes.c_double
        c_function.argtypes = [ctypes.c_double]

        @njit
        def f(x):
            return c_function(x)

        @njit
        def caller(x):
            return f(x) + 1

        show("f", f, 0.5)
        show("caller", caller, 0.5)
    """)
}

_CALLBACK = {
    "main.py": main("""
        import ctypes

        PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

        @PROTOTYPE
        def callback(x):
            return x + 1

        @njit
        def f(x):
            return callback(x)

        show("f", f, 10)
    """)
}

_CFFI = {
    "main.py": main("""
        import cffi

        ffi = cffi.FFI()
        ffi.cdef("double sin(double x); double cos(double x);")
        lib = ffi.dlopen("libm.so.6")
        c_function = lib.sin

        @njit
        def f(x):
            return c_function(x)

        show("f", f, 0.5)
    """)
}

_ADDRESS = {
    "main.py": main("""
        import ctypes

        BUFFER = (ctypes.c_int64 * 4)(1, 2, 3, 4)
        ADDRESS = ctypes.addressof(BUFFER)

        from numba import types, carray
        from numba.extending import intrinsic

        @intrinsic
        def pointer(typingctx, address):
            def codegen(context, builder, signature, args):
                return builder.inttoptr(args[0], context.get_value_type(signature.return_type))
            return types.CPointer(types.int64)(types.int64), codegen

        @njit
        def read(i):
            return carray(pointer(ADDRESS), 4)[i]

        show("read", read, 2)
        BUFFER[2] = 30
        show("written", read, 2)
    """)
}

_CFUNC_ADDRESS = {
    "main.py": main("""
        from numba import cfunc

        @cfunc("float64(float64)")
        def c(x):
            return x * 2

        pointer = c.ctypes

        @njit
        def f(x):
            return pointer(x) + 1

        @njit
        def through_cfunc(x):
            return c(x) + 1

        show("ctypes", f, 3.0)
        show("cfunc", through_cfunc, 3.0)
    """)
}

_BIG = {
    "main.py": main("""
        BIG = np.arange(300_000.0)
        BIG[1] = 5.0
        SMALL = np.arange(3.0)

        @njit
        def f(i):
            return BIG[i] + SMALL[1]

        @njit
        def total():
            return BIG.sum()

        show("f", f, 1)
        show("far", f, 299_999)
        show("total", total)
    """)
}

_BIG_ELSEWHERE = {
    "main.py": main("""
        import data

        @njit
        def f(i):
            return data.BIG[i]

        @njit
        def caller(i):
            return f(i) + 0.5

        show("f", f, 200_000)
        show("caller", caller, 200_000)
    """),
    "data.py": "import numpy as np\nBIG = np.zeros(250_000)\nBIG[200_000] = 1\n",
}

_BIG_WRITTEN = {
    "main.py": main("""
        BIG = np.zeros(300_000)

        @njit
        def f(i):
            return BIG[i]

        show("before", f, 1)
        BIG[1] = 7.0
        show("after writing", f, 1)
        show("another signature", f, np.uint8(1))
    """)
}

_OBJECT = {
    "main.py": main("""
        from numba import objmode
        import helper

        STATE = {"n": 0}

        def bump(x):
            STATE["n"] += x
            return STATE["n"]

        @njit
        def f(x):
            with objmode(y="int64"):
                y = bump(x) + helper.ADD
            return y

        show("f", f, 2)
        show("again", f, 2)
        show("state", lambda: STATE["n"])
    """),
    "helper.py": "ADD = 100\n",
}

_LAPACK = {
    "main.py": main("""
        @njit
        def solve(a, b):
            return np.linalg.solve(a, b)

        @njit
        def product(a, b):
            return a @ b

        @njit
        def special(x):
            return np.exp(x) + np.log(x) + x ** 0.3

        a = np.array([[2.0, 0.0], [0.0, 4.0]])
        show("solve", solve, a, np.ones(2))
        show("product", product, a, np.ones(2))
        show("special", special, 2.0)
    """)
}

_PRINT = {
    "main.py": main("""
        @njit
        def f(x):
            print("x is", x)
            return x + 1

        @njit
        def random(seed):
            np.random.seed(seed)
            return np.random.random()

        show("f", f, 1)
        show("random", random, 5)
    """)
}


_CLOSURES = {
    "main.py": main("""
        import cfg
        from functools import reduce

        @njit
        def mapped(n):
            k = 3
            doubled = list(map(lambda x: x * 2 + cfg.K, range(n)))
            return doubled, reduce(lambda x, y: x * k + y, doubled), [y for y in filter(lambda x: x > 2, doubled)]

        @njit
        def ordered(n):
            values = [1, 3, 2, n]
            values.sort(key=lambda x: -x * cfg.K)
            return values

        @njit
        def same_again(n):
            values = [1, 3, 2, n]
            values.sort(key=lambda x: -x * cfg.K)
            return values[0] + 0.5

        show("mapped", mapped, 4)
        show("ordered", ordered, 7)
        show("same again", same_again, 7)
    """),
    "cfg.py": "K = 1\n",
}

_STENCIL = {
    "main.py": main("""
        import cfg
        from numba import objmode, stencil

        @stencil
        def slope(a):
            return a[1] - a[-1]

        @njit
        def around_a_stencil(a):
            b = slope(a)
            with objmode(n="int64"):
                n = len(str(b.size)) + cfg.K
            return b.sum() + n

        show("around a stencil", around_a_stencil, np.arange(6.0) ** 2)
    """),
    "cfg.py": "K = 1\n",
}


def _edited(name: str, files: dict[str, str], path: str, *pairs: tuple[str, str], **options) -> Program:
    return trap(f"address-{name}", 12, files, replaced(files, path, *pairs), **options)


PROGRAMS = (
    _edited("closure-as-a-value", _CLOSURES, "main.py", ("x * 2 + ", "x * 5 + "), ("-x", "x")),
    _edited("closure-reads-a-global", _CLOSURES, "cfg.py", ("1", "-1")),
    _edited("ctypes-function", _CTYPES, "main.py", ("libm.sin", "libm.cos"), rerun="same"),
    _edited("ctypes-callback", _CALLBACK, "main.py", ("x + 1", "x + 2"), rerun="same"),
    _edited("cffi-function", _CFFI, "main.py", ("lib.sin", "lib.cos"), rerun="same"),
    _edited("integer-of-this-process", _ADDRESS, "main.py", ("(1, 2, 3, 4)", "(1, 2, 9, 4)"), rerun="same"),
    _edited("cfunc", _CFUNC_ADDRESS, "main.py", ("x * 2", "x * 3"), rerun="same"),
    _edited("big-array", _BIG, "main.py", ("= 5.0", "= 6.0"), rerun="same"),
    _edited("big-array-elsewhere", _BIG_ELSEWHERE, "data.py", ("= 1", "= 2"), rerun="same"),
    _edited("big-array-written", _BIG_WRITTEN, "main.py", ("7.0", "8.0"), rerun="same"),
    _edited("objmode", _OBJECT, "helper.py", ("100", "200")),
    _edited("linear-algebra", _LAPACK, "main.py", ("** 0.3", "** 0.4")),
    _edited("print-and-random", _PRINT, "main.py", ('"x is"', '"x ="')),
)

# Older releases fail to compile a stencil and an objmode block in one function: the block can't be pickled.
if hasattr(serialize, "is_serializable"):
    PROGRAMS += (_edited("stencil-beside-objmode", _STENCIL, "cfg.py", ("1", "2")),)
