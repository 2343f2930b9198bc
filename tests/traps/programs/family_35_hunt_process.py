"""Family 35, what a process is besides its functions: its state, how it was started, what plugins did to it."""

from collections.abc import Mapping

from ..harness import Program, Step, main, py, replaced, trap

_HERE = {"PYTHONPATH": "{root}/site"}


def _plugin(init: str, module: str = "", overloads: str = "") -> dict[str, str]:
    """An installed package that extends Numba, which no function here has anything to do with."""
    info = "site/plugin-1.0.dist-info"
    return {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n",
        f"{info}/entry_points.txt": "[numba_extensions]\ninit = plugin:init\n",
        "site/plugin/__init__.py": py(module)
        + "\ndef init():\n    from . import overloads\n"
        + py(init).replace("\n", "\n    ").join(("    ", "\n")),
        "site/plugin/overloads.py": "from numba.extending import overload\n\ndef own(x):\n    raise NotImplementedError\n\n"
        + (py(overloads) or "@overload(own)\ndef choose(x):\n    return lambda x: x + 1\n"),
    }


def _with_plugin(
    name: str, init: str, look: str, module: str = "", more: Mapping[str, str] | None = None, before: str = ""
) -> Program:
    """What a plugin does when Numba loads it can be seen after the first call, on a hit too."""
    files = {
        "main.py": main(py(before) + "\n@njit\ndef f(x):\n    return x * 2\n\nshow('f', f, 4)\n" + py(look)),
        **_plugin(init, module),
        **(more or {}),
    }
    return trap(
        f"hunt-plugin-{name}", 35, Step(files=files, env=_HERE), Step(env=_HERE), differs=False, cold=True, rerun="same"
    )


_PLUGINS = (
    _with_plugin(
        "that-keeps-a-stream",
        "",
        "import sys, plugin\nprint(plugin.OUT is sys.stdout, type(plugin.OUT).__name__)\n",
        "import sys\n\nOUT = sys.stdout\n",
    ),
    _with_plugin(
        "that-sets-up-a-log",
        "import logging, sys\nlogging.getLogger('app').addHandler(logging.StreamHandler(sys.stdout))",
        "import logging, sys\nfor handler in logging.getLogger('app').handlers:\n    print(handler.stream is sys.stdout)\n"
        "logging.getLogger('app').warning('said')\n",
    ),
    _with_plugin(
        "that-registers-itself-in-a-table",
        "import host\nhost.PLUGINS.append('plugin')",
        "print(host.PLUGINS)\n",
        more={"host.py": "PLUGINS = []\n"},
        before="import host\n",
    ),
    _with_plugin(
        "that-changes-a-dictionary",
        "import host\nhost.CONFIG['level'] = 2",
        "print(host.CONFIG)\n",
        more={"host.py": "CONFIG = {'level': 1}\n"},
        before="import host\n",
    ),
    _with_plugin(
        "that-changes-a-class",
        "import host\nhost.Settings.level = 2",
        "print(host.Settings.level)\n",
        more={"host.py": "class Settings:\n    level = 1\n"},
        before="import host\n",
    ),
    _with_plugin(
        "that-changes-an-object",
        "import host\nhost.SETTINGS.level = 2",
        "print(host.SETTINGS.level)\n",
        more={"host.py": "import types\n\nSETTINGS = types.SimpleNamespace(level=1)\n"},
        before="import host\n",
    ),
    _with_plugin(
        "that-filters-warnings",
        "import warnings\nwarnings.filterwarnings('ignore', 'noise')",
        "import warnings\nprint(any('noise' in str(each[1]) for each in warnings.filters))\n",
    ),
    _with_plugin(
        "that-sets-the-recursion-limit",
        "import sys\nsys.setrecursionlimit(4321)",
        "import sys\nprint(sys.getrecursionlimit())\n",
    ),
    _with_plugin(
        "that-sets-the-error-state", "import numpy as np\nnp.seterr(divide='raise')", "print(np.geterr()['divide'])\n"
    ),
    _with_plugin(
        "that-sets-print-options",
        "import numpy as np\nnp.set_printoptions(precision=2)",
        "print(np.get_printoptions()['precision'])\n",
    ),
    _with_plugin(
        "that-seeds",
        "import random\nrandom.seed(7)\nimport numpy as np\nnp.random.seed(8)",
        "import random\nprint(random.random(), np.random.random())\n",
    ),
    _with_plugin("that-says-goodbye", "import atexit\natexit.register(print, 'goodbye')", ""),
    _with_plugin(
        "that-extends-the-path", "import sys\nsys.path.append('/nowhere/plugin')", "import sys\nprint(sys.path[-1])\n"
    ),
    _with_plugin(
        "that-hooks-exceptions",
        "import sys\nsys.excepthook = lambda *exc: print('caught', exc[0].__name__)",
        "raise ValueError(1)\n",
    ),
    _with_plugin("that-turns-the-collector-off", "import gc\ngc.disable()", "import gc\nprint(gc.isenabled())\n"),
    _with_plugin(
        "that-handles-a-signal",
        "import signal\nsignal.signal(signal.SIGUSR1, lambda *args: print('signal'))",
        "import os, signal\nprint(callable(signal.getsignal(signal.SIGUSR1)))\n",
    ),
    _with_plugin(
        "that-starts-a-thread",
        "import threading\nthreading.Thread(target=threading.Event().wait, name='plugin', daemon=True).start()",
        "import threading\nprint(sorted(each.name for each in threading.enumerate()))\n",
    ),
    _with_plugin(
        "that-sets-the-locale",
        "import decimal\ndecimal.getcontext().prec = 7",
        "import decimal\nprint(decimal.getcontext().prec)\n",
    ),
)

