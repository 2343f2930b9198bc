"""Family 14: what must hit and easily doesn't: in the last step nothing that matters has changed."""

from ..harness import Program, Step, main, py, trap

_BASIC = {
    "main.py": main("""
        from lib import g, K

        @njit
        def f(x):
            return g(x) * K

        def make(k):
            @njit
            def inner(x):
                return f(x) + k
            return inner

        show("f", f, 1)
        show("closure", make(5), 2)
        show("array", f, np.arange(3))
    """),
    "lib.py": py("""
        from numba import njit

        K = 3

        @njit
        def g(x):
            return x + 1
    """),
}

_CLOSURES = {
    "main.py": main("""
        def compose(outer, inner):
            @njit
            def composed(x):
                return outer(inner(x))
            return composed

        @njit
        def double(x):
            return x * 2

        increment = njit(lambda x: x + 1)
        f = compose(double, increment)
        g = compose(f, f)
        h = compose(g, compose(increment, double))
        for name, function in (("f", f), ("g", g), ("h", h)):
            show(name, function, 3)
            show(name, function, 0.5)
    """)
}

_TUPLES_OF_CLOSURES = {
    "main.py": main("""
        import random

        def make(k):
            @njit
            def add(x):
                return x + k
            return add

        @njit
        def each(functions, x):
            return functions[0](x) * 100 + functions[1](x) * 10 + functions[2](x)

        # Their names differ in their addresses alone, which are in another order in each process.
        order = [*range(40)]
        random.SystemRandom().shuffle(order)
        made = {k: make(k) for k in order}
        for start in range(0, 39, 3):
            show("three", each, (made[start], made[start + 2], made[start + 1]), 1)
    """)
}

_GENERATED = {
    "main.py": main("""
        import functools

        def generate(expression):
            space = {}
            exec(f"def generated(x):\\n    return {expression}\\n", space)
            return njit(space["generated"])

        show("exec", generate("x + 1"), 1)
        show("exec of the same name", generate("x + 2"), 1)
        show("lambda", njit(lambda x: x - 1), 1)
        functions = [njit(eval(f"lambda x: x * {k}")) for k in range(3)]
        show("eval", lambda: [f(10) for f in functions])
    """)
}

_JITCLASS = {
    "main.py": main("""
        from numba import int64, float64
        from numba.experimental import jitclass

        @jitclass([("n", int64), ("x", float64)])
        class Box:
            def __init__(self, n):
                self.n = n
                self.x = n / 2

            def scaled(self, k):
                return self.x * k

        @njit
        def use(box, k):
            return box.scaled(k) + box.n

        @njit
        def build(n):
            return Box(n).scaled(3)

        show("argument", use, Box(4), 2)
        show("constructed inside", build, 4)
    """)
}

_CONTAINERS = {
    "main.py": main("""
        from numba import typed, types

        @njit
        def total(values):
            s = 0
            for x in values:
                s += x
            return s

        @njit
        def lookup(d, k):
            return d[k]

        @njit
        def listed(n):
            return [i * 2 for i in range(n)]

        values = typed.List()
        values.append(3)
        values.append(4)
        d = typed.Dict.empty(types.unicode_type, types.float64)
        d["a"] = 1.5
        show("list", total, values)
        show("dict", lookup, d, "a")
        show("reflected", total, [1, 2, 3])
        show("built", listed, 3)
        show("tuple", total, (1, 2, 3))
    """)
}

_KINDS = {
    "main.py": main("""
        from numba import vectorize, guvectorize, cfunc

        @vectorize(["float64(float64)", "int64(int64)"])
        def u(x):
            return x + 1

        @guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
        def g(a, out):
            for i in range(a.shape[0]):
                out[i] = a[i] * 2

        @cfunc("float64(float64)")
        def c(x):
            return x * 3

        @njit("int64(int64)")
        def eager(x):
            return x + 4

        show("ufunc", u, np.arange(3.0))
        show("ufunc of int", u, np.arange(3))
        show("gufunc", g, np.arange(3.0))
        show("cfunc", c.ctypes, 2.0)
        show("eager", eager, 1)
    """)
}

_DUFUNC = {
    "main.py": main("""
        from numba import vectorize

        @vectorize
        def u(x, y):
            return x + y

        @njit
        def f(a):
            return u(a, a)

        show("int", u, np.arange(3), 1)
        show("float", u, np.arange(3.0), 1.5)
        show("from jitted code", f, np.arange(3.0))
        show("reduce", u.reduce, np.arange(4))
        show("types", lambda: u.types)
    """)
}

_LIBRARY = {
    "main.py": main("""
        @njit
        def statistics(a):
            return a.mean(), np.median(a), np.sort(a)[0]

        @njit
        def text(s):
            return s.upper() + str(len(s)) + s[::-1]

        @njit
        def dictionary(n):
            d = dict()
            for i in range(n):
                d[i % 3] = i
            total = 0
            for v in d.values():
                total += v * v
            return total, d[1]

        show("statistics", statistics, np.array([3.0, 1.0, 2.0]))
        show("text", text, "abc")
        show("dictionary", dictionary, 7)
    """)
}

