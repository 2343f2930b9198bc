"""Family 28: code that runs while compiling reads what the identity of a function may not see.

A program is one kind of such code (`_KINDS`: a chooser, an intrinsic's halves, a lowering, a pass...) and one thing that
it reads (`_READS`: a container of a user's class, the environment, a file...). What is read is a small number that
decides what is compiled, and that changes between the two versions; the code that reads it doesn't.
"""

import textwrap
from dataclasses import dataclass, field

from ..harness import Program, Step, main, py, replaced, trap

_IMPORTS = (
    "from numba import njit, types\n"
    "from numba.core import cgutils, ir\n"
    "from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature\n"
    "from numba.extending import *\n\n"
)
_THING = "def thing(x):\n    raise NotImplementedError\n\n"
_BOX = """
    class Box:
        pass

    class BoxType(types.Type):
        def __init__(self):
            super().__init__(name="Box")

    box_type = BoxType()

    @typeof_impl.register(Box)
    def typeof_box(value, context):
        return box_type
    """
_WORD = """
    @register_model(BoxType)
    class BoxModel(models.PrimitiveModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, cgutils.ir.IntType(64))
    """
_PLAIN_UNBOXING = """
    @unbox(BoxType)
    def unbox_box(typ, obj, c):
        return NativeValue(c.context.get_constant(types.int64, 300))
    """
_NATIVE_LEVEL = """
    @infer_getattr
    class BoxAttributes(AttributeTemplate):
        key = BoxType

        def resolve_level(self, box):
            return types.int64
    """


def _code(*parts: str) -> str:
    """Return parts with indentations of their own as one text."""
    return "\n".join(py(part) for part in parts)


@dataclass(frozen=True)
class _Kind:
    """Code that runs while compiling: `ext` holds it, with the marker where something is read; `body` uses it."""

    ext: str
    body: str


_CALL = """
    @njit
    def f(x):
        return ext.thing(x)

    show("f", f, 7)
    """
_LEVEL = """
    @njit
    def f(box):
        return box.level

    show("f", f, ext.Box())
    """
_BOXED = _LEVEL.replace("box.level", "box")
_INTRINSIC_CALL = """
    @register_jitable
    def thing(x):
        return native(x)
    """

