"""Family 13: file and line of an exception are those of the code that runs."""

from ..harness import Step, main, py, replaced, trap

_RAISES = {
    "main.py": main("""
        from lib import g

        class MyError(Exception):
            pass

        @njit
        def own(x):
            if x > 1:
                raise ValueError("too big", 7)
            return x

        @njit
        def nested(x):
            return own(x) + g(x)

        @njit
        def mine(x):
            if x > 1:
                raise MyError("mine")
            return x

        @njit
        def asserts(x):
            assert x < 1, "small only"
            return x

        @njit
        def divides(x):
            return 1 // (x - x)

        def caught():
            try:
                mine(5)
            except MyError as exc:
                return "caught " + str(exc)

        for f in (own, nested, g, mine, asserts, divides):
            show(f.__name__, f, 5)
        show("except MyError", caught)
    """),
    "lib.py": py("""
        from numba import njit

        @njit
        def g(x):
            if x == 5:
                raise IndexError("in the library")
            return x
    """),
}

_UNCAUGHT = {
    "main.py": main("""
        @njit
        def f(x):
            if x > 1:
                raise ValueError("too big")
            return x

        @njit
        def caller(x):
            return f(x)

        caller(5)
    """)
}

_CALLEE = {
    "main.py": main("""
        import lib

        @njit
        def f(x):
            return lib.g(x) + 1

        show("fine", f, 0)
        show("raises", f, 5)
    """),
    "lib.py": py("""
        from numba import njit

        @njit
        def g(x):
            if x == 5:
                raise IndexError("in the library")
            return x
    """),
}

_OVERLOAD = {
    "main.py": main("""
        import ext

        @njit
        def f(x):
            return ext.thing(x)

        show("fine", f, 1)
        show("raises", f, -1)
    """),
    "ext.py": py("""
        from numba.extending import overload

        def thing(x):
            raise NotImplementedError

        @overload(thing)
        def choose(x):
            def implementation(x):
                if x < 0:
                    raise ValueError("negative")
                return x
            return implementation
    """),
}

_WARNS = {
    "main.py": main("""
        import sys
        import warnings
        from lib import dotted

        @njit(parallel=True)
        def nothing_to_do(x):
            return x + 1

        @njit
        def reflected(items):
            return items[0]

        @njit
        def outer(a):
            return dotted(a) + 1

        def strided(side):
            return np.ones((side, side))[::2, ::2]

        for word in sys.argv[1:]:
            warnings.simplefilter(word)
        show("parallel", nothing_to_do, 1)
        show("reflected", reflected, [1, 2])
        show("callee", outer, strided(4))
        show("the same again", dotted, strided(6))
        show("another type", nothing_to_do, 1.5)
    """),
    "lib.py": py("""
        import numpy as np
        from numba import njit

        @njit
        def dotted(a):
            return np.dot(a, a)
    """),
}

_WARNS_ONCE = {
    "main.py": main("""
        import sys
        import warnings
        from numba import typed, types

        warnings.simplefilter("always")

        @njit
        def dotted(a):
            return np.dot(a, a)

        @njit(parallel=True)
        def nothing_to_do(x):
            return x + 1

        @njit
        def one(a):
            return dotted(a) + nothing_to_do(1)

        @njit
        def other(a):
            return (
                dotted(a)
                - nothing_to_do(1)
            )

        @njit
        def stored(a):
            found = typed.Dict.empty(types.int32, types.int32)
            found[len(a)] = 1
            return len(found)

        @njit
        def looked_up(a):
            found = typed.Dict.empty(types.int32, types.int32)
            return len(a) in found

        for name in sys.argv[1:]:
            show(name, globals()[name], np.ones(8)[::2])
    """)
}

_SHOWN_AGAIN = {
    "main.py": main("""
        @njit
        def f(x):
            return x + 1

        for _ in range(3):
            np.log(np.zeros(1))
            show("f", f, 1)
    """)
}

_SPLIT = {
    "main.py": main("""
        @njit
        def f(x, y):
            z = x + y; w = z * 2
            if w > 3: raise ValueError("a")
            return w

        show("f", f, 1, 2)
    """)
}

_NEGATIVE = py("""
    from numba import njit
    @njit
    def f(x):
        if x < 0:
            raise ValueError("negative")
        return x
""")

_SAME_BYTES = {
    "main.py": main("""
        import a, b

        show("a", a.f, -1)
        show("b", b.f, -1)
    """),
    "a.py": _NEGATIVE,
    "b.py": _NEGATIVE.replace("@njit", "\n\n@njit"),
}

