"""Family 36, a second hunt: what code that runs while compiling takes from where nobody looked.

`ext.lower_thing`, a lowering function, which nobody asks again on a hit, takes a small number from somewhere; the number
is compiled in.
"""

from collections.abc import Mapping

from ..harness import Program, Step, main, py, replaced, trap

_EXT = """
import array, collections, contextvars, ctypes, datetime, decimal, functools, inspect, io, itertools, locale
import logging, operator, random, sys, threading, time, types as pytypes, weakref
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import *
import cfg

def thing(x):
    raise NotImplementedError

@type_callable(thing)
def type_thing(context):
    return lambda x: types.int64

@lower_builtin(thing, types.Integer)
def lower_thing(context, builder, sig, args):
    {read}
    return builder.add(args[0], args[0].type(n))
"""
_MAIN = """
    import ext

    @njit
    def f(x):
        return ext.thing(x)

    show("f", f, 7)
    """
_LEVEL = "import os\n\nLEVEL = int(os.environ['APP_LEVEL'])\n"


def _program(name: str, read: str, cfg: str, before: str = "", edit: tuple[str, str] | None = None) -> Program:
    """`read` sets `n` where the code runs. What differs is the environment in which `cfg` is imported, or an edit of it."""
    files = {
        "cfg.py": py(cfg) if edit else _LEVEL + py(cfg),
        "ext.py": _EXT.format(read=py(read).strip().replace("\n", "\n    ")),
        "main.py": main(before + py(_MAIN)) if before else main(_MAIN),
    }
    if edit:
        return trap(f"hunt-lowering-{name}", 36, files, replaced(files, "cfg.py", edit), rerun="same")
    one, two = ({"APP_LEVEL": level} for level in "12")
    return trap(f"hunt-lowering-{name}", 36, Step(files=files, env=one), Step(env=two), rerun="same")


_HELPER = """
    # one
    def helper():
        return 1
    """
