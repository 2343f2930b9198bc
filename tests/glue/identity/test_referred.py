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
