"""Family 8: several processes add to one cache: signatures, versions and places alternate."""

from ..harness import Step, main, py, replaced, trap

_SIGNATURES = {
    "main.py": main("""
        import sys

        @njit
        def f(x):
            return x + x

        VALUES = {"int": 3, "float": 1.5, "complex": 1j, "text": "ab", "array": np.arange(3), "bool": True}
        for name in sys.argv[1:]:
            show(name, f, VALUES[name])
        show("signatures", lambda: list(map(str, f.signatures)))
    """)
}

_AT_ONCE = {
    "main.py": main("""
        import os
        import subprocess
        import sys

        if len(sys.argv) == 1:
            names = ["int", "float", "complex", "array"]
            children = [subprocess.Popen([sys.executable, "child.py", name, other], stdout=subprocess.PIPE, text=True)
                        for name, other in zip(names, reversed(names))]
            for child in children:
                print(child.communicate()[0], child.returncode)
    """),
    "child.py": main("""
        import sys
        from lib import f

        VALUES = {"int": 3, "float": 1.5, "complex": 1j, "array": np.arange(3)}
        for name in sys.argv[1:]:
            show(name, f, VALUES[name])
    """),
    "lib.py": py("""
        from numba import njit

        @njit
        def g(x):
            return x + x

        @njit
        def f(x):
            return g(x), g(g(x))
    """),
}

_BACK_AND_FORTH = {
    "main.py": main("""
        from lib import g

        @njit
        def f(x):
            return g(x) * 10

        show("f", f, 1)
        show("f float", f, 1.5)
    """),
    "lib.py": "from numba import njit\n\n@njit\ndef g(x):\n    return x + 1\n",
}
_OTHER = replaced(_BACK_AND_FORTH, "lib.py", ("x + 1", "x + 2"))
_THIRD = replaced(_BACK_AND_FORTH, "lib.py", ("x + 1", "x - 1"))

_TWO_PROGRAMS = {
    "main.py": main("""
        import sys
        from lib import g

        K = int(sys.argv[1])

        @njit
        def f(x):
            return g(x) + K

        show("f", f, 1)
    """),
    "lib.py": "from numba import njit\n\n@njit\ndef g(x):\n    return x + 1\n",
}


def _argv(*words: str) -> Step:
    return Step(argv=("main.py", *words))


PROGRAMS = (
    trap(
        "index-signatures-from-several-processes",
        8,
        Step(files=_SIGNATURES, argv=("main.py", "int")),
        _argv("float"),
        _argv("complex", "int"),
        _argv("array", "float", "int"),
        _argv("text", "int", "array", "bool", "complex", "float"),
        rerun="hit",
    ),
    trap("index-signatures-all-at-once", 8, _AT_ONCE, {}, differs=False, hit=True),
    trap("index-versions-alternate", 8, _BACK_AND_FORTH, _OTHER, _BACK_AND_FORTH, _THIRD),
    trap("index-an-old-version-comes-back", 8, _BACK_AND_FORTH, _OTHER, _BACK_AND_FORTH, differs=False, hit=True),
    trap(
        "index-checkouts-alternate",
        8,
        _BACK_AND_FORTH,
        Step(files=_OTHER, copy="other"),
        Step(files=_THIRD, copy="third"),
        Step(files=_OTHER),
    ),
    trap(
        "index-programs-alternate",
        8,
        Step(files=_TWO_PROGRAMS, argv=("main.py", "1")),
        _argv("2"),
        Step(files={"lib.py": _TWO_PROGRAMS["lib.py"].replace("x + 1", "x * 7")}, argv=("main.py", "1")),
        _argv("2"),
    ),
)