_KINDS = {
    "overload": _Kind(
        _code("""
            @overload(thing)
            def choose(x):
                <READ>
                return lambda x: x + n
        """),
        _CALL,
    ),
    "numpy-overload": _Kind(
        _code("""
            import numpy as np

            @overload(np.ptp)
            def choose(a, axis=None):
                <READ>
                return lambda a, axis=None: -n
        """),
        """
        @njit
        def f(a):
            return np.ptp(a)

        show("f", f, np.array([1.0, 5.0]))
        """,
    ),
    "method": _Kind(
        _code(
            _BOX,
            _WORD,
            _PLAIN_UNBOXING,
            """
            @overload_method(BoxType, "scaled")
            def scaled(box, x):
                <READ>
                return lambda box, x: x * n
            """,
        ),
        _LEVEL.replace("box.level", "box.scaled(7)"),
    ),
    "attribute": _Kind(
        _code(
            _BOX,
            _WORD,
            _PLAIN_UNBOXING,
            """
            @overload_attribute(BoxType, "level")
            def level(box):
                <READ>
                return lambda box: n
            """,
        ),
        _LEVEL,
    ),
    "intrinsic-typing": _Kind(
        _code(
            """
            @intrinsic
            def native(typingctx, x):
                <READ>
                def add(context, builder, signature, args):
                    return builder.add(args[0], args[0].type(100))
                def multiply(context, builder, signature, args):
                    return builder.mul(args[0], args[0].type(100))
                return types.int64(types.int64), add if n == 1 else multiply
            """,
            _INTRINSIC_CALL,
        ),
        _CALL,
    ),
    "intrinsic-codegen": _Kind(
        _code(
            """
            @intrinsic
            def native(typingctx, x):
                def codegen(context, builder, signature, args):
                    <READ>
                    return builder.add(args[0], args[0].type(n))
                return types.int64(types.int64), codegen
            """,
            _INTRINSIC_CALL,
        ),
        _CALL,
    ),
    "lowering": _Kind(
        _code("""
            @type_callable(thing)
            def type_thing(context):
                return lambda x: types.int64

            @lower_builtin(thing, types.Integer)
            def lower_thing(context, builder, sig, args):
                <READ>
                return builder.add(args[0], args[0].type(n))
        """),
        _CALL,
    ),
    "type-callable": _Kind(
        _code("""
            @type_callable(thing)
            def type_thing(context):
                def typer(x):
                    <READ>
                    return types.int64 if n == 1 else types.float64
                return typer

            @lower_builtin(thing, types.Integer)
            def lower_thing(context, builder, sig, args):
                return context.cast(builder, args[0], sig.args[0], sig.return_type)
        """),
        _CALL,
    ),
    "template": _Kind(
        _code("""
            @infer_global(thing)
            class Thing(AbstractTemplate):
                key = thing

                def generic(self, args, kws):
                    <READ>
                    return signature(types.int64 if n == 1 else types.float64, *args)

            @lower_builtin(thing, types.Integer)
            def lower_thing(context, builder, sig, args):
                return context.cast(builder, args[0], sig.args[0], sig.return_type)
        """),
        _CALL,
    ),
    "lower-getattr": _Kind(
        _code(
            _BOX,
            _WORD,
            _PLAIN_UNBOXING,
            _NATIVE_LEVEL,
            """
            @lower_getattr(BoxType, "level")
            def lower_level(context, builder, typ, value):
                <READ>
                return context.get_constant(types.int64, n)
            """,
        ),
        _LEVEL,
    ),
    "lower-cast": _Kind(
        _code(
            _BOX,
            _WORD,
            _PLAIN_UNBOXING,
            _NATIVE_LEVEL,
            """
            @lower_cast(BoxType, types.int64)
            def cast_box(context, builder, fromty, toty, value):
                <READ>
                return builder.add(value, value.type(n))

            @lower_getattr(BoxType, "level")
            def lower_level(context, builder, typ, value):
                return context.cast(builder, value, typ, types.int64)
            """,
        ),
        _LEVEL,
    ),
    "lower-constant": _Kind(
        _code(
            _BOX,
            _WORD,
            _PLAIN_UNBOXING,
            _NATIVE_LEVEL,
            """
            @lower_constant(BoxType)
            def constant_box(context, builder, ty, pyval):
                <READ>
                return context.get_constant(types.int64, n)

            @lower_getattr(BoxType, "level")
            def lower_level(context, builder, typ, value):
                return value
            """,
        ),
        """
        BOX = ext.Box()

        @njit
        def f(x):
            return BOX.level + x

        show("f", f, 7)
        """,
    ),
    "boxing": _Kind(
        _code(
            _BOX,
            _WORD,
            _PLAIN_UNBOXING,
            """
            @box(BoxType)
            def box_box(typ, value, c):
                <READ>
                return c.pyapi.long_from_longlong(c.context.get_constant(types.int64, n))
            """,
        ),
        _BOXED,
    ),
    "unboxing": _Kind(
        _code(
            _BOX,
            _WORD,
            """
            @unbox(BoxType)
            def unbox_box(typ, obj, c):
                <READ>
                return NativeValue(c.context.get_constant(types.int64, n))

            @box(BoxType)
            def box_box(typ, value, c):
                return c.pyapi.long_from_longlong(value)
            """,
        ),
        _BOXED,
    ),
    "data-model": _Kind(
        _code(
            _BOX,
            """
            @register_model(BoxType)
            class BoxModel(models.PrimitiveModel):
                def __init__(self, dmm, fe_type):
                    <READ>
                    super().__init__(dmm, fe_type, cgutils.ir.IntType(8 * n))

            @unbox(BoxType)
            def unbox_box(typ, obj, c):
                word = c.context.get_constant(types.int64, 300)
                return NativeValue(c.builder.trunc(word, c.context.get_value_type(typ)))

            @box(BoxType)
            def box_box(typ, value, c):
                return c.pyapi.long_from_longlong(c.builder.zext(value, cgutils.ir.IntType(64)))
            """,
        ),
        _BOXED,
    ),
    "rewrite": _Kind(
        _code("""
            from numba.core.rewrites import Rewrite, register_rewrite

            @register_rewrite("before-inference")
            class Replace(Rewrite):
                def match(self, func_ir, block, typemap, calltypes):
                    self.block = block
                    return any(map(self.is_marked, block.body))

                def is_marked(self, inst):
                    value = getattr(inst, "value", None)
                    return isinstance(value, ir.Const) and value.value == 123456

                def apply(self):
                    <READ>
                    block = self.block.copy()
                    block.clear()
                    for inst in self.block.body:
                        if self.is_marked(inst):
                            inst = ir.Assign(ir.Const(n, inst.loc), inst.target, inst.loc)
                        block.append(inst)
                    return block
        """),
        """
        @njit
        def f(x):
            return x + 123456

        show("f", f, 7)
        """,
    ),
    "pass": _Kind(
        _code("""
            from numba.core.compiler import CompilerBase, DefaultPassBuilder
            from numba.core.compiler_machinery import FunctionPass, register_pass
            from numba.core.untyped_passes import IRProcessing

            @register_pass(mutates_CFG=False, analysis_only=False)
            class Replace(FunctionPass):
                _name = "replace_marked"

                def __init__(self):
                    FunctionPass.__init__(self)

                def run_pass(self, state):
                    <READ>
                    for block in state.func_ir.blocks.values():
                        for inst in block.body:
                            value = getattr(inst, "value", None)
                            if isinstance(value, ir.Const) and value.value == 123456:
                                inst.value = ir.Const(n, inst.loc)
                    return True

            class Compiler(CompilerBase):
                def define_pipelines(self):
                    pm = DefaultPassBuilder.define_nopython_pipeline(self.state)
                    pm.add_pass_after(Replace, IRProcessing)
                    pm.finalize()
                    return [pm]
        """),
        """
        @njit(pipeline_class=ext.Compiler)
        def f(x):
            return x + 123456

        show("f", f, 7)
        """,
    ),
}


