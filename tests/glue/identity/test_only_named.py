"""What compiled code only refers to, and types that stand for how something is done: they keep nothing from being shared."""

import pytest

HASHING = """
    @njit
    def {name}(x):
        return hash(x) != {number}
    print({name}({value}), [name for name in Events.seen if not name.startswith({name!r})])
    """


LONG = pytest.mark.long


@pytest.mark.long
@pytest.mark.parametrize(
    "value",
    ["4", pytest.param("'text'", marks=LONG), "(1, 2.5)", pytest.param("np.datetime64(3, 'D')", marks=LONG)],
)
def test_methods_that_are_passed_around_inside_numba(run, value):
    assert run(HASHING.format(name="first", number=30, value=value))[0] != "True []\n"
    assert run(HASHING.format(name="second", number=40, value=value))[0] == "True []\n"


LIBRARY = """
    import ctypes, ctypes.util
    mathematics = ctypes.CDLL(ctypes.util.find_library("m"))
    def function(name, result=ctypes.c_double, *arguments):
        found = mathematics[name]
        found.argtypes, found.restype = arguments or (ctypes.c_double,), result
        return found
    cosine, sine = function("cos"), function("sin")
    """
USERS = """
    first, second = {first}, {second}
    @njit
    def f(x):
        return first(x) + 2 * second(x)
    print(round(f(1.0), 6), Events.seen)
    """


@pytest.mark.long
def test_a_foreign_function_is_bound_where_it_is(run):
    def said(first, second):
        return run(LIBRARY + USERS.format(first=first, second=second))[0]

    assert said("cosine", "sine") == "2.223244 ['f']\n"
    # A C function counts by library and symbol.
    assert said("sine", "cosine") == "1.922076 ['f']\n"
    assert said("sine", "sine") == "2.524413 ['f']\n"
    assert said("cosine", "cosine") == "1.620907 ['f']\n"
    assert said("cosine", "sine") == "2.223244 []\n"
    single = 'function("cosf", ctypes.c_float, ctypes.c_float)'
    assert said(single, "sine") == "2.223244 ['f']\n"


@pytest.mark.long
def test_callbacks_of_ctypes_and_functions_of_cffi(run):
    pytest.importorskip("cffi")
    program = """
        import cffi, ctypes
        ffi = cffi.FFI()
        ffi.cdef("double cos(double); double fabs(double);")
        library = ffi.dlopen(None)
        absolute = library.{name}
        @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
        def callback(x):
            return x * {factor}
        @ffi.callback("double(double)")
        def other(x):
            return x + {factor}
        @njit
        def f(x):
            return absolute(x), callback(x), other(x)
        print(f(-2.0), Events.seen)
        """
    assert run(program.format(name="fabs", factor=3))[0] == "(2.0, -6.0, 1.0) ['f']\n"
    assert run(program.format(name="fabs", factor=5))[0] == "(2.0, -10.0, 3.0) []\n"


CALLED = """
    import ctypes
    from numba.extending import overload
    size = ctypes.CFUNCTYPE(ctypes.c_long)(lambda: {size})
    def sized():
        pass
    @overload(sized)
    def choose_sized():
        return (lambda: 1) if size() == 1 else (lambda: 2)
    @njit
    def f():
        return sized()
    print(f())
    """


def test_a_foreign_function_that_is_called_while_compiling_counts(run):
    for size in (1, 2, 1):
        assert run(CALLED.format(size=size))[0] == f"{size}\n"


REBOUND = """
    pointer = cosine
    @njit
    def g(x):
        return pointer(x)
    @njit
    def f(x):
        return g(x) + 1 {unused}
    {early}
    pointer = sine
    print(round(f(1.0), 6))
    """


@pytest.mark.long
@pytest.mark.parametrize("unused", ["", "+ 0 * cosine(x) + 0 * sine(x)"])
def test_who_was_compiled_earlier_keeps_its_pointer(run, unused):
    early, late = (LIBRARY + REBOUND.format(early=early, unused=unused) for early in ("g(1.0)", ""))
    for _ in range(2):
        assert run(early)[0] == "1.540302\n"
        assert run(late)[0] == "1.841471\n"
        assert run(early)[0] == "1.540302\n"


@pytest.mark.long
def test_what_a_hit_promises_keeps_its_pointer(run):
    program = LIBRARY + REBOUND.format(early="f(1.0)", unused="") + "print(round(g(1.0), 6))\n"
    for _ in range(2):
        assert run(program)[0] == "1.540302\n0.540302\n"


STUB = """
    import os
    from numba.extending import overload
    state = {hash(os.urandom(8)): 1}  # another one in each process
    def stub(x):
        return x + len(state)
    @overload(stub)
    def choose(x):
        return lambda x: x + 1
    @njit
    def f(x):
        return stub(x)
    print(f(1), Events.seen)
    """


def test_what_a_stub_would_do_in_python_does_not_count(run):
    assert run(STUB)[0].startswith("2 ['f'")
    assert run(STUB)[0] == "2 []\n"


CHOSEN = """
    import os
    from numba.extending import overload, register_jitable
    number = int(os.environ["APP_NUMBER"])
    @register_jitable
    def helper(x):
        return x + number
    def same(x):
        return x * number
    @overload(same)
    def choose(x):
        return same
    def make(number):
        def stub(x):
            pass
        @overload(stub)
        def choose(x):
            return lambda x: x - number
        return stub
    first, second = make(number), make(10)
    @njit
    def f(x):
        return helper(x), same(x), first(x), second(x)
    print(f(5), Events.seen)
    """


def test_what_is_chosen_for_a_function_counts_though_it_is_that_itself(run):
    for number in (1, 2, 3):
        assert run(CHOSEN, APP_NUMBER=str(number))[0].startswith(f"({5 + number}, {5 * number}, {5 - number}, -5) ['f'")
    for number in (1, 2, 3):
        assert run(CHOSEN, APP_NUMBER=str(number))[0] == f"({5 + number}, {5 * number}, {5 - number}, -5) []\n"


READ = """
    from numba.core import ir
    from numba.core.rewrites import Rewrite, register_rewrite
    from numba.extending import overload
    def stub():
        return {number}
    @overload(stub)
    def choose():
        return lambda: 0
    @register_rewrite("before-inference")
    class Calls(Rewrite):
        def match(self, func_ir, block, typemap, calltypes):
            self.block, assigned = block, [*block.find_insts(ir.Assign)]
            self.stubs = [each.value for each in assigned if type(each.value) is ir.Global and each.value.name == "stub"]
            self.constants = [each for each in assigned if type(each.value) is ir.Const and each.value.value == 77]
            return bool(self.stubs and self.constants)
        def apply(self):
            for each in self.constants:
                each.value = ir.Const(self.stubs[0].value(), each.loc)
            return self.block
    @njit
    def f():
        return stub() + 77
    print(f())
    """


def test_a_stub_counts_where_somebodys_pass_may_look_at_it(run):
    for number in (1, 2, 1):
        assert run(READ.format(number=number))[0] == f"{number}\n"


OBJECTS = """
    import sys
    from numba import jit
    def make(number):
        def helper(x):
            return x + number
        @jit(forceobj=True)
        def f(x):
            return helper(x)
        return f
    print([make(number)(1) for number in {numbers}])
    """


def test_code_in_object_mode_calls_its_own_functions(run):
    for numbers in ([1, 2], [2, 1], [3], [1, 2, 3]):
        assert run(OBJECTS.format(numbers=numbers))[0] == f"{[number + 1 for number in numbers]}\n"
