"""Family 36, beside registries: addresses in code, Numba's own tables and classes, options set later."""

from collections.abc import Mapping

from ..harness import Program, Step, main, py, replaced, trap

_EXT = """
import ctypes, operator
import numpy as np
from numba import njit, types
from numba.core import cgutils, typing
from numba.core.registry import cpu_target
from numba.extending import *
from llvmlite import ir

def thing(x):
    raise NotImplementedError

"""
_MAIN = main("""
    import ext

    @njit
    def f(x):
        return ext.thing(x)

    show("f", f, 7)
    """)


def _program(name: str, ext: str, edit: tuple[str, str], use: str = _MAIN, **options) -> Program:
    files = {"ext.py": _EXT + py(ext), "main.py": use}
    return trap(f"hunt-{name}", 36, files, replaced(files, "ext.py", edit), **{"rerun": "same", **options})


_ADDRESS = """
    {head}

    @type_callable(thing)
    def type_thing(context):
        return lambda x: types.int64

    @lower_builtin(thing, types.Integer)
    def lower_thing(context, builder, sig, args):
        pointer = builder.inttoptr(ir.Constant(ir.IntType(64), {address}), ir.IntType(64).as_pointer())
        return builder.add(args[0], builder.load(pointer))
    """
_ADDRESSES: Mapping[str, tuple[str, str]] = {
    "an-array": ("ARRAY = np.arange(7, 70)", "ARRAY.ctypes.data"),
    "a-strided-array": ("ARRAY = np.arange(7, 70)[::3]", "ARRAY.ctypes.data"),
    "a-buffer": ("BUFFER = (ctypes.c_int64 * 4)(7, 8, 9)", "ctypes.addressof(BUFFER)"),
    "an-object": ("THING = (1, 2, 3)", "id(THING) + 16"),
}


def _with_address(name: str, head: str, address: str) -> Program:
    """In each process it lies elsewhere, whatever else there is."""
    files = {
        "ext.py": _EXT + py(_ADDRESS.format(head=head, address=address)),
        "main.py": _MAIN.replace("import ext\n", "keep = [bytearray(5_000_000) for _ in range(1)]\nimport ext\n"),
    }
    more = files["main.py"].replace("range(1)", "range(9)")
    return trap(f"hunt-address-of-{name}-by-lowering", 36, files, {"main.py": more}, differs=False, rerun="same")


_ADDED_DIRECTLY = """
    class Thing(typing.templates.AbstractTemplate):
        key = thing

        def generic(self, args, kws):
            return typing.signature(types.int64, types.int64)

    def lower_thing(context, builder, sig, args):
        return builder.add(args[0], args[0].type(LEVEL))

    lower_thing.signature = (types.Integer,)
    LEVEL = 1

    cpu_target.typing_context.insert_user_function(thing, Thing)
    cpu_target.target_context.insert_func_defn([(lower_thing, thing, (types.Integer,))])
    """
_COST = """
    from numba import njit
    from numba.core import ir as numba_ir

    def cost(expr, caller, callee):
        return LEVEL == 1

    LEVEL = 1

    @njit(inline=cost)
    def inner(x):
        return x + 1

    @overload(thing, inline="always")
    def choose(x):
        return lambda x: inner(x) if LEVEL == 1 else inner(x) + 1
    """
_CONVERT = """
    from numba.core.typeconv import Conversion

    class Thing:
        pass

    class ThingType(types.Type):
        def __init__(self):
            super().__init__(name="Thing")

        def can_convert_to(self, typingctx, other):
            if other == types.int64:
                return Conversion.safe

    thing_type = ThingType()

    @typeof_impl.register(Thing)
    def typeof_thing(value, context):
        return thing_type

    @register_model(ThingType)
    class Model(models.OpaqueModel):
        pass

    @unbox(ThingType)
    def unbox_thing(typ, obj, c):
        return NativeValue(c.context.get_dummy_value())

    from numba.core.imputils import lower_cast

    @lower_cast(ThingType, types.Integer)
    @lower_cast(ThingType, types.Float)
    def cast_thing(context, builder, fromty, toty, val):
        return context.get_constant(toty, 5)

    @njit(["int64(int64)", "float64(float64)"])
    def inner(x):
        return x / 2
    """
