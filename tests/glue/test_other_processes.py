"""What only shows across processes: one program, run again over the store it filled."""

import shutil

import pytest
from nbtest import proc


def test_a_hit_needs_no_compiler(run):
    body = """
        @njit
        def g(x):
            return x / 2
        @njit
        def f(x):
            return g(x) + 1
        {forbid}
        print(f(3), f(3.5))
        """
    assert run(body.format(forbid=""))[0] == run(body.format(forbid="forbid()"))[0] == "2.5 2.75\n"


def test_registries_stay_uninitialised_on_a_hit(run):
    body = """
        from numba.core.registry import cpu_target
        from numba.core.runtime import rtsys
        @njit
        def f(x):
            return [x, x / 2]
        print(f(3.0), rtsys._init, len(cpu_target.target_context._defns) < 50)
        """
    assert run(body)[0] == "[3.0, 1.5] True False\n"
    assert run(body)[0] == "[3.0, 1.5] False True\n"


@pytest.mark.long
def test_an_entry_removed_after_it_was_loaded_can_still_be_linked(run):
    loads = """
        import shutil
        @njit
        def g(x):
            return x / 2
        print(g(3))
        """
    run(loads)
    out, _ = run(
        loads
        + """
        shutil.rmtree(nbcache.client.activation._active.store.path + "/v1/objects")
        @njit
        def f(x):
            return g(x) + g(x + 1)
        print(f(3), Events.seen)
        """
    )
    assert out == "1.5\n3.5 ['f']\n"


@pytest.mark.every(6)
@pytest.mark.parametrize(
    "decorator",
    [
        "vectorize",
        "vectorize(['f8(f8)'])",
        "vectorize(['f8(f8)'], target='parallel')",
        "guvectorize(['void(f8[:], f8[:])'], '(n)->(n)')",
        "guvectorize('(n)->(n)')",
        "guvectorize(['void(f8[:], f8[:])'], '(n)->(n)', target='parallel')",
    ],
)
def test_ufuncs_and_their_wrappers(run, decorator):
    scalar = "def k(x):\n    return x // 2"
    array = "def k(x, out):\n    for i in range(len(x)):\n        out[i] = x[i] // 2"
    body = f"""
from numba import vectorize, guvectorize
FORBID
@{decorator}
{array if decorator.startswith("gu") else scalar}
a, out = np.arange(5.0), np.zeros(5)
print(k(a, out))
print(out)
"""
    cold = run(body.replace("FORBID", ""))[0]
    shutil.copytree(run.store, f"{run.store}-copy")
    assert run(body.replace("FORBID", "forbid()"))[0] == cold


@pytest.mark.long
def test_a_wrapper_is_built_when_only_its_kernel_is_found(run):
    body = """
        from numba import vectorize, guvectorize
        @vectorize(["f8(f8)"])
        def u(x):
            return x // 2
        @guvectorize(["void(f8[:], f8[:])"], "(n)->(n)")
        def k(x, out):
            for i in range(len(x)):
                out[i] = x[i] // 2
        print(u(np.arange(5.0)), k(np.arange(5.0)))
        """
    cold = run(body)[0]
    for path in (run.store / "v1/objects").rglob("*.nbo"):
        if b"ufunc wrapper" in path.read_bytes()[:4096]:
            path.unlink()
    assert run(body)[0] == cold


@pytest.mark.long
def test_cfunc(run):
    body = """
        from numba import cfunc
        {forbid}
        @cfunc("f8(f8)")
        def c(x):
            return x * 3
        print(c.ctypes(2.0))
        """
    assert run(body.format(forbid=""))[0] == run(body.format(forbid="forbid()"))[0] == "6.0\n"


def test_the_hook_never_raises_into_the_program(run):
    body = """
        from nbcache.client import activation
        from nbcache.glue.entries import pack
        from nbcache.glue.keys import units
        def broken(*args, **kwargs):
            raise RuntimeError("a fault")
        {fault} = broken
        @njit
        def f(x):
            return x + 1
        print(f(1), nbcache.stats()["errors"])
        """
    for fault, doing in (("activation.ClientSession._identify", "looking up"), ("pack.pack", "publishing")):
        out, err = run(body.format(fault=fault))
        assert out == f"2 {{'fault while {doing}': 1}}\n"
        assert err.count("internal error") == 1