_KINDS = {
    "main.py": main("""
        import errors_here

        @njit
        def with_arguments(x):
            raise KeyError("k", x)

        @njit
        def custom(x):
            raise errors_here.Custom("c", x, "d")

        @njit
        def bare(x):
            raise errors_here.Custom

        @njit
        def swallowed(x):
            try:
                if x > 0:
                    raise ValueError("inner")
            except Exception:
                return -x
            return x

        for f in (with_arguments, custom, bare, swallowed):
            show(f.__name__, f, 5)

        def caught():
            try:
                custom(5)
            except KeyError:
                return "a KeyError"
            except Exception:
                return "another"

        show("caught as", caught)
    """),
    "errors_here.py": "class Custom(Exception):\n    pass\n",
}

_BOUNDS = {
    "main.py": main("""
        @njit(boundscheck=True)
        def f(a, i):
            return a[i]

        @njit(boundscheck=True)
        def caller(a, i):
            return f(a, i) + 1

        show("f", f, np.arange(3), 5)
        show("caller", caller, np.arange(3), 5)
    """)
}

_GENERATED = {
    "main.py": main("""
        import sys

        SOURCE = "def f(x):\\n    if x > 0:\\n        raise ValueError('generated')\\n    return x\\n"

        for name in sys.argv[1:]:
            space = {}
            exec(compile(SOURCE, name, "exec"), space)
            show("generated", njit(space["f"]), 1)
    """)
}

_COMMENTED = replaced(
    _RAISES, "main.py", ("if x > 1:\n", "if x > 1:\n        # a comment that moves the line below\n\n")
)
_ABOVE = {"main.py": "# a line above\n\n" + _RAISES["main.py"]}

PROGRAMS = (
    trap("traceback-edit-above", 13, _RAISES, _ABOVE),
    trap("traceback-comment-inside", 13, _RAISES, _COMMENTED),
    trap(
        "traceback-edit-below",
        13,
        _RAISES,
        replaced(_RAISES, "main.py", ("def caught", "X = 1\n\ndef caught")),
        differs=False,
        hit=True,
    ),
    trap("traceback-other-checkout", 13, _RAISES, Step(copy="another-checkout"), differs=False),
    trap("traceback-moved-tree", 13, _RAISES, Step(move="moved"), differs=False),
    trap("traceback-back-and-forth", 13, _RAISES, _ABOVE, _COMMENTED, _RAISES, _ABOVE),
    trap(
        "traceback-uncaught",
        13,
        Step(files=_UNCAUGHT, stderr=True),
        Step(files={"main.py": "#\n" + _UNCAUGHT["main.py"]}, stderr=True),
    ),
    trap("traceback-callee-moves", 13, _CALLEE, {"lib.py": "#\n#\n" + _CALLEE["lib.py"]}),
    trap(
        "traceback-callee-renamed-file", 13, _CALLEE, {"lib.py": "from lib2 import g\n", "lib2.py": _CALLEE["lib.py"]}
    ),
    trap("traceback-inside-an-overload", 13, _OVERLOAD, {"ext.py": "#\n#\n" + _OVERLOAD["ext.py"]}),
    trap(
        "traceback-same-code-on-other-lines",
        13,
        _SPLIT,
        replaced(_SPLIT, "main.py", ("; w", "\n    w"), (": raise", ":\n        raise")),
    ),
    trap(
        "traceback-same-code-in-two-files", 13, _SAME_BYTES, {"a.py": _SAME_BYTES["b.py"], "b.py": _SAME_BYTES["a.py"]}
    ),
    trap("traceback-exception-classes", 13, _KINDS, {"main.py": "#\n" + _KINDS["main.py"]}),
    trap(
        "traceback-exception-class-changes-base", 13, _KINDS, {"errors_here.py": "class Custom(KeyError):\n    pass\n"}
    ),
    trap("traceback-bounds", 13, _BOUNDS, {"main.py": "#\n" + _BOUNDS["main.py"]}, differs=False),
    trap(
        "traceback-generated-code",
        13,
        Step(files=_GENERATED, argv=("main.py", "first.py")),
        Step(argv=("main.py", "second.py")),
        Step(argv=("main.py", "second.py", "first.py", "<string>")),
    ),
    trap(
        "traceback-warnings",
        13,
        Step(files=_WARNS, stderr=True),
        Step(files={"main.py": "#\n" + _WARNS["main.py"]}, stderr=True),
        Step(files={"lib.py": "#\n#\n" + _WARNS["lib.py"]}, stderr=True),
        Step(argv=("main.py", "always"), stderr=True),
        Step(argv=("main.py", "error"), stderr=True),
        Step(argv=("main.py", "ignore"), stderr=True),
    ),
    trap(
        "traceback-warnings-shown-again-after-compiling",
        13,
        Step(files=_SHOWN_AGAIN, stderr=True),
        Step(stderr=True),
        differs=False,
    ),
    trap(
        "traceback-warnings-whoever-comes-first",
        13,
        Step(files=_WARNS_ONCE, argv=("main.py", "one", "other", "stored", "looked_up"), stderr=True),
        Step(argv=("main.py", "other", "one", "looked_up", "stored"), stderr=True),
        Step(argv=("main.py", "dotted", "looked_up", "other"), stderr=True),
    ),
)
