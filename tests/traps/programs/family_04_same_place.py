"""Family 4: other code in the same place, or under the same name."""

from ..harness import Step, main, replaced, trap

_LAMBDAS = {
    "main.py": main("""
        import math

        pair = (njit(lambda x: x + 1), njit(lambda x: x + 2))
        names = (njit(lambda x: math.sin(x)), njit(lambda x: math.cos(x)))

        show("first", pair[0], 10)
        show("second", pair[1], 10)
        show("sin", names[0], 0.5)
        show("cos", names[1], 0.5)
    """)
}

_EXEC = {
    "main.py": main("""
        import sys

        for expression in sys.argv[1:]:
            space = {"np": np}
            exec(f"def generated(x):\\n    return {expression}\\n", space)
            show(expression, njit(space["generated"]), 3)
    """)
}

_EXEC_NAMED_FILE = {
    "main.py": main("""
        import sys

        def build(expression):
            space = {}
            code = compile(f"def generated(x):\\n    return {expression}\\n", "generated.py", "exec")
            exec(code, space)
            return njit(space["generated"])

        functions = [build(expression) for expression in sys.argv[1:]]

        @njit
        def both(x):
            return functions[0](x), functions[1](x)

        show("each", lambda: [f(3) for f in functions])

        g, h = functions

        @njit
        def both(x):
            return g(x), h(x)

        show("both", both, 3)
    """)
}

_UFUNCS = {
    "main.py": main("""
        from numba import vectorize, guvectorize

        def first():
            @vectorize(["float64(float64)"])
            def kernel(x):
                return x + 1
            return kernel

        def second():
            @vectorize(["float64(float64)"])
            def kernel(x):
                return x * 2
            return kernel

        a, b = first(), second()

        @njit
        def both(x):
            return a(x), b(x)

        show("a", a, np.arange(3.0))
        show("b", b, np.arange(3.0))
        show("both", both, 5.0)
    """)
}

_UFUNC_CELLS = {
    "main.py": main("""
        import sys
        from numba import vectorize, guvectorize

        def make(k):
            @vectorize(["float64(float64)"])
            def kernel(x):
                return x + k

            @guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
            def general(a, out):
                for i in range(a.shape[0]):
                    out[i] = a[i] * k
            return kernel, general

        for text in sys.argv[1:]:
            kernel, general = make(float(text))
            show("ufunc", kernel, np.arange(2.0))
            show("gufunc", general, np.arange(2.0))
    """)
}

_TWO_OPTIONS = {
    "main.py": main("""
        def divide(a, b):
            return a / b

        def total(a):
            s = 0.0
            for x in a:
                s += x
            return s

        python = njit(error_model="python")(divide)
        numpy = njit(error_model="numpy")(divide)
        typed = njit(locals={"s": numba.float32})(total)
        plain = njit(total)

        show("python", python, 1.0, 0.0)
        show("numpy", numpy, 1.0, 0.0)
        show("float32", typed, np.array([0.1, 1e9]))
        show("float64", plain, np.array([0.1, 1e9]))
    """)
}

_REDEFINED = {
    "main.py": main("""
        @njit
        def f(x):
            return x + 1

        show("first", f, 1)

        @njit
        def caller(x):
            return f(x)

        show("caller", caller, 1)

        @njit
        def f(x):
            return x * 50

        @njit
        def caller(x):
            return f(x)

        show("second", f, 1)
        show("second caller", caller, 1)
    """)
}

_INNER = {
    "main.py": main("""
        def make(flag):
            if flag:
                def f(x):
                    return x.real
            else:
                def f(x):
                    return x.imag
            return njit(f)

        show("real", make(True), 1 + 2j)
        show("imag", make(False), 1 + 2j)
    """)
}

_SAME_NAME_IN_MODULES = {
    "main.py": main("""
        import a, b

        show("a", a.run, 7)
        show("b", b.run, 7)
    """),
    "a.py": "from numba import njit\nfrom helper_a import K\n\n@njit\ndef run(x):\n    return x + K\n",
    "b.py": "from numba import njit\nfrom helper_b import K\n\n@njit\ndef run(x):\n    return x + K\n",
    "helper_a.py": "K = 1\n",
    "helper_b.py": "K = 2\n",
}