@dataclass(frozen=True)
class _Read:
    """Something to read: `body` sets `n`, which is 1 in version 1 and 2 in version 2.

    Between the versions `pairs` are replaced in `cfg.py`, or `files` are written, or the environment (`env`) or the
    command line (`argv`) are others. `main` stands before the functions of the main program.
    """

    body: str
    setup: str = ""
    cfg: str = ""
    pairs: tuple[tuple[str, str], ...] = ()
    extra: dict[str, str] = field(default_factory=dict)
    files: dict[str, str | None] = field(default_factory=dict)
    env: tuple[str, str] | None = None
    argv: tuple[str, str] | None = None
    main: str = ""
    ext: str = "ext.py"


def _in_cfg(body: str, cfg: str, *pairs: tuple[str, str], setup: str = "import cfg", **options) -> _Read:
    """Return the reading of something in `cfg.py`, which is edited."""
    return _Read(body, setup, py(cfg), pairs, **options)


def _in_environment(body: str, setup: str = "import os", **options) -> _Read:
    """Return the reading of the variable `APP_LEVEL`, which is 1 and then 2."""
    return _Read(body, setup, env=("1", "2"), **options)


_FROM_ENVIRONMENT = '"k": int(os.environ["APP_LEVEL"])'
_CONFIGURED = """
    import os, threading, collections

    class Config(dict):
        pass

    class Choices(list):
        pass

    CFG = Config({"k": int(os.environ["APP_LEVEL"])})
    LIST = Choices([int(os.environ["APP_LEVEL"])])
    """
_K = (("k=1", "k=2"),)
_TEXT = {"level.txt": "1\n", "data/__init__.py": "", "data/level.txt": "1\n", "level.json": '{"k": 1}\n'}

