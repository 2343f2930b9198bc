"""Threads that load at once, forks, several versions and several publications in one process, entries that are gone."""

import shutil
import textwrap

import pytest
from nbtest.published import accumulator, node

pytestmark = [pytest.mark.usefixtures("way"), pytest.mark.every(2)]

MODULE = """
import numpy as np
from numba import njit

@njit
def helper(x):
    if x < 0:
        raise ValueError("negative", x)
    return x + STEP

@njit
def first(a):
    return a * helper(a.size) + STEP

@njit
def second(a):
    return a - helper(a.size)

@njit
def third(n):
    return [str(i) for i in range(n)], np.arange(n)
"""


@pytest.fixture(scope="module")
def originals():
    """Folders with a store that nobody changes, by how nodes load."""
    return {}


@pytest.fixture
def store(way, originals, tmp_path, tmp_path_factory):
    if way not in originals:
        originals[way] = published_in(tmp_path_factory.mktemp("original"))
    shutil.copytree(originals[way], tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path / "store"


def published_in(folder):
    write(folder, 1)
    publish = 'import shared\n[nbcache.publish(n, getattr(shared, n), s) for n, s in (("first", ["f8[:](f8[:])"]), ("second", ["f8[:](f8[:])"]), ("third", ["(i8,)"]))]'
    accumulator(folder / "store", publish, folder)
    return folder


def write(folder, step):
    (folder / "shared.py").write_text(textwrap.dedent(MODULE).replace("STEP", str(step)))


def test_eight_threads_load_and_call_at_once(store, tmp_path):
    outcome = node(
        store,
        """
        import threading
        import numpy as np
        found, failed, ready = [], [], threading.Barrier(8)
        def work(number):
            try:
                ready.wait()
                for _ in range(20):
                    f, g, h = nbcache.load("first"), nbcache.load("second"), nbcache.load("third")
                    found.append((f(np.ones(2))[0], g(np.ones(2))[0], h(2)[0]))
            except BaseException as exc:
                failed.append(repr(exc))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads], [t.join() for t in threads]
        print(failed, len(found), set(map(repr, found)))
        """,
        tmp_path,
    )
    assert outcome.stdout in {
        "[] 160 {\"(np.float64(4.0), np.float64(-2.0), ['0', '1'])\"}\n",
        "[] 160 {\"(4.0, -2.0, ['0', '1'])\"}\n",
    }


def test_forked_children_call_what_was_loaded_and_load_more(store, tmp_path):
    outcome = node(
        store,
        """
        import os
        import threading
        import numpy as np
        f = nbcache.load("first")
        busy = threading.Event()
        def load():
            while not busy.is_set():
                nbcache.load("third")
        thread = threading.Thread(target=load)
        thread.start()
        statuses = []
        for _ in range(10):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = 0 if f(np.ones(2))[0] + nbcache.load("second")(np.ones(2))[0] == 2 else 2
                finally:
                    os._exit(status)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        busy.set()
        thread.join()
        print(statuses)
        """,
        tmp_path,
    )
    assert outcome.stdout == f"{[0] * 10}\n"


@pytest.mark.long
def test_two_versions_of_a_name_are_two_functions(store, tmp_path):
    write(tmp_path, 100)
    accumulator(store, 'import shared; nbcache.publish("first", shared.first, ["f8[:](f8[:])"])', tmp_path)
    outcome = node(
        store,
        """
        import numpy as np
        old, new = nbcache.load("first", version=1), nbcache.load("first")
        print(float(old(np.ones(2))[0]), float(new(np.ones(2))[0]), float(old(np.ones(2))[0]))
        """,
        tmp_path,
    )
    assert outcome.stdout == "4.0 202.0 4.0\n"


@pytest.mark.long
def test_loading_twice_is_the_same_code(store, tmp_path):
    outcome = node(
        store,
        """
        import numpy as np
        print({float(nbcache.load("first")(np.ones(2))[0]) for _ in range(50)})
        """,
        tmp_path,
    )
    assert outcome.stdout == "{4.0}\n"
