"""Family 22: an attribute's name stands in other code than the module or class it is read from."""

from ..harness import Program, Step, main, py, replaced, trap


def _edit(name: str, body: str, files: dict[str, str], path: str, *pairs: tuple[str, str], **options) -> Program:
    """Return a program over modules one of which is edited."""
    everything = {"main.py": main(body), **{name: py(text) for name, text in files.items()}}
    return trap(f"elsewhere-{name}", 22, everything, replaced(everything, path, *pairs), **options)


def _environment(name: str, body: str, files: dict[str, str], **options) -> Program:
    """Return a program whose constant comes from the environment, which no digest of a file shows."""
    first = Step(files={"main.py": main(body), **{name: py(text) for name, text in files.items()}}, env={"APP_K": "3"})
    return trap(f"elsewhere-{name}", 22, first, Step(env={"APP_K": "4"}), **options)


_MOD = {"mod.py": "K = 3\n"}
_CHANGE = ("mod.py", ("K = 3", "K = 4"))
_FROM_ENVIRONMENT = {"mod.py": "import os\n\nK = int(os.environ['APP_K'])\n"}


def _on_toolchain(name: str, setup: str, use: str, settings: str, *pairs: tuple[str, str]) -> Program:
    """Return a program that puts something of its own on a module of the toolchain."""
    body = f"""
        import math
        import settings
        {setup}

        @njit
        def f(x):
            return {use}

        show("f", f, 2)
        """
    return _edit(f"on-{name}", body, {"settings.py": settings}, "settings.py", *pairs)


