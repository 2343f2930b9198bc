"""Family 35, the half of an intrinsic that makes code: it runs while compiling, and nothing of it is compiled."""

from ..harness import Program, main, py, replaced, trap

_EXT = """
import numpy as np
from numba import njit, types
from numba.extending import *
import cfg

@intrinsic
def native(typingctx, x):
    def codegen(context, builder, signature, args):
        {read}
        return builder.add(args[0], args[0].type(n))
    return types.int64(types.int64), codegen

@register_jitable
def thing(x):
    return native(x)
"""
_MAIN = main("""
    import ext

    @njit
    def f(x):
        return ext.thing(x)

    show("f", f, 7)
    """)


def _program(name: str, read: str, cfg: str, *edits: tuple[str, str], setup: str = "", **options) -> Program:
    ext = _EXT.format(read=read).replace("import cfg\n", "import cfg\n" + setup)
    files = {"cfg.py": py(cfg), "ext.py": ext, "main.py": _MAIN}
    return trap(f"hunt-intrinsic-that-{name}", 35, files, replaced(files, "cfg.py", *edits), **options)


_CLASS = """
    class Level:
        def __init__(self):
            self.value = 1

        @staticmethod
        def get():
            return 11

        @classmethod
        def of_the_class(cls):
            return 21

        def method(self):
            return 31

        @property
        def property(self):
            return 41

    LEVEL = Level()
    """
_NAMED = "Level = cfg.Level\n"
_LOADED_BY = {
    "an-alias-of-import-module": ("import importlib\nload = importlib.import_module", "load('cfg').K"),
    "an-alias-of-import": ("load = __import__", "load('cfg').K"),
    "another-function-s-argument": ("import importlib\ndef k(m):\n    return m.K", "k(importlib.import_module('cfg'))"),
    "an-alias-of-locate": ("from pydoc import locate as load", "load('cfg.K')"),
    "an-alias-of-resolve-name": ("from pkgutil import resolve_name as load", "load('cfg:K')"),
    "a-method-of-the-modules": ("import sys\nload = sys.modules.get", "load('cfg').K"),
}
"""Ways to a module by its text, and what is read of it: code that goes one of them isn't cached."""

PROGRAMS = (
    _program("calls-a-static-method", "n = Level.get()", _CLASS, ("return 11", "return 12"), setup=_NAMED),
    _program("calls-a-class-method", "n = Level.of_the_class()", _CLASS, ("return 21", "return 22"), setup=_NAMED),
    _program("makes-an-object", "n = Level().value", _CLASS, ("self.value = 1", "self.value = 2"), setup=_NAMED),
    _program(
        "calls-a-method-of-a-new-object", "n = Level().method()", _CLASS, ("return 31", "return 32"), setup=_NAMED
    ),
    _program("reads-a-property", "n = Level().property", _CLASS, ("return 41", "return 42"), setup=_NAMED),
    _program("calls-a-method-of-an-object", "n = cfg.LEVEL.method()", _CLASS, ("return 31", "return 32")),
    _program(
        "reads-a-class-attribute",
        "n = getattr(Level, 'lev' + cfg.END)",
        "END = 'el'\n\nclass Level:\n    level = 1\n",
        ("level = 1", "level = 2"),
        setup=_NAMED,
    ),
    _program(
        "reads-a-large-array",
        "n = int(BIG[5])",
        "import numpy as np\n\nBIG = np.arange(200_000) + 1\n",
        ("+ 1", "+ 2"),
        setup="BIG = cfg.BIG\n",
    ),
    _program(
        "reads-a-strided-array",
        "n = int(STRIDED[5])",
        "import numpy as np\n\nSTRIDED = (np.arange(200) + 1)[::3]\n",
        ("+ 1", "+ 2"),
        setup="STRIDED = cfg.STRIDED\n",
    ),
    _program(
        "reads-an-attribute-of-a-function",
        "n = helper.level",
        "def helper():\n    pass\n\nhelper.level = 1\n",
        ("level = 1", "level = 2"),
        setup="helper = cfg.helper\n",
    ),
    _program(
        "reads-annotations",
        "n = helper.__annotations__['x']",
        "def helper(x: 1):\n    pass\n",
        ("x: 1", "x: 2"),
        setup="helper = cfg.helper\n",
    ),
    _program(
        "raises-and-catches",
        "try:\n            raise Missing\n        except Missing as missing:\n            n = missing.level()",
        "class Missing(Exception):\n    def level(self):\n        return 1\n",
        ("return 1", "return 2"),
        setup="Missing = cfg.Missing\n",
    ),
    *(
        _program(
            f"loads-a-module-by-{way}",
            f"n = {read}",
            "K = 1\n",
            ("K = 1", "K = 2"),
            setup=f"{setup}\n",
            rerun="same",
        )
        for way, (setup, read) in _LOADED_BY.items()
    ),
)
