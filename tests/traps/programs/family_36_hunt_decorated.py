"""Family 36, a third hunt: what an intrinsic reads while it is compiled off what Numba's decorators made, off a class, or
from a function of Numba or of Python's library that tells what somebody set.
"""

from dataclasses import replace

from traps.harness import Program, Rerun, Step, main, py, trap

_MAIN = """
    import logging
    import os
    from numba import cfunc, guvectorize, stencil, types, vectorize
    from numba.experimental import jitclass
    from numba.extending import intrinsic

    LEVEL = int(os.environ["APP_LEVEL"])

    <made>

    def read():
        return <read>

    @intrinsic
    def get(context):
        def codegen(context, builder, signature, args):
            return context.get_constant(types.int64, read())
        return types.int64(), codegen

    @njit
    def f():
        return get()

    show("f", f)
    """


_CFG = """
import os

LEVEL = int(os.environ["APP_LEVEL"])
K_int64 = 10 + LEVEL
if LEVEL == 2:
    ONLY_int64 = True
NAME = "x" * LEVEL

class Mark:
    pass
"""


_TABLES = """
from cfg import K_int64

TABLE = [K_int64]

class Held:
    def __init__(self):
        self.value = K_int64

MINE = Held()

def current():
    import cfg
    return cfg.K_int64
"""


def _read(name: str, made: str, read: str = "thing.weight", rerun: Rerun = "hit", **environment: str) -> Program:
    return _levels(name, main(_MAIN).replace("<made>", py(made)).replace("<read>", read), rerun, environment)


def _argument(name: str, read: str) -> Program:
    """One whose lowering reads something off what a type stands for."""
    return _levels(name, main(_ARGUMENT).replace("<read>", read), "same", {})


def _levels(name: str, text: str, rerun: Rerun, environment: dict[str, str]) -> Program:
    """A program that differs by a variable of the environment, which nothing that is compiled reads itself."""
    one, two = (
        {"APP_LEVEL": level, **{key: value.format(level) for key, value in environment.items()}} for level in "12"
    )
    files = {"main.py": text, "cfg.py": py(_CFG), "tables.py": _TABLES, "plug_a.py": ""}
    return trap(f"hunt-read-{name}", 36, Step(files=files, env=one), Step(env=two), rerun=rerun)


def _again(program: Program) -> Program:
    """The same with a third and a fourth step, which are like the first two."""
    one, two = program.steps
    return replace(program, steps=(one, two, Step(env=one.env), two))


_ARGUMENT = """
    import os
    from numba import types
    from numba.extending import intrinsic

    LEVEL = int(os.environ["APP_LEVEL"])

    @njit
    def g(x):
        return x

    g.py_func.weight = LEVEL
    g.py_func.__doc__ = "a" * LEVEL

    class Error(Exception):
        weight = LEVEL

    @intrinsic
    def get(context, function, error):
        def codegen(context, builder, signature, arguments):
            args = signature.args
            return context.get_constant(types.int64, <read>)
        return types.int64(function, error), codegen

    @njit
    def f():
        return get(g, Error)

    show("f", f)
    """


_WEIGHT = "\nthing.weight = LEVEL\n"