_ARGUMENTS = {
    "main.py": main("""
        from collections import namedtuple
        from enum import Enum

        P = namedtuple("P", "x y")

        class Colour(Enum):
            RED = 1
            BLUE = 2

        @njit
        def fields(p):
            return p.x + p.y

        @njit
        def is_red(c):
            return c == Colour.RED

        @njit
        def defaults(x, y=2, *rest):
            return x + y + len(rest)

        @njit
        def optional(x):
            if x is None:
                return 0
            return x

        @njit
        def row(r):
            return r.a + r["b"]

        @njit
        def dates(d, days):
            return d + days

        @njit
        def slices(a, s):
            return a[s].sum()

        rows = np.zeros(2, np.dtype([("a", "i4"), ("b", "f8")]))
        show("namedtuple", fields, P(1, 2.5))
        show("enum", is_red, Colour.RED)
        show("default", defaults, 1)
        show("more", defaults, 1, 2, 3, 4)
        show("none", optional, None)
        show("number", optional, 5)
        show("record", row, rows[0])
        show("date", dates, np.datetime64("2020-01-01"), np.timedelta64(1, "D"))
        show("slice", slices, np.arange(6), slice(1, 5, 2))
        show("keyword", defaults, x=1, y=5)
        show("fortran", slices, np.asfortranarray(np.arange(6.0)), slice(0, 2))
        show("complex64", lambda: optional(np.complex64(1 + 2j)))
    """)
}

_PICKLED = {
    "main.py": main("""
        import cloudpickle
        import sys

        if sys.argv[1] == "direct":
            def make(k):
                @njit
                def f(x):
                    return x + k
                return f
            cloudpickle.register_pickle_by_value(sys.modules["__main__"])
            f = make(3)
            show("f", f, 1)
            open("function.pickle", "wb").write(cloudpickle.dumps(f))
        else:
            show("f", cloudpickle.load(open("function.pickle", "rb")), 1)
    """)
}

_SPAWNED = {
    "main.py": main("""
        import multiprocessing
        import sys
        from lib import g

        @njit
        def f(x):
            return g(x) * 2

        def work(x):
            return f(x)

        if __name__ == "__main__":
            with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
                print(pool.map(work, [1, 2, 3], chunksize=1))
    """),
    "lib.py": _BASIC["lib.py"],
}

_FROM_STDIN = main("""
    @njit
    def f(x):
        return x * 7

    show("f", f, 3)
""")

_DISTINCT_MAINS = {
    "main.py": main("""
        from lib import g

        show("g", g, 5)
    """),
    "other.py": main("""
        # another program that uses the same library

        import lib

        def unrelated():
            return lib.g

        show("g", unrelated(), 5)
    """),
    "lib.py": _BASIC["lib.py"],
}

_PARALLEL = {
    "main.py": main("""
        from numba import prange

        @njit(parallel=True)
        def f(n):
            s = 0
            for i in prange(n):
                s += i
            return s

        show("f", f, 10)
    """)
}

_GENERATORS = {
    "main.py": main("""
        @njit
        def numbers(n):
            for i in range(n):
                yield i * 2

        @njit
        def consume(n):
            s = 0
            for x in numbers(n):
                s += x
            return s

        show("from jitted code", consume, 4)
        show("from Python", lambda: list(numbers(4)))
    """)
}

_THREADS = {
    "main.py": main("""
        import threading

        @njit
        def f(x):
            return x + 1

        @njit
        def g(x):
            return f(x) * 2

        VALUES = [1, 1.5, np.float32(2), 1j, np.arange(3), True, np.int8(3), (1, 2)]
        results = [None] * len(VALUES)
        barrier = threading.Barrier(len(VALUES))

        def work(i):
            barrier.wait()
            try:
                results[i] = g(VALUES[i])
            except Exception as exc:
                results[i] = type(exc).__name__

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(VALUES) - 1)]
        threads.append(threading.Thread(target=work, args=(0,)))
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for value, result in zip(VALUES[:-1], results):
            show(repr(value), lambda: result)
    """)
}


_DEFERRED = {
    "main.py": main("""
        from numba import deferred_type, int64, optional
        from numba.experimental import jitclass

        node_type = deferred_type()

        @jitclass([("data", int64), ("next", optional(node_type))])
        class Node:
            def __init__(self, data, next):
                self.data = data
                self.next = next

        node_type.define(Node.class_type.instance_type)

        @njit
        def f(n):
            first = Node(n, None)
            return Node(n + 1, first)

        @njit
        def g(node):
            return node.data

        show("g", lambda n: g(f(n)), 7)
    """)
}


_MADE_AGAIN = {
    "main.py": main("""
        import collections, enum

        def make(k):
            class Mode(enum.Enum):
                FAST = 1
                SLOW = 2

            Point = collections.namedtuple("Point", "x y")

            @njit
            def f(mode):
                return mode, mode is Mode.SLOW, k

            @njit
            def g(point):
                return Point(point.x, k), 0.5

            return Mode, f, Point, g

        for k in (1, 2):
            Mode, f, Point, g = make(k)
            show("enumeration", f, Mode.SLOW)
            show("named tuple", g, Point(1.5, k))
            print(f(Mode.FAST)[0] is Mode.FAST, type(g(Point(2.5, k))[0]) is Point)
    """)
}
"""Classes of one name, as where a cell of a notebook is run twice."""

