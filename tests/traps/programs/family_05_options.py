"""Family 5: options of the decorator and settings of Numba change what is compiled."""

from ..harness import Program, Step, main, replaced, trap

_DIVIDE = {
    "main.py": main("""
        @njit(**opts.OPTIONS)
        def f(a, b):
            return a / b

        @njit
        def caller(a, b):
            return f(a, b)

        show("f", f, 1.0, 0.0)
        show("caller", caller, 1.0, 0.0)
    """)
}

_FASTMATH = {
    "main.py": main("""
        @njit(**opts.OPTIONS)
        def f(x):
            return x != x

        @njit(**opts.OPTIONS)
        def g(a):
            s = 0.0
            for x in a:
                s += x
            return s

        show("nan", f, np.nan)
        show("sum", g, np.array([1e16, 1.0, -1e16, 1.0] * 8))
    """)
}

_BOUNDSCHECK = {
    "main.py": main("""
        @njit(**opts.OPTIONS)
        def f(a, i):
            return a[i]

        whole = np.arange(8)
        show("f", f, whole[:4], 5)
    """)
}

_BOUNDSCHECK_ALWAYS = {
    "main.py": main("""
        @njit(boundscheck=True)
        def f(a, i):
            return a[i]

        show("f", f, np.arange(8)[:4], 5)
    """)
}

_ASSERTS = {
    "main.py": main("""
        from numba.np.arraymath import _np_vander

        @njit
        def f(x, out):
            _np_vander(x, 3, True, out)
            return out

        show("f", f, np.arange(5.0), np.zeros((1, 3)))
    """)
}

_LOCALS = {
    "main.py": main("""
        @njit(**opts.OPTIONS)
        def f(a):
            s = 0
            for x in a:
                s += x
            return s

        show("f", f, np.array([200, 100], np.uint8))
        show("signatures", lambda: [str(s) for s in f.nopython_signatures])
    """)
}

_PARALLEL = {
    "main.py": main("""
        from numba import prange

        @njit(**opts.OPTIONS)
        def f(n):
            a = np.zeros(n)
            for i in prange(n):
                a[i] = i * 2
            return a

        show("f", f, 4)
        show("option", lambda: f.targetoptions.get("parallel", False))
        show("schedules", lambda: len(f.overloads[f.signatures[0]].metadata.get("parfors", {})) > 0)
    """)
}

_EAGER = {
    "main.py": main("""
        @njit(opts.SIGNATURE)
        def f(x):
            return x / 2

        show("int", f, 5)
        show("float", f, 5.5)
        show("signatures", lambda: [str(s) for s in f.nopython_signatures])
    """)
}

_ENVIRONMENT_BOUNDS = {
    "main.py": main("""
        @njit
        def f(a, i):
            return a[i]

        @njit
        def caller(a, i):
            return f(a, i)

        whole = np.arange(8)
        show("f", f, whole[:4], 5)
        show("caller", caller, whole[:4], 5)
    """)
}

_RUN_TIME = {
    "main.py": main("""
        import os

        def make():
            @njit
            def f(a, i):
                return a[i]
            return f

        whole = np.arange(8)
        numba.config.BOUNDSCHECK = int(os.environ.get("APP_BOUNDS", "0")) or None
        show("f", make(), whole[:4], 5)
        numba.config.BOUNDSCHECK = None
        show("g", make(), whole[:4], 6)
    """)
}

_OPT = {
    "main.py": main("""
        from numba import vectorize

        @njit
        def f(a):
            s = 0.0
            for x in a:
                s += x * x
            return s

        def vector_instructions():
            f(np.arange(3.0))
            text = f.inspect_llvm(f.signatures[0])
            return text.count("<2 x double>") > 0, text.count("alloca") > 12

        show("f", f, np.arange(4.0))
        show("LLVM", vector_instructions)
    """)
}

_DISABLE_JIT = {
    "main.py": main("""
        @njit
        def f(x):
            return x + 2**70 * 0 + 1

        show("f", f, 1)
        show("kind", lambda: type(f).__name__)
    """)
}

_DEBUG = {
    "main.py": main("""
        @njit
        def f(a, b):
            c = a * 2
            return c // b

        def flagged():
            f(6, 4)
            return "DICompileUnit" in f.inspect_llvm(f.signatures[0])

        show("f", f, 6, 4)
        show("debug information", flagged)
    """)
}

_DEBUG_OPTION = replaced(_DEBUG, "main.py", ("@njit\n", "@njit(**opts.OPTIONS)\n"))

_CPU = {
    "main.py": main("""
        @njit
        def f(a):
            s = 0.0
            for i in range(a.shape[0]):
                s += a[i]
            return s

        def target():
            f(np.arange(3.0))
            asm = f.inspect_asm(f.signatures[0])
            return "ymm" in asm or "zmm" in asm, "%xmm" in asm

        show("f", f, np.arange(4.0))
        show("registers", target)
    """).replace("@njit", "@njit(fastmath=True)")
}

_INLINE = {
    "main.py": main("""
        @njit(**opts.OPTIONS)
        def g(x):
            return x + 1

        @njit
        def f(x):
            return g(x)

        show("f", f, 1)
        show("option", lambda: g.targetoptions["inline"])
    """)
}