_NESTED_CODE = {
    "main.py": main("""
        @njit
        def f(a):
            return [(lambda y: y % 3)(x) for x in a]

        @njit
        def g(n):
            def inner(y):
                return y + 1
            return inner(n)

        show("f", f, (4, 1, 5, 3))
        show("g", g, 1)
    """)
}

_KEY_FUNCTION = {
    "main.py": main("""
        @njit
        def f(a):
            return sorted([x for x in a], key=lambda x: x % 3)

        show("f", f, (4, 1, 5, 3))
    """)
}

_STRING_FORMAT = {
    "main.py": main("""
        @njit
        def f(x):
            return "a" + str(x) + "b"

        @njit
        def g(x):
            if x > 0:
                return "pos"
            return "neg"

        show("f", f, 1)
        show("g", g, -1)
    """)
}

PROGRAMS = (
    trap("place-lambdas-on-one-line", 4, _LAMBDAS, replaced(_LAMBDAS, "main.py", ("x + 2", "x + 3"))),
    trap(
        "place-lambdas-change-places",
        4,
        _LAMBDAS,
        replaced(_LAMBDAS, "main.py", ("x + 2", "x + 9"), ("x + 1", "x + 2"), ("x + 9", "x + 1")),
    ),
    trap(
        "place-exec-of-one-name",
        4,
        Step(files=_EXEC, argv=("main.py", "x + 1", "x + 2")),
        Step(argv=("main.py", "x + 2", "x + 1", "x + 1.0", "x + True", "np.float32(x)", "np.uint8(x)", "-x", "+x")),
    ),
    trap(
        "place-exec-in-one-named-file",
        4,
        Step(files=_EXEC_NAMED_FILE, argv=("main.py", "x + 1", "x + 2")),
        Step(argv=("main.py", "x + 3", "x + 1")),
        Step(argv=("main.py", "x + 2", "x + 3")),
    ),
    trap("place-two-ufuncs-of-one-name", 4, _UFUNCS, replaced(_UFUNCS, "main.py", ("x * 2", "x * 3"))),
    trap(
        "place-ufuncs-over-cells",
        4,
        Step(files=_UFUNC_CELLS, argv=("main.py", "1")),
        Step(argv=("main.py", "2")),
        Step(argv=("main.py", "2", "3", "1")),
    ),
    trap(
        "place-one-function-two-options",
        4,
        _TWO_OPTIONS,
        replaced(
            _TWO_OPTIONS,
            "main.py",
            ('error_model="python"', 'error_model="XX"'),
            ('error_model="numpy"', 'error_model="python"'),
            ('error_model="XX"', 'error_model="numpy"'),
            ("float32}", "float64}"),
        ),
    ),
    trap("place-redefined-in-one-process", 4, _REDEFINED, replaced(_REDEFINED, "main.py", ("x * 50", "x * 60"))),
    trap("place-attribute-names", 4, _INNER, replaced(_INNER, "main.py", ("(True)", "(0)"), ("(False)", "(1)"))),
    trap(
        "place-one-name-in-two-modules", 4, _SAME_NAME_IN_MODULES, {"helper_a.py": "K = 2\n", "helper_b.py": "K = 1\n"}
    ),
    trap(
        "place-nested-code-objects",
        4,
        _NESTED_CODE,
        replaced(_NESTED_CODE, "main.py", ("y % 3", "y % 4"), ("y + 1", "y + 2")),
    ),
    trap(
        "place-key-function",
        4,
        _KEY_FUNCTION,
        replaced(_KEY_FUNCTION, "main.py", ("x % 3", "x % 4")),
    ),
    trap(
        "place-literal-text",
        4,
        _STRING_FORMAT,
        replaced(_STRING_FORMAT, "main.py", ('"a"', '"c"'), ('"neg"', '"non"')),
    ),
)