PROGRAMS = (
    _read("off-a-ufunc", "@vectorize(['int64(int64)'])\ndef thing(x):\n    return x\n" + _WEIGHT),
    _read("off-a-gufunc", "@guvectorize('(n)->(n)')\ndef thing(x, y):\n    y[0] = x[0]\n" + _WEIGHT),
    _read("off-a-callback", "@cfunc('int64(int64)')\ndef thing(x):\n    return x\n" + _WEIGHT),
    _read("off-a-stencil", "@stencil\ndef thing(a):\n    return a[0]\n" + _WEIGHT),
    _read("off-an-intrinsic", "@intrinsic\ndef thing(context):\n    return types.int64(), None\n" + _WEIGHT),
    _read(
        "off-a-jitclass",
        "@jitclass([('a', types.int64)])\nclass thing:\n    def __init__(self):\n        self.a = 1\n" + _WEIGHT,
        rerun="same",
    ),
    _read(
        "documentation-of-a-jitclass",
        """
        @jitclass([("a", types.int64)])
        class thing:
            def __init__(self):
                self.a = 1

        thing.__doc__ = "a" * LEVEL
        """,
        "len(thing.__doc__)",
        rerun="same",
    ),
    _read(
        "documentation-of-a-dispatcher",
        "@njit\ndef thing(x):\n    return x\n\nthing.__doc__ = 'a' * LEVEL\n",
        "len(thing.__doc__)",
    ),
    _read(
        "name-of-a-dispatcher",
        "@njit\ndef thing(x):\n    return x\n\nthing.__name__ = 'a' * LEVEL\n",
        "len(thing.__name__)",
    ),
    _read("class-type-of-a-class", "class thing:\n    class_type = LEVEL\n", "thing.class_type"),
    _read("memo-of-a-class", "class thing:\n    _impl_cache = LEVEL\n", "thing._impl_cache"),
    _read(
        "number-in-a-documentation",
        "class thing:\n    __doc__ = 'opcode 0x1234' if LEVEL == 1 else 'opcode 0x4321'\n",
        "int(thing.__doc__.split()[1], 16)",
    ),
    _read("threads", "numba.set_num_threads(LEVEL)\n", "numba.get_num_threads()", rerun="same", NUMBA_NUM_THREADS="2"),
    _read("threads-at-most", "", "numba.get_num_threads()", rerun="same", NUMBA_NUM_THREADS="{}"),
    _read("chunks", "numba.set_parallel_chunksize(LEVEL)\n", "numba.get_parallel_chunksize()", rerun="same"),
    _read("name-of-a-level", "logging.addLevelName(7, 'x' * LEVEL)\n", "len(logging.getLevelName(7))", rerun="same"),
    _read(
        "by-a-name-made-in-a-helper",
        "import cfg\ndef lookup(m, kind):\n    return getattr(m, 'K_' + kind)\n",
        "lookup(cfg, str(types.int64))",
    ),
    _read(
        "by-a-walk-in-a-helper",
        "import cfg\ndef found(m):\n    return [v for k, v in vars(m).items() if k[:2] == 'K_'][0]\n",
        "found(cfg)",
    ),
    _read(
        "by-an-object-with-a-module",
        """
        import cfg

        class Table:
            def __init__(self, module):
                self.module = module

            def __getitem__(self, kind):
                return getattr(self.module, "K_" + kind)

        TABLE = Table(cfg)
        """,
        "TABLE[str(types.int64)]",
    ),
    _read("by-an-attrgetter", "import cfg\nimport operator\n", "operator.attrgetter('K_' + str(types.int64))(cfg)"),
    _read(
        "off-the-module-of-a-class",
        "import sys\nimport cfg\nMark = cfg.Mark\ndel cfg\n",
        "getattr(sys.modules[Mark.__module__], 'K_' + str(types.int64))",
        rerun="same",
    ),
    _read(
        "off-a-module-that-is-found",
        "import inspect\nimport cfg\nMark = cfg.Mark\ndel cfg\n",
        "inspect.getmodule(Mark).K_int64",
        rerun="same",
    ),
    _read("by-a-format", "import cfg\n", "len('{0.NAME}'.format(cfg))"),
    _read(
        "whether-a-module-is-loaded",
        "import sys\nif LEVEL == 2:\n    import wave\ndef loaded(name):\n    return name in sys.modules\n",
        "1 + loaded('wave')",
        rerun="same",
    ),
    _read(
        "which-modules-are-loaded",
        "import sys\nif LEVEL == 2:\n    import plug_a\n",
        "sum(name.startswith('plug_') for name in sys.modules)",
        rerun="same",
    ),
    _read(
        "a-type-that-is-asked-for",
        """
        from numba.extending import typeof_impl

        class Money:
            pass

        ONE = Money()

        @typeof_impl.register(Money)
        def typeof_money(value, context):
            return types.int8 if LEVEL == 1 else types.int16
        """,
        "numba.typeof(ONE).bitwidth",
    ),
    _read(
        "signatures",
        "@njit\ndef thing(x):\n    return x\n\nthing(1)\nif LEVEL == 2:\n    thing(1.5)\n",
        "len(thing.signatures)",
        rerun="same",
    ),
    _read(
        "off-a-type-variable", "import typing\nthing = typing.TypeVar('thing')\nthing.weight = LEVEL\n", "thing.weight"
    ),
    _read("state-of-a-generator", "np.random.seed(LEVEL)\n", "int(np.random.get_state()[1][0])", rerun="same"),
    _read("level-of-the-root-logger", "logging.basicConfig(level=10 * LEVEL)\n", "logging.root.level", rerun="same"),
    _read("off-a-logger", "thing = logging.getLogger('mine')\nthing.weight = LEVEL\n", "thing.weight"),
    _read(
        "how-processes-start",
        "import multiprocessing\nmultiprocessing.set_start_method('fork' if LEVEL == 1 else 'spawn')\n",
        "len(multiprocessing.get_start_method())",
        rerun="same",
    ),
    _read(
        "a-module-that-is-loaded-then",
        "import cfg\ndef late():\n    import tables\n    return tables.TABLE[0]\n",
        "late()",
        rerun="same",
    ),
    _read(
        "by-another-name-for-a-reader",
        "import cfg\nlook_up = getattr\ndef lookup(m, kind):\n    return look_up(m, 'K_' + kind)\n",
        "lookup(cfg, str(types.int64))",
    ),
    _read(
        "by-an-attrgetter-of-another-name",
        "import cfg\nfrom operator import attrgetter as getter\ndef lookup(kind):\n    return getter('K_' + kind)\n",
        "lookup(str(types.int64))(cfg)",
    ),
    _read(
        "whether-a-module-has-a-name",
        "import cfg\ndef has(m, kind):\n    return hasattr(m, 'ONLY_' + kind)\n",
        "1 + has(cfg, str(types.int64))",
    ),
    _read("by-a-format-elsewhere", "import cfg\nFORMAT = '{0.NAME}'\n", "len(FORMAT.format(cfg))"),
    _read(
        "off-the-modules-of-another-name",
        "import sys\nimport cfg\nloaded = sys.modules\nMark = cfg.Mark\ndel cfg\n",
        "getattr(loaded[Mark.__module__], 'K_' + str(types.int64))",
        rerun="same",
    ),
    _read(
        "an-object-in-a-module-that-is-loaded-then",
        "import cfg\ndef late():\n    import tables\n    return tables.MINE.value\n",
        "late()",
        rerun="same",
    ),
    _read(
        "off-a-function-of-a-module-that-is-loaded-then",
        "import cfg\ndef late():\n    import tables\n    return tables.current()\n",
        "late()",
        rerun="same",
    ),
    _again(
        _read(
            "what-was-loaded-before-as-well",
            "import cfg\ndef late():\n    import tables\n    return tables.TABLE[0]\n",
            "late()",
            rerun="same",
        )
    ),
    _argument("an-attribute-of-an-argument", "args[0].dispatcher.py_func.weight"),
    _argument("documentation-of-an-argument", "len(args[0].dispatcher.py_func.__doc__)"),
    _argument("attribute-of-an-exception", "args[1].exc_class.weight"),
)