PROGRAMS = (
    _edit(
        "module-as-an-argument",
        """
        import mod

        @njit
        def read(m):
            return m.K

        @njit
        def f(x):
            return x * read(mod)

        show("f", f, 7)
        """,
        _MOD,
        *_CHANGE,
    ),
    _environment(
        "module-as-an-argument-two-calls-down",
        """
        import mod

        @njit
        def read(m):
            return m.K

        @njit
        def between(x, m):
            return x * read(m)

        @njit
        def f(x):
            return between(x, mod)

        show("f", f, 7)
        """,
        _FROM_ENVIRONMENT,
    ),
    _edit(
        "module-for-an-inlined-helper",
        """
        import mod

        @njit(inline="always")
        def read(m):
            return m.K

        @njit
        def f(x):
            return x * read(mod)

        show("f", f, 7)
        """,
        _MOD,
        *_CHANGE,
    ),
    _edit(
        "module-returned-by-a-function",
        """
        import mod

        @njit(inline="always")
        def settings():
            return mod

        @njit
        def f(x):
            m = settings()
            return x * m.K

        show("f", f, 7)
        """,
        _MOD,
        *_CHANGE,
    ),
    _edit(
        "getattr-with-a-name-of-its-own",
        """
        import mod

        NAME = "K"

        @njit
        def f(x):
            return x * getattr(mod, NAME)

        show("f", f, 7)
        """,
        _MOD,
        *_CHANGE,
    ),
    _edit(
        "getattr-with-a-name-from-another-module",
        """
        import mod
        import names

        def make(name):
            @njit
            def f(x):
                return x * getattr(mod, name)
            return f

        show("f", make(names.FIELD), 7)
        """,
        {**_MOD, "names.py": "FIELD = 'K'\n"},
        *_CHANGE,
    ),
    _edit(
        "overload-on-a-module",
        """
        import mod
        import ext

        @njit
        def f(x):
            return x * ext.constant_of(mod)

        show("f", f, 7)
        """,
        {
            **_MOD,
            "ext.py": """
                from numba import types
                from numba.extending import overload

                def constant_of(m):
                    raise NotImplementedError

                @overload(constant_of)
                def choose(m):
                    if isinstance(m, types.Module):
                        return lambda m: m.K
                """,
        },
        *_CHANGE,
    ),
    _edit(
        "overload-that-reads-the-module",
        """
        import mod
        import ext

        @njit
        def f(x):
            return x * ext.constant_of(mod)

        show("f", f, 7)
        """,
        {
            **_MOD,
            "ext.py": """
                from numba.extending import overload

                def constant_of(m):
                    raise NotImplementedError

                @overload(constant_of)
                def choose(m):
                    k = m.pymod.K
                    return lambda m: k
                """,
        },
        *_CHANGE,
    ),
    _edit(
        "chooser-over-a-path-of-names",
        """
        import ext

        @njit
        def f(x):
            return ext.thing(x)

        show("f", f, 7)
        """,
        {
            "ext.py": """
                import functools
                import names
                import pack.sub
                from numba.extending import overload

                def thing(x):
                    raise NotImplementedError

                @overload(thing)
                def choose(x):
                    k = functools.reduce(getattr, names.PATH.split("."), pack)
                    return lambda x: x + k
                """,
            "names.py": "PATH = 'sub.K'\n",
            "pack/__init__.py": "",
            "pack/sub.py": "K = 3\n",
        },
        "pack/sub.py",
        ("3", "4"),
    ),
    _edit(
        "chooser-over-a-name-it-computes",
        """
        import ext

        @njit
        def f(x):
            return ext.thing(x)

        show("f", f, 7)
        """,
        {
            "ext.py": """
                import mod
                from numba.extending import overload

                def thing(x):
                    raise NotImplementedError

                @overload(thing)
                def choose(x):
                    k = getattr(mod, "K_" + str(x).upper())
                    return lambda x: x + k
                """,
            "mod.py": "K_INT64 = 3\n",
        },
        "mod.py",
        ("3", "4"),
    ),
    _edit(
        "chooser-hands-its-module-to-a-helper",
        """
        import ext

        @njit
        def f(x):
            return ext.thing(x)

        show("f", f, 7)
        """,
        {
            "ext.py": """
                import mod
                from helpers import constant
                from numba.extending import overload

                def thing(x):
                    raise NotImplementedError

                @overload(thing)
                def choose(x):
                    k = constant(mod)
                    return lambda x: x + k
                """,
            "helpers.py": "def constant(m):\n    return vars(m)['K']\n",
            **_MOD,
        },
        *_CHANGE,
    ),
    trap(
        "elsewhere-number-of-threads",
        22,
        Step(
            files={
                "main.py": main("""
                    @njit
                    def f(x):
                        return x * numba.config.NUMBA_NUM_THREADS

                    @njit
                    def caller(x):
                        return f(x) + 1

                    show("f", f, 10)
                    show("caller", caller, 10)
                """)
            },
            env={"NUMBA_NUM_THREADS": "2"},
        ),
        Step(env={"NUMBA_NUM_THREADS": "1"}),
    ),
    trap(
        "elsewhere-harmless-setting-read",
        22,
        Step(
            files={
                "main.py": main("""
                    @njit
                    def f(x):
                        return x + numba.config.DEVELOPER_MODE * 10

                    show("f", f, 1)
                """)
            },
        ),
        Step(env={"NUMBA_DEVELOPER_MODE": "1"}),
    ),
    _on_toolchain("numpy-a-tuple", "np.mine = settings.PAIR", "x * np.mine[0]", "PAIR = (3, 1)\n", ("(3", "(4")),
    _on_toolchain(
        "math-a-tuple", "math.mine = settings.PAIR", "x * math.mine[1]", "PAIR = (1, 3)\n", ("(1, 3)", "(1, 4)")
    ),
    _on_toolchain(
        "numpy-an-intrinsic",
        "np.mine = settings.native",
        "np.mine(x)",
        """
        from numba import types
        from numba.extending import intrinsic

        @intrinsic
        def native(typingctx, x):
            def codegen(context, builder, signature, args):
                return builder.add(args[0], args[0].type(3))
            return types.int64(types.int64), codegen
        """,
        ("type(3)", "type(4)"),
    ),
    _on_toolchain(
        "numpy-an-enum-member",
        "np.mine = settings.Level.HIGH",
        "x * np.mine.value",
        "from enum import IntEnum\n\nclass Level(IntEnum):\n    HIGH = 3\n",
        ("3", "4"),
    ),
    _on_toolchain(
        "math-a-namedtuple",
        "math.mine = settings.Pair(1, 3)",
        "x * math.mine.b",
        "from collections import namedtuple\n\nPair = namedtuple('Pair', 'a b')\n",
        ("'a b'", "'b a'"),
    ),
)