_DEBUGGING = {
    "main.py": main("""
        import collections, logging, os, time
        from lib import report

        DEBUG = False
        trace = open(os.devnull, "w")
        adapter = logging.LoggerAdapter(logging.getLogger("app"), {"run": time.time_ns()})

        class Statistics:
            def __init__(self):
                self.started, self.counts = time.time_ns(), collections.Counter()
                self.process = os.getpid()

            def tick(self, name):
                self.counts[name] += 1

        statistics = Statistics()

        @njit
        def to_a_file(x):
            if DEBUG:
                print(x, file=trace)
            return x + 1

        @njit
        def counted(x):
            if DEBUG:
                statistics.tick("counted")
            return x + 2

        @njit
        def logged(x):
            if DEBUG:
                adapter.info("x is %s", x)
            return report(x) + 3

        show("to_a_file", to_a_file, 1)
        show("counted", counted, 1)
        show("logged", logged, 1)
    """),
    "lib.py": py("""
        import threading
        from numba import njit

        VERBOSE = 0
        local = threading.local()

        @njit
        def report(x):
            if VERBOSE:
                local.seen = x
            return x
    """),
}
"""What is only there for looking on leads to what each process has anew."""


def _hits(name: str, files: dict[str, str], *steps: Step, hit: bool = True, **options) -> Program:
    """Return a program that fills the cache with `files` and then must hit."""
    return trap(f"hit-{name}", 14, files, *(steps or (Step(),)), differs=False, hit=hit, **options)


PROGRAMS = (
    _hits("unchanged", _BASIC),
    _hits("touched-files", _BASIC, Step(touch=("main.py", "lib.py"))),
    _hits("edit-below", _BASIC, Step(files={"main.py": _BASIC["main.py"] + "\n# a line\nUNUSED = 1\n"})),
    _hits("edit-above", _BASIC, Step(files={name: "# a line\n\nUNUSED = 2\n" + text for name, text in _BASIC.items()})),
    _hits(
        "edit-of-an-unrelated-function",
        _BASIC,
        Step(files={"lib.py": _BASIC["lib.py"] + "\n\ndef other():\n    return 1\n"}),
    ),
    _hits("moved-tree", _BASIC, Step(move="elsewhere")),
    _hits("second-checkout", _BASIC, Step(copy="second")),
    _hits("other-cwd", _BASIC, Step(files={"sub/empty": ""}, cwd="sub", argv=("../main.py",))),
    _hits(
        "other-home-and-user", _BASIC, Step(env={"HOME": "{root}", "USER": "someone", "TMPDIR": "{home}", "LANG": "C"})
    ),
    _hits("other-hash-seeds", _BASIC, Step(env={"PYTHONHASHSEED": "1"}), Step(env={"PYTHONHASHSEED": "77"})),
    _hits(
        "unrelated-environment", _BASIC, Step(env={"APP_SETTING": "1", "OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"})
    ),
    _hits("closures-over-dispatchers", _CLOSURES),
    _hits("tuples-of-closures", _TUPLES_OF_CLOSURES),
    _hits("generated-functions", _GENERATED),
    _hits("jitclass-argument", _JITCLASS),
    _hits("jitclass-with-a-deferred-type", _DEFERRED),
    _hits("typed-containers", _CONTAINERS),
    _hits("ufuncs-gufuncs-cfuncs-eager", _KINDS),
    _hits("dufuncs", _DUFUNC),
    _hits("debugging-that-is-off", _DEBUGGING),
    _hits("classes-made-again", _MADE_AGAIN),
    _hits("library-functions", _LIBRARY),
    _hits("kinds-of-arguments", _ARGUMENTS),
    _hits("parallel", _PARALLEL),
    _hits("generators", _GENERATORS),
    _hits("eight-threads", _THREADS),
    _hits("spawned-children", Step(files=_SPAWNED, argv=("main.py", "spawn")), Step(argv=("main.py", "spawn"))),
    _hits("forked-children", Step(files=_SPAWNED, argv=("main.py", "spawn")), Step(argv=("main.py", "fork"))),
    _hits("another-program-same-library", _DISTINCT_MAINS, Step(argv=("other.py",))),
    _hits("standard-input", Step(argv=("-",), stdin=_FROM_STDIN), Step(argv=("-",), stdin=_FROM_STDIN)),
    _hits("dash-c", Step(argv=("-c", _FROM_STDIN)), Step(argv=("-c", _FROM_STDIN))),
    _hits("script-then-stdin", {"main.py": _FROM_STDIN}, Step(argv=("-",), stdin=_FROM_STDIN)),
    _hits("run-as-a-module", {"main.py": _FROM_STDIN}, Step(argv=("-m", "main"))),
    _hits("cloudpickle", Step(files=_PICKLED, argv=("main.py", "direct")), Step(argv=("main.py", "loaded"))),
)
