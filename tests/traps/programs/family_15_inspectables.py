"""Family 15: what a user can look at and go on with after a hit is what it is after a compilation."""

from ..harness import Program, main, trap

_DISPATCHER = """
    @njit
    def g(x):
        return x + 1

    @njit
    def f(x, y=2):
        return g(x) * y

    show("int", f, 1)
    show("float", f, 1.5)
    show("two", f, 1, 2)
    show("signatures", lambda: list(map(str, f.signatures)))
    show("nopython_signatures", lambda: list(map(str, f.nopython_signatures)))
    show("types of overloads", lambda: [str(k) for k in f.overloads])
    show("callee signatures", lambda: sorted(map(str, g.signatures)))
    show("name", lambda: (f.__name__, f.__qualname__, f.__module__))
    show("entry", lambda: [c.entry_point is not None for c in f.overloads.values()])
    show("fndesc", lambda: [(c.fndesc.qualname, [str(t) for t in c.fndesc.argtypes]) for c in f.overloads.values()])
    show("compile result", lambda: [str(f.get_compile_result(s).signature) for s in f.nopython_signatures])
    """

_INSPECT = """
    import contextlib
    import io

    @njit
    def f(x):
        y = x + 1
        return y * 2.5

    f(1)

    def types_shown():
        out = io.StringIO()
        f.inspect_types(file=out)
        text = out.getvalue()
        return "int64" in text, "float64" in text, "y = x + 1" in text

    show("inspect_types", types_shown)
    show("inspect_llvm", lambda: ["define" in text for text in f.inspect_llvm().values()])
    show("inspect_llvm of one", lambda: "fmul" in f.inspect_llvm(f.signatures[0]))
    show("inspect_asm", lambda: ["mulsd" in text for text in f.inspect_asm().values()])
    show("inspect_cfg", lambda: [type(c).__name__ for c in f.inspect_cfg().values()])
    show("stats", lambda: type(f.stats).__name__ + str(len(f.stats)))
    show("metadata", lambda: [isinstance(f.get_metadata(s), dict) and sorted(f.get_metadata(s)) for s in f.signatures])
    show("no parallel diagnostics", lambda: f.parallel_diagnostics())
    """

_DUFUNC_GROWN = """
    from numba import vectorize

    @vectorize
    def u(x, y):
        return x + y

    @njit
    def grows(a, b):
        return u(a, b)

    show("before", lambda: (u.types, u.ntypes))
    show("floats from jitted code", grows, np.arange(3.0), 1.0)
    show("after", lambda: (u.types, u.ntypes))
    show("ints", u, np.arange(3), 2)
    show("at the end", lambda: (u.types, u.ntypes, u.nin, u.nout, u.nargs))
    show("float32", u, np.arange(3, dtype="f4"), np.float32(2))
    show("and then", lambda: u.types)
    show("reduce", u.reduce, np.arange(4))
    """

_VECTORIZED = """
    from numba import vectorize, guvectorize

    @vectorize(["int64(int64, int64)", "float64(float64, float64)"], identity=0)
    def u(x, y):
        \"\"\"Doc.\"\"\"
        return x + y

    @guvectorize(["void(int64[:], int64[:])", "void(float64[:], float64[:])"], "(n)->(n)")
    def g(a, out):
        for i in range(a.shape[0]):
            out[i] = a[i] * 2

    show("u.types", lambda: (u.types, u.ntypes, u.identity, u.__name__, u.__doc__))
    show("g.types", lambda: (g.types, g.signature))
    show("accumulate", u.accumulate, np.arange(4))
    show("outer", u.outer, np.arange(2), np.arange(3.0))
    show("bools", u, np.array([True, False]), True)
    show("g of uint8", g, np.arange(3, dtype="u1"))
    """

_GENERATORS = """
    @njit
    def numbers(n):
        for i in range(n):
            yield i * 1.5

    @njit
    def squares(n):
        for x in numbers(n):
            yield x * x

    @njit
    def total(n):
        s = 0.0
        for x in squares(n):
            s += x
        return s

    show("total", total, 4)
    show("list", lambda: list(squares(3)))
    show("type", lambda: str(numbers.nopython_signatures[0].return_type))

    def partly():
        it = numbers(5)
        first = next(it), next(it)
        del it
        return first

    show("partly", partly)
    """

_OBJMODE = """
    from numba import objmode, jit

    @njit
    def f(x):
        y = x * 2
        with objmode(z="float64"):
            z = float(str(y)) + len(repr([y]))
        return z + y

    @jit(forceobj=True)
    def g(x):
        return {"x": x, "list": [x] * 2}

    show("objmode", f, 3)
    show("forceobj", g, 3)
    show("signatures", lambda: (list(map(str, f.signatures)), list(map(str, g.signatures))))
    """

_LOOPLIFT = """
    from numba import jit

    @jit(forceobj=True, looplift=True)
    def f(n):
        names = {"a": object}
        s = 0
        for i in range(n):
            s += i
        return s, sorted(names)

    show("f", f, 5)
    show("float", f, np.int8(5))
    show("lifted", lambda: [len(c.lifted) for c in f.overloads.values()])
    """