_ZONE = "import os, time\nos.environ['TZ'] = ['UTC0', 'XYZ-9'][LEVEL - 1]\ntime.tzset()"
_FROM_THE_ENVIRONMENT: Mapping[str, tuple[str, str]] = {
    "a-context-variable": (
        "n = cfg.VARIABLE.get()",
        "import contextvars\nVARIABLE = contextvars.ContextVar('level', default=0)\nVARIABLE.set(LEVEL)",
    ),
    "a-thread-s-own": ("n = cfg.OWN.level", "import threading\nOWN = threading.local()\nOWN.level = LEVEL"),
    "a-weak-dictionary": (
        "n = len(cfg.KNOWN)",
        """
        import weakref

        class Thing:
            pass

        KNOWN, THINGS = weakref.WeakValueDictionary(), [Thing() for _ in range(LEVEL)]
        for i, each in enumerate(THINGS):
            KNOWN[i] = each
        """,
    ),
    "an-array-of-ctypes": ("n = cfg.BUFFER[0]", "import ctypes\nBUFFER = (ctypes.c_int * 2)(LEVEL, 0)"),
    "a-structure-of-ctypes": (
        "n = cfg.PAIR.a",
        "import ctypes\n\nclass Pair(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]\n\nPAIR = Pair(LEVEL)",
    ),
    "a-memory-view": ("n = cfg.VIEW[0]", "VIEW = memoryview(bytearray([LEVEL, 0]))"),
    "what-a-cache-remembers": (
        "n = cfg.level()",
        "import functools\n\nSEEN = [LEVEL]\n\n@functools.lru_cache\ndef level():\n    return SEEN.pop()\n\nlevel()",
    ),
    "what-a-property-remembers": (
        "n = cfg.THING.level",
        """
        import functools

        class Thing:
            @functools.cached_property
            def level(self):
                return LEVEL

        THING = Thing()
        THING.level
        """,
    ),
    "an-iterator": ("n = next(cfg.NUMBERS)", "import itertools\nNUMBERS = itertools.count(LEVEL)"),
    "a-generator": ("n = next(cfg.NUMBERS)", "NUMBERS = (each for each in range(LEVEL, 9))"),
    "a-view-of-keys": ("n = len(cfg.KEYS)", "KEYS = dict.fromkeys(range(LEVEL)).keys()"),
    "an-item-getter": (
        "n = cfg.GET((0, 1, 2))",
        "import operator\nGET = operator.itemgetter(LEVEL)",
    ),
    "subclasses": (
        "n = len(cfg.Base.__subclasses__())",
        "class Base:\n    pass\n\nCLASSES = [type(f'C{i}', (Base,), {}) for i in range(LEVEL)]",
    ),
    "subclasses-that-were-registered": (
        "n = 2 if issubclass(cfg.Thing, cfg.Kind) else 1",
        "import abc\n\nclass Kind(abc.ABC):\n    pass\n\nclass Thing:\n    pass\n\nif LEVEL == 2:\n    Kind.register(Thing)",
    ),
    "the-globals-of-a-function": (
        "n = cfg.level.__globals__['NUMBER']",
        "NUMBER = LEVEL\n\ndef level():\n    return 0",
    ),
    "the-time-out-of-sockets": (
        "n = int(cfg.socket.getdefaulttimeout())",
        "import socket\nsocket.setdefaulttimeout(LEVEL)",
    ),
    "the-longest-field-of-csv": ("n = cfg.csv.field_size_limit()", "import csv\ncsv.field_size_limit(LEVEL)"),
    "the-size-of-stacks": (
        "n = cfg.threading.stack_size() >> 20",
        "import threading\nthreading.stack_size(LEVEL << 20)",
    ),
    "random-numbers": ("n = random.randrange(100)", "import random\nrandom.seed(LEVEL)"),
    "random-numbers-of-numpy": ("n = int(np.random.randint(100))", "import numpy as np\nnp.random.seed(LEVEL)"),
    "a-random-generator": ("n = int(cfg.RNG.integers(100))", "import numpy as np\nRNG = np.random.default_rng(LEVEL)"),
    "a-masked-array": (
        "n = int(cfg.MASKED.sum())",
        "import numpy as np\nMASKED = np.ma.masked_array([1, 5, 9], mask=[False, LEVEL == 1, True])",
    ),
    "a-ufunc-from-python": (
        "n = int(cfg.UFUNC(1))",
        "import numpy as np\nUFUNC = np.frompyfunc(lambda x: x + LEVEL, 1, 1)",
    ),
    "a-vectorized-function": ("n = int(cfg.FUNC(1))", "import numpy as np\nFUNC = np.vectorize(lambda x: x + LEVEL)"),
    "a-stream-in-memory": ("n = int(cfg.TEXT.getvalue())", "import io\nTEXT = io.StringIO(str(LEVEL))"),
    "the-encoding-of-a-stream": (
        "n = len(sys.stdout.errors)",
        "import sys\nsys.stdout.reconfigure(errors='strict' if LEVEL == 1 else 'replace')",
    ),
    "a-builtin-replaced": (
        "n = len('four')",
        "import builtins\n\nold = builtins.len\nif LEVEL == 2:\n    builtins.len = lambda x: old(x) + 1",
    ),
    "a-function-of-the-library-replaced": (
        "n = functools.reduce(operator.add, [1, 2])",
        "import functools\n\nif LEVEL == 2:\n    functools.reduce = lambda *args: 9",
    ),
    "decimals": ("n = len(str(decimal.Decimal(1) / 3))", "import decimal\ndecimal.getcontext().prec = 4 + LEVEL"),
    "the-day": (
        "n = cfg.date.today().level",
        "class date:\n    @classmethod\n    def today(cls):\n        return cls\n    level = LEVEL",
    ),
    "an-instance-that-answers": (
        "n = cfg.THING.level",
        "class Thing:\n    def __getattr__(self, name):\n        return LEVEL\n\nTHING = Thing()",
    ),
    "a-float-s-own-attribute": (
        "n = cfg.F.level",
        "class Float(float):\n    pass\n\nF = Float(1)\nF.level = LEVEL",
    ),
    "a-chain-of-maps": (
        "n = cfg.MAPS['level']",
        "import collections\nMAPS = collections.ChainMap({}, {'level': LEVEL})",
    ),
    "a-moment-of-the-time-zone": ("n = datetime.datetime.fromtimestamp(0).hour", _ZONE),
    "seconds-of-the-time-zone": ("n = int(time.mktime((2020, 1, 1, 0, 0, 0, 0, 0, 0)) % 86400)", _ZONE),
    "the-letters-of-the-locale": (
        "n = len(locale.nl_langinfo(locale.CODESET))",
        "import locale\nlocale.setlocale(locale.LC_CTYPE, ['C', 'C.UTF-8'][LEVEL - 1])",
    ),
    "names-of-the-process": (
        "import multiprocessing\nn = int(multiprocessing.current_process().name[-1])",
        "import multiprocessing\nmultiprocessing.current_process().name = f'worker {LEVEL}'",
    ),
}
_EDITED: Mapping[str, tuple[str, str, tuple[str, str]]] = {
    "the-line-of-a-function": ("n = cfg.helper.__code__.co_firstlineno", _HELPER, ("# one", "# one\n# two")),
    "the-source-of-a-function": ("n = len(inspect.getsource(cfg))", _HELPER, ("# one", "# longer")),
    "the-documentation-of-a-class": (
        "n = len(cfg.Thing.__doc__)",
        "class Thing:\n    'one'\n",
        ("'one'", "'longer'"),
    ),
    "what-an-annotation-means": (
        "n = cfg.level()",
        """
        import typing

        K = 1

        class Thing:
            x: 'typing.Literal[K]'

        def level():
            return typing.get_args(typing.get_type_hints(Thing)['x'])[0]
        """,
        ("K = 1", "K = 2"),
    ),
    "the-order-of-a-class": (
        "n = [k for k in vars(cfg.Fields) if not k.startswith('_')].index('a')",
        "class Fields:\n    a = 1\n    b = 2\n",
        ("a = 1\n    b = 2", "b = 2\n    a = 1"),
    ),
    "the-order-of-a-module": (
        "n = [k for k in vars(cfg) if not k.startswith('_')].index('a')",
        "a = 1\nb = 2\n",
        ("a = 1\nb = 2", "b = 2\na = 1"),
    ),
    "the-order-of-attributes": (
        "n = list(vars(cfg.helper)).index('a')",
        "def helper():\n    pass\n\nhelper.a = 1\nhelper.b = 2\n",
        ("helper.a = 1\nhelper.b = 2", "helper.b = 2\nhelper.a = 1"),
    ),
    "the-order-of-defaults": (
        "n = list(cfg.helper.__kwdefaults__).index('a')",
        "def helper(*, a=1, b=2):\n    pass\n",
        ("a=1, b=2", "b=2, a=1"),
    ),
    "the-file-of-a-function": (
        "n = cfg.letters()",
        """
        exec(compile("def helper(): pass", "one.py", "exec"))

        def letters():
            return len(helper.__code__.co_filename)
        """,
        ("one.py", "longer.py"),
    ),
    "the-file-that-inspect-finds": (
        "n = cfg.letters()",
        """
        import inspect

        exec(compile("def helper(): pass", "one.py", "exec"))

        def letters():
            return len(inspect.getfile(helper))
        """,
        ("one.py", "longer.py"),
    ),
    "the-line-that-runs": (
        "n = cfg.line()",
        "import sys\n\ndef line():\n    return sys._getframe(0).f_lineno\n",
        ("import sys\n", "import sys\n\n"),
    ),
    "its-callers": (
        "n = cfg.depth()",
        "import inspect\n\ndef depth():\n    return len(inspect.stack(0)[0].function) + 1\n",
        ("+ 1", "+ 2"),
    ),
    "what-an-annotation-says-when-evaluated": (
        "n = inspect.get_annotations(cfg.helper, eval_str=True)['x']",
        "K = 1\n\ndef helper(x: 'K'):\n    pass\n",
        ("K = 1", "K = 2"),
    ),
    "what-an-annotation-means-by-another-name": (
        "n = cfg.args(cfg.hints(cfg.helper)['x'])[0]",
        """
        from typing import Literal, get_args as args, get_type_hints as hints

        K = 1

        def helper(x: 'Literal[K]'):
            pass
        """,
        ("K = 1", "K = 2"),
    ),
    "how-a-named-tuple-spells-itself": (
        "n = len(repr(cfg.Pair(1)))",
        """
        import typing

        class Pair(typing.NamedTuple):
            a: int

            def __repr__(self):
                return 'one'
        """,
        ("'one'", "'longer'"),
    ),
    "a-method-of-a-named-tuple-replaced": (
        "n = cfg.Pair(1)._asdict()",
        "import collections\nPair = collections.namedtuple('Pair', 'a')\nPair._asdict = lambda self: 1\n",
        ("self: 1", "self: 2"),
    ),
    "the-documentation-of-a-property": (
        "n = len(cfg.Thing.x.__doc__)",
        "class Thing:\n    x = property(int, doc='one')\n",
        ("'one'", "'longer'"),
    ),
    "the-documentation-of-a-property-that-remembers": (
        "n = len(vars(cfg.Thing)['x'].__doc__)",
        "import functools\n\nclass Thing:\n    x = functools.cached_property(int)\n    x.__doc__ = 'one'\n",
        ("'one'", "'longer'"),
    ),
    "the-documentation-of-a-static-method": (
        "n = len(vars(cfg.Thing)['x'].__doc__)",
        "class Thing:\n    x = staticmethod(int)\n    x.__doc__ = 'one'\n",
        ("'one'", "'longer'"),
    ),
    "the-cause-of-an-exception": (
        "n = cfg.ERROR.__cause__.args[0]",
        "ERROR = ImportError('no')\nERROR.__cause__ = KeyError(1)\n",
        ("KeyError(1)", "KeyError(2)"),
    ),
    "the-name-in-an-exception": (
        "n = len(cfg.ERROR.name)",
        "ERROR = NameError('no', name='one')\n",
        ("'one'", "'longer'"),
    ),
    "the-full-name-of-code": (
        "n = len(getattr(cfg.CODE, 'co_qualname', cfg.NAME))",
        "def one():\n    def inner():\n        pass\n    return inner\n\nCODE, NAME = one().__code__, one().__qualname__\n",
        ("one()", "longer()"),
    ),
    "the-order-of-a-set": (
        "n = list(cfg.NUMBERS)[0]",
        "NUMBERS = set()\nfor each in (8, 0):\n    NUMBERS.add(each)\n",
        ("(8, 0)", "(0, 8)"),
    ),
    "classes-that-were-registered-as-numbers": (
        "import numbers\nn = 2 if isinstance(cfg.Thing(), numbers.Real) else 1",
        "import numbers\n\nclass Thing:\n    pass\n\nnumbers.Real\n",
        ("numbers.Real\n", "numbers.Real.register(Thing)\n"),
    ),
    "classes-that-were-registered-below": (
        "n = 2 if issubclass(cfg.Thing, cfg.Kind) else 1",
        """
        import abc

        class Kind(abc.ABC):
            pass

        class Inner(Kind):
            pass

        class Thing:
            pass

        Inner
        """,
        ("Inner\n", "Inner.register(Thing)\n"),
    ),
    "the-place-of-files-for-a-moment": (
        "import tempfile\nn = len(tempfile.gettempdir())",
        "import tempfile\ntempfile.tempdir = '/one'\n",
        ("/one", "/longer"),
    ),
    "a-dialect-of-csv": (
        "import csv\nn = len(csv.get_dialect('mine').lineterminator)",
        "import csv\ncsv.register_dialect('mine', lineterminator='.')\n",
        ("'.'", "'..'"),
    ),
}


