"""Family 37, Numba's own: what a program changes in Numba's modules, classes and tables is Numba's own, or only data."""

from ..harness import Program, Step, main, py, trap

_PATCHED = main("""
    import os
    import operator
    from numba import types
    <IMPORT>

    def patch():
        <PATCH>

    if "APP_PATCH" in os.environ:
        patch()

    @njit<OPTIONS>
    def f(a, b):
        return <VALUE>

    show("f", f, <ARGUMENTS>)
    """)
_LATE = _PATCHED.replace(
    'if "APP_PATCH" in os.environ:\n    patch()\n\n',
    '@njit\ndef first(x):\n    return x * 3\n\nshow("first", first, 1)\nif "APP_PATCH" in os.environ:\n    patch()\n\n',
)
_INTEGERS, _FLOATS, _ARRAYS = "7, 3", "7.5, 2.5", "np.array([4.0, 9.0]), np.array([2.0, 3.0])"


def _own(
    name: str, imports: str, patch: str, value: str, arguments: str = _INTEGERS, options: str = "", text: str = _PATCHED
) -> Program:
    patch = py(patch).strip().replace("\n", "\n    ")
    for place, what in (
        ("<IMPORT>", py(imports).strip()), ("<PATCH>", patch), ("<VALUE>", value), ("<ARGUMENTS>", arguments),
        ("<OPTIONS>", options),
    ):  # fmt: skip
        text = text.replace(place, what)
    return trap(f"own-{name}", 37, Step(files={"main.py": text}), Step(env={"APP_PATCH": "1"}), rerun="same")


