"""Found on reading for what else an entry's words mean in another process, or after a reload in this one: names of classes,
types that hold a default or a function, places in messages. Numba keeps a callee as it was compiled first, also for those.
"""

from traps.harness import Program, Step, main, py, replaced, trap

_SIZES = {
    "main.py": main("""
    @njit(parallel=True)
    def f(a, b):
        return a + b

    show("f", f, np.ones(3), np.ones(4))
    """)
}

_TWINS = {
    "main.py": main("""
    @njit(parallel=True)
    def f(a, b):
        return a + b

    first = f

    @njit(parallel=True)
    def f(a, b):
        return a + b

    show("first", first, np.ones(3), np.ones(4))
    show("f", f, np.ones(3), np.ones(4))
    """)
}

_CLASSES = {
    "classes.py": py("""
    import enum
    from collections import namedtuple

    class Refused(ValueError):
        pass

    Pair = namedtuple("Pair", "x y")

    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    def twice(x):
        return x * 2
    """),
    "lib.py": py("""
    from classes import Color, Pair, Refused, twice
    from numba import jit, njit, objmode

    @njit
    def refusing(x):
        if x < 0:
            raise Refused("negative")
        return x

    @njit
    def pair(x):
        return Pair(x, 1)

    @njit
    def color(x):
        return Color.RED if x > 0 else Color.BLUE

    def made(function):
        @njit
        def outside(x):
            with objmode(y="int64"):
                y = function(x)
            return y

        @jit(forceobj=True)
        def slow(x):
            return function(x)

        return outside, slow

    outside, slow = made(twice)
    """),
}
_USE = py("""
    def use(lib):
        try:
            lib.refusing(-1)
        except lib.Refused as exc:
            print("caught", exc)
        except Exception as exc:
            print("not caught", type(exc))
        for what in (
            lambda: type(lib.pair(1)) is lib.Pair,
            lambda: lib.color(1) is lib.Color.RED,
            lambda: lib.outside(3),
            lambda: lib.slow(3),
        ):
            try:
                print(what())
            except Exception as exc:
                print(type(exc).__name__, exc)
    """)

_RELOADED = {
    **_CLASSES,
    "use.py": _USE,
    "main.py": py("""
    import importlib
    import sys
    import classes
    import lib
    from use import use

    use(lib)
    before = lib.refusing, lib.pair
    importlib.reload(classes)
    importlib.reload(lib)
    use(lib)
    del sys.modules["classes"], sys.modules["lib"]
    import lib
    use(lib)
    print(type(before[1](1)) is lib.Pair)
    """),
}

_RAISED_LATER = {
    **_CLASSES,
    "main.py": py("""
    import importlib
    import classes
    import lib
    from numba import int64, njit

    @njit
    def refusing_with(x):
        if x < 0:
            raise lib.Refused("negative", x)
        return x

    def caught(function):
        try:
            return function(-1)
        except classes.Refused as exc:
            return f"caught {exc}"
        except Exception as exc:
            return f"not caught {type(exc)}"

    for function in (lib.refusing, lib.pair, lib.color, refusing_with):
        function.compile((int64,))
    importlib.reload(classes)  # code looks for what it names when it first needs it
    print(caught(lib.refusing), caught(refusing_with))
    print(type(lib.pair(1)) is classes.Pair, lib.color(1) is classes.Color.RED)
    importlib.reload(classes)  # and what is raised with values each time
    print(caught(lib.refusing), caught(refusing_with))
    del classes.Refused
    try:
        refusing_with(-1)
    except Exception as exc:
        print(type(exc).__name__, exc)
    """),
}

_PATCHED = {
    **_CLASSES,
    "use.py": _USE,
    "main.py": py("""
    import os
    import classes
    import lib
    from use import use

    if "APP_PATCHED" in os.environ:
        import enum
        from collections import namedtuple

        classes.Refused = type("Refused", (Exception,), {})
        classes.Pair = namedtuple("Pair", "x y")
        classes.Color = enum.Enum("Color", {"RED": 7, "BLUE": 8})
        classes.twice = lambda x: -1
        print("patched")
    use(lib)
    """),
}

_PLUGIN = {
    "plugins/plugin.py": _CLASSES["classes.py"] + _CLASSES["lib.py"].partition("\n")[2],
    "use.py": _USE,
    "main.py": py("""
    import importlib.util
    import os
    import sys
    from use import use

    if "APP_BY_PATH" in os.environ:  # as loaders of plug-ins do: the module isn't in sys.modules
        spec = importlib.util.spec_from_file_location("plugin", os.path.join("plugins", "plugin.py"))
        plugin = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(plugin)
        print("by path")
    else:
        sys.path.insert(0, "plugins")
        import plugin
    use(plugin)
    """),
}

_KEPT = """
    import ctypes
    import math
    from collections import namedtuple
    from numba.extending import overload, register_jitable

    K = 1
    Pair = namedtuple("Pair", "x y")
    ARRAY = np.array([1.0, 2.0])

    @njit
    def square(x):
        return x * x

    @numba.vectorize
    def more(x):
        return x + 1

    def counted(x):
        "Counts from x."

    @overload(counted)
    def overload_counted(x):
        def counting(x):
            yield x
            yield x + 1
        return counting

    cosine = ctypes.CDLL("libm.so.6").cos
    cosine.restype, cosine.argtypes = ctypes.c_double, [ctypes.c_double]

    <DECORATOR>
    def callee(x, <PARAMETER>):
        return <BODY>

    @njit
    def f(x):
        return callee(<ARGUMENTS>)

    @njit
    def g(x):
        return callee(<ARGUMENTS>) * 10

    show("f", f, 3)
    K = 5
    ARRAY[0] = 7
    show("g", g, 3)
    """