_BOX = """
    class Pair:
        def __init__(self, extra):
            self.extra = extra

    DEFAULTS = [1, 2]

    class PairType(types.Type):
        def __init__(self):
            super().__init__(name="Pair")

    @typeof_impl.register(Pair)
    def typeof_pair(value, context):
        return PairType()

    @register_model(PairType)
    class Model(models.OpaqueModel):
        pass

    @unbox(PairType)
    def unbox_pair(typ, obj, c):
        return NativeValue(c.context.get_dummy_value())

    @box(PairType)
    def box_pair(typ, val, c):
        cls = c.pyapi.unserialize(c.pyapi.serialize_object(Pair))
        extra = <EXTRA>
        result = c.pyapi.call_function_objargs(cls, (extra,))
        c.pyapi.decref(cls)
        return result
    """
_BOXED = main("""
    import ext

    @njit
    def f(x):
        return x

    ext.DEFAULTS.append(3)
    one, two = f(ext.Pair(0)).extra, f(ext.Pair(0)).extra
    print(one, one is two, one is ext.DEFAULTS)
    one.append(4)
    print(f(ext.Pair(0)).extra, ext.DEFAULTS)
    """)


def _boxed(name: str, extra: str) -> Program:
    files = {"ext.py": _EXT + py(_BOX).replace("<EXTRA>", extra), "main.py": _BOXED}
    again = {"main.py": _BOXED.replace("print(f(", "print('again', f(")}
    return trap(f"hunt-{name}", 36, Step(files=files), Step(files=again), rerun="same", cold=True)


_PATCHED = main("""
    import os
    import numba
    <IMPORT>

    if "APP_PATCH" in os.environ:
        <PATCH>

    @njit<OPTIONS>
    def f(a):
        return <VALUE>

    show("f", f, <ARGUMENT>)
    """)


def _patched(
    name: str, imports: str, patch: str, value: str, options: str = "", argument: str = "np.array([1.0, 5.0, 7.0])"
) -> Program:
    patch = py(patch).strip().replace("\n", "\n    ")
    use = _PATCHED.replace("<IMPORT>", imports).replace("<PATCH>", patch).replace("<VALUE>", value)
    return _patched_when_told(name, use.replace("<OPTIONS>", options).replace("<ARGUMENT>", argument))


def _patched_when_told(name: str, use: str) -> Program:
    return trap(f"hunt-patched-{name}", 36, Step(files={"main.py": use}), Step(env={"APP_PATCH": "1"}), rerun="same")


_IN_A_LIST = main("""
    import os
    from numba.core import ir_utils

    if "APP_PATCH" in os.environ:
        ir_utils.remove_call_handlers.append(lambda rhs, live, calls: True)

    @njit
    def tell(x):
        print("told of", x)

    @njit(parallel=True)
    def f(x):
        tell(x)
        return (np.zeros(3) + x).sum()

    show("f", f, 7)
    """)
_OUT_OF_A_LIST = main("""
    import os
    from numba.core import ir_utils

    if "APP_PATCH" in os.environ:
        ir_utils.remove_call_handlers.clear()

    @njit(parallel=True)
    def f(x):
        np.random.seed(7)
        dead = np.random.random()
        return (np.zeros(3) + x).sum() + np.random.random()

    show("f", f, 7)
    """)
