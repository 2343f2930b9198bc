"""Family 21: attributes that appear when they are asked for, so that looking into a namespace doesn't find them."""

from ..harness import Program, Step, main, py, replaced, trap

_USE = """
    import lib

    @njit
    def f(x):
        return x * lib.K

    @njit
    def caller(x):
        return f(x) + lib.K

    show("f", f, 7)
    show("caller", caller, 7)
    """


def _lazy(name: str, files: dict[str, str], path: str, *pairs: tuple[str, str], body: str = _USE, **options) -> Program:
    """Return a program over modules one of which is edited."""
    files = {"main.py": main(body), **{name: py(text) for name, text in files.items()}}
    return trap(f"asked-{name}", 21, files, replaced(files, path, *pairs), **options)


def _each(thing: str) -> str:
    """Return a module that gives the same thing, or one that is made each time it is asked for."""
    return f"""
        import collections, os
        from numba import njit

        def make(name):
            return {thing}

        KEPT, EACH = make("K"), "APP_EACH" in os.environ

        def __getattr__(name):
            if name != "K":
                raise AttributeError(name)
            return make(name) if EACH else KEPT
        """


def _each_time(name: str, thing: str, use: str = "x * lib.K.a", *, differs: bool) -> Program:
    """Return a program that is given the same thing, and then one that is made each time it is asked for."""
    body = f"""
        import lib

        @njit
        def f(x):
            return {use}

        show("f", f, 7)
        """
    steps = Step(files={"main.py": main(body), "lib.py": py(_each(thing))}), Step(env={"APP_EACH": "1"})
    return trap(f"asked-each-time-for-{name}", 21, *steps, differs=differs, cold=True, rerun="same")


_ANSWERING_GLOBALS = """
    import collections, os
    from numba import njit

    class Globals(dict):
        each = "APP_EACH" in os.environ

        def __missing__(self, name):
            if name != "PAIR":
                raise KeyError(name)
            return collections.namedtuple("Row", "a b")(3, 2.5) if self.each else KEPT

    KEPT = collections.namedtuple("Row", "a b")(3, 2.5)
    scope = Globals(njit=njit, __name__=__name__, __builtins__=__builtins__)
    exec("@njit\\ndef f(x):\\n    return x * PAIR.a", scope)
    show("f", scope["f"], 7)
    """
"""Globals that answer for what isn't in them, with the same thing or with something new each time."""
_ANSWERS_ONCE = """
    import os
    from numba import njit

    left = [1 if "APP_ONCE" in os.environ else 1000]

    def __getattr__(name):
        if name != "K":
            raise AttributeError(name)
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("no more of them")
        return 3
    """

_GETATTR = """
    from values import TABLE

    def __getattr__(name):
        try:
            return TABLE[name]
        except KeyError:
            raise AttributeError(name) from None
    """
_SUBMODULES = """
    import importlib

    def __getattr__(name):
        if name == "constants":
            return importlib.import_module("lib.constants")
        raise AttributeError(name)
    """
_SUBMODULE_USE = """
    import lib

    @njit
    def f(x):
        return x * lib.constants.K

    show("f", f, 7)
    """

