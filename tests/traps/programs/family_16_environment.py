"""Family 16: an installed package, never imported by the program, changes what plain NumPy calls compile to."""

from ..harness import Step, main, py, trap

_PROGRAM = main("""
    @njit
    def f(a):
        return np.ptp(a) + 1

    @njit
    def caller(a):
        return f(a) * 2

    show("f", f, np.array([1.0, 5.0]))
    show("caller", caller, np.array([1.0, 5.0]))
""")


def _package(version: str, body: str) -> dict[str, str]:
    """Return an installed package `numba_plugin` with an entry point for Numba, below `site/`."""
    info = f"site/numba_plugin-{version}.dist-info"
    return {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: numba-plugin\nVersion: {version}\n",
        f"{info}/entry_points.txt": "[numba_extensions]\ninit = numba_plugin:init\n",
        "site/numba_plugin/__init__.py": "def init():\n    from . import overloads\n",
        "site/numba_plugin/flags.py": "SIGN = 1\n",
        "site/numba_plugin/overloads.py": py(f"""
            import numpy as np
            from numba.extending import overload
            from . import flags

            @overload(np.ptp)
            def plugin_ptp(a, axis=None):
                sign = flags.SIGN

                def implementation(a, axis=None):
                    return {body} * sign
                return implementation
        """),
    }


_ONE = _package("1.0", "-100.0")
_CHANGED = {"site/numba_plugin/overloads.py": _package("1.0", "-200.0")["site/numba_plugin/overloads.py"]}
_PRESENT = {"PYTHONPATH": "{root}/site"}

_BEHIND_A_UFUNC = {
    "main.py": main("""
        from numba import vectorize, guvectorize

        show("first", njit(lambda a: np.ptp(a)), np.array([0.5]))

        @vectorize(["float64(float64)"])
        def u(x):
            return np.ptp(np.array([x, 1.0]))

        @guvectorize(["void(float64[:], float64[:])"], "(n)->()")
        def g(a, out):
            out[0] = np.ptp(a)

        show("u", u, np.array([0.5]))
        show("g", g, np.array([0.5, 1.0]))
    """),
    **_ONE,
}

_SPECIAL = {
    "main.py": main("""
        @njit
        def solve(a, b):
            return np.linalg.solve(a, b).sum()

        show("solve", solve, np.eye(2), np.ones(2))
        show("roots", njit(lambda p: np.dot(p, p)), np.array([1.0, 2.0]))
    """)
}
_ABSENT = {
    "main.py": "import os\nimport sys\n\nif os.environ.get('APP_HIDE'):\n    sys.modules['scipy'] = None\n\n"
    + _SPECIAL["main.py"]
}
_NO_SCIPY = {
    "hide/scipy/__init__.py": "raise ImportError('hidden by the test')\n",
}

_THREADING = {
    "main.py": main("""
        import os
        from numba import prange

        @njit(parallel=True)
        def f(n):
            a = np.zeros(n)
            for i in prange(n):
                a[i] = numba.get_num_threads() > 0
            return a.sum()

        show("f", f, 8)
        show("threads", lambda: numba.get_num_threads())
    """)
}

_LAUNCHED = {
    "main.py": main("""
        import os

        @njit(parallel=True)
        def f(n):
            total = 0
            for i in numba.prange(n):
                total += i
            return total

        show("f", f, 10)
        if "APP_THREADS" in os.environ:
            os.environ["NUMBA_NUM_THREADS"] = os.environ["APP_THREADS"]
        show("f", f, 10.0)
        """)
}

PROGRAMS = (
    trap("plugin-appears", 16, {"main.py": _PROGRAM, **_ONE}, Step(env=_PRESENT)),
    trap("plugin-disappears", 16, Step(files={"main.py": _PROGRAM, **_ONE}, env=_PRESENT), Step()),
    trap(
        "plugin-changes",
        16,
        Step(files={"main.py": _PROGRAM, **_ONE}, env=_PRESENT),
        Step(files=_CHANGED, env=_PRESENT),
    ),
    trap(
        "plugin-changes-a-module-it-reads",
        16,
        Step(files={"main.py": _PROGRAM, **_ONE}, env=_PRESENT),
        Step(files={"site/numba_plugin/flags.py": "SIGN = -1\n"}, env=_PRESENT),
    ),
    trap(
        "plugin-comes-and-goes",
        16,
        {"main.py": _PROGRAM, **_ONE},
        Step(env=_PRESENT),
        Step(),
        Step(files=_CHANGED, env=_PRESENT),
    ),
    trap("plugin-behind-a-ufunc", 16, _BEHIND_A_UFUNC, Step(env=_PRESENT)),
    trap(
        "plugin-unchanged",
        16,
        Step(files={"main.py": _PROGRAM, **_ONE}, env=_PRESENT),
        Step(env=_PRESENT),
        differs=False,
        hit=True,
    ),
    trap("scipy-absent", 16, _ABSENT, Step(env={"APP_HIDE": "1"}), rerun="same"),
    trap(
        "scipy-broken",
        16,
        {**_SPECIAL, **_NO_SCIPY},
        Step(env={"PYTHONPATH": "{root}/hide"}),
        rerun="same",  # what can't be compiled is tried again
    ),
    trap("threads-setting", 16, _THREADING, Step(env={"NUMBA_NUM_THREADS": "1"})),
    trap(
        "threads-of-a-layer-that-is-not-there",
        16,
        Step(files=_LAUNCHED, stderr=True),
        Step(env={"NUMBA_THREADING_LAYER": "nonsense"}, stderr=True),
        rerun="same",
    ),
    trap(
        "threads-setting-that-is-refused",
        16,
        Step(files=_LAUNCHED, env={"APP_THREADS": "77"}, stderr=True),
        Step(env={"APP_THREADS": "78"}, stderr=True),
        cold=True,
        rerun="same",
    ),
)
