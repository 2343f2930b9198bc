"""First calls from many threads, and forks while a thread is loading."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbtest import proc, programs, same, usage

THREADS = """
import threading
from work import ALL
barrier = threading.Barrier(8)
results = [None] * 8

def call(number):
    barrier.wait()
    order = ALL[number:] + ALL[:number] if {different} else ALL
    results[number] = sorted((function.__name__, repr(function(3))) for function in order)

threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(all(result == results[0] for result in results))
print(results[0])
print([function.signatures for function in ALL])
"""
FORKS = """
import os, signal, threading, warnings
warnings.simplefilter('ignore')
from work import ALL

def load():
    for function in ALL[:24]:
        function(3)

thread = threading.Thread(target=load)
thread.start()
children = []
for number in range(6):
    ALL[24 + number](2.5)
    pid = os.fork()
    if pid == 0:
        signal.alarm(600)
        right = all(abs(function(3) - function.py_func(3)) < 1e-9 for function in ALL[number:30])
        os._exit(0 if right else 3)
    children.append(pid)
thread.join()
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
print([repr(function(3)) for function in ALL])
"""


def prepare(place: Path, text: str, functions: int = 12) -> Path:
    """Write the program; return its main file."""
    (place / "work.py").write_text(programs.functions(functions))
    main = place / "main.py"
    main.write_text(text)
    return main


def compare(main: Path, store: Path, rounds: int = 2) -> None:
    """Run with no cache, then cold and warm: the same each time, no word on stderr."""
    plain = proc.run([main])
    assert plain.status == 0, plain.stderr
    for _ in range(rounds):
        outcome = proc.run([main], store)
        assert outcome.said == plain.said, outcome.stderr
        assert outcome.stderr == plain.stderr


@pytest.mark.long
def test_eight_threads_call_the_same_functions_first(place: Path) -> None:
    main, store = prepare(place, THREADS.format(different=False)), place / "store"
    compare(main, store)
    seen = usage.read(store)
    assert sum(seen.hits.values()) > 0
    assert not seen.built_twice


@pytest.mark.long
def test_eight_threads_call_different_functions_first(place: Path) -> None:
    main, store = prepare(place, THREADS.format(different=True)), place / "store"
    compare(main, store)
    assert not usage.read(store).built_twice


@pytest.mark.long
def test_forks_while_a_thread_loads(place: Path) -> None:
    main, store = prepare(place, FORKS, 30), place / "store"
    filler = place / "fill.py"
    filler.write_text("from work import ALL\n[function(3) for function in ALL]\n[function(2.5) for function in ALL]\n")
    assert proc.run([filler], store).status == 0
    for _ in range(3):
        outcome = proc.run([main], store)
        assert outcome.status == 0, outcome.stderr
        assert outcome.stdout.startswith("[0, 0, 0, 0, 0, 0]\n"), outcome.stdout + outcome.stderr
    before = usage.read(store)
    assert not before.built_twice


def test_workers_of_a_process_pool_hit_what_the_parent_built(place: Path) -> None:
    text = (
        "import multiprocessing, sys\nfrom work import ALL\n"
        "def call(index):\n    return repr(ALL[index](3))\n"
        "if __name__ == '__main__':\n    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:\n"
        "        print(pool.map(call, range(len(ALL))))\n"
    )
    main, store = prepare(place, text), place / "store"
    plain = proc.run([main, "fork"])
    assert plain.status == 0, plain.stderr
    for method in ("fork", "spawn", "forkserver"):
        outcome = proc.run([main, method], store)
        assert outcome.said == plain.said, outcome.stderr
    # A pool ends its workers with SIGTERM, so they leave no record: what is in the store shows that they published.
    before = usage.read(store)
    check = place / "check.py"
    check.write_text("from work import ALL\n[function(3) for function in ALL]\n")
    assert proc.run([check], store).status == 0
    assert not usage.read(store).since(before).builds


WHILE_COMPILING = """
import pickle, subprocess, sys, threading, warnings
import numba
from numba import njit
from numba.extending import overload

def make(k):
    @njit
    def g(x):
        return x + k
    return g

def slow(x): ...

@overload(slow)
def choose(x):
    threading.opened.set()
    threading.done.wait(600)
    {inside}
    return lambda x: x + 1

g = make(1)

@njit
def f(x):
    return slow(x) + g(x)

# Events can't be identified, so a chooser that reads its own makes everything uncacheable.
threading.opened, threading.done = threading.Event(), threading.Event()
LOAD = "import pickle, sys; print([each(1) for each in pickle.loads(sys.stdin.buffer.read())])"