@pytest.mark.long
def test_readonly_recache_and_disable(run):
    body = """
        import os
        K = int(os.environ.get("K", "1"))
        @njit
        def f(x):
            return x + K
        print(f(1), len(Events.seen), nbcache.stats()["published"])
        """
    assert run(body)[0] == "2 1 2\n"  # the other is Numba's runtime
    assert run(body, NBCACHE_READONLY="1")[0] == "2 0 0\n"
    assert run(body, NBCACHE_READONLY="1", K="5")[0] == "6 1 0\n"
    assert run(body, NBCACHE_RECACHE="1")[0] == "2 1 2\n"
    assert run(body, NBCACHE_DISABLE="1")[0] == "2 1 0\n"


@pytest.mark.long
def test_a_signature_declared_after_a_hit_builds_nothing_twice(run):
    body = """
        @njit("i8(i8)")
        def f(x):
            return x + 1
        print(f(1), f.signatures, len(Events.seen))
        """
    assert run(body)[0] == "2 [(int64,)] 1\n"
    assert run(body)[0] == "2 [(int64,)] 0\n"


@pytest.mark.long
def test_blocks_lifted_into_functions_of_their_own(run):
    body = """
        from numba.core.withcontexts import call_context
        @njit
        def f():
            x = 1
            with call_context:
                x += 3
            return x
        print(f(), nbcache.stats()["errors"])
        """
    assert run(body)[0] == "4 {}\n"
    assert run(body)[0] == "4 {}\n"


@pytest.mark.long
def test_performance_warnings_switched_off(run):
    body = """
        import warnings
        warnings.simplefilter("always")
        with warnings.catch_warnings(record=True) as caught:
            @njit(parallel=True)
            def f(x):
                return x + 1
            f(1)
        print(len(caught))
        """
    assert run(body)[0] == "1\n"
    assert run(body)[0] == "1\n"
    assert run(body, NUMBA_DISABLE_PERFORMANCE_WARNINGS="1")[0] == "0\n"


@pytest.mark.long
def test_warnings_whose_categories_take_other_arguments(run):
    body = """
        import warnings
        from numba.extending import overload
        def looping(x):
            raise NotImplementedError
        @overload(looping, inline="always")
        def _(x):
            def impl(x):
                for i in range(3):
                    x = x + i
                return x
            return impl
        warnings.simplefilter("always")
        with warnings.catch_warnings(record=True) as caught:
            @njit
            def f(x):
                return looping(x) * looping(x)
            print(f(1.5), len(Events.seen))
        for warning in caught:
            print(type(warning.message).__name__, "pedantic warnings" in str(warning.message).lower(), len(warning.message.msg))
        """
    first = run(body)[0].splitlines()
    assert first[0] == "20.25 2"
    assert first[1].startswith("NumbaIRAssumptionWarning ")
    assert run(body)[0].splitlines() == ["20.25 0", *first[1:]]


@pytest.mark.long
def test_what_is_inlined_may_call_what_was_compiled_with_something_inlined(run):
    """The second is asked whether it is still what it was, while others listen to what the first chooses."""
    body = """
        from numba.extending import register_jitable
        @register_jitable(inline="always")
        def twice(x):
            return x * 2
        @njit
        def inner(x):
            return twice(x) + 1
        @register_jitable(inline="always")
        def outer(x):
            return inner(x) * 2
        @njit
        def f(x):
            return outer(x) + 1
        print(inner(1), f(3), bool(Events.seen))
        """
    assert run(body)[0] == "3 15 True\n"
    assert run(body)[0] == "3 15 False\n"


