"""Family 34: what packages register with Numba counts for those compilations that asked for it, and for no others.

`plugin` is a package that Numba loads by its entry point when it first compiles, or that the program imports.
"""

from collections.abc import Mapping

from ..harness import Program, Rerun, Step, main, py, trap

_HERE = {"PYTHONPATH": "{root}/site"}
_ELSEWHERE = {"PYTHONPATH": "{root}/other"}


def _installed(
    modules: Mapping[str, str], name: str = "plugin", version: str = "1.0", at: str = "site"
) -> dict[str, str]:
    """Return the files of an installed package whose function `init` is an entry point for Numba."""
    info = f"{at}/{name}-{version}.dist-info"
    return {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/entry_points.txt": f"[numba_extensions]\ninit = {name}:init\n",
        f"{at}/{name}/__init__.py": "def init():\n    from . import overloads\n",
        **{f"{at}/{name}/{module}.py": _IMPORTS + py(text) for module, text in modules.items()},
    }


_IMPORTS = (
    "import math, operator, os, threading\nimport numpy as np\nfrom numba import njit, types\n"
    "from numba.core import cgutils\n"
    "from numba.core.typing.templates import AbstractTemplate, infer_global, signature\nfrom numba.extending import *\n\n"
)
_OWN_TYPE = """
    class Quantity:
        def __init__(self, amount):
            self.amount = amount

    class QuantityType(types.Type):
        def __init__(self):
            super().__init__(name="Quantity")

    quantity = QuantityType()

    @typeof_impl.register(Quantity)
    def typeof_quantity(value, context):
        return quantity

    @register_model(QuantityType)
    class QuantityModel(models.StructModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, [("amount", types.int64)])

    make_attribute_wrapper(QuantityType, "amount", "amount")

    @unbox(QuantityType)
    def unbox_quantity(typ, obj, c):
        amount = c.pyapi.object_getattr_string(obj, "amount")
        native = cgutils.create_struct_proxy(typ)(c.context, c.builder)
        native.amount = c.pyapi.long_as_longlong(amount)
        c.pyapi.decref(amount)
        return NativeValue(native._getvalue())
    """
_OPERATORS = """
    @overload(operator.add)
    def add_quantities(a, b):
        if isinstance(a, QuantityType) and isinstance(b, QuantityType):
            return lambda a, b: a.amount + b.amount + 1000

    @overload(len)
    def length_of_a_quantity(a):
        if isinstance(a, QuantityType):
            return lambda a: 1000

    @overload(np.sqrt)
    def root_of_a_quantity(a):
        if isinstance(a, QuantityType):
            return lambda a: a.amount + 1000
    """
_OWN_FUNCTION = """
    def own(x):
        raise NotImplementedError

    @overload(own)
    def choose(x):
        return lambda x: x + 1000
    """
_PTP = """
    @overload(np.ptp)
    def plugin_ptp(a, axis=None):
        return lambda a, axis=None: -1000.0
    """
_PLAIN = main("""
    import os

    if os.environ.get("APP_PLUGIN"):
        import plugin
        plugin.init()

    @njit
    def f(a):
        return np.sqrt(a[0] + len(a)) + a.sum()

    @njit
    def caller(a):
        return f(a) * 2 + np.max(a)

    show("f", f, np.array([1.0, 5.0]))
    show("caller", caller, np.array([1.0, 5.0]))
    show("whole", f, np.array([1, 5]))
""")

_USES_PTP = main("""
    import os

    if os.environ.get("APP_PLUGIN"):
        import plugin
        plugin.init()

    @njit
    def f(a):
        return np.ptp(a) + 1

    @njit
    def caller(a):
        return f(a) * 2

    show("caller", caller, np.array([1.0, 5.0]))
    show("f", f, np.array([1.0, 5.0]))
""")