_CHANGES: Mapping[str, tuple[str, str, str]] = {
    "loop-of-a-ufunc-taken-out": (
        "from numba.np import ufunc_db",
        "del ufunc_db.get_ufunc_info(np.sqrt)['f->f']",
        "np.sqrt(np.float32(a))",
    ),
    "cases-taken-out": (
        "from numba.core.typing.builtins import Abs",
        "Abs.cases[:] = [each for each in Abs.cases if each.args[0] == types.float64]",
        "abs(a)",
    ),
    "one-function-for-another-in-a-table": (
        "from numba.parfors import parfor",
        "parfor.swap_functions_map['sum', 'numpy'] = parfor.swap_functions_map['prod', 'numpy']",
        "np.sum(np.arange(1, a))",
    ),
    "data-in-a-table": (
        "import operator; from numba.core import utils",
        "utils.BINOPS_TO_OPERATORS['+'] = operator.mul",
        "a + 5",
    ),
    "number-that-numba-computes": (
        "from numba.cpython import hashing",
        "hashing._PyHASH_XXPRIME_1 = hashing._Py_uhash_t(5)",
        "hash((a, 1))",
    ),
    "one-closure-for-another": (
        "from numba.np.math import mathimpl",
        "mathimpl.exp_impl = mathimpl.cos_impl",
        "np.exp(a / 2)",
    ),
    "rule-of-conversion": (
        (
            "from numba.core.typeconv.rules import default_type_manager as rules; "
            "third = njit(['f4(f4)', 'f8(f8)'])(lambda x: x / 3)"
        ),
        "rules.set_promote(types.int64, types.float32)",
        "third(a)",
    ),
    "another-table": (
        "from numba.parfors import parfor",
        "parfor.swap_functions_map = {('sum', 'numpy'): parfor.swap_functions_map['prod', 'numpy']}",
        "np.sum(np.arange(1, a))",
    ),
}
"""What is changed in what Numba's modules and classes hold, and what it changes: imports, statement, expression."""


_EARLIER = py("""
    @njit
    def before(x):
        return x - 1

    show("before", before, 7)
    """)


def _changed(name: str, *, late: bool) -> Program:
    """Before anything was decorated, or behind a first call."""
    imports, statement, expression = _CHANGES[name]
    imports = f"from numba import types\n{imports}\n{_EARLIER if late else ''}"
    return _patched(f"{name}-{'late' if late else 'early'}", imports, statement, expression, "(parallel=True)", "7")