@pytest.mark.long
def test_attributes_and_methods_that_are_inlined(run):
    body = """
        import numpy as np
        from numba import types
        from numba.extending import overload_attribute, overload_method
        @overload_attribute(types.Array, "first", inline="always")
        def _(a):
            return lambda a: a[0]
        @overload_method(types.Array, "last", inline="always")
        def _(a):
            return lambda a: a[-1]
        @njit
        def f(x):
            a = np.array([x, 2 * x])
            return a.first + a.last()
        print(f(1.5), nbcache.stats()["errors"])
        """
    assert run(body)[0] == "4.5 {}\n"
    assert run(body)[0] == "4.5 {}\n"


@pytest.mark.long
def test_what_a_pipeline_initialises_when_loaded_is_not_lost(run):
    body = """
        class Initialising(compiler.Compiler):
            def __init__(self, *args):
                super().__init__(*args)
                self.state.reload_init.append(print)
        @njit(pipeline_class=Initialising)
        def g(x):
            return x + 1
        @njit
        def f(x):
            return g(x)
        print(f(1), Events.seen)
        """
    assert run(body)[0] == run(body)[0] == "2 ['f', 'g']\n"


CYTHON = """
import ctypes, os
from numba.extending import get_cython_function_address
from numba.types import WrapperAddressProtocol, float64
import scipy.special.cython_special

def get(protocol):
    name = os.environ.get("NAME", "ndtr")
    fused = "__pyx_fuse_1" + name
    name = fused if fused in scipy.special.cython_special.__pyx_capi__ else name
    address = get_cython_function_address("scipy.special.cython_special", name)
    class Named(WrapperAddressProtocol):
        def __wrapper_address__(self):
            return address
        def signature(self):
            return float64(float64)
    return Named() if protocol else ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
"""


@pytest.mark.long
@pytest.mark.parametrize("protocol", [False, True])
def test_a_function_of_a_cython_module_is_known_by_its_name(run, protocol):
    body = f"""{CYTHON}
function = get({protocol})
FORBID
@njit
def g(x):
    return function(x)
@njit
def f(x):
    return g(x) + function(-x)
print(f(0.5), len(Events.seen))
"""
    assert run(body.replace("FORBID", ""), **proc.SCIPY)[0] == "1.0 2\n"
    assert run(body.replace("FORBID", "forbid()"), **proc.SCIPY)[0] == "1.0 0\n"
    assert run(body.replace("FORBID", ""), NAME="ndtri", **proc.SCIPY)[0] == "nan 2\n"


@pytest.mark.long
def test_an_object_that_tells_where_a_function_of_a_library_is_counts_by_its_place(run):
    body = """
        import ctypes, os
        from numba.types import WrapperAddressProtocol, float64
        class Wrapped(WrapperAddressProtocol):
            def __init__(self, name):
                self.address = ctypes.cast(ctypes.CDLL("libm.so.6")[name], ctypes.c_void_p).value
            def __wrapper_address__(self):
                return self.address
            def signature(self):
                return float64(float64)
        function = Wrapped(os.environ.get("NAME", "cos"))
        {forbid}
        @njit
        def f(x):
            return function(x)
        first = f(0.0)
        # What stands for another function by then is another function.
        function.address = Wrapped("exp" if first else "cos").address
        @njit
        def g(x):
            return function(x)
        print(first, g(1.0) > 2, Events.seen)
        """
    assert run(body.format(forbid=""))[0] == "1.0 True ['f', 'g']\n"
    assert run(body.format(forbid="forbid()"))[0] == "1.0 True []\n"
    assert run(body.format(forbid=""), NAME="sin")[0].startswith("0.0 False ['f'")


@pytest.mark.long
def test_a_class_of_an_extension_module_counts_by_the_modules_file(run):
    body = """
        import _cffi_backend
        from numba.extending import overload
        class Helper:
            def load(self):
                return _cffi_backend.FFI()
        def helped(x):
            return Helper
        @overload(helped)
        def choose(x):
            return lambda x: x + 1
        {forbid}
        @njit
        def f(x):
            return helped(x)
        print(f(1))
        """
    assert run(body.format(forbid=""))[0] == run(body.format(forbid="forbid()"))[0] == "2\n"