_FUNCTIONS = (
    _own(
        "function-of-a-module",
        "from numba.np.math import numbers",
        "numbers.int_divmod = numbers.int_divmod_signed",
        "a // b",
        "np.uint64(2**63 + 5), np.uint64(3)",
    ),
    _own(
        "dispatcher-of-a-module",
        "from numba.np import arraymath",
        "arraymath._select = arraymath._select_two",
        "np.median(a) + b",
        "np.array([9.0, 5.0, 7.0]), 0.0",
    ),
    _own(
        "method-of-a-class",
        "from numba.core import lowering",
        "lowering.Lower.lower_binop = lowering.Lower.lower_getitem",
        "a + b",
    ),
    _own(
        "method-of-a-pass",
        "from numba.core import untyped_passes",
        "untyped_passes.DeadBranchPrune.run_pass = untyped_passes.GenericRewrites.run_pass",
        "a if b is None else a + b.nothing",
        "1, None",
    ),
    _own(
        "number-of-a-class",
        "from numba.core.callconv import PythonErrorModel",
        "PythonErrorModel.raise_on_fp_zero_division = False",
        "a / b",
        "1.0, 0.0",
    ),
    _own(
        "class-of-a-module",
        "from numba.core import callconv",
        "callconv.error_models['python'] = callconv.NumpyErrorModel",
        "a / b",
        "1.0, 0.0",
    ),
    _own(
        "function-in-a-table",
        "from numba.parfors import parfor",
        """
        table = parfor.swap_functions_map
        table["sum", "numpy"] = table["prod", "numpy"]
        """,
        "np.sum(a) + b[0]",
        _ARRAYS,
        "(parallel=True)",
    ),
)
_DATA = (
    _own(
        "operator-of-a-table",
        "from numba.core import utils",
        "utils.BINOPS_TO_OPERATORS['+'] = operator.sub",
        "a + b",
    ),
    _own(
        "operator-removed-from-a-table",
        "from numba.core import utils",
        "del utils.BINOPS_TO_OPERATORS['+']",
        "a + b",
    ),
    _own(
        "operator-of-a-table-changed-late",
        "from numba.core import utils",
        "utils.BINOPS_TO_OPERATORS['+'] = operator.sub",
        "a + b",
        text=_LATE,
    ),
    _own(
        "type-of-a-table",
        "from numba.np import numpy_support",
        "numpy_support.FROM_DTYPE[np.dtype('uint8')] = types.int8",
        "a.view(np.uint8)[0] + b",
        "np.array([-1], np.int8), 0",
    ),
    _own(
        "comparison-of-llvmlite-s",
        "from llvmlite.ir import builder",
        "builder._CMP_MAP['>'] = 'slt'\nbuilder._CMP_MAP['<'] = 'sgt'",
        "a > b",
    ),
    _own(
        "ufuncs-table-made-later",
        "from numba.cpython import numbers\nfrom numba.np import ufunc_db",
        "ufunc_db.get_ufunc_info(np.add)['dd->d'] = numbers.real_sub_impl",
        "np.add(a, b)",
        _FLOATS,
    ),
    _own(
        "ufuncs-table-made-later-and-changed-late",
        "from numba.cpython import numbers\nfrom numba.np import ufunc_db",
        "ufunc_db.get_ufunc_info(np.add)['dd->d'] = numbers.real_sub_impl",
        "np.add(a, b)",
        _FLOATS,
        text=_LATE,
    ),
    _own(
        "ufunc-replaced-in-the-table-made-later",
        "from numba.np import ufunc_db",
        "ufunc_db.get_ufunc_info(np.add)\nufunc_db._ufunc_db[np.add] = ufunc_db._ufunc_db[np.subtract]",
        "np.add(a, b)",
        _FLOATS,
    ),
    _own(
        "number-of-a-module",
        "from numba.np import npdatetime_helpers",
        "npdatetime_helpers.DATETIME_UNITS = {**npdatetime_helpers.DATETIME_UNITS, 'h': 6}",
        "a == b",
        "np.timedelta64(1, 'h'), np.timedelta64(60, 'm')",
    ),
    _own(
        "number-in-a-table",
        "from numba.np import npdatetime_helpers",
        "npdatetime_helpers._factors[4] = (5, 24)\nnpdatetime_helpers._factors[5] = (7, 61)",
        "a == b",
        "np.timedelta64(1, 'h'), np.timedelta64(60, 'm')",
    ),
    _own(
        "constant-of-cgutils",
        "from numba.core import cgutils",
        "cgutils.true_bit, cgutils.false_bit = cgutils.false_bit, cgutils.true_bit",
        "a is b",
        "1, 2.0",
    ),
    _own(
        "list-of-cases-in-place",
        "from numba.core.typing import builtins, signature",
        "builtins.BinOp.cases[:] = [signature(types.float64, types.float64, types.float64)]",
        "a + b",
    ),
    _own(
        "list-of-cases-gets-one-more",
        "from numba.core.typing import builtins, signature",
        "builtins.BinOp.cases.insert(0, signature(types.complex128, types.complex128, types.complex128))\n"
        "del builtins.BinOp.cases[1:]",
        "a + b",
    ),
    _own(
        "item-of-a-list-of-cases",
        "from numba.core.typing import builtins, signature",
        "builtins.BinOp.cases[0] = signature(types.float64, types.int64, types.int64)",
        "a + b",
    ),
    _own(
        "list-of-cases-of-a-class",
        "from numba.core.typing import builtins, signature",
        "builtins.BinOp.cases = [signature(types.float64, types.float64, types.float64)]",
        "a + b",
    ),
    _own(
        "list-of-cases-changed-late",
        "from numba.core.typing import builtins, signature",
        "builtins.BinOp.cases[:] = [signature(types.float64, types.float64, types.float64)]",
        "a + b",
        text=_LATE,
    ),
    _own(
        "setting-by-assignment",
        "from numba import config",
        "config.BOUNDSCHECK = 1",
        "a[b]",
        "np.arange(4)[:3], 3",
    ),
    _own(
        "setting-changed-late",
        "from numba import config",
        "config.DISABLE_PERFORMANCE_WARNINGS = 1\nconfig.BOUNDSCHECK = 1",
        "a[b]",
        "np.arange(4)[:3], 3",
        text=_LATE,
    ),
    _own(
        "type-of-numba-s",
        "import numba.core.typing.typeof as typeof",
        "typeof.types = type('Types', (), {**vars(types), 'float64': types.float32})()",
        "a * b",
        "1e300, 0.1",
    ),
    _own(
        "default-of-all-options",
        "from numba.core import cpu",
        "cpu.CPUTargetOptions.finalize = lambda self, flags, options: setattr(flags, 'boundscheck', True)",
        "a[b]",
        "np.arange(4)[:3], 3",
    ),
)
PROGRAMS = (*_FUNCTIONS, *_DATA)