_PATCHES = (
    *(_changed(name, late=late) for name in _CHANGES for late in (False, True)),
    _patched_when_told("list-that-is-emptied", _OUT_OF_A_LIST),
    _patched_when_told(
        "lists-that-are-all-emptied",
        _OUT_OF_A_LIST.replace(
            "ir_utils.remove_call_handlers.clear()",
            "ir_utils.remove_call_handlers.clear()\n    numba.misc.coverage_support._the_registry.clear()",
        ).replace("import os\n", "import os\nimport numba.misc.coverage_support\n", 1),
    ),
    _patched_when_told("list-of-functions", _IN_A_LIST),
    _patched(
        "method-of-numba-s-context",
        "from numba.core.cpu import CPUContext",
        """
        original = CPUContext.get_constant_generic
        CPUContext.get_constant_generic = lambda self, builder, ty, val: original(self, builder, ty, val + 1)
        """,
        "a[0] + 2",
    ),
    _patched(
        "table-of-parfors",
        "from numba.parfors import parfor",
        """
        parfor.swap_functions_map[("sum", "numpy")] = lambda return_type, arg: lambda in_arr: 1000.0
        """,
        "np.sum(a)",
        "(parallel=True)",
    ),
    _patched(
        "method-of-one-context",
        "from numba.core.registry import cpu_target",
        """
        context = cpu_target.target_context
        original = context.get_constant_generic
        context.get_constant_generic = lambda builder, ty, val: original(builder, ty, val + 1)
        """,
        "a[0] + 2",
    ),
    _patched(
        "method-of-the-typing-context",
        "from numba.core.registry import cpu_target",
        """
        context = cpu_target.typing_context
        original = context.resolve_function_type
        context.resolve_function_type = lambda func, args, kws: original(
            func, (numba.types.float64,) * 2 if "add" in str(func) else args, kws
        )
        """,
        "len(a) + len(a)",
    ),
    _patched(
        "table-of-ufuncs",
        "from numba.np import ufunc_db",
        """
        ufunc_db.get_ufunc_info(np.square)["d->d"] = lambda context, builder, sig, args: args[0]
        """,
        "np.square(a)",
    ),
    _patched(
        "table-of-ufuncs-replaced-in-part",
        "from numba.np import ufunc_db",
        """
        ufunc_db.get_ufuncs()
        ufunc_db._ufunc_db[np.square] = {"d->d": lambda context, builder, sig, args: args[0]}
        """,
        "np.square(a)",
    ),
    _patched(
        "one-of-numba-s-for-another",
        "from numba.core import cgutils",
        """
        cgutils.is_neg_int = cgutils.is_not_null
        """,
        "len([1.0] * int(a[1]))",
    ),
    _patched(
        "number-of-numba-s",
        "from numba.np.random import distributions",
        """
        distributions.ziggurat_nor_r = 5.0
        """,
        "a.standard_normal(20000).max()",
        argument="np.random.default_rng(7)",
    ),
    _patched(
        "pipeline-of-all",
        "from numba.core.compiler import DefaultPassBuilder",
        """
        from numba.core import ir
        from numba.core.compiler_machinery import FunctionPass, register_pass
        from numba.core.untyped_passes import IRProcessing

        @register_pass(mutates_CFG=False, analysis_only=False)
        class Change(FunctionPass):
            _name = "change"

            def __init__(self):
                FunctionPass.__init__(self)

            def run_pass(self, state):
                for block in state.func_ir.blocks.values():
                    for assign in block.find_insts(ir.Assign):
                        if isinstance(assign.value, ir.Const) and assign.value.value == 2.5:
                            assign.value.value = 9.5
                return True

        original = DefaultPassBuilder.define_untyped_pipeline

        def define(state, name="untyped"):
            pm = original(state, name)
            pm.add_pass_after(Change, IRProcessing)
            return pm

        DefaultPassBuilder.define_untyped_pipeline = staticmethod(define)
        """,
        "a[0] + 2.5",
    ),
)

_SET_LATER = main("""
    import os

    @njit
    def f(x, y):
        return x / y

    @njit
    def g(x):
        return x * 2.0

    show("f", f, 1.0, 4.0)
    if "APP_PATCH" in os.environ:
        <CHANGE>
    show("f", f, 1, 0)
    """)


def _set_later(name: str, change: str) -> Program:
    files = {"main.py": _SET_LATER.replace("<CHANGE>", change)}
    return trap(f"hunt-set-later-{name}", 36, Step(files=files), Step(env={"APP_PATCH": "1"}), rerun="same")


_FILES_OF_CLASSES = {
    "base.py": "class Base:\n    def value(self):\n        return self.a + 1\n",
    "main.py": main("""
        from numba import types
        from numba.experimental import jitclass
        from base import Base

        @jitclass([("a", types.int64)])
        class Thing(Base):
            def __init__(self, a):
                self.a = a

        @njit
        def f(a):
            return Thing(a).value()

        show("f", f, 7)
        print(Thing(7).value())
        """),
}
_STENCILS = {
    "kernels.py": (
        "from numba import stencil\n\n@stencil(func_or_mode='constant', cval=0.0)\ndef kernel(a):\n"
        "    return a[0] + a[-1]\n"
    ),
    "main.py": main("""
        import kernels

        @njit
        def f(a):
            return kernels.kernel(a)

        show("f", f, np.arange(4.0))
        print(kernels.kernel(np.arange(4.0)))
        """),
}
_PASS = """
    from numba.core import ir
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.untyped_passes import IRProcessing

    @register_pass(mutates_CFG=False, analysis_only=False)
    class Lines(FunctionPass):
        _name = "lines"

        def __init__(self):
            FunctionPass.__init__(self)

        def run_pass(self, state):
            for block in state.func_ir.blocks.values():
                for each in block.find_insts(ir.Assign):
                    if isinstance(each.value, ir.Const) and each.value.value == 12345:
                        each.value = ir.Const(each.loc.line, each.loc)
            return True

    class Compiler(CompilerBase):
        def define_pipelines(self):
            manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
            manager.add_pass_after(Lines, IRProcessing)
            manager.finalize()
            return [manager]
    """
