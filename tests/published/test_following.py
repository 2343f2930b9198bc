"""A followed name takes new versions while the process runs: without a torn call, in forked children, and to its end."""

import pytest
from nbtest.published import accumulator, begun, ended, node

PUBLISH = """
    from numba import njit
    import numpy as np

    def publish(number, name="f"):
        names = {"njit": njit, "__name__": "made"}
        exec(f"@njit\\ndef f(x):\\n    return {number}, x[0] * {number}, x[x.size - 1] * {number}, {number}", names)
        nbcache.publish(name, names["f"], ["(float64[::1],)"])
"""
QUICKLY = """
    from nbcache.published import following
    following.LOOK_SECONDS = 0.01
    import numpy as np, os, sys, threading, time
    x = np.ones(1000)

    def until(what, seconds=600):
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.005)
"""


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def publish(store, tmp_path):
    """Publish these versions, one after the other."""

    def run(*numbers, more=""):
        accumulator(store, PUBLISH + "".join(f"\n    publish({number})" for number in numbers) + more, tmp_path)

    return run


def test_a_new_version_is_taken_without_a_torn_call(store, publish, tmp_path):
    publish(1)
    process = begun(
        store,
        QUICKLY
        + """
    f = nbcache.load("f", follow=True)
    assert f is nbcache.load("f", follow=True)
    torn, seen = [], [set() for _ in range(4)]

    def call(mine):
        last = 0
        while last < 5:
            result = f(x)
            if len(set(result)) != 1 or result[0] < last:
                torn.append(result)
                return
            last = result[0]
            mine.add(last)

    threads = [threading.Thread(target=call, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    until(lambda: all(seen))
    print("begun", flush=True)
    for thread in threads:
        thread.join()
    assert not torn, torn
    assert all({1, 5} <= mine for mine in seen), seen
    assert nbcache.load("f")(x)[0] == 5 and nbcache.load("f", version=4)(x)[0] == 4
    """,
        tmp_path,
    )
    publish(2, 3, 4, 5)
    ended(process)


@pytest.mark.long
def test_forked_children_follow_on_and_nothing_hangs(store, publish, tmp_path):
    publish(1)
    process = begun(
        store,
        QUICKLY
        + """
    f = nbcache.load("f", follow=True)
    print("begun", flush=True)
    children = []
    while not children or f(x)[0] < 4:  # forking while versions are loaded
        child = os.fork() if len(children) < 50 else -1
        if child == 0:
            until(lambda: f(x)[0] == 4)
            os._exit(7)
        if child > 0:
            children.append(child)
        time.sleep(0.1)
    assert children
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """,
        tmp_path,
    )
    publish(2, 3, 4)
    ended(process)


def test_there_is_one_thread_and_it_ends_with_the_process(store, publish, tmp_path):
    publish(1, more='\n    publish(7, "g")')
    outcome = node(
        store,
        """
        import threading
        f, g = nbcache.load("f", follow=True), nbcache.load("g", follow=True)
        assert sum(thread.name == "nbcache: followed names" for thread in threading.enumerate()) == 1
        import numpy as np
        print(f(np.ones(1))[0], g(np.ones(1))[0])
        """,
        tmp_path,
    )
    assert (outcome.stdout, outcome.stderr) == ("1 7\n", "")


@pytest.mark.long
def test_a_version_that_can_not_be_used_leaves_the_old_one_and_is_said_once(store, publish, tmp_path):
    publish(1)
    process = begun(
        store,
        QUICKLY
        + """
    import logging
    said = []
    class Keep(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            print(said[-1], flush=True)
    logging.getLogger("nbcache").addHandler(Keep())
    logging.getLogger("nbcache").setLevel(logging.INFO)
    f = nbcache.load("f", follow=True)
    print("begun", flush=True)
    # Said last, when it is called already.
    until(lambda: said[-1:] == ["f: a new version is in use"])
    assert f(x)[0] == 3
    assert [line for line in said if "damaged" in line] == [
        f"f: f: {os.environ['NBCACHE_DIR']}/v1/names/f.json is damaged: publish it again; "
        "this process goes on with the version that it has"
    ], said
    assert "f: it isn't published any more; this process goes on with the version that it has" in said
    """,
        tmp_path,
    )
    path = store / "v1" / "names" / "f.json"
    path.with_name(".garbage").write_bytes(b"{}")
    path.with_name(".garbage").replace(path)
    until_said(process, "is damaged")
    path.unlink()
    until_said(process, "isn't published any more")
    publish(3)
    ended(process)


def until_said(process, words):
    """Read what a process prints, until it says this."""
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(process.stderr.read())


MODULE = """
from numba import njit

@njit("float64(float64)")
def twice(a):
    return 2 * a

@njit("float64(float64)")
def half(a):
    return a / 2
"""


@pytest.mark.long
def test_a_followed_namespace_is_one(store, tmp_path):
    (tmp_path / "functions.py").write_text(MODULE)
    accumulator(
        store,
        """
        from functions import half, twice
        nbcache.publish("both", {"twice": twice, "half": half})
        nbcache.publish("alone", twice)
        """,
        tmp_path,
    )
    node(
        store,
        """
        import pickle
        both, alone = nbcache.load("both", follow=True), nbcache.load("alone", follow=True)
        assert both.twice(4.0) == 8.0 and both.half(4.0) == 2.0 and alone(4.0) == 8.0
        assert repr(alone).startswith("<following ")
        for attempt in (
            lambda: alone.nothing,
            lambda: alone("text"),
            lambda: pickle.dumps(alone),
            lambda: nbcache.load("alone", follow=True, version=1),
        ):
            try:
                attempt()
            except (AttributeError, TypeError, ValueError) as error:
                print(error)
            else:
                raise AssertionError("nothing was raised")
        """,
        tmp_path,
    )


def test_a_filesystem_that_hangs_stops_nobody_who_forks(store, tmp_path):
    # What hangs is a name's look: a whole filesystem can't be made to, without a server of one's own.
    outcome = node(
        store,
        """
        import faulthandler, os, threading
        from nbcache.published import following
        faulthandler.dump_traceback_later(600, exit=True)
        following.LOOK_SECONDS = 0.01
        hangs, goes_on = threading.Event(), threading.Event()

        looks = []

        def stamp():
            looks.append(None)
            if len(looks) > 1:
                hangs.set()
                goes_on.wait()
            return (1,)

        f = following.follow(("key",), stamp, "f", lambda: ("digest", abs))
        hangs.wait()
        child = os.fork()
        if child == 0:
            os._exit(f(-7))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        goes_on.set()
        """,
        tmp_path,
    )
    assert outcome.stdout == "7\n"
