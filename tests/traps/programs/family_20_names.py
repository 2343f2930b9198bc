"""Family 20: files, modules and namespaces of the program whose names look like the toolchain's.

What comes with Python, Numba or NumPy is told by where it lies. A name says nothing: scripts lie beside modules that
are called like one of the standard library's, and generated code runs in copies of NumPy's namespace.
"""

from ..harness import Program, main, py, replaced, trap

_HELPER = py("""
    from numba import njit

    K = 3

    @njit
    def helper(x):
        return x * K
    """)


def _module(name: str, module: str, path: str, *pairs: tuple[str, str]) -> Program:
    """Return a program whose script calls `helper` of a module of its own, which is edited."""
    files = {
        "main.py": main(f"""
            import {module} as m

            @njit
            def f(x):
                return m.helper(x) + m.K

            show("f", f, 7)
            print(m.__file__.endswith("{path}"))
        """),
        path: _HELPER,
    }
    if "/" in path:
        files[path.split("/", maxsplit=1)[0] + "/__init__.py"] = ""
    return trap(f"names-{name}", 20, files, replaced(files, path, *pairs))


def _namespace(name: str, start: str, *pairs: tuple[str, str]) -> Program:
    """Return a program that executes code in a namespace that is called like the toolchain's."""
    files = {
        "main.py": main(f"""
            import math
            from settings import K, helper
            {start}
            namespace["K"] = K
            namespace["helper"] = helper
            exec("def f(x):\\n    return sin(x) * K + helper(x)\\n", namespace)
            print(namespace["f"].__module__)
            f = njit(namespace["f"])

            @njit
            def caller(x):
                return f(x) + 1

            show("f", f, 0.5)
            show("caller", caller, 0.5)
        """),
        "settings.py": _HELPER,
    }
    return trap(f"names-{name}", 20, files, replaced(files, "settings.py", *pairs))