_REWRITE = """
    from numba.core import ir
    from numba.core.rewrites import Rewrite, register_rewrite

    @register_rewrite("before-inference")
    class Lines(Rewrite):
        def match(self, func_ir, block, typemap, calltypes):
            self.block = block
            consts = [each for each in block.find_insts(ir.Assign) if isinstance(each.value, ir.Const)]
            self.found = [each for each in consts if each.value.value == 12345]
            return bool(self.found)

        def apply(self):
            for each in self.found:
                each.value = ir.Const(each.loc.line, each.loc)
            return self.block
    """
_COUNTER = """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def count(typing_context):
        def codegen(context, builder, sig, args):
            counter = cgutils.add_global_variable(builder.module, ir.IntType(64), "counter")
            counter.linkage, counter.initializer = "internal", ir.Constant(ir.IntType(64), 0)
            builder.store(builder.add(builder.load(counter), ir.Constant(ir.IntType(64), 1)), counter)
            return builder.load(counter)

        return types.int64(), codegen

    def make():
        @njit
        def f():
            return count()

        return f

    a, b = make(), make()
    for name, f in ("a", a), ("a", a), ("b", b), ("a", a):
        show(name, f)
    """


def _of_lines(name: str, ext: str, option: str = "") -> Program:
    """What is registered in `ext` puts the number of a line into the code."""
    files = {"ext.py": py(ext), "main.py": main(f"""
        import ext
        # here
        @njit{option}
        def f(x):
            return x + 12345

        show("f", f, 7)
        """)}  # fmt: skip
    return trap(f"hunt-lines-that-{name}", 36, files, replaced(files, "main.py", ("# here", "\n\n")), rerun="same")


PROGRAMS = (
    _of_lines("a-pass-reads", _PASS, "(pipeline_class=ext.Compiler)"),
    _of_lines("a-rewrite-reads", _REWRITE),
    trap(
        "hunt-variable-of-each-function",
        36,
        {"main.py": main(_COUNTER)},
        Step(),
        differs=False,
        cold=True,
        rerun="same",
    ),
    *(_with_address(name, *rest) for name, rest in _ADDRESSES.items()),
    _program("registered-with-the-contexts-directly", _ADDED_DIRECTLY, ("LEVEL = 1", "LEVEL = 2")),
    _program("cost-of-inlining", _COST, ("LEVEL = 1\n\n", "LEVEL = 2\n\n")),
    _program(
        "conversion-of-a-type",
        _CONVERT,
        ("types.int64:\n            return Conversion.safe", "types.float64:\n            return Conversion.safe"),
        use=main("""
            import ext

            @njit
            def f(x):
                return ext.inner(x)

            show("f", f, ext.Thing())
            """),
    ),
    _boxed("boxed-with-a-live-list", "c.env_manager.read_const(c.env_manager.add_const(DEFAULTS))"),
    *_PATCHES,
    _set_later("error-model", "f.targetoptions['error_model'] = 'numpy'"),
    _set_later("function", "f.py_func.__code__ = (lambda x, y: x - y).__code__"),
    trap(
        "hunt-base-of-a-jitclass",
        36,
        _FILES_OF_CLASSES,
        replaced(_FILES_OF_CLASSES, "base.py", ("+ 1", "+ 2")),
    ),
    trap("hunt-border-of-a-stencil", 36, _STENCILS, replaced(_STENCILS, "kernels.py", ("cval=0.0", "cval=5.0"))),
)
