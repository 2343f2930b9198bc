"""Family 1, callees: what a jitted function calls is edited in another file."""

from ..harness import Program, main, py, replaced, trap

LIB = py("""
    from numba import njit

    @njit
    def g(x):
        return x + 1
""")
EDIT = ("x + 1", "x + 2")


def callee(name: str, body: str, lib: str = LIB, edit: tuple[str, str] = EDIT, **options) -> Program:
    """Return a program whose `main.py` reaches something in `lib.py`, which is edited."""
    files = {"main.py": main(body), "lib.py": lib}
    return trap(f"callee-{name}", 1, files, replaced(files, "lib.py", edit), **options)


_DIRECT = callee(
    "from-import",
    """
    from lib import g

    @njit
    def f(x):
        return g(x) * 10

    show("f", f, 1)
    show("f float", f, 1.5)
    """,
)

_AS = callee(
    "import-as",
    """
    from lib import g as h

    @njit
    def f(x):
        return h(x) * 10

    show("f", f, 1)
    """,
)

_MODULE = callee(
    "module-attribute",
    """
    import lib

    @njit
    def f(x):
        return lib.g(x) * 10

    show("f", f, 1)
    """,
)

_ALIAS = callee(
    "module-alias-in-a-local",
    """
    import lib

    @njit
    def f(x):
        m = lib
        h = m.g
        return h(x) * 10

    show("f", f, 1)
    """,
)

_PACKAGE_FILES = {
    "main.py": main("""
        import pkg.sub.mod

        @njit
        def f(x):
            return pkg.sub.mod.g(x) * 10

        show("f", f, 1)
    """),
    "pkg/__init__.py": "",
    "pkg/sub/__init__.py": "",
    "pkg/sub/mod.py": LIB,
}
_PACKAGE = trap("callee-package-attribute", 1, _PACKAGE_FILES, replaced(_PACKAGE_FILES, "pkg/sub/mod.py", EDIT))

_FAR_FILES = {
    "main.py": main("""
        from near import g

        @njit
        def f(x):
            return g(x) * 10

        show("f", f, 1)
    """),
    "near.py": py("""
        from numba import njit
        import far

        @njit
        def g(x):
            return far.h(x)
    """),
    "far.py": LIB.replace("def g", "def h"),
}
_FAR = trap("callee-two-files-away", 1, _FAR_FILES, replaced(_FAR_FILES, "far.py", EDIT))

_REEXPORT_FILES = {
    "main.py": main("""
        import pkg

        @njit
        def f(x):
            return pkg.g(x)

        show("f", f, 5)
    """),
    "pkg/__init__.py": "from .one import g\n",
    "pkg/one.py": LIB,
    "pkg/two.py": LIB.replace("x + 1", "x + 2"),
}
_REEXPORT = trap("callee-package-exports-another", 1, _REEXPORT_FILES, {"pkg/__init__.py": "from .two import g\n"})

_INLINE = callee(
    "inline-always",
    """
    from lib import g

    @njit
    def f(x):
        return g(x) * 10

    show("f", f, 1)
    """,
    LIB.replace("@njit", "@njit(inline='always')"),
)

_REGISTER = callee(
    "register-jitable",
    """
    import lib

    @njit
    def f(x):
        return lib.g(x) * 10

    show("f", f, 1)
    """,
    LIB.replace("import njit", "import njit\nfrom numba.extending import register_jitable").replace(
        "@njit", "@register_jitable"
    ),
)

_CLOSURE = callee(
    "closure-over",
    """
    import lib

    def make(h):
        @njit
        def f(x):
            return h(x) * 10
        return f

    show("f", make(lib.g), 1)
    """,
)

_ARGUMENT = callee(
    "passed-as-argument",
    """
    import lib

    @njit
    def f(h, x):
        return h(x) * 10

    show("f", f, lib.g, 1)
    """,
)

_TUPLE = callee(
    "in-a-tuple",
    """
    from numba import literal_unroll
    import lib

    @njit
    def other(x):
        return x * 100

    CHAIN = (lib.g, other)

    @njit
    def f(x):
        return CHAIN[0](x), CHAIN[1](x)

    @njit
    def each(x):
        total = 0
        for step in literal_unroll(CHAIN):
            total += step(x)
        return total

    show("f", f, 1)
    show("each", each, 1)
    """,
)

_TUPLE_ORDER_FILES = {
    "main.py": main("""
        from numba import literal_unroll
        from lib import a, b

        CHAIN = (a, b)

        @njit
        def f(x):
            total = 0
            for step in literal_unroll(CHAIN):
                total = total * 10 + step(x)
            return total

        show("f", f, 5)
    """),
    "lib.py": py("""
        from numba import njit

        @njit
        def a(x):
            return x + 1

        @njit
        def b(x):
            return x * 3
    """),
}
_TUPLE_ORDER = trap(
    "callee-tuple-order",
    1,
    _TUPLE_ORDER_FILES,
    replaced(_TUPLE_ORDER_FILES, "main.py", ("CHAIN = (a, b)", "CHAIN = (b, a)")),
)

_CHAIN_LENGTH = 12
_CHAIN_FILES = {
    "main.py": main(f"""
        from m{_CHAIN_LENGTH} import g

        @njit
        def f(x):
            return g(x)

        show("f", f, 1)
    """),
    "m0.py": LIB,
} | {
    f"m{i}.py": LIB.replace("import njit", f"import njit\nimport m{i - 1}").replace("x + 1", f"m{i - 1}.g(x) * 2")
    for i in range(1, _CHAIN_LENGTH + 1)
}
_CHAIN = trap("callee-twelve-files-away", 1, _CHAIN_FILES, replaced(_CHAIN_FILES, "m0.py", EDIT))

_SIGNATURE_FILES = {
    "main.py": main("""
        import lib

        @njit
        def f(x):
            return lib.g(x) / 2

        show("f", f, 3)
        show("result types", lambda: [str(s.return_type) for s in f.nopython_signatures])
    """),
    "lib.py": LIB,
}
_RETURN_TYPE = trap(
    "callee-changes-its-return-type",
    1,
    _SIGNATURE_FILES,
    replaced(_SIGNATURE_FILES, "lib.py", ("return x + 1", "return complex(x, 1)")),
)

_TWIN_NAMES_FILES = {
    "main.py": main("""
        import a, b

        @njit
        def f(x):
            return a.g(x), b.g(x)

        show("f", f, 5)
    """),
    "a.py": LIB,
    "b.py": LIB.replace("x + 1", "x - 1"),
}
_SWAPPED = trap(
    "callees-swap-their-files",
    1,
    _TWIN_NAMES_FILES,
    {"a.py": _TWIN_NAMES_FILES["b.py"], "b.py": _TWIN_NAMES_FILES["a.py"]},
)

PROGRAMS = (
    _DIRECT,
    _AS,
    _MODULE,
    _ALIAS,
    _PACKAGE,
    _FAR,
    _REEXPORT,
    _INLINE,
    _REGISTER,
    _CLOSURE,
    _ARGUMENT,
    _TUPLE,
    _TUPLE_ORDER,
    _CHAIN,
    _RETURN_TYPE,
    _SWAPPED,
)