_LOOPS_SHOWN = f"""{_LOOPLIFT}
    import io

    def shown():
        out = io.StringIO()
        f.inspect_types(file=out)
        return [line.strip(" #") for line in out.getvalue().splitlines() if "overloads" in line or "lifted" in line]

    show("annotation", shown)
    """

_CFUNC = """
    from numba import cfunc, njit
    from numba import types

    @cfunc("float64(float64, int64)")
    def c(x, n):
        return x * n

    @njit
    def apply(function, x):
        return function(x, 3)

    show("ctypes", c.ctypes, 1.5, 2)
    show("signature", lambda: (str(c._sig), c.native_name != "", c.address > 0))
    show("llvm", lambda: "define" in c.inspect_llvm())
    show("as an argument", apply, c, 2.0)
    """

_AFTER_A_HIT = """
    @njit
    def g(x):
        return x + 1

    @njit
    def f(x):
        return g(x) * 2

    show("f", f, 1)

    @njit
    def new_caller(x):
        return f(x) + g(x)

    show("new caller of a hit", new_caller, 1)
    show("new signature", f, 1.5)
    f.compile("complex128(complex128)")
    show("compiled by hand", f, 1j)
    show("signatures", lambda: list(map(str, f.signatures)))
    f.disable_compile()
    show("disabled", f, "text")
    show("still there", f, 2)
    """

_JITCLASS_FROM_PYTHON = """
    from numba import int64, float64, types, typed
    from numba.experimental import jitclass

    @jitclass([("n", int64), ("items", types.ListType(float64))])
    class Bag:
        def __init__(self, n):
            self.n = n
            self.items = typed.List.empty_list(float64)

        def add(self, x):
            self.items.append(x)
            self.n += 1
            return self.n

        @property
        def count(self):
            return len(self.items)

        @staticmethod
        def twice(x):
            return x * 2

    bag = Bag(10)
    show("add", bag.add, 1.5)
    show("n", lambda: bag.n)
    show("count", lambda: bag.count)
    show("static", Bag.twice, 4)
    bag.n = 99
    show("set", lambda: bag.n)
    show("class", lambda: (type(bag).__name__, Bag.class_type.class_name))
    """

_STRUCTREF = """
    from numba import types
    from numba.experimental import structref

    @structref.register
    class PairType(types.StructRef):
        def preprocess_fields(self, fields):
            return tuple((name, types.unliteral(typ)) for name, typ in fields)

    class Pair(structref.StructRefProxy):
        def __new__(cls, a, b):
            return structref.StructRefProxy.__new__(cls, a, b)

        @property
        def a(self):
            return get_a(self)

    @njit
    def get_a(self):
        return self.a

    structref.define_proxy(Pair, PairType, ["a", "b"])

    @njit
    def total(p):
        return p.a + p.b

    show("total", total, Pair(1, 2.5))
    show("attribute", lambda: Pair(7, 2.5).a)
    """

_STENCIL = """
    from numba import stencil

    @stencil
    def s(a, k):
        return k * (a[-1] + a[1])

    @njit
    def f(a):
        return s(a, 2)

    show("from Python", s, np.arange(5.0), 3)
    show("from jitted code", f, np.arange(5.0))
    show("ints", s, np.arange(4), 1)
    """

_LITERALLY = """
    from numba import literally, literal_unroll

    @njit
    def f(x, n):
        return x ** literally(n)

    @njit
    def g():
        total = 0.0
        for v in literal_unroll((1, 2.5, True)):
            total += v
        return total

    @njit
    def varargs(*args):
        return len(args), args

    show("literally", f, 2.0, 3)
    show("again", f, 2.0, 4)
    show("unrolled", g)
    show("varargs", varargs, 1, 2.0, "x")
    show("signatures", lambda: sorted(map(str, f.signatures)))
    """


def _same(name: str, body: str, **options) -> Program:
    """Return a program that shows the same once its functions come from the cache (see `Program.rerun`)."""
    return trap(f"inspect-{name}", 15, {"main.py": main(body)}, differs=False, **options)


_CONTEXTS = """
    @njit
    def f(x):
        return x + 1

    @njit
    def g(x):
        return x * 2

    def context(function):
        return function.overloads[function.signatures[0]].target_context

    show("f", f, 1)
    context(f).note = "mine"
    context(f).enable_debuginfo = True
    show("g", g, 2)
    show("of g", lambda: (hasattr(context(g), "note"), context(g).enable_debuginfo, context(f) is context(g)))
"""

PROGRAMS = (
    _same("dispatcher", _DISPATCHER),
    _same("contexts-of-results", _CONTEXTS),
    _same("inspect-functions", _INSPECT, rerun="same"),
    _same("dufunc-grown-by-a-caller", _DUFUNC_GROWN),
    _same("ufunc-and-gufunc", _VECTORIZED),
    _same("generators", _GENERATORS),
    _same("objmode", _OBJMODE),
    _same("lifted-loops", _LOOPLIFT),
    _same("annotation-of-lifted-loops", _LOOPS_SHOWN, rerun="same"),
    _same("cfunc", _CFUNC),
    _same("going-on-after-a-hit", _AFTER_A_HIT, rerun="same"),
    _same("jitclass-from-python", _JITCLASS_FROM_PYTHON),
    _same("structref", _STRUCTREF),
    _same("stencil", _STENCIL),
    _same("literally-and-varargs", _LITERALLY),
)