def there(pickled):
    child = subprocess.run([sys.executable, "-c", LOAD], input=pickled, capture_output=True)
    return child.stdout, child.stderr[-500:]
"""
MEANWHILE = """
# A hit opens nothing.
thread = threading.Thread(target=lambda: (f(1), threading.opened.set()))
thread.start()
threading.opened.wait(600)
{outside}
threading.done.set()
thread.join()
print(f(1))
"""


def while_compiling(inside: str = "", outside: str = "") -> str:
    """A program: *inside* runs in the thread that compiles, *outside* meanwhile in another."""
    return WHILE_COMPILING.format(inside=inside) + MEANWHILE.format(outside=outside)


@pytest.mark.long
def test_a_dispatcher_is_pickled_for_another_process_while_a_thread_compiles(place: Path) -> None:
    same.everywhere(place, while_compiling(outside="print(there(pickle.dumps([g, make(2)])))"))


@pytest.mark.long
def test_a_chooser_pickles_a_dispatcher_for_another_process(place: Path) -> None:
    text = while_compiling(inside="print(there(pickle.dumps([g, make(2)])))", outside="threading.done.set()")
    main, store = prepare(place, text), place / "store"
    assert proc.run([main], store).said == proc.run([main]).said


@pytest.mark.long
def test_a_thread_warns_while_another_one_compiles(place: Path) -> None:
    warn = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    def tell(**how):
        warnings.warn("look", **how)
    tell()
    tell(stacklevel=0)
    tell(stacklevel=2)
    tell(stacklevel=-1)
    tell(stacklevel=90)
    if sys.version_info >= (3, 12):
        tell(skip_file_prefixes=("/nowhere",))
    print([(each.filename.rpartition("/")[2], each.lineno) for each in caught])
"""
    same.everywhere(place, while_compiling(outside=warn))


@pytest.mark.long
def test_warnings_of_a_chooser_are_of_its_own_lines(place: Path) -> None:
    warn = """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("look", stacklevel=0)
        warnings.warn("look")
        print([(each.filename.rpartition("/")[2], each.lineno) for each in caught])
"""
    text = while_compiling(inside=warn, outside="threading.done.set()")
    main, store = prepare(place, text), place / "store"
    assert proc.run([main], store).said == proc.run([main]).said


@pytest.mark.long
def test_functions_made_in_a_thread_have_names_of_their_own_while_another_one_compiles(place: Path) -> None:
    identity = """
from numba.core.bytecode import FunctionIdentity
names = [FunctionIdentity.from_function(there).unique_name for _ in range(3)]
print(len(set(names)), any("v1" in name for name in names))
"""
    same.everywhere(place, while_compiling(outside=identity))


FORK_BESIDE = """
import os, signal, threading
from numba import njit
from numba.extending import overload

def slow(x): ...

@overload(slow)
def choose(x):
    threading.opened.set()
    threading.done.wait(600)
    threading.chosen.set()
    return lambda x: x + 1

@njit
def f(x):
    return slow(x)

@njit
def g(x):
    return x * 2

@njit
def h(x):
    return g(x) + 1.5

def child():
    signal.alarm(600)
    threading.done.set()
    assert (g(3), h(3), f(3)) == (6, 7.5, 4)

threading.opened, threading.done, threading.chosen = threading.Event(), threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: (f(1), threading.opened.set()))
thread.start()
threading.opened.wait(600)
pid = os.fork()
if pid == 0:
    status = 3
    try:
        child()
        status = 0
    finally:
        os._exit(status)
# A fork that waits for the compilation goes on when that is over.
waited = threading.chosen.is_set()
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
threading.done.set()
thread.join()
print(waited, status, f(3), g(3), h(3))
"""


def test_a_fork_beside_a_thread_that_compiles_does_not_wait_and_its_child_compiles(place: Path) -> None:
    main, store = prepare(place, FORK_BESIDE), place / "store"
    for _ in range(2):
        outcome = proc.run([main], store)
        assert outcome.stdout == "False 0 4 6 7.5\n", outcome.stdout + outcome.stderr


@pytest.mark.long
def test_two_threads_fork_at_once_beside_one_that_compiles(place: Path) -> None:
    text = """
import os, threading
from work import ALL

def load():
    for function in ALL:
        function(2.5)

def fork():
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

ALL[0](3)  # imports filelock, which complains of forks that began before it was there
threads = [threading.Thread(target=load), *(threading.Thread(target=fork) for _ in range(3))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print([repr(function(3)) for function in ALL])
"""
    compare(*(prepare(place, text), place / "store"), rounds=1)