def _kept(name: str, parameter: str, body: str, arguments: str, decorator: str = "@njit", **options) -> Program:
    """A callee that was compiled for one caller is what the next one gets, whatever was bound to its names since."""
    text = main(_KEPT)
    for part, value in (("PARAMETER", parameter), ("BODY", body), ("ARGUMENTS", arguments), ("DECORATOR", decorator)):
        text = text.replace(f"<{part}>", value)
    shown = "" if decorator != "@njit" else "print(len(callee.signatures))\n"
    return trap(f"hunt-kept-{name}", 36, {"main.py": text + shown}, Step(), differs=False, **options)


_LATE = {
    "main.py": main("""
    import os
    from numba.extending import register_jitable

    K = 1

    @register_jitable
    def callee(x):
        return x + K

    @njit
    def f(x):
        return callee(x)

    @njit
    def g(x):
        return callee(x) * 10

    if "APP_LATE" not in os.environ:
        show("f", f, 3)
    K = 5
    show("g", g, 3)
    """)
}

_CLOSURES = {
    "main.py": main("""
    @njit
    def total(items):
        found = 0
        for each in items:
            found += each
        return found

    @njit
    def f(x):
        return total(map(lambda y: y * 2, [x, 5]))

    show("f", f, 3)
    """)
}

_ITEMS = {
    "main.py": main("""
    @njit
    def total(items):
        found = 0
        for key, value in items:
            found += key * value
        return found

    @njit
    def f(x):
        return total({1: x, 2: 5}.items())

    show("f", f, 3)
    """)
}

_SUBROUTINES = {
    "main.py": main("""
    import sys

    @njit(fastmath=True)
    def fast(z, w, x):
        return z ** w, np.power(x, 3), np.sqrt(z), np.tan(z)

    @njit
    def exact(z, w, x):
        return z ** w, np.power(x, 3), np.sqrt(z), np.tan(z)

    for word in sys.argv[1:]:
        for z in (complex("nan+1j"), complex("inf-nanj"), complex("-inf+0j"), complex(1, -0.0)):
            show(word, globals()[word], z, 1 + 2j, float("nan"))
    """)
}

PROGRAMS = (
    trap(
        "hunt-subroutine-made-for-fast-math",
        36,
        Step(files=_SUBROUTINES, argv=("main.py", "fast", "exact")),
        Step(argv=("main.py", "exact")),
    ),
    trap("hunt-sizes-after-an-edit-above", 36, _SIZES, replaced(_SIZES, "main.py", ("@njit(par", "#\n#\n@njit(par"))),
    trap("hunt-sizes-in-another-checkout", 36, _SIZES, Step(copy="second"), differs=False),
    trap("hunt-sizes-of-twins", 36, _TWINS, Step(), differs=False, cold=True),
    trap("hunt-reloaded-classes", 36, _RELOADED, Step(), differs=False, cold=True),
    trap("hunt-classes-reloaded-before-they-are-raised", 36, _RAISED_LATER, Step(), differs=False, cold=True),
    trap("hunt-classes-under-patched-names", 36, _PATCHED, Step(env={"APP_PATCHED": "1"})),
    trap("hunt-classes-no-longer-patched", 36, Step(files=_PATCHED, env={"APP_PATCHED": "1"}), Step()),
    trap("hunt-plugin-by-its-path", 36, _PLUGIN, Step(env={"APP_BY_PATH": "1"})),
    trap("hunt-plugin-that-is-imported", 36, Step(files=_PLUGIN, env={"APP_BY_PATH": "1"}), Step()),
    _kept("default-that-is-nan", "y=np.nan", "x + K", "x"),
    _kept("default-that-is-not-a-time", "y=np.datetime64('NaT')", "x + K", "x"),
    _kept("default-array", "y=ARRAY", "y[0] + K", "x"),
    _kept("default-function", "y=square", "y(x) + K", "x"),
    _kept("function", "y", "y(x) + K", "x, square"),
    _kept("function-of-numpy", "y", "y(x) + K", "x, np.sin"),
    _kept("function-of-math", "y", "y(x) + K", "x, math.sin"),
    _kept("function-of-c", "y", "y(x) + K", "x, cosine"),
    _kept("ufunc", "y", "y(x) + K", "x, more"),
    _kept("builtin", "y", "y(x) + K", "x, abs"),
    _kept("dtype", "y", "np.zeros(1, y)[0] + x + K", "x, np.float32"),
    _kept("class", "y", "y(x, 1).x + K", "x, Pair"),
    _kept("generator", "y", "list(y)[0] + K", "x, map(square, [x])", rerun="same"),
    _kept("generator-in-another", "y", "list(y)[0][1] + K", "x, enumerate(map(square, [x]))", rerun="same"),
    _kept("generator-of-an-overload", "y", "list(y)[0] + K", "x, counted(x)", rerun="same"),
    _kept("function-registered-for-jit", "y", "y(x) + K", "x, square", "@register_jitable"),
    trap("hunt-kept-before-another-process-came", 36, _LATE, Step(env={"APP_LATE": "1"})),
    trap("hunt-generator-of-a-closure-handed-on", 36, _CLOSURES, Step(), differs=False, hit=True),
    trap("hunt-items-handed-on", 36, _ITEMS, Step(), differs=False, hit=True),
)
