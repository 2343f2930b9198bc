"""Family 31: what other targets bring along: modules under Numba's own name, and dispatchers that aren't Numba's.

`redirect.py` does what numba-cuda does: `numba.cuda` and all below it come from files of another package.
"""

from ..harness import Program, Step, main, py, replaced, trap

_REDIRECT = """
    import importlib.abc, importlib.util, os, sys

    HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vendor")

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name != "numba.cuda" and not name.startswith("numba.cuda."):
                return None
            base = os.path.join(HERE, *name.split(".")[1:])
            if os.path.isdir(base):
                file = os.path.join(base, "__init__.py")
                return importlib.util.spec_from_file_location(name, file, submodule_search_locations=[base])
            return importlib.util.spec_from_file_location(name, base + ".py")

    sys.meta_path.insert(0, Finder())
    """


def _redirected(name: str, cuda: str, body: str, pair: tuple[str, str], ext: str = "", **options) -> Program:
    """Return a program in which `numba.cuda.part` is a file of another package, which is edited."""
    files = {
        "main.py": "import redirect\n" + main(body),
        "redirect.py": py(_REDIRECT),
        "vendor/cuda/__init__.py": "",
        "vendor/cuda/part.py": py(cuda),
    }
    if ext:
        files["ext.py"] = py(ext)
    return trap(f"other-{name}", 31, files, replaced(files, "vendor/cuda/part.py", pair), **options)


def _elsewhere(name: str, ext: str, body: str, pair: tuple[str, str], **options) -> Program:
    """Return a program whose `ext.py` is edited."""
    files = {"main.py": main(body), "ext.py": py(ext)}
    return trap(f"other-{name}", 31, files, replaced(files, "ext.py", pair), **options)


_CALL = """
    from numba.cuda.part import helper

    @njit
    def f(x):
        return helper(x)

    show("f", f, 7)
    """
_THING = """
    import ext

    @njit
    def f(x):
        return ext.thing(x)

    show("f", f, 7)
    """
_KERNEL = """
    from numba import njit
    from numba.extending import overload

    class Kernel:
        def __init__(self, function):
            self.function = function

        def __reduce__(self):
            return find, (self.function.__module__, self.function.__name__)

    def find(module, name):
        return globals()[name]

    def scale(x):
        return x + 1000

    SCALE = Kernel(scale)

    def thing(x):
        raise NotImplementedError

    @overload(thing)
    def choose(x):
        function = njit(SCALE.function)
        return lambda x: function(x)
    """
_SUBCLASS = """
    from numba import njit
    from numba.core.registry import CPUDispatcher

    class Switched(CPUDispatcher):
        def get_call_template(self, args, kws):
            return self.other.get_call_template(args, kws)

        def get_overload(self, sig):
            return self.other.get_overload(sig)

    def plus(x):
        return x + 1000

    def minus(x):
        return x - 1000

    switched = Switched(lambda x: x, targetoptions={"nopython": True})
    switched.other = njit(plus)
    """
_SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1"}
_SIMULATION = {
    "main.py": main("""
        from numba import cuda, objmode
        import kernels

        @njit
        def g(x):
            return x * 2

        @njit
        def f(a):
            with objmode():
                kernels.fill[1, 3](a)
            return a.sum() + g(1)

        a = np.zeros(3)
        kernels.fill[1, 3](a)
        show("kernel", lambda: a)
        show("f", f, np.zeros(3))
        show("g", g, 7)
    """),
    "kernels.py": py("""
        from numba import cuda

        @cuda.jit
        def fill(a):
            i = cuda.grid(1)
            if i < a.size:
                a[i] = i + 1000
    """),
}
_AVAILABLE = """
    from numba import cuda
    from numba.extending import overload

    def thing(x):
        raise NotImplementedError

    @overload(thing)
    def choose(x):
        if cuda.is_available():
            return lambda x: x + 1
        return lambda x: x + 2
    """