_FORCEOBJ = {
    "main.py": main("""
        from numba import jit

        @jit(**opts.OPTIONS)
        def f(x):
            return x + 1

        show("f", f, 1)
        show("nopython", lambda: [str(s) for s in f.nopython_signatures])
        show("big", f, 2**62 + 2**62 - 1)
    """)
}

_UFUNC_OPTIONS = {
    "main.py": main("""
        from numba import vectorize

        @vectorize(["float64(float64, float64)"], **opts.OPTIONS)
        def u(a, b):
            return a + b if a == a else -1.0

        @njit
        def caller(x):
            return u(x, 1.0)

        show("u", u, np.array([np.nan, 1.0]), 1.0)
        show("identity", lambda: u.identity)
        show("caller", caller, np.nan)
        show("types", lambda: u.types)
    """)
}


_PARALLEL_OPTIONS = main("""
    import math
    from numba import prange

    VALUES = (np.arange(100_003) * math.pi).astype(np.float32)

    <DECORATOR>
    def total(values):
        result = np.float32(0)
        for i in prange(values.shape[0]):
            result += values[i]
        return result

    <FIRST>
    # Numba takes what it parses out of the dictionary: the second signature is compiled without it.
    show("total", total, VALUES)
    show("strided", total, VALUES[::2])
    show("options", lambda: sorted(total.targetoptions["parallel"].items()))
    """)
_CALLER = """
@njit
def twice(values):
    return total(values) * 2

show("twice", twice, VALUES)
"""
_THREADS = {"NUMBA_NUM_THREADS": "2"}


def _taken(name: str, decorator: str, first: str = "", **options) -> Program:
    """Return a program with options in a dictionary, which Numba empties; *first* is done before."""
    source = _PARALLEL_OPTIONS.replace("<DECORATOR>", decorator).replace("<FIRST>", first)
    steps = Step(files={"main.py": source}, env=_THREADS), Step(env=_THREADS)
    return trap(f"option-{name}", 5, *steps, differs=False, cold=True, **options)


def _options(name: str, files: dict[str, str], before: str, after: str, **options) -> Program:
    """Return a program whose options are in another file, which is edited."""
    files = {"main.py": "import opts\n" + files["main.py"], "opts.py": f"from numba import uint8\n\n{before}\n"}
    return trap(f"option-{name}", 5, files, replaced(files, "opts.py", (before, after)), **options)


def _setting(name: str, files: dict[str, str], **environment: str) -> Program:
    return trap(f"setting-{name}", 5, files, Step(env=environment))


PROGRAMS = (
    _options("error-model", _DIVIDE, "OPTIONS = {'error_model': 'python'}", "OPTIONS = {'error_model': 'numpy'}"),
    _options("fastmath", _FASTMATH, "OPTIONS = {}", "OPTIONS = {'fastmath': True}"),
    _options("fastmath-sets", _FASTMATH, "OPTIONS = {'fastmath': {'nsz'}}", "OPTIONS = {'fastmath': {'nnan', 'nsz'}}"),
    _options("boundscheck", _BOUNDSCHECK, "OPTIONS = {'boundscheck': False}", "OPTIONS = {'boundscheck': True}"),
    _options("locals", _LOCALS, "OPTIONS = {'locals': {}}", "OPTIONS = {'locals': {'s': uint8}}"),
    _options("parallel", _PARALLEL, "OPTIONS = {}", "OPTIONS = {'parallel': True}", rerun="same"),
    _options("eager-return-type", _EAGER, "SIGNATURE = 'int64(int64)'", "SIGNATURE = 'float64(int64)'"),
    _options("debug", _DEBUG_OPTION, "OPTIONS = {}", "OPTIONS = {'debug': True}"),
    _options("inline", _INLINE, "OPTIONS = {'inline': 'never'}", "OPTIONS = {'inline': 'always'}"),
    _options("forceobj", _FORCEOBJ, "OPTIONS = {'nopython': True}", "OPTIONS = {'forceobj': True}"),
    _options("ufunc", _UFUNC_OPTIONS, "OPTIONS = {'identity': 0}", "OPTIONS = {'fastmath': {'nnan'}, 'identity': 1}"),
    _setting("boundscheck", _ENVIRONMENT_BOUNDS, NUMBA_BOUNDSCHECK="1"),
    _setting("boundscheck-at-run-time", _RUN_TIME, APP_BOUNDS="1"),
    _setting("opt", _OPT, NUMBA_OPT="0"),
    _setting("disable-jit", _DISABLE_JIT, NUMBA_DISABLE_JIT="1"),
    _setting("cpu-name", _CPU, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES=""),
    _setting("full-tracebacks", _BOUNDSCHECK_ALWAYS, NUMBA_FULL_TRACEBACKS="1"),
    trap("setting-optimized-python", 5, Step(files=_ASSERTS, argv=("-O", "main.py")), Step()),
    _setting("debuginfo", _DEBUG, NUMBA_DEBUGINFO="1"),
    _taken("parallel-taken-apart", '@njit(parallel={"prange": False})', rerun="same"),
    _taken("parallel-taken-apart-by-a-signature", '@njit("f4(f4[::1])", parallel={"prange": False})', rerun="same"),
    _taken("parallel-that-is-all", '@njit(parallel={"fusion": False, "prange": True})', rerun="same"),
    _taken("parallel-of-a-callee", '@njit(parallel={"prange": False})', _CALLER, rerun="same"),
)