_PTP = main("""
    @njit
    def f(a):
        return np.std(a)

    show("f", f, np.array([1.0, 5.0]))
    """)
_PTP_FILES = {
    "main.py": _PTP,
    **_plugin(
        "",
        overloads="import numpy as np\n\n@overload(np.ptp)\ndef choose(a, axis=None):\n    return lambda a, axis=None: -1000.0\n",
    ),
}
_STD_FILES = _plugin(
    "",
    overloads="import numpy as np\n\n@overload(np.std)\ndef choose(a, axis=None):\n    return lambda a, axis=None: -1000.0\n",
)

_REPLACED = main("""
    import ext

    @njit
    def f(x):
        return ext.thing(x)

    show("one", f, 7)
    ext.change(2)
    show("two", f, np.int32(7))
    """)
_EXT = """
    from numba import types
    from numba.extending import *

    class Config:
        level = 0

    CONFIG = Config()
    CONFIG.level = 1

    def change(level):
        pass

    def thing(x):
        raise NotImplementedError

    @type_callable(thing)
    def type_thing(context):
        return lambda x: types.int64

    @lower_builtin(thing, types.Integer)
    def lower_thing(context, builder, sig, args):
        word = context.cast(builder, args[0], sig.args[0], types.int64)
        return builder.add(word, word.type(<READ>))
    """


def _changed_between(name: str, read: str, change: str, setup: str = "") -> Program:
    ext = py(_EXT).replace("<READ>", read).replace("CONFIG.level = 1\n", "CONFIG.level = 1\n" + py(setup))
    files = {"main.py": _REPLACED, "ext.py": ext}
    return trap(
        f"hunt-{name}",
        35,
        files,
        replaced(
            files,
            "ext.py",
            ("    pass\n\ndef thing", py(change).replace("\n", "\n    ").join(("    ", "\n\ndef thing"))),
        ),
    )


_NOISY = main("""
    import warnings

    @njit(parallel=True)
    def f(x):
        return x * 2

    show("f", f, 4)
    show("f", f, 4.0)
    """)
_COUNTS = main("""
    import gc, weakref

    def make(k):
        @njit
        def f(x):
            return x + k
        return f

    f = make(1)
    print(f(1))
    known, code = weakref.ref(f), weakref.ref(f.py_func)
    del f
    gc.collect()
    print(known() is None, code() is None)
    """)

_IN_PLACE = {
    "full-name-of-a-function": (
        "len(helper.__qualname__)",
        "helper.__qualname__ = 'x' * 9",
        "def helper():\n    pass\n",
    ),
    "module-of-a-function": ("len(helper.__module__)", "helper.__module__ = 'x' * 9", "def helper():\n    pass\n"),
    "name-of-a-class": ("len(Named.__name__)", "Named.__name__ = 'x' * 9", "class Named:\n    pass\n"),
    "abstract-methods-of-a-class": (
        "len(Base.__abstractmethods__)",
        "Base.__abstractmethods__ = frozenset()",
        "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def method(self):\n        pass\n",
    ),
    "method-of-a-named-tuple": (
        "len(repr(Pair(1)))",
        "Pair.__repr__ = lambda self: 'x'",
        "import collections\nPair = collections.namedtuple('Pair', 'a')\n",
    ),
    "member-of-an-enum": (
        "Kind['A'].value",
        "Kind._member_map_['A'] = Kind.B",
        "import enum\nclass Kind(enum.Enum):\n    A = 1\n    B = 2\n",
    ),
    "value-of-a-member-of-an-enum": (
        "Kind(1).value",
        "Kind._value2member_map_[1] = Kind.B",
        "import enum\nclass Kind(enum.Enum):\n    A = 1\n    B = 2\n",
    ),
    "default-by-name": ("helper()", "helper.__kwdefaults__['a'] = 9", "def helper(*, a=1):\n    return a\n"),
    "fields-of-a-dtype": (
        "len(PAIR.names[0])",
        "PAIR.names = ('longer',)",
        "import numpy as np\nPAIR = np.dtype([('a', 'i4')])\n",
    ),
    "options-of-a-function": (
        "len(helper.targetoptions)",
        "helper.targetoptions['fastmath'] = True",
        "import numba\n@numba.njit\ndef helper(x):\n    return x\n",
    ),
}
"""What is changed in place between two compilations: how it is read, the change, and what it is."""