PROGRAMS = (
    _redirected(
        "function-under-numba-cuda",
        """
        from numba.extending import register_jitable

        @register_jitable
        def helper(x):
            return x + 1000
        """,
        _CALL,
        ("1000", "2000"),
    ),
    _redirected(
        "dispatcher-under-numba-cuda",
        """
        from numba import njit

        @njit
        def helper(x):
            return x + 1000
        """,
        _CALL,
        ("1000", "2000"),
    ),
    _redirected(
        "two-calls-down-under-numba-cuda",
        """
        from numba.extending import register_jitable

        def level():
            return 1000

        LEVEL = level()

        @register_jitable
        def inner(x):
            return x + LEVEL

        @register_jitable
        def helper(x):
            return inner(x) * 2
        """,
        _CALL,
        ("1000", "2000"),
    ),
    _redirected(
        "constant-under-numba-cuda",
        "TABLE = (1000, 5)\n",
        """
        from numba.cuda import part

        @njit
        def f(x):
            return x + part.TABLE[0]

        show("f", f, 7)
        """,
        ("1000", "2000"),
    ),
    _redirected(
        "overload-under-numba-cuda",
        """
        from numba.extending import overload
        import ext

        @overload(ext.thing)
        def choose(x):
            return lambda x: x + 1000
        """,
        "import numba.cuda.part\n" + py(_THING),
        ("1000", "2000"),
        ext="def thing(x):\n    raise NotImplementedError\n",
    ),
    _redirected(
        "overload-of-a-numpy-function-under-numba-cuda",
        """
        import numpy as np
        from numba.extending import overload

        @overload(np.ptp)
        def choose(a, axis=None):
            return lambda a, axis=None: -1000.0
        """,
        """
        import numba.cuda.part

        @njit
        def f(a):
            return np.ptp(a)

        show("f", f, np.array([1.0, 5.0]))
        """,
        ("1000", "2000"),
    ),
    _redirected(
        "chooser-that-asks-numba-cuda",
        "def level():\n    return 1000\n",
        _THING,
        ("1000", "2000"),
        ext="""
        from numba.extending import overload
        from numba.cuda import part

        def thing(x):
            raise NotImplementedError

        @overload(thing)
        def choose(x):
            n = part.level()
            return lambda x: x + n
        """,
    ),
    _redirected(
        "intrinsic-under-numba-cuda",
        """
        from numba import types
        from numba.extending import intrinsic

        @intrinsic
        def helper(typingctx, x):
            def codegen(context, builder, signature, args):
                return builder.add(args[0], args[0].type(1000))
            return types.int64(types.int64), codegen
        """,
        _CALL,
        ("1000", "2000"),
    ),
    _redirected(
        "class-under-numba-cuda",
        """
        from numba.core.registry import CPUDispatcher

        class CUDADispatcher(CPUDispatcher):
            pass

        def helper(x):
            return x + 1000

        helper = CUDADispatcher(helper, targetoptions={"nopython": True})
        """,
        _CALL,
        ("1000", "2000"),
        rerun="same",
    ),
    _elsewhere("object-that-pickles-by-name", _KERNEL, _THING, ("1000", "2000"), rerun="same"),
    _elsewhere(
        "state-of-a-dispatcher-subclass",
        _SUBCLASS,
        """
        from ext import switched

        @njit
        def f(x):
            return switched(x)

        show("f", f, 7)
        """,
        ("njit(plus)", "njit(minus)"),
        rerun="same",
    ),
    _elsewhere(
        "function-of-a-dispatcher-subclass",
        _SUBCLASS,
        """
        from ext import switched

        @njit
        def f(x):
            return switched(x)

        show("f", f, 7)
        """,
        ("x + 1000", "x + 2000"),
        rerun="same",
    ),
    trap(
        "other-simulated-kernel",
        31,
        Step(files=_SIMULATION, env=_SIMULATED),
        Step(files=replaced(_SIMULATION, "kernels.py", ("1000", "2000")), env=_SIMULATED),
        rerun="same",
    ),
    trap(
        "other-simulator-or-not",
        31,
        Step(files={"main.py": main(_THING), "ext.py": py(_AVAILABLE)}, env=_SIMULATED),
        Step(),
        Step(env=_SIMULATED),
        Step(),
    ),
    trap(
        "other-target-is-not-asked",
        31,
        {
            "main.py": main(_THING),
            "ext.py": py("""
                from numba.extending import overload

                def thing(x):
                    raise NotImplementedError

                @overload(thing, target="cuda")
                def choose_there(x):
                    return lambda x: x + 3000

                @overload(thing, target="cpu")
                def choose_here(x):
                    return lambda x: x + 1000
            """),
        },
        {
            "ext.py": py("""
                from numba.extending import overload

                def thing(x):
                    raise NotImplementedError

                @overload(thing, target="cuda")
                def choose_there(x):
                    return lambda x: x + 3000

                @overload(thing, target="cpu")
                def choose_here(x):
                    return lambda x: x + 2000
            """),
        },
    ),
)