_READS = {
    # Containers
    "dict-subclass": _in_cfg(
        'n = cfg.CFG["k"]', "class Config(dict):\n    pass\n\nCFG = Config(k=1)\n", *_K, setup="import cfg"
    ),
    "list-subclass": _in_cfg(
        "n = cfg.CFG[0]", "class Levels(list):\n    pass\n\nCFG = Levels([1])\n", ("([1])", "([2])")
    ),
    "set-subclass": _in_cfg(
        "n = 2 if 2 in cfg.CFG else 1", "class Levels(set):\n    pass\n\nCFG = Levels([1])\n", ("([1])", "([2])")
    ),
    "tuple-subclass": _in_cfg(
        "n = cfg.CFG.level",
        """
        class Levels(tuple):
            @property
            def level(self):
                return self.offset + self[0]

        CFG = Levels((1,))
        CFG.offset = 0
        """,
        ("offset = 0", "offset = 1"),
    ),
    "int-subclass": _in_cfg(
        "n = cfg.CFG.level",
        "class Level(int):\n    pass\n\nCFG = Level(5)\nCFG.level = 1\n",
        ("level = 1", "level = 2"),
    ),
    "str-subclass": _in_cfg(
        "n = cfg.CFG.level",
        "class Level(str):\n    pass\n\nCFG = Level('a')\nCFG.level = 1\n",
        ("level = 1", "level = 2"),
    ),
    "defaultdict": _in_cfg(
        'n = cfg.CFG["absent"]',
        "import collections\n\nCFG = collections.defaultdict(lambda: 1)\n",
        ("lambda: 1", "lambda: 2"),
    ),
    "ordered-dict-from-the-environment": _in_environment(
        'n = cfg.CFG["k"]',
        "import cfg",
        cfg='import os, collections\n\nCFG = collections.OrderedDict(k=int(os.environ["APP_LEVEL"]))\n',
    ),
    "dict-subclass-from-the-environment": _in_environment('n = cfg.CFG["k"]', "import cfg", cfg=py(_CONFIGURED)),
    "deque": _in_cfg("n = cfg.CFG[0]", "import collections\n\nCFG = collections.deque([1])\n", ("([1])", "([2])")),
    "chain-map": _in_cfg('n = cfg.CFG["k"]', "import collections\n\nCFG = collections.ChainMap({}, dict(k=1))\n", *_K),
    "missing-key": _in_cfg(
        'n = cfg.CFG["absent"]',
        """
        class Config(dict):
            def __missing__(self, key):
                return self.fallback

        CFG = Config()
        CFG.fallback = 1
        """,
        ("fallback = 1", "fallback = 2"),
    ),
    "modules-in-a-dict": _Read(
        'n = BACKENDS["fast"].K',
        "import cfg\n\nBACKENDS = {'fast': cfg}\n",
        'import os\n\nK = int(os.environ["APP_LEVEL"])\n',
        env=("1", "2"),
    ),
    "module-in-sys-modules": _Read(
        'n = sys.modules["c" + "fg"].K',
        "import sys, cfg",
        'import os\n\nK = int(os.environ["APP_LEVEL"])\n',
        env=("1", "2"),
    ),
    "globals-by-name": _in_environment(
        'n = globals()["LEV" + "EL"]', 'import os\n\nLEVEL = int(os.environ["APP_LEVEL"])\n'
    ),
    "weak-reference": _in_environment(
        "n = REF().level",
        'import os, weakref\n\nclass C:\n    pass\n\nOBJ = C()\nOBJ.level = int(os.environ["APP_LEVEL"])\n'
        "REF = weakref.ref(OBJ)\n",
    ),
    # Functions, methods and classes
    "bound-method-of-a-dict": _in_cfg(
        'n = GET("k")', "CFG = dict(k=1)\n", *_K, setup="import cfg\n\nGET = cfg.CFG.get\n"
    ),
    "bound-method-of-a-dict-subclass": _in_environment(
        'n = GET("k")', "import cfg\n\nGET = cfg.CFG.__getitem__\n", cfg=py(_CONFIGURED)
    ),
    "bound-method-of-a-list": _in_environment(
        "n = COUNT(2) + 1", "import cfg\n\nCOUNT = cfg.LIST.count\n", cfg=py(_CONFIGURED)
    ),
    "bound-method-of-a-pattern": _in_cfg(
        'n = 2 if MATCH("aa") else 1',
        "import re\n\nPATTERN = re.compile('b+')\n",
        ("'b+'", "'a+'"),
        setup="import cfg\n\nMATCH = cfg.PATTERN.match\n",
    ),
    "partial-over-a-list": _in_environment(
        "n = FIRST()",
        "import functools, operator, cfg\n\nFIRST = functools.partial(operator.getitem, cfg.LIST, 0)\n",
        cfg=py(_CONFIGURED),
    ),
    "itemgetter": _in_cfg(
        "n = GET((1, 2))",
        "import operator\n\nGET = operator.itemgetter(0)\n",
        ("(0)", "(1)"),
        setup="from cfg import GET",
    ),
    "iterator": _in_environment(
        "n = LEVELS[0] if LEVELS else LEVELS.append(next(CFG)) or LEVELS[0]",
        'import os\n\nCFG = iter([int(os.environ["APP_LEVEL"])])\nLEVELS = []\n',
    ),
    "generator": _in_environment(
        "n = LEVELS[0] if LEVELS else LEVELS.append(next(CFG)) or LEVELS[0]",
        'import os\n\nCFG = (int(v) for v in [os.environ["APP_LEVEL"]])\nLEVELS = []\n',
    ),
    "lru-cache": _in_environment(
        "n = level()",
        "import functools, os\n\n@functools.lru_cache\ndef level():\n    return LEVELS.pop()\n\n"
        'LEVELS = [int(os.environ["APP_LEVEL"])]\nlevel()\n',
    ),
    "function-attribute": _in_cfg(
        "n = cfg.helper.level", "def helper():\n    pass\n\nhelper.level = 1\n", ("level = 1", "level = 2")
    ),
    "own-attribute": _in_environment(
        "n = reader.level", 'import os\n\ndef reader():\n    pass\n\nreader.level = int(os.environ["APP_LEVEL"])\n'
    ),
    "dispatcher-attribute": _in_cfg(
        "n = cfg.helper.level",
        "from numba import njit\n\n@njit\ndef helper(x):\n    return x\n\nhelper.level = 1\n",
        ("level = 1", "level = 2"),
    ),
    "annotations": _in_cfg('n = cfg.helper.__annotations__["x"]', "def helper(x: 1):\n    pass\n", ("x: 1", "x: 2")),
    "type-hints-of-a-class": _in_cfg(
        'n = typing.get_type_hints(cfg.Spec, include_extras=True)["level"].__metadata__[0]',
        "import typing\n\nclass Spec:\n    level: typing.Annotated[int, 1]\n",
        ("int, 1", "int, 2"),
        setup="import typing, cfg",
    ),
    "docstring": _in_cfg("n = int(cfg.helper.__doc__)", 'def helper(x):\n    "1"\n', ('"1"', '"2"')),
    "class-docstring": _in_cfg("n = int(cfg.Spec.__doc__)", 'class Spec:\n    "1"\n', ('"1"', '"2"')),
    "source-of-a-function": _in_cfg(
        'n = inspect.getsource(cfg.helper).count("note")',
        "def helper(x):\n    return x  # note\n",
        ("# note", "# note, note"),
        setup="import inspect, cfg",
    ),
    "line-number": _in_cfg(
        "n = cfg.helper.__code__.co_firstlineno",
        "def helper(x):\n    return x\n",
        ("def helper", "\ndef helper"),
    ),
    "signature-of-a-function": _in_cfg(
        'n = inspect.signature(cfg.helper).parameters["x"].default',
        "def helper(x=1):\n    pass\n",
        ("x=1", "x=2"),
        setup="import inspect, cfg",
    ),
    "dataclass-fields": _in_cfg(
        "n = dataclasses.fields(cfg.Spec)[0].metadata['k']",
        """
        import dataclasses

        @dataclasses.dataclass
        class Spec:
            level: int = dataclasses.field(default=0, metadata=dict(k=1))
        """,
        *_K,
        setup="import dataclasses, cfg",
    ),
    "dataclass-factory": _in_cfg(
        "n = cfg.Spec().level",
        """
        import dataclasses

        @dataclasses.dataclass
        class Spec:
            level: int = dataclasses.field(default_factory=lambda: 1)
        """,
        ("lambda: 1", "lambda: 2"),
    ),
    "abstract-methods": _in_cfg(
        "n = len(cfg.Spec.__abstractmethods__)",
        """
        import abc

        class Spec(abc.ABC):
            @abc.abstractmethod
            def a(self): ...
            b = None
        """,
        ("b = None", "b = abc.abstractmethod(lambda self: None)"),
    ),
    "slots": _in_cfg("n = len(cfg.Spec.__slots__)", "class Spec:\n    __slots__ = ('a',)\n", ("('a',)", "('a', 'b')")),
    "class-hash": _in_cfg(
        "n = hash(cfg.Spec())", "class Spec:\n    def __hash__(self):\n        return 1\n", ("return 1", "return 2")
    ),
    "exception-attribute": _in_cfg(
        "n = cfg.Failure.level", "class Failure(Exception):\n    level = 1\n", ("level = 1", "level = 2")
    ),
    "enum-attribute": _in_cfg(
        "n = cfg.Level.A.weight",
        """
        import enum

        class Level(enum.Enum):
            A = 5

            @property
            def weight(self):
                return 1
        """,
        ("return 1", "return 2"),
    ),
    "namedtuple-method": _in_cfg(
        "n = cfg.CFG.level()",
        """
        import typing

        class Config(typing.NamedTuple):
            k: int

            def level(self):
                return 1

        CFG = Config(5)
        """,
        ("return 1", "return 2"),
    ),
    "metaclass-property": _in_cfg(
        "n = cfg.Spec.level",
        """
        class Meta(type):
            @property
            def level(cls):
                return 1

        class Spec(metaclass=Meta):
            pass
        """,
        ("return 1", "return 2"),
    ),
    "metaclass-getattr": _in_environment(
        "n = cfg.Spec.level",
        "import cfg",
        cfg=py("""
            import os

            class Meta(type):
                def __getattr__(cls, name):
                    return Meta.LEVELS[name]

            Meta.LEVELS = {"level": int(os.environ["APP_LEVEL"])}

            class Spec(metaclass=Meta):
                pass
        """),
    ),
    "subclasses": _in_cfg(
        "n = len(cfg.Spec.__subclasses__())",
        "class Spec:\n    pass\n\nclass A(Spec):\n    pass\n\nB = None\n",
        ("B = None", "class B(Spec):\n    pass"),
    ),
    "slotted-instance": _in_environment(
        "n = CFG.level",
        'import os\n\nclass Spec:\n    __slots__ = ("level",)\n\nCFG = Spec()\nCFG.level = int(os.environ["APP_LEVEL"])\n',
    ),
    "instance-that-pickles-without-it": _in_environment(
        "n = CFG.level",
        "import os\n\nclass Spec:\n    def __reduce__(self):\n        return Spec, ()\n\n"
        'CFG = Spec()\nCFG.level = int(os.environ["APP_LEVEL"])\n',
    ),
    "context-variable": _in_environment(
        "n = VAR.get()",
        'import contextvars, os\n\nVAR = contextvars.ContextVar("level")\nVAR.set(int(os.environ["APP_LEVEL"]))\n',
    ),
    "thread-local": _in_environment(
        "n = LOCAL.level",
        'import os, threading\n\nLOCAL = threading.local()\nLOCAL.level = int(os.environ["APP_LEVEL"])\n',
    ),
    # Imports
    "lazy-import": _Read("import lazy\nn = lazy.K", extra={"lazy.py": "K = 1\n"}, files={"lazy.py": "K = 2\n"}),
    "lazy-import-of-a-value": _Read(
        "from lazy import TABLE\nn = TABLE[0]", extra={"lazy.py": "TABLE = [1]\n"}, files={"lazy.py": "TABLE = [2]\n"}
    ),
    "lazy-import-through-another": _Read(
        "from lazy import level\nn = level()",
        extra={"lazy.py": "def level():\n    from deeper import K\n    return K\n", "deeper.py": "K = 1\n"},
        files={"deeper.py": "K = 2\n"},
    ),
    "relative-import": _Read(
        "from .cfg import TABLE\nn = TABLE[0]",
        extra={"pkg/__init__.py": "", "pkg/cfg.py": "TABLE = [1]\n"},
        files={"pkg/cfg.py": "TABLE = [2]\n"},
        ext="pkg/ext.py",
    ),
    "relative-import-of-a-loaded-module": _in_environment(
        "from . import cfg\nn = cfg.K",
        "from . import cfg as _cfg",
        extra={"pkg/__init__.py": "", "pkg/cfg.py": 'import os\n\nK = int(os.environ["APP_LEVEL"])\n'},
        ext="pkg/ext.py",
    ),
    "import-by-name": _Read(
        "n = importlib.import_module(NAME).K",
        "import importlib\n\nNAME = 'la' + 'zy'\n",
        extra={"lazy.py": "K = 1\n"},
        files={"lazy.py": "K = 2\n"},
    ),
    "import-that-comes-later": _Read(
        "try:\n    import accelerator\n    n = 2\nexcept ImportError:\n    n = 1",
        files={"accelerator.py": ""},
    ),
    "import-that-goes": _Read(
        "try:\n    import accelerator\n    n = 1\nexcept ImportError:\n    n = 2",
        extra={"accelerator.py": ""},
        files={"accelerator.py": None},
    ),
    "spec-that-comes-later": _Read(
        'n = 2 if importlib.util.find_spec("accelerator") else 1',
        "import importlib.util",
        files={"accelerator.py": ""},
    ),
    "loaded-or-not": _in_environment(
        'n = 2 if "accelerator" in sys.modules else 1',
        "import sys",
        extra={"accelerator.py": ""},
        main='import os\nif os.environ["APP_LEVEL"] == "2":\n    import accelerator\n',
    ),
    "lazy-configuration": _Read(
        "n = level()",
        py("""
            _loaded = {}

            def level():
                if not _loaded:
                    import json
                    with open("level.json") as file:
                        _loaded.update(json.load(file))
                return _loaded["k"]
        """),
        extra=_TEXT,
        files={"level.json": '{"k": 2}\n'},
    ),
    # The environment
    "variable-by-a-computed-name": _in_environment(
        'n = int(os.environ[PREFIX + "LEVEL"])', 'import os\n\nPREFIX = "APP_"\n'
    ),
    "variable-by-a-formatted-name": _in_environment(
        'n = int(os.getenv(f"{PREFIX}_LEVEL", "9"))', 'import os\n\nPREFIX = "APP"\n'
    ),
    "variable-through-a-helper": _in_environment(
        'n = setting("level")',
        "from cfg import setting",
        cfg='from os import environ\n\ndef setting(name):\n    return int(environ.get("APP_" + name.upper(), "9"))\n',
    ),
    "variables-copied": _in_environment('n = int(os.environ.copy()["APP_" + "LEVEL"])'),
    "variables-iterated": _in_environment('n = next(int(v) for k, v in os.environ.items() if k.endswith("_LEVEL"))'),
    "variables-as-bytes": _in_environment('n = int(os.environb[b"APP_" + b"LEVEL"])'),
    "variables-counted": _in_environment('n = 1 + sum(v == "2" for v in dict(os.environ).values())'),
    "variable-expanded": _in_environment('n = int(os.path.expandvars("$APP_" + "LEVEL"))'),
    "variable-through-a-bound-method": _in_environment(
        'n = int(GET("APP_" + "LEVEL"))', "import os\n\nGET = os.environ.get\n"
    ),
    "variable-present": _in_environment('n = 2 if "APP_" + "LEVEL" + os.environ["APP_LEVEL"] == "APP_LEVEL2" else 1'),
    # Everything around the process
    "arguments": _Read("n = int(sys.argv[1])", "import sys", argv=("1", "2")),
    "arguments-parsed": _Read(
        "n = arguments().level",
        "import argparse\n\ndef arguments():\n    parser = argparse.ArgumentParser()\n"
        '    parser.add_argument("level", type=int)\n    return parser.parse_args()\n',
        argv=("1", "2"),
    ),
    "log-level": _in_environment(
        "n = 2 if LOG.isEnabledFor(10) else 1",
        'import logging\n\nLOG = logging.getLogger("app.compile")\n',
        main='import os, logging\nlogging.getLogger("app").setLevel(10 if os.environ["APP_LEVEL"] == "2" else 30)\n',
    ),
    "decimal-context": _in_environment(
        "n = decimal.getcontext().prec",
        "import decimal",
        main='import decimal, os\ndecimal.getcontext().prec = int(os.environ["APP_LEVEL"])\n',
    ),
    "recursion-limit": _in_environment(
        "n = sys.getrecursionlimit() - 5000",
        "import sys",
        main='import os, sys\nsys.setrecursionlimit(5000 + int(os.environ["APP_LEVEL"]))\n',
    ),
    "optimised-python": _in_environment("n = 1 if __debug__ else 2", ""),
    "python-option": _in_environment("n = 1 + sys.flags.optimize", "import sys"),
    "file": _Read('with open("level.txt") as file:\n    n = int(file.read())', extra=_TEXT, files={"level.txt": "2\n"}),
    "file-through-pathlib": _Read(
        'n = int(pathlib.Path(__file__).with_name("level.txt").read_text())',
        "import pathlib",
        extra=_TEXT,
        files={"level.txt": "2\n"},
    ),
    "file-as-a-resource": _Read(
        'n = int(importlib.resources.files("data").joinpath("level.txt").read_text())',
        "import importlib.resources",
        extra=_TEXT,
        files={"data/level.txt": "2\n"},
    ),
    "file-as-json-through-a-helper": _Read(
        "n = level()",
        'import json, os\n\ndef level():\n    handle = os.open("level.json", os.O_RDONLY)\n'
        '    with os.fdopen(handle) as file:\n        return json.load(file)["k"]\n',
        extra=_TEXT,
        files={"level.json": '{"k": 2}\n'},
    ),
    "file-as-an-array": _Read(
        'n = int(np.loadtxt("level.txt"))', "import numpy as np", extra=_TEXT, files={"level.txt": "2\n"}
    ),
    "file-exists": _Read('n = 2 if os.path.exists("fast.flag") else 1', "import os", files={"fast.flag": ""}),
    "file-that-comes-later": _Read(
        'try:\n    with open("fast.flag") as file:\n        n = int(file.read())\nexcept OSError:\n    n = 1',
        files={"fast.flag": "2\n"},
    ),
    "directory-listed": _Read('n = len(os.listdir("data")) - 1', "import os", extra=_TEXT, files={"data/more.txt": ""}),
    "file-size": _Read('n = os.stat("level.txt").st_size - 1', "import os", extra=_TEXT, files={"level.txt": "22\n"}),
    "open-file": _Read(
        "FILE.seek(0)\nn = int(FILE.read())", 'FILE = open("level.txt")\n', extra=_TEXT, files={"level.txt": "2\n"}
    ),
    "command": _Read(
        'n = int(subprocess.run(["cat", "level.txt"], capture_output=True).stdout)',
        "import subprocess",
        extra=_TEXT,
        files={"level.txt": "2\n"},
    ),
    "string-buffer": _in_environment(
        "n = int(FILE.getvalue())", 'import io, os\n\nFILE = io.StringIO(os.environ["APP_LEVEL"])\n'
    ),
}


