"""Family 1, constants: a value that a jitted function captures is edited in another file."""

from ..harness import Program, main, py, replaced, trap


def constant(name: str, body: str, before: str, after: str, head: str = "", **options) -> Program:
    """Return a program that uses something of `cfg.py`, which changes from `before` to `after`."""
    head = py(head)
    files = {"main.py": main(body), "cfg.py": head + before + "\n"}
    return trap(f"constant-{name}", 1, files, {"cfg.py": head + after + "\n"}, **options)


_IMPORTED = constant(
    "imported",
    """
    from cfg import K

    @njit
    def f(x):
        return x * K

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_ATTRIBUTE = constant(
    "module-attribute",
    """
    import cfg

    @njit
    def f(x):
        return x * cfg.K

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_GETATTR = constant(
    "getattr",
    """
    import cfg

    @njit
    def f(x):
        return x * getattr(cfg, "K")

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_LOCAL_ALIAS = constant(
    "module-in-a-local",
    """
    import cfg

    @njit
    def f(x):
        c = cfg
        if x > 100:
            d = c
        else:
            d = c
        return x * d.K

    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_PACKAGE_FILES = {
    "main.py": main("""
        import pkg
        import pkg.cfg

        def make(p):
            @njit
            def f(x):
                return x * p.cfg.K
            return f

        @njit
        def g(x):
            return x * pkg.cfg.K

        show("module in a cell", make(pkg), 2)
        show("module in a global", g, 2)
    """),
    "pkg/__init__.py": "",
    "pkg/cfg.py": "K = 3\n",
}
_PACKAGE = trap("constant-package-attribute", 1, _PACKAGE_FILES, {"pkg/cfg.py": "K = 4\n"})

_TUPLES = constant(
    "tuples",
    """
    import cfg

    @njit
    def flat():
        return cfg.FLAT

    @njit
    def nested():
        return cfg.NESTED[1][0], cfg.NESTED

    @njit
    def mixed():
        return cfg.MIXED

    show("flat", flat)
    show("nested", nested)
    show("mixed", mixed)
    """,
    "FLAT = (1, 2)\nNESTED = (1, (2, (3, 4)))\nMIXED = (1, 'a', 2.5)",
    "FLAT = (1, 3)\nNESTED = (1, (2, (3, 5)))\nMIXED = (1, 'b', 2.5)",
)

_TUPLE_LENGTH = constant(
    "tuple-length",
    """
    import cfg

    @njit
    def f():
        total = 0
        for i in range(len(cfg.T)):
            total += cfg.T[i]
        return total, len(cfg.T)

    show("f", f)
    """,
    "T = (1, 2)",
    "T = (1, 2, 0)",
)

_STRINGS = constant(
    "strings-and-bytes",
    """
    import cfg

    @njit
    def text():
        return cfg.S + "!"

    @njit
    def raw():
        return cfg.B[0], len(cfg.B)

    @njit
    def choose(x):
        if cfg.MODE == "add":
            return x + 1
        return x - 1

    show("text", text)
    show("raw", raw)
    show("choose", choose, 5)
    """,
    "S = 'abc'\nB = b'abc'\nMODE = 'add'",
    "S = 'ab\\u00e9'\nB = b'bbc'\nMODE = 'sub'",
)

_DEFAULTS_FILES = {
    "main.py": main("""
        import cfg
        from cfg import callee

        @njit
        def f(x, k=cfg.K):
            return x * k

        @njit
        def keyword_only(x, *, k=cfg.K):
            return x * k

        @njit
        def caller(x):
            return callee(x)

        show("default", f, 2)
        show("keyword only", keyword_only, 2)
        show("callee", caller, 2)
    """),
    "cfg.py": py("""
        from numba import njit

        K = 3

        @njit
        def callee(x, k=K):
            return x * k
    """),
}
_DEFAULTS = trap("constant-default-arguments", 1, _DEFAULTS_FILES, replaced(_DEFAULTS_FILES, "cfg.py", ("= 3", "= 4")))

_CELL_CHANGED = constant(
    "cell-changed-before-the-first-call",
    """
    import cfg

    def make():
        k = 1

        @njit
        def f(x):
            return x * k

        def change(value):
            nonlocal k
            k = value

        return f, change

    f, change = make()
    change(cfg.K)
    show("f", f, 2)
    """,
    "K = 3",
    "K = 4",
)

_CELL_FACTORY = constant(
    "closure-cells",
    """
    import cfg

    def outer(a):
        def middle(b):
            @njit
            def f(x):
                return x * a + b
            return f
        return middle

    show("f", outer(cfg.K)(cfg.K + 1), 10)
    show("g", outer(5)(cfg.K), 10)
    """,
    "K = 3",
    "K = 4",
)

_INNER_FUNCTION = constant(
    "used-by-an-inner-function",
    """
    import cfg
    from cfg import g, K

    @njit
    def f(x):
        def inner(y):
            return g(y) + K
        return inner(x) + sum([K * i for i in range(3)])

    show("f", f, 1)
    """,
    "K = 3\n@njit\ndef g(x):\n    return x",
    "K = 4\n@njit\ndef g(x):\n    return -x",
    head="from numba import njit\n",
)

_NONE = constant(
    "none-and-optional",
    """
    from cfg import LIMIT

    @njit
    def f(x):
        if LIMIT is None:
            return x
        return min(x, LIMIT)

    show("f", f, 10)
    """,
    "LIMIT = None",
    "LIMIT = 5",
)

_BUILTIN_SHADOWED = constant(
    "global-that-hides-a-builtin",
    """
    from cfg import *

    @njit
    def f(x, y):
        return max(x, y)

    show("f", f, 1, 2)
    """,
    "unused = 1",
    "max = min",
)

PROGRAMS = (
    _IMPORTED,
    _ATTRIBUTE,
    _GETATTR,
    _LOCAL_ALIAS,
    _PACKAGE,
    _TUPLES,
    _TUPLE_LENGTH,
    _STRINGS,
    _DEFAULTS,
    _CELL_CHANGED,
    _CELL_FACTORY,
    _INNER_FUNCTION,
    _NONE,
    _BUILTIN_SHADOWED,
)
