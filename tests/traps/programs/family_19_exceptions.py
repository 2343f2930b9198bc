"""Family 19: an exception that a signal handler, a debugger or another thread raises belongs to the program.

It may come at any point. Here a profiler raises it at the beginning of a function of nbcache; every such function that
takes part in a call is tried in turn. Without a cache there are none, and the program prints the same: that nothing was
swallowed, and that each function worked afterwards.
"""

from ..harness import Program, Step, main, py, trap

_STRIKE = py("""
    import signal
    import sys
    import threading

    HERE = "/nbcache/"

    class Alarm(Exception):
        pass

    def places(call):
        "The functions of nbcache that a call goes through, in the order of their first use."
        found = {}

        def profile(frame, event, arg):
            code = frame.f_code
            if event == "call" and HERE in code.co_filename:
                found.setdefault((code.co_filename, code.co_firstlineno, code.co_name))
        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(None)
        return list(found)

    def struck(call, place, raises):
        "Make a call in which this happens at the beginning of that function; return what became of it."
        happened, lost = [], []

        def profile(frame, event, arg):
            code = frame.f_code
            if event == "call" and (code.co_filename, code.co_firstlineno, code.co_name) == place and not happened:
                sys.setprofile(None)
                happened.append(place)
                raises()
        hook, sys.unraisablehook = sys.unraisablehook, lost.append
        sys.setprofile(profile)
        try:
            call()
        except BaseException as exc:
            return exc if happened else None
        finally:
            sys.setprofile(None)
            sys.unraisablehook = hook
        return "swallowed" if happened and not lost else None

    def names(place):
        return f"{place[0].rpartition(HERE)[2]}:{place[2]}"

    def handler(signum, frame):
        raise Alarm("time is up")

    signal.signal(signal.SIGUSR1, handler)

    def by_signal():
        signal.raise_signal(signal.SIGUSR1)

    def tried(make, argument, want, raises, kind, step=1):
        "Strike each place in a call of a new function, then call it in peace, unless there is nothing to want."
        swallowed, wrong = [], []
        for place in places(lambda: make(0)(argument))[::step]:
            function = make(0)
            outcome = struck(lambda: function(argument), place, raises)
            if outcome == "swallowed" or (outcome is not None and not isinstance(outcome, kind)):
                swallowed.append(f"{names(place)} {outcome!r}")
            if want is None:
                continue
            try:
                answer = function(argument)
            except BaseException as exc:
                answer = exc
            if not np.array_equal(answer, want):
                wrong.append(f"{names(place)} {answer!r}")
        print(len(swallowed), "swallowed:", swallowed[:5])
        print(len(wrong), "wrong afterwards:", wrong[:5])
    """)


def _struck(name: str, body: str, **options) -> Program:
    """Return a program of one version: its first run fills an empty cache, its second one hits."""
    return trap(f"exceptions-{name}", 19, {"main.py": main(_STRIKE + py(body))}, differs=False, rerun="same", **options)


_PLAIN = """
    def make(k):
        @njit
        def g(x):
            return x * 3 + k

        @njit
        def f(x):
            return g(x) + 1
        return f

    """

_NOT_ANY_MORE = main("""
    from numba.extending import overload

    TABLE = 3

    def foo(x):
        return x

    @overload(foo)
    def choose(x):
        global TABLE
        TABLE = {object()}
        return lambda x: x + 1

    @njit
    def h(x):
        return x * 2

    @njit
    def f(x):
        return h(foo(x)) + TABLE

    show("f", f, 1.0)
    """)

PROGRAMS = (
    trap(
        "own-that-nothing-is-known-of-any-more",
        19,
        {"main.py": _NOT_ANY_MORE},
        Step(),
        differs=False,
        cold=True,
        rerun="same",
    ),
    _struck("alarm-where-it-hits", _PLAIN + "    make(0)(1)\n    tried(make, 2, 7, by_signal, Alarm)\n"),
    _struck(
        "alarm-where-it-compiles",
        """
        numbers = iter(range(1, 10000))

        def make(_k):
            k = next(numbers) * 0.0
            scope = {"njit": njit, "k": k}
            exec(f"@njit\\ndef f(x):\\n    return x * 3 + 1 + {next(numbers)} * 0", scope)
            return scope["f"]

        tried(make, 2, 7, by_signal, Alarm, step=9)
        """,
    ),
    _struck(
        "keyboard-interrupt",
        _PLAIN
        + """
    def interrupts():
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    make(0)(1)
    tried(make, 2, 7, interrupts, KeyboardInterrupt, step=2)
    """,
    ),
    _struck(
        "raised-by-another-thread",
        _PLAIN
        + """
    import ctypes
    MAIN = threading.get_ident()

    def asynchronously():
        ready = threading.Event()

        def send():
            ready.wait()  # in the middle of starting a thread, the exception becomes another one of threading's own
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(MAIN), ctypes.py_object(Alarm))
        thread = threading.Thread(target=send)
        thread.start()
        ready.set()
        thread.join()

    make(0)(1)
    tried(make, 2, 7, asynchronously, Alarm, step=3)
    """,
    ),
    _struck(
        "debugger-that-quits",
        _PLAIN
        + """
    import bdb

    def quits():
        raise bdb.BdbQuit

    make(0)(1)
    tried(make, 2, 7, quits, bdb.BdbQuit, step=2)
    """,
    ),
    _struck(
        "alarm-in-a-block-of-object-mode",
        """
        def make(k):
            @njit
            def f(x):
                with numba.objmode(y="int64"):
                    y = x + 1
                return y * 2
            return f

        make(0)(1)
        tried(make, 2, 6, by_signal, Alarm, step=2)
        """,
    ),
    _struck(
        "alarm-in-a-ufunc",
        """
        from numba import vectorize

        def make(k):
            @vectorize
            def f(x):
                return x * 2
            return f

        make(0)(np.arange(3))
        # A ufunc whose loop fails to be built stays without it, in plain Numba too.
        tried(make, np.arange(3), None, by_signal, Alarm, step=2)
        """,
    ),
    _struck(
        "alarm-in-a-stencil",
        """
        from numba import stencil

        def make(k):
            @stencil
            def f(a):
                return a[-1] + a[1]
            return f

        make(0)(np.arange(4))
        tried(make, np.arange(4), np.array([0, 2, 4, 0]), by_signal, Alarm, step=2)
        """,
    ),
)