def _program(kind: str, read: str, *, rerun: str = "same") -> Program:
    """Return the program in which code of one kind reads one thing.

    What can't be known may be left uncached, so that nothing more is asked of the repeated step unless `rerun` says it.
    """
    code, what = _KINDS[kind], _READS[read]
    lines = code.ext.split("\n")
    indented = [
        textwrap.indent(what.body, line[: -len("<READ>")]) if line.endswith("<READ>") else line for line in lines
    ]
    ext = _IMPORTS + what.setup + "\n\n" + _THING + "\n".join(indented)
    start = "from pkg import ext\n" if what.ext != "ext.py" else "import ext\n"
    files = {"main.py": main(what.main + start + "from numba.extending import *\n") + py(code.body), what.ext: ext}
    files |= what.extra | ({"cfg.py": what.cfg} if what.cfg else {})
    after = dict(what.files)
    if what.pairs:
        after |= replaced(files, "cfg.py", *what.pairs)
    steps = [Step(files=files), Step(files=after)]
    if read in {"optimised-python", "python-option"}:
        steps = [Step(files=files), Step(argv=("-O", "main.py"))]
    elif what.env:
        steps = [Step(files=files, env={"APP_LEVEL": what.env[0]}), Step(env={"APP_LEVEL": what.env[1]})]
    elif what.argv:
        steps = [Step(files=files, argv=("main.py", what.argv[0])), Step(argv=("main.py", what.argv[1]))]
    return trap(f"compile-time-{kind}-reads-{read}", 28, *steps, rerun=rerun)


