"""Family 3: values and helpers that the file doesn't show; the same bytes mean something else."""

from ..harness import Program, Step, main, py, trap

_ENVIRONMENT = {
    "main.py": main("""
        import os
        import settings

        K = int(os.environ.get("APP_K", "1"))

        @njit
        def f(x):
            return x * K + settings.OFFSET

        show("f", f, 10)
    """),
    "settings.py": "import os\nOFFSET = float(os.environ.get('APP_OFFSET', '0'))\n",
}

_DATA_FILE = {
    "main.py": main("""
        import json
        import pathlib

        TABLE = tuple(json.loads(pathlib.Path("data.json").read_text()))
        ARRAY = np.array(TABLE)

        @njit
        def f(i):
            return TABLE[1], ARRAY[i]

        show("f", f, 1)
    """),
    "data.json": "[1, 2, 3]",
}

_MONKEYPATCH = {
    "main.py": main("""
        import os
        import lib

        if os.environ.get("APP_PATCH"):
            @njit
            def replacement(x):
                return x - 1

            lib.g = replacement

        @njit
        def f(x):
            return lib.g(x) * 10

        show("f", f, 1)
        show("through lib", lib.h, 1)
    """),
    "lib.py": py("""
        from numba import njit

        @njit
        def g(x):
            return x + 1

        @njit
        def h(x):
            return g(x) * 100
    """),
}

_CHOSEN_HELPER = {
    "main.py": main("""
        import os
        import fast, exact

        g = fast.g if os.environ.get("APP_FAST") else exact.g

        @njit
        def f(x):
            return g(x)

        show("f", f, 1)
    """),
    "fast.py": "from numba import njit\n\n@njit\ndef g(x):\n    return x + 1\n",
    "exact.py": "from numba import njit\n\n@njit\ndef g(x):\n    return x + 2\n",
}

_SYS_MODULES = {
    "main.py": main("""
        import os
        import sys
        import types

        if os.environ.get("APP_FAKE"):
            fake = types.ModuleType("lib")
            exec("from numba import njit\\nK = 70\\n@njit\\ndef g(x):\\n    return x * 7\\n", fake.__dict__)
            sys.modules["lib"] = fake

        import lib

        @njit
        def f(x):
            return lib.g(x), lib.K

        show("f", f, 1)
    """),
    "lib.py": "from numba import njit\nK = 3\n\n@njit\ndef g(x):\n    return x + 1\n",
}

_RELOAD = {
    "main.py": main("""
        import importlib
        import os
        import pathlib
        import lib

        def make():
            @njit
            def f(x):
                return lib.g(x), lib.K
            return f

        show("before", make(), 1)
        text = pathlib.Path("lib.py").read_text()
        new = text.replace("K = 3", "K = 4").replace("x + 1", "x + " + os.environ.get("APP_ADD", "2"))
        pathlib.Path("lib.py").write_text(new)
        importlib.invalidate_caches()
        importlib.reload(lib)
        show("after", make(), 1)
        pathlib.Path("lib.py").write_text(text)
        importlib.reload(lib)
        show("and back", make(), 1)
    """),
    "lib.py": "from numba import njit\nK = 3\n\n@njit\ndef g(x):\n    return x + 1\n",
}

_ASSIGNED = {
    "main.py": main("""
        import os

        K = 1

        def make():
            @njit
            def f(x):
                return x + K
            return f

        show("one", make(), 10)
        K = int(os.environ.get("APP_K", "2"))
        show("assigned", make(), 10)
        globals()["K"] = 2.5
        show("through globals()", make(), 10)
    """),
}

_RECOMPILED = {
    "main.py": main("""
        import os

        K = 1
        ARRAY = np.zeros(2)

        @njit
        def f(x):
            return x + K

        @njit
        def g(i):
            return ARRAY[i]

        show("int", f, 10)
        K = int(os.environ.get("APP_K", "2"))
        show("int again, frozen", f, 10)
        show("float, compiled now", f, 10.0)
        show("g", g, 0)
        ARRAY[0] = K
        show("g again, frozen", g, 0)
        show("g, another signature", g, np.uint8(0))
        f.recompile()
        show("recompiled", f, 10)
    """),
}

_PYTHON_SIDE_EFFECT = {
    "main.py": main("""
        import os
        from numba.extending import register_jitable

        def helper(x):
            return x + 1

        def other(x):
            return x + 2

        if os.environ.get("APP_OTHER"):
            helper.__code__ = other.__code__

        helper = register_jitable(helper)

        @njit
        def f(x):
            return helper(x)

        show("f", f, 1)
    """),
}

_DEFAULTS_ASSIGNED = {
    "main.py": main("""
        import os

        def plain(x, k=1):
            return x * k

        if os.environ.get("APP_K"):
            plain.__defaults__ = (float(os.environ["APP_K"]),)

        f = njit(plain)

        @njit
        def caller(x):
            return f(x)

        show("f", f, 10)
        show("caller", caller, 10)
    """),
}


def _by_environment(name: str, files: dict[str, str], **environment: str) -> Program:
    return trap(f"outside-{name}", 3, files, Step(env=environment))


PROGRAMS = (
    _by_environment("environment-variables", _ENVIRONMENT, APP_K="2", APP_OFFSET="0.5"),
    trap("outside-data-file", 3, _DATA_FILE, {"data.json": "[1, 5, 3]"}),
    trap("outside-data-file-of-floats", 3, _DATA_FILE, {"data.json": "[1, 2.0, 3]"}),
    _by_environment("monkeypatched-helper", _MONKEYPATCH, APP_PATCH="1"),
    _by_environment("helper-chosen-at-import", _CHOSEN_HELPER, APP_FAST="1"),
    _by_environment("module-in-sys-modules", _SYS_MODULES, APP_FAKE="1"),
    _by_environment("reloaded-module", _RELOAD, APP_ADD="5"),
    _by_environment("global-assigned", _ASSIGNED, APP_K="3"),
    _by_environment("global-frozen-when-compiled", _RECOMPILED, APP_K="3"),
    _by_environment("code-object-replaced", _PYTHON_SIDE_EFFECT, APP_OTHER="1"),
    _by_environment("defaults-assigned", _DEFAULTS_ASSIGNED, APP_K="2"),
)
