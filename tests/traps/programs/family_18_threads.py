"""Family 18: other threads go on while one compiles, and what they do is no business of that compilation.

The chooser of an `@overload` runs in the middle of a compilation. It raises an audit event of its own, and the hook for
it, which nothing leads to, does there what the program wants done: so the two meet every time. A hit may skip the
chooser; then it is done afterwards, and the output is the same.
"""

from ..harness import Program, Step, main, py, replaced, trap

_LOAD = py("""
    import pickle

    import probe

    function = pickle.load(open("pickled", "rb"))
    probe.show("in another process", function, 20)
    """)

_DURING = """
    import faulthandler
    import os
    import pickle
    import subprocess
    import sys
    import threading
    from numba.extending import overload

    faulthandler.dump_traceback_later(60, exit=True)
    actions, notes = [], []

    def meeting(event="program.meeting", arguments=()):
        if event == "program.meeting" and actions:
            actions.pop()()

    sys.addaudithook(meeting)

    def thing(x):
        raise NotImplementedError

    @overload(thing)
    def choose(x):
        sys.audit("program.meeting")
        return lambda x: x + 1

    @njit
    def g(x):
        return x * 3

    def make(k):
        @njit
        def h(x):
            return x * k
        return h

    h = make(7)

    @njit
    def f(x):
        return thing(x) * 2 + g(x) + h(x)

    def at_once(action):
        action()

    def in_a_thread(action):
        def run():
            try:
                action()
            except BaseException as exc:
                notes.append(f"{type(exc).__name__}: {exc}")
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    """
_PICKLES = """
    def pickles():
        with open("pickled", "wb") as file:
            pickle.dump(what, file)

    what = {what}
    actions.append(lambda: {how}(pickles))
    show("f", f, 1)
    meeting()
    show("g", g, 2)
    subprocess.run([sys.executable, "load.py"], check=False)
    os.unlink("pickled")
    print(notes)
    """


def _meeting(name: str, body: str, **options) -> Program:
    """Return a program of one version: what is done while `f` compiles is put into `actions`."""
    files = {"main.py": main(_DURING) + py(body), "load.py": _LOAD}
    return trap(f"threads-{name}", 18, files, differs=False, **options)


_LOOKED_AT = {
    "main.py": main(_DURING)
    + py("""
    @njit
    def callee(x):
        return x + 7

    @njit
    def caller(x):
        return callee(x) * 2

    show("caller", caller, 1)
    actions.append(lambda: in_a_thread(lambda: notes.append((callee.signatures, len(callee.overloads)))))
    show("f", f, 1)
    meeting()
    print(notes)
    """)
}

_INFO = "site/plugin-1.0.dist-info"
_BUILT_UPON = {
    f"{_INFO}/METADATA": "Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n",
    f"{_INFO}/RECORD": "plugin.py,,\nbase.py,,\n",
    f"{_INFO}/entry_points.txt": "[numba_extensions]\ninit = plugin:init\n",
    "site/plugin.py": py("""
    import base
    from numba.extending import overload

    def own(x):
        raise NotImplementedError

    @overload(own)
    def choose(x):
        return lambda x: x + 1

    def init():
        pass
    """),
    "site/base.py": py("""
    import time
    from numba import njit

    time.sleep(1)  # what a large package takes

    @njit("int64(int64)")
    def g(x):
        return x + 1
    """),
    "main.py": main("""
    import faulthandler
    import sys
    import threading
    import time

    faulthandler.dump_traceback_later(60, exit=True)

    @njit
    def f(x):
        return x * 2

    if "beside" in sys.argv:
        thread = threading.Thread(target=lambda: __import__("base"), daemon=True)
        thread.start()
        time.sleep(0.3)
    show("f", f, 4)
    if "beside" in sys.argv:
        thread.join()
        print("base" in sys.modules)
    """),
}
_HERE = {"PYTHONPATH": "{root}/site"}

PROGRAMS = (
    _meeting("pickle-a-dispatcher", _PICKLES.format(what="g", how="in_a_thread")),
    _meeting("pickle-a-closure", _PICKLES.format(what="h", how="in_a_thread")),
    _meeting("pickle-the-one-that-compiles", _PICKLES.format(what="f", how="in_a_thread"), rerun="same"),
    _meeting("pickle-a-stranger", _PICKLES.format(what="make(8)", how="in_a_thread")),
    _meeting("the-chooser-itself-pickles", _PICKLES.format(what="h", how="at_once")),
    _meeting(
        "pool-of-processes",
        """
        import multiprocessing

        pool = multiprocessing.get_context("fork").Pool(1)
        actions.append(lambda: in_a_thread(lambda: notes.append(pool.apply_async(h, (4,)).get(timeout=40))))
        show("f", f, 1)
        meeting()
        print(notes)
        pool.terminate()
        """,
    ),
    _meeting(
        "queue-that-pickles-later",
        """
        import multiprocessing

        context = multiprocessing.get_context("fork")
        questions, answers = context.Queue(), context.Queue()
        worker = context.Process(target=lambda: answers.put(questions.get()(4)), daemon=True)
        worker.start()

        def asks():
            questions.put(h)
            notes.append(answers.get(timeout=40))

        actions.append(lambda: in_a_thread(asks))
        show("f", f, 1)
        meeting()
        print(notes)
        worker.kill()
        """,
    ),
    _meeting(
        "pickle-through-numba-s-serialize",
        """
        from numba.core import serialize

        def writes():
            with open("pickled", "wb") as file:
                file.write(serialize.dumps(what))

        what = h.py_func
        actions.append(lambda: in_a_thread(writes))
        show("f", f, 1)
        meeting()
        subprocess.run([sys.executable, "load.py"], check=False)
        os.unlink("pickled")
        print(notes)
        """,
    ),
    _meeting(
        "fork-in-the-middle",
        """
        def forks():
            readable, writable = os.pipe()
            child = os.fork()
            if not child:
                os.write(writable, str(g(5)).encode())
                os._exit(0)
            os.waitpid(child, 0)
            notes.append(os.read(readable, 100))

        actions.append(forks)
        show("f", f, 1)
        meeting()
        show("g", g, 2)
        print(notes)
        """,
        rerun="same",  # what a chooser that forks gives is nobody's to keep
    ),
    _meeting(
        "turned-off-in-the-middle",
        """
        def turns_off():
            nbcache = sys.modules.get("nbcache")
            if nbcache is not None:
                nbcache.disable()

        actions.append(lambda: in_a_thread(turns_off))
        show("f", f, 1)
        meeting()
        show("g", g, 2)
        show("f of a float", f, 1.5)
        print(notes)
        """,
        rerun="same",
    ),
    _meeting(
        "another-compiles-what-is-being-compiled",
        """
        started = []

        def starts():
            started.append(threading.Thread(target=lambda: notes.append((h(2), f(3)))))
            started[0].start()

        actions.append(starts)
        show("f", f, 1)
        meeting()
        started[0].join(60)
        show("g", g, 2)
        print(notes)
        """,
    ),
    trap(
        "threads-looked-at-in-the-middle",
        18,
        _LOOKED_AT,
        replaced(_LOOKED_AT, "main.py", ("thing(x) * 2", "thing(x) * 3")),
    ),
    trap(
        "threads-base-of-an-extension-is-imported-beside",
        18,
        Step(files=_BUILT_UPON, env=_HERE),
        Step(
            files=replaced(_BUILT_UPON, "main.py", ("x * 2", "x * 3")),
            argv=("main.py", "beside"),
            env=_HERE,
        ),
    ),
)