PROGRAMS = (
    *_PLUGINS,
    *(_changed_between(f"{name}-in-place", *how) for name, how in _IN_PLACE.items()),
    trap(
        "hunt-plugin-edited-in-place-at-the-same-moment",
        35,
        Step(files=_PTP_FILES, touch=tuple(path for path in _PTP_FILES if path.endswith(".py")), env=_HERE),
        Step(
            files={"site/plugin/overloads.py": _STD_FILES["site/plugin/overloads.py"]},
            touch=("site/plugin/overloads.py",),
            env=_HERE,
        ),
    ),
    _changed_between("dictionary-of-an-object-replaced", "CONFIG.level", 'CONFIG.__dict__ = {"level": level}'),
    _changed_between(
        "dictionary-of-an-object-shared",
        "CONFIG.level",
        "CONFIG.__dict__ = vars(OTHER)",
        "OTHER = Config()\nOTHER.level = 5\n",
    ),
    _changed_between(
        "class-of-an-object-replaced",
        "CONFIG.get()",
        "CONFIG.__class__ = Other",
        "Config.get = lambda self: 1\nclass Other(Config):\n    def get(self):\n        return 2\n",
    ),
    _changed_between(
        "bases-of-a-class-replaced",
        "CONFIG.get()",
        "Config.__bases__ = (Two,)",
        "class Base:\n    pass\nclass One(Base):\n    def get(self):\n        return 1\nclass Two(Base):\n    def get(self):\n        return 2\n"
        "class Config(One):\n    pass\nCONFIG = Config()\n",
    ),
    _changed_between(
        "code-of-a-method-replaced",
        "CONFIG.get()",
        "Config.get.__code__ = (lambda self: 3).__code__",
        "def get(self):\n    return 1\nConfig.get = get\n",
    ),
    _changed_between(
        "name-of-a-function-replaced",
        "len(helper.__name__)",
        'helper.__name__ = "x" * level',
        "def helper():\n    pass\n",
    ),
    _changed_between(
        "documentation-of-a-function-replaced",
        "len(helper.__doc__)",
        'helper.__doc__ = "x" * level',
        'def helper():\n    "seven"\n',
    ),
    _changed_between(
        "default-of-a-class-replaced",
        "Pair().b",
        "Pair.__new__.__defaults__ = (1, 9)",
        "import collections\nPair = collections.namedtuple('Pair', 'a b', defaults=(1, 2))\n",
    ),
    _changed_between(
        "item-of-a-nested-list-replaced", "TABLE['a'][1][0]", "TABLE['a'][1][0] = 9", "TABLE = {'a': [0, [1, 2]]}\n"
    ),
    _changed_between(
        "content-of-an-array-in-an-object",
        "int(CONFIG.array[0])",
        "CONFIG.array[0] = 9",
        "import numpy as np\nCONFIG.array = np.array([1, 2])\n",
    ),
    _changed_between(
        "slot-deleted",
        "getattr(SLOTTED, 'level', 3)",
        "del SLOTTED.level",
        "class Slotted:\n    __slots__ = ('level',)\nSLOTTED = Slotted()\nSLOTTED.level = 1\n",
    ),
    trap("hunt-warning-that-is-an-error", 35, {"main.py": _NOISY}, Step(argv=("-W", "error", "main.py")), rerun="same"),
    trap(
        "hunt-warning-ignored-at-first",
        35,
        Step(files={"main.py": _NOISY}, argv=("-W", "ignore", "main.py"), stderr=True),
        Step(stderr=True),
    ),
    trap(
        "hunt-warning-an-error-at-first",
        35,
        Step(files={"main.py": _NOISY}, argv=("-W", "error", "main.py"), stderr=True),
        Step(stderr=True),
    ),
    trap("hunt-lifetime-of-a-closure", 35, {"main.py": _COUNTS}, Step(), differs=False, hit=True, cold=True),
    trap(
        "hunt-default-that-is-minus-zero",
        35,
        {
            "main.py": main("""
            import gc, math

            def make(d):
                @njit
                def f(x, y=d):
                    return math.copysign(x, y)
                return f

            for d in (0.0, -0.0):
                f = make(d)
                show("f", f, 1.0)
                del f
                gc.collect()
            """)
        },
        Step(),
        differs=False,
        hit=True,
        cold=True,
    ),
    trap(
        "hunt-default-that-is-minus-zero-first",
        35,
        {
            "main.py": main("""
            import math, os

            @njit
            def f(x, y=-0.0):
                return math.copysign(x, y)

            @njit
            def g(x, y=0.0):
                return math.copysign(x, y)

            for each in (f, g) if "APP_BACK" not in os.environ else (g, f):
                show(each.__name__, each, 1.0)
            """)
        },
        Step(env={"APP_BACK": "1"}),
    ),
    trap(
        "hunt-copies-and-pickles-after-a-hit",
        35,
        {
            "main.py": main("""
            import copy, pickle

            @njit
            def f(x):
                return x + 1

            show("f", f, 4)
            g, h = copy.deepcopy(f), copy.copy(f)
            print(g is f, h is f, pickle.loads(pickle.dumps(f)) is f)
            show("g", g, 4.5)
            show("h", h, 4)
            print(f.signatures, g.signatures)
            print(f.nopython_signatures, f.get_call_template((numba.int64,), {})[1])
            """)
        },
        Step(),
        differs=False,
        hit=True,
        cold=True,
    ),
    trap(
        "hunt-allocations",
        35,
        Step(
            files={
                "main.py": main("""
            from numba.core.runtime import _nrt_python, rtsys

            @njit
            def f(n):
                total = 0.0
                for i in range(n):
                    total += np.ones(i).sum()
                return total

            _nrt_python.memsys_enable_stats()
            before = rtsys.get_allocation_stats()
            show("f", f, 5)
            after = rtsys.get_allocation_stats()
            print([b - a for a, b in zip(before, after)])
            """)
            }
        ),
        Step(),
        differs=False,
        hit=True,
        cold=True,
    ),
    trap(
        "hunt-profiled",
        35,
        {
            "main.py": main("""
            import sys

            @njit
            def f(x):
                return x + 1

            seen = []
            def profile(frame, event, arg):
                if frame.f_code.co_filename == __file__ and event == "call":
                    seen.append(frame.f_code.co_name)

            sys.setprofile(profile)
            f(4)
            sys.setprofile(None)
            sys.settrace(lambda *args: None)
            f(4.5)
            sys.settrace(None)
            print(seen, f.signatures)
            """)
        },
        Step(),
        differs=False,
        hit=True,
        cold=True,
    ),
    trap(
        "hunt-settings-changed-while-running",
        35,
        {
            "main.py": main("""
            from numba.core import config

            @njit
            def f(a, i):
                return a[i]

            show("in", f, np.arange(3), 1)
            config.BOUNDSCHECK = <ON>
            show("out", f, np.arange(3.0), 7 if <ON> else 2)
            config.DISABLE_JIT = <ON>
            show("python", njit(lambda x: type(x).__name__) if <ON> else len, "four")
            """).replace("<ON>", "0")
        },
        {
            "main.py": main("""
            from numba.core import config

            @njit
            def f(a, i):
                return a[i]

            show("in", f, np.arange(3), 1)
            config.BOUNDSCHECK = <ON>
            show("out", f, np.arange(3.0), 7 if <ON> else 2)
            config.DISABLE_JIT = <ON>
            show("python", njit(lambda x: type(x).__name__) if <ON> else len, "four")
            """).replace("<ON>", "1")
        },
    ),
    trap(
        "hunt-options-of-llvm",
        35,
        Step(
            files={
                "main.py": main("""
            import os
            import llvmlite.binding as llvm

            if "APP_NARROW" in os.environ:
                llvm.set_option("app", "-force-vector-width=1")
                llvm.set_option("app", "-force-vector-interleave=1")

            @njit(fastmath=True)
            def f(a):
                total = 0.0
                for i in range(len(a)):
                    total += a[i]
                return total

            show("f", f, np.array([1e16, 1.0, -1e16, 3.0] * 64))
            """)
            }
        ),
        Step(env={"APP_NARROW": "1"}),
        rerun="same",
    ),
    trap(
        "hunt-helper-of-numba-patched",
        35,
        Step(
            files={
                "main.py": main("""
            import os
            from numba.extending import register_jitable
            from numba.np import arraymath

            if "APP_PATCH" in os.environ:
                @register_jitable
                def _median_inner(temp_arry, n):
                    return 1000.0
                arraymath._median_inner = _median_inner

            @njit
            def f(a):
                return np.median(a)

            show("f", f, np.array([1.0, 5.0, 7.0]))
            """)
            }
        ),
        Step(env={"APP_PATCH": "1"}),
    ),
)
