"""Family 35, code that runs while compiling and reads what its own bytecode doesn't name.

`ext.lower_thing`, a lowering function, which nobody asks again on a hit, reads a small number somewhere; the number
decides what is compiled. Most of what it reads is set while `cfg` is imported, from the environment.
"""

from collections.abc import Mapping

from ..harness import Program, Step, main, py, trap

_EXT = """
import functools, gc, importlib, inspect, linecache, logging, operator, sys, threading, types as pytypes, warnings
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import *

def thing(x):
    raise NotImplementedError

@type_callable(thing)
def type_thing(context):
    return lambda x: types.int64

"""
_LOWERING = """
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
_CFG = 'import os\n\nLEVEL_FAST = int(os.environ["APP_LEVEL"])\nLEVEL_SLOW = 0\nKIND = "fast"\n'


def _program(
    name: str, read: str, setup: str = "import cfg", cfg: str = _CFG, before: str = "", rerun: str = "same", more=None
) -> Program:
    """`read` sets `n` where the code runs; `setup` comes before it in the module; `before` in the main program."""
    files = {
        "cfg.py": py(cfg),
        "ext.py": _EXT + setup + "\n" + _LOWERING.format(read=read),
        "main.py": main(before + py(_MAIN)) if before else main(_MAIN),
        **(more or {}),
    }
    one, two = ({"APP_LEVEL": level} for level in "12")
    return trap(f"hunt-{name}", 35, Step(files=files, env=one), Step(env=two), rerun=rerun)


_BEFORE = 'import os\n\nLEVEL = int(os.environ["APP_LEVEL"])\n'

_READS: Mapping[str, tuple] = {
    "getattr-of-a-computed-name": ('n = getattr(cfg, "LEVEL_" + cfg.KIND.upper())',),
    "vars-of-a-module": ('n = vars(cfg)["LEVEL_" + cfg.KIND.upper()]',),
    "dict-of-a-module": ('n = cfg.__dict__["LEVEL_" + cfg.KIND.upper()]',),
    "attrgetter-of-two-names": ("n = GET(pkg)", 'import cfg, pkg\n\nGET = operator.attrgetter("sub.LEVEL")\n'),
    "methodcaller-of-a-computed-name": (
        "n = CALL(cfg)",
        'import cfg\n\nCALL = operator.methodcaller("level_" + "fast")\n',
        _CFG + "\ndef level_fast():\n    return LEVEL_FAST\n",
    ),
    "eval-of-a-text": ('n = eval("cfg.LEVEL_FAST")',),
    "exec-of-a-text": ('scope = {}\n    exec("import cfg; n = cfg.LEVEL_FAST", scope)\n    n = scope["n"]',),
    "globals-by-a-computed-name": (
        'n = globals()["LEVEL_" + "fast".upper()]',
        'import os\n\nLEVEL_FAST = int(os.environ["APP_LEVEL"])\n',
    ),
    "members-of-a-module": ('n = sum(value for name, value in inspect.getmembers(cfg) if name.startswith("LEVEL_"))',),
    "version-of-a-module": (
        'n = int(getattr(cfg, "__" + cfg.KIND + "__"))',
        "import cfg",
        'import os\n\nKIND = "version"\n__version__ = os.environ["APP_LEVEL"]\n',
    ),
    "documentation-of-a-module": (
        "n = int(inspect.getdoc(MODULES[0]))",
        "import cfg\n\nMODULES = [cfg]\n",
        'import os\n\n__doc__ = os.environ["APP_LEVEL"]\n',
    ),
    "dir-of-a-module": ('n = sum(getattr(cfg, name) for name in dir(cfg) if name.startswith("LEVEL_"))',),
    "module-of-modules-by-a-computed-name": ('n = getattr(sys.modules["c" + "fg"], "LEVEL_" + cfg.KIND.upper())',),
    "globals-of-a-function": (
        'n = cfg.helper.__globals__["LEVEL_FAST"]',
        "import cfg",
        _CFG + "\ndef helper(x):\n    return x\n",
    ),
    "frames-of-callers": (
        "n = sys._getframe(0).f_globals['LEVEL']",
        'import os\n\nLEVEL = int(os.environ["APP_LEVEL"])\n',
    ),
    "dict-of-an-object-replaced-before": (
        "n = cfg.CONFIG.level",
        "import cfg",
        'import os\n\nclass Config:\n    pass\n\nCONFIG = Config()\nCONFIG.__dict__ = {"level": int(os.environ["APP_LEVEL"])}\n',
    ),
    "builtins-of-its-own": (
        "n = level()",
        "import cfg, builtins\n\nlevel = cfg.SCOPE['read']\n",
        (
            'import os, builtins\n\nLEVEL = int(os.environ["APP_LEVEL"])\n'
            'SCOPE = {"__name__": "cfg", "__builtins__": {**vars(builtins), "LEVEL_HIDDEN": LEVEL}}\n'
            'exec("def read():\\n    return LEVEL_HIDDEN", SCOPE)\n'
        ),
    ),
    "single-dispatch": (
        "n = cfg.level(7)",
        "import cfg",
        (
            "import functools, os\n\n@functools.singledispatch\ndef level(x):\n    return 1\n\n"
            'if os.environ["APP_LEVEL"] == "2":\n    @level.register\n    def _(x: int):\n        return 2\n'
        ),
    ),
    "logger-by-name": (
        'n = 2 if logging.getLogger("app.compile").isEnabledFor(logging.DEBUG) else 1',
        "import cfg",
        'import logging, os\n\nif os.environ["APP_LEVEL"] == "2":\n    logging.getLogger("app").setLevel("DEBUG")\n',
    ),
    "error-state-of-numpy": (
        'n = 2 if np.geterr()["over"] == "raise" else 1',
        "import cfg",
        'import os\nimport numpy as np\n\nif os.environ["APP_LEVEL"] == "2":\n    np.seterr(over="raise")\n',
    ),
    "print-options-of-numpy": (
        'n = np.get_printoptions()["precision"]',
        "import cfg",
        'import os\nimport numpy as np\n\nnp.set_printoptions(precision=int(os.environ["APP_LEVEL"]))\n',
    ),
    "name-of-the-thread": (
        'n = int(threading.current_thread().name.rpartition(" ")[2])',
        "import cfg",
        'import os, threading\n\nthreading.current_thread().name = "main " + os.environ["APP_LEVEL"]\n',
    ),
    "collector-off": (
        "n = 2 if gc.isenabled() else 1",
        "import cfg",
        'import gc, os\n\nif os.environ["APP_LEVEL"] == "1":\n    gc.disable()\n',
    ),
    "warnings-filters": (
        "n = sum(each[2] is cfg.Note for each in warnings.filters)",
        "import cfg",
        (
            "import os, warnings\n\nclass Note(Warning):\n    pass\n\nclass Other(Warning):\n    pass\n\n"
            'warnings.simplefilter("ignore", Note)\n'
            'if os.environ["APP_LEVEL"] == "2":\n    warnings.simplefilter("error", Note)\n'
        ),
    ),
    "loaded-modules": (
        'n = 2 if "wave" in sys.modules else 1',
        "import cfg",
        'import os\n\nif os.environ["APP_LEVEL"] == "2":\n    import wave\n',
    ),
    "path-of-modules": (
        'n = sum(each.endswith("extra") for each in sys.path)',
        "import cfg",
        'import os, sys\n\nfor i in range(int(os.environ["APP_LEVEL"])):\n    sys.path.append(f"/nowhere/{i}extra")\n',
    ),
    "simple-namespace": (
        "n = cfg.SPACE.level",
        "import cfg",
        'import os, types\n\nSPACE = types.SimpleNamespace(level=int(os.environ["APP_LEVEL"]))\n',
    ),
    "decimal-and-date": (
        "n = int(cfg.D) + cfg.DAY.day",
        "import cfg",
        (
            'import os, decimal, datetime\n\nD = decimal.Decimal(os.environ["APP_LEVEL"])\n'
            'DAY = datetime.date(2020, 1, int(os.environ["APP_LEVEL"]))\n'
        ),
    ),
    "array-of-the-array-module": (
        "n = cfg.A[0]",
        "import cfg",
        'import os, array\n\nA = array.array("i", [int(os.environ["APP_LEVEL"])])\n',
    ),
    "memory-map": (
        "n = int(cfg.A[0])",
        "import cfg",
        (
            'import os\nimport numpy as np\n\nA = np.memmap(os.path.join(os.path.dirname(__file__), "data.bin"), np.int64, "r")\n'
            'A = A[int(os.environ["APP_LEVEL"]) - 1:]\n'
        ),
        "",
        "same",
        {"data.bin": "abcdefgh12345678"},
    ),
}


def _programs():
    for name, (read, *rest) in _READS.items():
        more = {"pkg/__init__.py": "", "pkg/sub.py": _BEFORE} if name == "attrgetter-of-two-names" else None
        if more:
            rest = [rest[0].replace("import cfg, pkg", "import cfg, pkg.sub")]
        kwargs = dict(zip(("setup", "cfg", "before", "rerun", "more"), rest, strict=False))
        if more:
            kwargs["more"] = more
        yield _program(name, read, **kwargs)


def _line_read_before() -> Program:
    read = 'n = int(linecache.getline(cfg.__file__, 1).rpartition(" ")[2])'
    cfg = "LEVEL = 1\n\nimport linecache\n\nlinecache.getline(__file__, 1)\n"
    files = {
        "cfg.py": cfg,
        "ext.py": _EXT + "import cfg\n" + _LOWERING.format(read=read),
        "main.py": main(_MAIN),
    }
    return trap(
        "hunt-line-of-a-file-read-before", 35, files, {"cfg.py": cfg.replace("LEVEL = 1", "LEVEL = 2")}, rerun="same"
    )


PROGRAMS = (*_programs(), _line_read_before())