def _edited(files: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return those of `files` that hold `old`, with `new` in its place."""
    found = {path: text.replace(old, new) for path, text in files.items() if old in text}
    if not found:
        raise ValueError(f"{old!r} is nowhere")
    return found


def _gone(files: Mapping[str, str]) -> dict[str, str | None]:
    return dict.fromkeys(files)


def _unrelated(name: str, *code: str) -> tuple[Program, ...]:
    """Return programs that ask for nothing of what a package registers, which appears, changes and goes."""
    files = _installed({"overloads": "\n".join(map(py, code))})
    edited = _edited(files, "1000", "2000")
    same = {"differs": False, "hit": True}
    return (
        trap(f"consulted-unrelated-{name}-appears", 34, {"main.py": _PLAIN, **files}, Step(env=_HERE), **same),
        trap(
            f"consulted-unrelated-{name}-changes",
            34,
            Step(files={"main.py": _PLAIN, **files}, env=_HERE),
            Step(files=edited, env=_HERE),
            **same,
        ),
        trap(
            f"consulted-unrelated-{name}-goes", 34, Step(files={"main.py": _PLAIN, **files}, env=_HERE), Step(), **same
        ),
        trap(
            f"consulted-unrelated-{name}-is-imported",
            34,
            Step(files={"main.py": _PLAIN, **_bare(files)}, env=_HERE),
            Step(env=_HERE | {"APP_PLUGIN": "1"}),
            **same,
        ),
    )


def _bare(files: Mapping[str, str]) -> dict[str, str]:
    """Return a package that isn't installed, only importable."""
    return {path: text for path, text in files.items() if ".dist-info" not in path}


def _relevant(
    name: str, code: str, body: str, *, edit: tuple[str, str] = ("1000", "2000"), rerun: Rerun = "hit"
) -> tuple[Program, ...]:
    """Return programs that ask for what a package registers, which appears, changes and goes."""
    files = {"main.py": main(body), **_installed({"overloads": code})}
    edited = _edited(files, *edit)
    return (
        trap(f"consulted-{name}-appears", 34, files, Step(env=_HERE), rerun=rerun),
        trap(f"consulted-{name}-changes-and-goes", 34, Step(files=files, env=_HERE), Step(files=edited, env=_HERE), {}),
    )


_MODEL = """
    from numba.core.datamodel import models as data_models, register_default

    @register_default(types.{cls})
    class PluginModel(data_models.{base}):
        def as_return(self, builder, value):
            return super().as_return(builder, value if {level} else builder.not_(value))
    """
_AVERAGE = """
    @njit
    def f(a):
        return np.average(a) + 1

    show("f", f, np.array([1.0, 5.0]))
    """
_CALLEE = """
    from library import span

    @njit
    def f(a):
        return span(a) * 2

    if __import__("os").environ.get("APP_FIRST"):
        show("span", span, np.array([1.0, 5.0]))
    show("f", f, np.array([1.0, 5.0]))
    """
_LIBRARY = {"library.py": "import numpy as np\nfrom numba import njit\n\n@njit\ndef span(a):\n    return np.ptp(a)\n"}

_TWO = {
    "main.py": main("""
        import os
        import shared

        for name in os.environ["APP_ORDER"].split():
            __import__(name)

        @njit
        def f(x):
            return shared.thing(x)

        show("f", f, 7)
    """),
    "shared.py": "def thing(x):\n    raise NotImplementedError\n",
    "one.py": "import shared\nfrom numba.extending import overload\n\n"
    "@overload(shared.thing)\ndef choose(x):\n    return lambda x: x + 1000\n",
    "two.py": "import shared\nfrom numba.extending import overload\n\n"
    "@overload(shared.thing)\ndef choose(x):\n    return lambda x: x + 3000\n",
}

_TWO_INSTALLED = {
    "main.py": _USES_PTP,
    **_installed({"overloads": _PTP}, "alpha"),
    **_installed({"overloads": _PTP.replace("1000", "3000")}, "beta", at="other"),
}
_ONE_THEN_OTHER = {"PYTHONPATH": "{root}/site:{root}/other"}
_OTHER_THEN_ONE = {"PYTHONPATH": "{root}/other:{root}/site"}

_LATE = main("""
    import os

    @njit
    def f(a):
        return np.ptp(a) + 1

    @njit
    def g(a):
        return np.ptp(a) + 2

    if os.environ["APP_WHEN"] == "first":
        import plugin.overloads
    show("f", f, np.array([1.0, 5.0]))
    if os.environ["APP_WHEN"] == "later":
        import plugin.overloads
    show("g", g, np.array([1.0, 5.0]))
    show("f again", f, np.array([1, 5]))
""")
_LATE_FILES = {"main.py": _LATE, **_bare(_installed({"overloads": _PTP}))}

_STATEFUL = main("""
    import settings

    @njit
    def f(x):
        return x + 1

    @njit
    def g(x):
        return x + settings.LEVEL

    show("f", f, 7)
    show("g", g, 7)
    show("level", lambda: settings.LEVEL)
""")


def _loading(init: str) -> dict[str, str]:
    """Return a package that registers for its own function only, and does something else when Numba loads it."""
    files = _installed({"overloads": _OWN_FUNCTION})
    files["site/plugin/__init__.py"] = py(init) + "    from . import overloads\n"
    return files


_CHANGES_STATE = {
    "main.py": _STATEFUL,
    "settings.py": "LEVEL = 1\n",
    **_loading("""
        import settings

        def init():
            settings.LEVEL += 10
    """),
}
_PRINTS = {"main.py": _PLAIN, **_loading('def init():\n    print("plugin: ready", flush=True)\n')}
_PRINTS_LATE = {
    "main.py": _PLAIN.replace("\n@njit\ndef f", '\nprint("main: begins", flush=True)\n\n@njit\ndef f'),
    **_loading('import sys\n\nprint("plugin: imported", len(sys.argv), flush=True)\n\ndef init():\n'),
}
_FAILS = {
    "main.py": _PLAIN.replace(
        "import os\n",
        "import os\nimport warnings\n\nwarnings.showwarning = lambda m, c, *a, **k: print(c.__name__, m)\n",
    ),
    **_loading('def init():\n    raise RuntimeError("no licence")\n'),
}
_BOUNDS = {
    "main.py": main("""
        @njit
        def f(a, i):
            return a[i]

        @njit
        def g(a, i):
            return a[i] + 1

        show("f", f, np.arange(3), 1)
        show("g", g, np.arange(3), 2)
        show("checks", lambda: numba.config.BOUNDSCHECK)
        show("g beyond", g, np.arange(4)[:3], 3)
    """),
    **_loading("import numba\n\ndef init():\n    numba.config.BOUNDSCHECK = 1\n"),
}

_VALUES = {
    "plain": "LEVEL = int(os.environ['APP_LEVEL'])\n",
    "behind-a-lock": "LOCK = threading.Lock()\nLEVEL = int(os.environ['APP_LEVEL'])\n",
    "in-a-large-package": "TABLE = [[str(i)] for i in range(3000)]\nLEVEL = int(os.environ['APP_LEVEL'])\n",
}
_READING = {
    "plain": "level = LEVEL",
    "behind-a-lock": "with LOCK:\n        level = LEVEL",
    "in-a-large-package": "level = LEVEL + len(TABLE[7]) - 1",
}


def _valued(kind: str) -> Program:
    """Return a program whose plugin chooses by a value that isn't in its files."""
    code = _IMPORTS + _VALUES[kind] + f"\n@overload(np.ptp)\ndef plugin_ptp(a, axis=None):\n    {_READING[kind]}\n"
    files = {"main.py": _USES_PTP, **_installed({})}
    files["site/plugin/overloads.py"] = code + "    return lambda a, axis=None: -level\n"
    rerun = "same" if kind == "behind-a-lock" else "hit"
    return trap(
        f"consulted-plugin-value-{kind}",
        34,
        Step(files=files, env=_HERE | {"APP_LEVEL": "1"}),
        Step(env=_HERE | {"APP_LEVEL": "2"}),
        rerun=rerun,
    )


_LAZY_PART = {
    "main.py": _USES_PTP,
    **_installed(
        {
            "part": "def level():\n    return 1000\n",
            "overloads": """
            @overload(np.ptp)
            def plugin_ptp(a, axis=None):
                from .part import level
                n = level()
                return lambda a, axis=None: -n
        """,
        }
    ),
}
_ADDS = """
    import plugin.overloads

    @njit
    def f(a, b):
        return a + b

    show("whole", f, 1, 2)
    show("f", f, plugin.overloads.Quantity(3), plugin.overloads.Quantity(4))
    """

PROGRAMS = (
    *_unrelated("own-function", _OWN_FUNCTION),
    *_unrelated("operators-on-an-own-type", _OWN_TYPE, _OPERATORS),
    *_unrelated("numpy-function", _PTP),
    *_unrelated("model-of-numba-s-own-type", _MODEL.format(cls="NPDatetime", base="PrimitiveModel", level="1000")),
    *_unrelated(
        "conversion-of-an-own-type",
        _OWN_TYPE,
        """
        from numba.core.typeconv import rules

        LEVEL = 1000
        as_numba_type.register(Quantity, quantity)
        rules.default_casting_rules.unsafe(types.float64, quantity)
        """,
    ),
    *_relevant(
        "options-of-llvm",
        """
        import llvmlite.binding as llvm

        llvm.set_option("plugin", "-force-vector-width=1")
        llvm.set_option("plugin", "-force-vector-interleave=1")
        """,
        """
        @njit(fastmath=True)
        def f(a):
            total = 0.0
            for i in range(len(a)):
                total += a[i]
            return total

        show("f", f, np.array([1e16, 1.0, -1e16, 3.0] * 64))
        """,
        edit=("-force-vector-width=1", "-force-vector-width=4"),
        rerun="same",
    ),
    *_unrelated(
        "array-method",
        """
        @overload_method(types.Array, "spread")
        def spread(a):
            return lambda a: a.size + 1000

        @overload_attribute(types.Array, "weight")
        def weight(a):
            return lambda a: 1000
        """,
    )[:2],
    *_relevant(
        "model-of-numba-s-own-type",
        py(_MODEL.format(cls="Boolean", base="BooleanModel", level="1000 > 1500")),
        """
        @njit
        def f(x):
            return x > 3

        show("f", f, 5)
        show("f", f, 1)
        """,
    ),
    *_relevant("in-a-nested-implementation", _PTP.replace("np.ptp", "np.mean"), _AVERAGE),
    *_relevant(
        "lowering-of-a-builtin",
        """
        @lower_builtin(math.sin, types.float64)
        def lower_sine(context, builder, sig, args):
            return context.get_constant(types.float64, 1000.0)
        """,
        "import math\n\n@njit\ndef f(x):\n    return math.sin(x)\n\nshow('f', f, 0.5)\n",
    )[:1],
    trap(
        "consulted-through-a-callee",
        34,
        {"main.py": main(_CALLEE), **_LIBRARY, **_installed({"overloads": _PTP})},
        Step(env=_HERE),
    ),
    trap(
        "consulted-through-a-callee-loaded-before",
        34,
        {"main.py": main(_CALLEE), **_LIBRARY, **_installed({"overloads": _PTP})},
        Step(env={"APP_FIRST": "1"}),
        Step(env=_HERE | {"APP_FIRST": "1"}),
        Step(env={"APP_FIRST": "1"}),
        differs=False,
    ),
    trap(
        "consulted-operators-on-an-own-type-change",
        34,
        Step(files={"main.py": main(_ADDS), **_installed({"overloads": py(_OWN_TYPE) + py(_OPERATORS)})}, env=_HERE),
        Step(files=_edited(_installed({"overloads": py(_OWN_TYPE) + py(_OPERATORS)}), "1000", "2000"), env=_HERE),
    ),
    trap(
        "consulted-two-imported-in-another-order",
        34,
        Step(files=_TWO, env={"APP_ORDER": "one two"}),
        Step(env={"APP_ORDER": "two one"}),
    ),
    trap(
        "consulted-two-installed-in-another-order",
        34,
        Step(files=_TWO_INSTALLED, env=_ONE_THEN_OTHER),
        Step(env=_OTHER_THEN_ONE),
    ),
    trap(
        "consulted-one-of-two-goes",
        34,
        Step(files=_TWO_INSTALLED, env=_ONE_THEN_OTHER),
        Step(env=_ELSEWHERE),
        Step(env=_HERE),
        Step(env=_ELSEWHERE),
        differs=True,
    ),
    trap(
        "consulted-imported-after-the-first",
        34,
        Step(files=_LATE_FILES, env=_HERE | {"APP_WHEN": "later"}),
        Step(env=_HERE | {"APP_WHEN": "first"}),
    ),
    trap(
        "consulted-imported-before-the-first",
        34,
        Step(files=_LATE_FILES, env=_HERE | {"APP_WHEN": "first"}),
        Step(env=_HERE | {"APP_WHEN": "later"}),
    ),
    trap("consulted-plugin-that-changes-state-appears", 34, _CHANGES_STATE, Step(env=_HERE)),
    trap(
        "consulted-plugin-that-changes-state",
        34,
        Step(files=_CHANGES_STATE, env=_HERE),
        Step(env=_HERE),
        differs=False,
        hit=True,
    ),
    trap("consulted-plugin-that-prints-appears", 34, _PRINTS, Step(env=_HERE)),
    trap("consulted-plugin-that-prints", 34, Step(files=_PRINTS, env=_HERE), Step(env=_HERE), differs=False, hit=True),
    trap(
        "consulted-plugin-that-prints-when-imported",
        34,
        Step(files=_PRINTS_LATE, env=_HERE),
        Step(env=_HERE),
        differs=False,
        hit=True,
    ),
    trap("consulted-plugin-that-fails-appears", 34, _FAILS, Step(env=_HERE)),
    trap("consulted-plugin-that-fails", 34, Step(files=_FAILS, env=_HERE), Step(env=_HERE), differs=False, hit=True),
    trap(
        "consulted-plugin-that-fails-is-told",
        34,
        Step(files={**_FAILS, "main.py": _PLAIN}, env=_HERE, stderr=True),
        Step(env=_HERE, stderr=True),
        differs=False,
        cold=True,
        hit=True,
    ),
    trap("consulted-plugin-that-sets-an-option", 34, _BOUNDS, Step(env=_HERE), Step(env=_HERE)),
    *(_valued(kind) for kind in _VALUES),
    trap(
        "consulted-plugin-with-a-lazy-part",
        34,
        Step(files=_LAZY_PART, env=_HERE),
        Step(files=_edited({"site/plugin/part.py": _LAZY_PART["site/plugin/part.py"]}, "1000", "2000"), env=_HERE),
    ),
)