PROGRAMS = (
    _lazy("module-getattr", {"lib.py": _GETATTR, "values.py": "TABLE = {'K': 3}\n"}, "values.py", ("3", "4")),
    _lazy(
        "lazy-submodule",
        {"lib/__init__.py": _SUBMODULES, "lib/constants.py": "K = 3\n"},
        "lib/constants.py",
        ("3", "4"),
        body=_SUBMODULE_USE,
        cold=True,
    ),
    _lazy(
        "lazy-submodule-that-says-so",
        {"lib/__init__.py": _SUBMODULES, "lib/constants.py": "print('constants are loaded')\nK = 3\n"},
        "lib/constants.py",
        ("K = 3", "K = 4"),
        body=_SUBMODULE_USE,
        cold=True,
    ),
    _lazy(
        "lazy-function",
        {
            "lib/__init__.py": """
                def __getattr__(name):
                    if name == "helper":
                        from .helpers import helper
                        return helper
                    raise AttributeError(name)
                """,
            "lib/helpers.py": "from numba import njit\n\n@njit\ndef helper(x):\n    return x * 3\n",
        },
        "lib/helpers.py",
        ("* 3", "* 4"),
        body="""
            import lib

            @njit
            def f(x):
                return lib.helper(x) + 1

            show("f", f, 7)
            """,
    ),
    _lazy(
        "subclass-of-module-with-a-property",
        {
            "lib.py": """
                import sys
                from types import ModuleType
                import values

                class Configured(ModuleType):
                    @property
                    def K(self):
                        return values.TABLE["K"]

                sys.modules[__name__].__class__ = Configured
                """,
            "values.py": "TABLE = {'K': 3}\n",
        },
        "values.py",
        ("3", "4"),
    ),
    _lazy(
        "subclass-of-module-with-getattr",
        {
            "lib.py": """
                import sys
                from types import ModuleType
                import values

                class Configured(ModuleType):
                    def __getattr__(self, name):
                        if name == "K":
                            return values.number()
                        raise AttributeError(name)

                sys.modules[__name__] = Configured(__name__)
                """,
            "values.py": "def number():\n    return 3\n",
        },
        "values.py",
        ("3", "4"),
    ),
    _lazy(
        "subclass-of-module-that-hides-what-it-holds",
        {
            "lib.py": """
                import sys
                from types import ModuleType
                import values

                K = 100

                class Configured(ModuleType):
                    def __getattribute__(self, name):
                        return values.K if name == "K" else super().__getattribute__(name)

                sys.modules[__name__].__class__ = Configured
                """,
            "values.py": "K = 3\n",
        },
        "values.py",
        ("3", "4"),
    ),
    _lazy(
        "lazy-loader",
        {"lib.py": "K = 3\n"},
        "lib.py",
        ("3", "4"),
        body="""
            import importlib.util
            import sys

            spec = importlib.util.find_spec("lib")
            spec.loader = importlib.util.LazyLoader(spec.loader)
            lib = sys.modules["lib"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(lib)

            @njit
            def f(x):
                return x * lib.K

            show("f", f, 7)
            """,
        cold=True,
    ),
    _lazy(
        "globals-with-missing",
        {"values.py": "K = 3\n"},
        "values.py",
        ("3", "4"),
        body="""
            import values
            from types import FunctionType

            class Scope(dict):
                def __missing__(self, name):
                    return getattr(values, name)

            def g(x):
                return x * K

            f = njit(FunctionType(g.__code__, Scope(__name__="__main__", __builtins__=__builtins__), "g"))
            show("f", f, 7)
            """,
        rerun="same",
    ),
    _lazy(
        "chooser-over-missing",
        {
            "ext.py": """
                from numba.extending import overload
                from values import OPTIONS

                def thing(x):
                    raise NotImplementedError

                @overload(thing)
                def choose(x):
                    if OPTIONS["add"]:
                        return lambda x: x + 1
                    return lambda x: x - 1
                """,
            "values.py": """
                class Options(dict):
                    def __missing__(self, name):
                        return True

                OPTIONS = Options()
                """,
        },
        "values.py",
        ("True", "False"),
        body="""
            import ext

            @njit
            def f(x):
                return ext.thing(x)

            show("f", f, 7)
            """,
    ),
    trap(
        "asked-module-getattr-reads-the-environment",
        21,
        Step(
            files={
                "main.py": main(_USE),
                "lib.py": py("""
                    import os

                    def __getattr__(name):
                        if name == "K":
                            return int(os.environ["APP_" + name])
                        raise AttributeError(name)
                    """),
            },
            env={"APP_K": "3"},
        ),
        Step(env={"APP_K": "4"}),
        rerun="same",  # it computes the name of the variable
    ),
    trap(
        "asked-lazy-submodule-after-an-upgrade",
        21,
        Step(
            files={
                "main.py": main("""
                    import physics

                    @njit
                    def f(x):
                        return x * physics.constants.c

                    show("f", f, 2.0)
                """),
                **{
                    f"{version}/physics/__init__.py": py("""
                        import importlib

                        def __getattr__(name):
                            if name in {"constants", "signal"}:
                                return importlib.import_module(f"physics.{name}")
                            raise AttributeError(name)
                        """)
                    for version in ("old", "new")
                },
                "old/physics/constants.py": "c = 299792000.0\n",
                "new/physics/constants.py": "c = 299792458.0\n",
            },
            env={"PYTHONPATH": "{root}/old"},
        ),
        Step(env={"PYTHONPATH": "{root}/new"}),
    ),
    trap(
        "asked-submodule-imported-by-somebody-else",
        21,
        Step(
            files={
                "main.py": main("""
                    import sys
                    import lib

                    if "first" in sys.argv:
                        import lib.constants

                    @njit
                    def f(x):
                        return x * lib.constants.K

                    show("f", f, 7)
                """),
                "lib/__init__.py": py(_SUBMODULES),
                "lib/constants.py": "K = 3\n",
            },
            argv=("main.py", "first"),
        ),
        Step(files={"lib/constants.py": "K = 4\n"}, argv=("main.py", "late")),
        Step(files={"lib/constants.py": "K = 5\n"}, argv=("main.py", "late")),
        cold=True,
    ),
    _each_time("named-tuples", "collections.namedtuple('Row', 'a b')(3, 2.5)", differs=True),
    _each_time("dispatchers", "njit(lambda x: x + 3)", use="lib.K(x)", differs=True),
    _each_time("tuples", "(len(name) + 2, 2.5)", use="x * lib.K[0]", differs=False),
    trap(
        "asked-of-globals-for-named-tuples",
        21,
        Step(files={"main.py": main(_ANSWERING_GLOBALS)}),
        Step(env={"APP_EACH": "1"}),
        cold=True,
        differs=False,
        rerun="same",
    ),
    trap(
        "asked-each-time-by-what-is-chosen",
        21,
        Step(
            files={
                "main.py": main("""
            from numba.extending import overload

            def scaled(x):
                pass

            @overload(scaled)
            def choose(x):
                return getattr(__import__("cho" + "sen"), "times")

            @njit
            def f(x):
                return scaled(x)

            show("f", f, 7)
            """),
                "chosen.py": "import lib\ndef times(x):\n    return x * lib.K.a\n",
                "lib.py": py(_each("collections.namedtuple('Row', 'a b')(3, 2.5)")),
            }
        ),
        Step(env={"APP_EACH": "1"}),
        cold=True,
        rerun="same",
    ),
    trap(
        "asked-once-and-no-more",
        21,
        Step(
            files={
                "main.py": main("""
            import lib

            @njit
            def f(x):
                return x * lib.K

            show("f", f, 7)
            """),
                "lib.py": py(_ANSWERS_ONCE),
            }
        ),
        Step(env={"APP_ONCE": "1"}),
        cold=True,
        rerun="same",
    ),
)