@pytest.mark.long
def test_what_lru_cache_wraps_is_part_of_the_key(run):
    body = """
        import functools
        from numba.extending import overload
        @functools.lru_cache
        def scale(bits):
            return bits * FACTOR
        def scaled(x):
            ...
        @overload(scaled)
        def choose(x):
            factor = scale(x.bitwidth)
            return lambda x: x * factor
        @njit
        def f(x):
            return scaled(x)
        print(f(1), len(Events.seen))
        """
    assert run(body.replace("FACTOR", "2"))[0] == "128 2\n"
    assert run(body.replace("FACTOR", "3"))[0] == "192 2\n"
    assert run(body.replace("FACTOR", "2"))[0] == "128 0\n"


@pytest.mark.long
def test_compiling_a_function_with_locals_leaves_its_identity_alone(run):
    body = """
        from numba import types
        @njit(locals={"total": types.TYPE})
        def g(x):
            total = x
            total = total + 1
            return total
        @njit
        def f(x):
            return g(x) + 1
        @njit
        def h(x):
            return g(x) + 2
        print(f(1.5), h(1.5), len(Events.seen))
        """
    assert run(body.replace("TYPE", "float32"))[0] == "3.5 4.5 3\n"
    assert run(body.replace("TYPE", "float32"))[0] == "3.5 4.5 0\n"
    assert run(body.replace("TYPE", "int64"))[0] == "3 4 3\n"


@pytest.mark.long
def test_enable_works_where_the_environment_does_not_count(tmp_path):
    """Under -I the program alone says where the cache is."""
    program = f"""
import nbcache
nbcache.enable({str(tmp_path / "said")!r})
from numba import njit
@njit
def f(x): return x + 1
print(f(1), sum(nbcache.stats()["hits"].values()))
"""
    for hits in (0, 1):
        done = proc.run(["-I", "-c", program], tmp_path / "unsaid")
        assert (done.stdout, done.stderr) == (f"2 {hits}\n", "")
    quiet = proc.run(["-I", "-c", "from numba import njit\nprint(njit(lambda x: x)(1))"], tmp_path / "unsaid")
    assert (quiet.stdout, quiet.stderr) == ("1\n", "")
    assert not (tmp_path / "unsaid").exists()


OPTION = 'llvm.set_option("app", "-force-vector-width=1")'
RULE = "rules.default_casting_rules.promote(types.float64, types.int8)"


@pytest.mark.long
@pytest.mark.parametrize(
    ("early", "told"),
    [
        pytest.param(True, OPTION, id="an option of LLVM, before Numba is imported"),
        pytest.param(False, OPTION, id="an option of LLVM, after"),
        pytest.param(True, RULE, id="a rule of conversion, before"),
        pytest.param(False, RULE, id="a rule of conversion, after Numba is imported"),
    ],
)
def test_what_is_compiled_once_somebody_told_the_compiler_something_is_this_process_s_own(tmp_path, early, told):
    """Neither can be read from anywhere, nor taken back."""
    program = tmp_path / "program.py"
    enable = f"import nbcache; nbcache.enable({str(tmp_path / 'store')!r})"
    imports = "import llvmlite.binding as llvm\nfrom numba import njit, types\nfrom numba.core.typeconv import rules"
    head = f"{enable}\n{imports}" if early else f"{imports}\n{enable}"
    body = (
        "@njit\ndef f(x):\n    return x\nprint(f(2.0), bool(nbcache.stats()['hits']), nbcache.stats()['uncacheable'])"
    )

    def run(said: str) -> tuple[str, str, str]:
        program.write_text(f"{head}\n{said}\n{body}\n")
        result, hits, reasons = proc.run([program], None, {}).stdout.split(maxsplit=2)
        return result, hits, reasons

    assert run("")[:2] == ("2.0", "False")
    assert run("")[:2] == ("2.0", "True")
    for _ in range(2):
        result, hits, reasons = run(told)
        assert (result, hits) == ("2.0", "False")
        assert "told the compiler" in reasons
    assert run("")[:2] == ("2.0", "True")