def _that_counts() -> Program:
    """Of what the lowering function was before it changed it, nothing can be known when it is over."""
    files = {
        "cfg.py": "STATE = {'n': 0}\n",
        "ext.py": _EXT.format(read='cfg.STATE["n"] += 1\n    n = cfg.STATE["n"]'),
        "main.py": main(_MAIN).replace("import ext\n", "import ext\next.cfg.STATE['n'] = 0\n"),
    }
    return trap("hunt-lowering-that-counts", 36, files, replaced(files, "main.py", ("] = 0", "] = 1")), rerun="same")


_LOOKS_FOR = "import importlib.util\n    n = 1 if importlib.util.find_spec('optional') else 2"
_TRIES = "try:\n        import optional\n        n = optional.K\n    except ImportError:\n        n = 0"


def _of_a_module(name: str, read: str, optional: str, edit: tuple[str, str], *, differs: bool = True) -> Program:
    """`optional` is looked for or imported by the lowering function alone; an edit of `cfg` may decide about it."""
    files = {
        "cfg.py": "READY = False\n",
        "ext.py": _EXT.format(read=read),
        "main.py": main(py(_MAIN) + 'print("optional" in __import__("sys").modules)\n'),
        "optional.py": optional,
    }
    path = "cfg.py" if edit[0] in files["cfg.py"] else "optional.py"
    step = replaced(files, path, edit)
    return trap(f"hunt-lowering-{name}", 36, files, step, differs=differs, cold=True, rerun="same")


_NOT_READY = "import cfg\nif not cfg.READY:\n    raise ImportError\nK = 3\n"

PROGRAMS = (
    _of_a_module(
        "that-looks-for-a-module", _LOOKS_FOR, "print('loaded')\n", ("READY = False", "READY = True"), differs=False
    ),
    _of_a_module("that-tries-a-module", _TRIES, _NOT_READY, ("READY = False", "READY = True")),
    _of_a_module("that-tries-a-module-again", _TRIES, _NOT_READY, ("K = 3", "K = 4"), differs=False),
    *(_program(f"reads-{name}", read, cfg) for name, (read, cfg) in _FROM_THE_ENVIRONMENT.items()),
    *(_program(f"reads-{name}", read, cfg, edit=edit) for name, (read, cfg, edit) in _EDITED.items()),
    _that_counts(),
)