def _extension(name: str, path: str, ext: str, *pairs: tuple[str, str], **options) -> Program:
    """Return a program whose extension of Numba looks like the toolchain's own."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    files = {
        "main.py": main(f"""
            import {module} as ext

            @njit
            def f(x):
                return ext.thing(x)

            @njit
            def caller(x):
                return f(x) * 10

            show("f", f, 7)
            show("caller", caller, 7)
        """),
        path: "from numba.extending import overload, register_jitable\nimport functools\nimport numpy as np\n\n"
        "def thing(x):\n    raise NotImplementedError\n\n" + py(ext),
    }
    return trap(f"names-{name}", 20, files, replaced(files, path, *pairs), **options)


_CHOOSER = """
    @overload(thing)
    def choose(x):
        return lambda x: x + 1
    """

_NUMPY_EXTENDED = {
    "main.py": main("""
        import statistics as ext

        @njit
        def f(a):
            return np.trim_zeros(a).sum() + ext.VERSION

        show("f", f, np.array([0.0, 5.0, 0.0]))
    """),
    "statistics.py": py("""
        import numpy as np
        from numba.extending import overload

        VERSION = 1

        @overload(np.trim_zeros)
        def trim(filt):
            return lambda filt: filt * 10
    """),
}

_RUN_AS = {
    "main.py": main("""
        import runpy
        runpy.run_path("part.py", run_name="statistics")
    """),
    "part.py": main("""
        from settings import K

        @njit
        def f(x):
            return x * K

        show("f", f, 7)
        print(__name__)
    """),
    "settings.py": "K = 3\n",
}

_WRAPPED = {
    "main.py": main("""
        import functools
        from settings import helper, K

        def like_numpy(x):
            return helper(x) + K

        functools.update_wrapper(like_numpy, np.linalg.norm, updated=())
        del like_numpy.__wrapped__
        f = njit(like_numpy)
        print(f.__module__, f.__qualname__)
        show("f", f, 2)

        @njit
        def caller(x):
            return f(x) * 10

        show("caller", caller, 2)
    """),
    "settings.py": _HELPER,
}

_CLASSES = {
    "main.py": main("""
        from settings import SOURCE

        namespace = {"numba": numba}
        exec(SOURCE, namespace)
        Options, Point = namespace["Options"], namespace["Point"]
        print(Options.__module__)

        @njit
        def f(x):
            return x * Options.SCALE.value

        show("f", f, 2)
        show("point", njit(lambda x: Point(x, 2)), 1)
    """),
    "settings.py": py('''
        SOURCE = """
        from enum import IntEnum
        from collections import namedtuple

        class Options(IntEnum):
            SCALE = 3

        Point = namedtuple("Point", "x y", module="numpy")
        """
        '''),
}

_TYPE_CLASS = {
    "main.py": main("""
        from settings import SOURCE

        namespace = {}
        exec(SOURCE, namespace)
        Box = namespace["Box"]
        print(namespace["BoxType"].__module__)

        @njit
        def f(b):
            return b.scaled(3)

        show("f", f, Box())
    """),
    "settings.py": py('''
        SOURCE = """
        from numba import types
        from numba.extending import typeof_impl, register_model, models, unbox, NativeValue, overload_method

        class Box:
            pass

        class BoxType(types.Type):
            def __init__(self):
                super().__init__(name="Box")

        @typeof_impl.register(Box)
        def typeof_box(value, context):
            return BoxType()

        register_model(BoxType)(models.OpaqueModel)

        @unbox(BoxType)
        def unbox_box(typ, obj, c):
            return NativeValue(obj)

        @overload_method(BoxType, "scaled")
        def scaled(self, k):
            return lambda self, k: k * 10
        """
        '''),
}

_RAISING = {
    "main.py": main("""
        from settings import SOURCE

        namespace = dict(vars(np))
        exec(SOURCE, namespace)
        Refused = namespace["Refused"]
        print(Refused.__module__)
        f = njit(namespace["f"])

        def caught(x):
            try:
                return f(x)
            except Refused as exc:
                return exc.args[0], type(exc) is Refused

        show("f", caught, 1)
        show("f", caught, 2)
    """),
    "settings.py": py('''
        SOURCE = """
        class Refused(ValueError):
            pass

        def f(x):
            if x > 1:
                raise Refused("too large")
            return x
        """
        '''),
}

_COPY = "namespace = dict(vars({0}))"

_CONSTANT = ("K = 3", "K = 4")
_CODE = ("x * K", "x - K")

PROGRAMS = (
    _module("wave-beside-the-script", "wave", "wave.py", _CONSTANT),
    _module("statistics-beside-the-script", "statistics", "statistics.py", _CODE),
    _module("package-code", "code.util", "code/util.py", _CONSTANT),
    _namespace("copy-of-numpy", _COPY.format("np"), _CONSTANT),
    _namespace("copy-of-math", _COPY.format("math"), _CODE),
    _namespace("called-numpy-by-hand", 'namespace = {"__name__": "numpy.linalg", "sin": math.sin}', _CONSTANT),
    _namespace("called-numba", 'namespace = {"__name__": "numba.core.more", "sin": math.sin}', _CODE),
    trap("names-metadata-of-a-numpy-function", 20, _WRAPPED, replaced(_WRAPPED, "settings.py", ("K = 3", "K = 4"))),
    trap("names-run-as-a-module-of-the-library", 20, _RUN_AS, {"settings.py": "K = 4\n"}),
    _extension("chooser-in-statistics", "statistics.py", _CHOOSER, ("x + 1", "x + 2")),
    _extension("chooser-in-a-package-code", "code/__init__.py", _CHOOSER, ("x + 1", "x + 2")),
    _extension(
        "chooser-that-wraps-numpy",
        "ext.py",
        """
        def choose(x):
            return lambda x: x + 1

        functools.update_wrapper(choose, np.ptp)
        del choose.__wrapped__
        overload(thing)(choose)
        """,
        ("x + 1", "x + 2"),
    ),
    _extension(
        "chooser-from-a-copy-of-numpy",
        "ext.py",
        """
        namespace = dict(vars(np), K=1)
        exec("def choose(x):\\n    k = K\\n    return lambda x: x + k", namespace)
        overload(thing)(namespace["choose"])
        """,
        ("K=1", "K=2"),
    ),
    _extension(
        "helper-from-a-copy-of-numpy",
        "ext.py",
        """
        namespace = dict(vars(np), K=1)
        exec("def helper(x):\\n    return sqrt(x) + K", namespace)
        helper = register_jitable(namespace["helper"])

        @overload(thing)
        def choose(x):
            return lambda x: helper(x)
        """,
        ("K=1", "K=2"),
    ),
    trap(
        "names-numpy-extended-in-statistics",
        20,
        _NUMPY_EXTENDED,
        replaced(_NUMPY_EXTENDED, "statistics.py", ("filt * 10", "filt * 20")),
    ),
    trap(
        "names-classes-of-builtins",
        20,
        _CLASSES,
        replaced(_CLASSES, "settings.py", ("SCALE = 3", "SCALE = 4")),
        replaced(_CLASSES, "settings.py", ('"x y"', '"x z"')),
    ),
    trap("names-type-class-of-builtins", 20, _TYPE_CLASS, replaced(_TYPE_CLASS, "settings.py", ("k * 10", "k * 20"))),
    trap("names-exception-class-of-numpy", 20, _RAISING, replaced(_RAISING, "settings.py", ("too large", "larger"))),
)