_HIT = ("dict-subclass", "list-subclass", "defaultdict", "function-attribute", "dispatcher-attribute", "annotations")
_HIT += ("metaclass-property",)
"""What a chooser may well read and stay cached."""

_CHOSEN = """
    set-subclass tuple-subclass missing-key modules-in-a-dict module-in-sys-modules globals-by-name
    bound-method-of-a-dict bound-method-of-a-list bound-method-of-a-pattern partial-over-a-list lru-cache own-attribute
    type-hints-of-a-class class-docstring dataclass-fields slots class-hash exception-attribute
    enum-attribute namedtuple-method metaclass-getattr subclasses instance-that-pickles-without-it log-level
    decimal-context python-option
    """

_OTHERS = {
    "numpy-overload": "dict-subclass-from-the-environment bound-method-of-a-dict",
    "method": "list-subclass log-level",
    "attribute": "modules-in-a-dict metaclass-property",
    "intrinsic-typing": "dict-subclass",
    "intrinsic-codegen": "dict-subclass modules-in-a-dict",
}

PROGRAMS = (
    *(_program("overload", read, rerun="hit") for read in _HIT),
    *(_program("overload", read) for read in _CHOSEN.split()),
    *(_program(kind, read) for kind, reads in _OTHERS.items() for read in reads.split()),
)
