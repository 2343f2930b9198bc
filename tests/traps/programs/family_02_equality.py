"""Family 2: values that Python calls equal, of another type or other bits."""

from ..harness import Program, Step, main, py, replaced, trap

_USE = """
    import cfg
    from cfg import K

    @njit
    def imported():
        return K

    @njit
    def attribute():
        return cfg.K

    def make(k):
        @njit
        def cell():
            return k
        return cell

    @njit
    def default(k=cfg.K):
        return k

    show("imported", imported)
    show("attribute", attribute)
    show("cell", make(cfg.K))
    show("default", default)

    def typed(function):
        return str(function.nopython_signatures[0].return_type)

    show("types", lambda: [typed(imported), typed(attribute), typed(default)])
    """


def _equal(name: str, *values: str, use: str = _USE, **options) -> Program:
    """Return a program whose captured `K` goes through values that are equal, each after the other."""
    files = [{"cfg.py": f"import numpy as np\nK = {value}\n"} for value in values]
    return trap(f"equal-{name}", 2, {"main.py": main(use)} | files[0], *files[1:], **options)


_LITERALS = {
    "main.py": main("""
        @njit
        def f(x):
            return x * 2

        show("f", f, 3)
    """)
}


def _literal(text: str) -> dict[str, str]:
    return {"main.py": _LITERALS["main.py"].replace("* 2", f"* {text}")}


_DEFAULT_ARGUMENT = {
    "main.py": main("""
        import cfg

        @njit
        def f(x):
            return cfg.g(x)

        show("f", f, 3)
    """),
    "cfg.py": py("""
        from numba import njit

        @njit
        def g(x, k=2):
            return x * k, k
    """),
}

_BY_EXEC = {
    "main.py": main("""
        import sys

        SOURCE = "def f(x):\\n    return (x, CONSTANT)\\n"

        for text in sys.argv[1:]:
            space = {}
            exec(SOURCE.replace("CONSTANT", text), space)
            show(text, njit(space["f"]), 1)
    """)
}

_ARGUMENTS = {
    "main.py": main("""
        import sys
        import cfg

        @njit
        def f(x):
            return x, x + x

        for value in cfg.VALUES:
            show(repr(value), f, value)
        show("signatures", lambda: sorted(map(str, f.signatures)))
    """),
    "cfg.py": "VALUES = [1, 1.0]\n",
}

_SETS = {
    "main.py": main("""
    @njit
    def f():
        result = 0
        for each in {0, 8, 16, 32}:
            result = result * 3 + each
        return result

    @njit
    def g():
        chosen = {0, 8, 16, 32, 1024}
        return [each for each in chosen]

    show("f", f)
    show("g", g)
    """)
}
_SET_OF_TEXTS = {
    "main.py": main("""
    @njit
    def f():
        chosen = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"}
        return "".join([each for each in chosen])

    show("f", f)
    """)
}

PROGRAMS = (
    _equal("int-float-bool", "1", "1.0", "True"),
    _equal("bool-int", "True", "1"),
    _equal("zero-and-minus-zero", "0.0", "-0.0"),
    _equal("complex-minus-zero", "complex(0.0, 0.0)", "complex(0.0, -0.0)"),
    _equal("float32-float64", "np.float32(0.5)", "np.float64(0.5)"),
    _equal("int-and-numpy-int", "np.int32(7)", "np.int64(7)"),
    _equal("unsigned-and-signed", "np.int8(7)", "np.uint8(7)"),
    _equal("tuple-elements", "(1, 2)", "(1.0, 2)", "(1.0, True)"),
    _equal("nested-tuple-elements", "(0, (1, (0.0, 2)))", "(0, (1, (-0.0, 2)))"),
    _equal("text-and-bytes", "'a'", "b'a'"),
    _equal(
        "nan-payload",
        "np.frombuffer(bytes.fromhex('000000000000f87f'))[0]",
        "np.frombuffer(bytes.fromhex('010000000000f87f'))[0]",
        "np.frombuffer(bytes.fromhex('010000000000f8ff'))[0]",
    ),
    _equal(
        "datetime-units",
        "np.timedelta64(60, 's')",
        "np.timedelta64(1, 'm')",
        use="""
        import cfg

        @njit
        def f(x):
            return x + cfg.K

        show("f", f, np.timedelta64(1, "m"))
        show("K", f, np.timedelta64(1, "s"))
        """,
    ),
    trap("equal-literals-in-the-code", 2, _literal("2"), _literal("2.0"), _literal("True")),
    trap(
        "equal-default-of-a-callee",
        2,
        _DEFAULT_ARGUMENT,
        {"cfg.py": _DEFAULT_ARGUMENT["cfg.py"].replace("k=2", "k=2.0")},
    ),
    trap(
        "equal-literals-through-exec",
        2,
        Step(files=_BY_EXEC, argv=("main.py", "1", "0.0")),
        Step(argv=("main.py", "1.0", "-0.0", "True", "1", "0.0", "(1, 0.0)", "(True, 0.0)", "(1, -0.0)")),
    ),
    trap("equal-sets-in-the-code", 2, _SETS, replaced(_SETS, "main.py", ("0, 8, 16, 32", "32, 16, 8, 0"))),
    trap(
        "equal-sets-of-texts-under-given-hash-seeds",
        2,
        Step(files=_SET_OF_TEXTS, env={"PYTHONHASHSEED": "1"}),
        Step(env={"PYTHONHASHSEED": "3"}),
    ),
    trap("equal-arguments", 2, _ARGUMENTS, {"cfg.py": "VALUES = [1.0, True, 1, (1, 1.0), (1.0, 1), (True, 1)]\n"}),
)
