"""What a hit may cost, in calls: times depend on the machine, these don't."""

import importlib.util
import json
import sys

import pytest
from nbtest import proc

FURTHER = 20
PROGRAM = f"""
import json, sys
sys.path.insert(0, {str(proc.ROOT / "tests/support")!r})
import numpy as np
import numba
from nbtest import costs

counts = costs.watch()
from numba import njit
import lib

def cost():
    spent = dict(counts)
    counts.clear()
    return spent

decorated = cost()
first = lib.first(np.arange(3.0)), cost()
further = sum(f(2) for f in lib.ALL), cost()
loaded_again = sum(f(2) for f in lib.ALL), cost()
other_modules = [name for name in ("numpy.ma", "numba.np.arraymath", "numba.np.npyimpl", "numba.cpython.unicode",
                 "filelock", "nbcache.store.slots", "nbcache.protocol", "sqlite3") if name in sys.modules]
print(json.dumps([decorated, first, further, loaded_again, other_modules]))
"""
LIB = "from numba import njit\n@njit\ndef first(a):\n    return a.sum() + len(a)\nALL = []\n" + "".join(
    f"@njit\ndef f{n}(x):\n    return x * {n} + 1\nALL.append(f{n})\n" for n in range(FURTHER)
)


def warm_costs(tmp_path):
    """The third run's costs: of the decorators, the first hit, all further ones, and calling again.

    The second one is the first to use what it finds, and so notes that (`nbcache.client.trials`).
    """
    (tmp_path / "lib.py").write_text(LIB)
    (tmp_path / "main.py").write_text(PROGRAM)
    outcomes = [proc.run([tmp_path / "main.py"], tmp_path / "store", cwd=tmp_path) for _ in range(3)]
    assert [outcome.stderr for outcome in outcomes] == [""] * 3
    cold, trial, warm = (json.loads(outcome.stdout) for outcome in outcomes)
    assert [part[0] for part in cold[1:4]] == [part[0] for part in trial[1:4]] == [part[0] for part in warm[1:4]]
    # That entries are on trial costs files of the process, and one of each, to say that it is good.
    assert trial[2][1]["files opened"] <= warm[2][1]["files opened"] + FURTHER
    assert trial[1][1]["files opened"] <= warm[1][1]["files opened"] + 25
    assert cold[2][1]["LLVM runs"] >= FURTHER  # the instruments work
    assert cold[2][1]["locks"] >= FURTHER
    # What a miss does with files: its own, the lease's, the record's, and those of the directories above them. The
    # program's profile is written each time that what was compiled has doubled.
    assert cold[2][1]["stats"] <= 13 * FURTHER + 3 * 10, cold[2]
    assert cold[2][1]["files opened"] <= 8 * FURTHER, cold[2]
    return warm[0], *[part[1] for part in warm[1:4]], warm[4]


@pytest.mark.long
def test_what_hits_cost(tmp_path):
    decorated, first, further, again, modules = warm_costs(tmp_path)
    for spent in (decorated, first, further, again):
        for never in ("bitcode parses", "LLVM runs", "refreshes", "locks"):
            assert never not in spent, (never, spent)
    assert modules == []
    # One for the code, or the runtime's, and the process's record; nothing else of the store is read before the first look-up.
    assert decorated.get("pickle loads", 0) == 0, decorated
    assert first["pickle loads"] == 2, first
    assert first["files opened"] <= 2 + metadata_files(), first
    # The files of Numba, llvmlite and NumPy, some 350, were looked at when Numba's import was over (identity/compiler_files.py),
    # before anything was counted.
    assert decorated["stats"] <= 100, decorated
    assert first.get("listings", 0) <= len(sys.path) + 2, first
    assert first["stats"] <= 100, first
    each = {name: count / FURTHER for name, count in further.items()}
    assert further["files opened"] <= FURTHER, further
    assert each["pickle loads"] == 2, each
    assert each["stats"] <= 4, each
    assert each["bytes read"] <= 1 << 16, each
    assert each.get("imports", 0) <= 0.5, each
    assert not {"listings", "assembly parses"} & further.keys(), further
    assert not again, again


def metadata_files():
    """How many distributions say what they extend: each is asked once, as Numba does."""
    from importlib.metadata import distributions

    return len(list(distributions()))


SIMPLE = f"""
import json, sys
sys.path.insert(0, {str(proc.ROOT / "tests/support")!r})
import numba
before = set(sys.modules)
from nbtest import costs

counts = costs.watch()
from numba import njit

@njit
def f(x):
    return x + 1.5

assert f(1.0) == 2.5
print(json.dumps([counts, sorted(sys.modules.keys() - before)]))
"""
ONLY_FOR_MISSES = {
    *("client." + name for name in ("checking", "elsewhere", "remote", "saving", "trials", "waiting_account")),
    *("glue.capture." + name for name in ("addresses", "diagnostics", "placeholders", "roles", "witness")),
    *("glue.entries." + name for name in ("front_end", "pack", "pickling")),
    *("glue.identity." + name for name in ("attributes", "counterparts", "differences", "instances", "kinds")),
    *("glue.identity.describe_" + name for name in ("c_functions", "numpy", "python")),
    *("glue.keys." + name for name in ("choices", "targets")),
    *("glue.hooks." + name for name in ("linear_algebra", "policy")),
    *("errors", "glue.publishing", "glue.requests", "metrics", "one_line", "protocol", "regular_files"),
    *("store." + name for name in ("atomic", "folders", "listing", "locks", "slots", "usage")),
}
SLOW = {
    "asyncio", "concurrent", "email", "filelock", "http", "multiprocessing", "nacl", "opendal", "scipy",
    "prometheus_client", "socket", "sqlite3", "subprocess", "tempfile", "tomllib", "urllib", "watchdog",
}  # fmt: skip
"""Of what a process that only imports Numba has not loaded."""
MOST_MODULES = 75
"""What a process loads of nbcache until its first hit is over. Each takes a tenth of a millisecond."""


def test_until_its_first_hit_a_process_loads_nothing_that_only_misses_need(tmp_path):
    (tmp_path / "main.py").write_text(SIMPLE)
    outcomes = [proc.run([tmp_path / "main.py"], tmp_path / "store", cwd=tmp_path) for _ in range(3)]
    assert [outcome.stderr for outcome in outcomes] == [""] * 3
    (cold, loaded_by_miss), (warm, loaded) = (json.loads(outcomes[at].stdout) for at in (0, 2))
    assert cold["patterns compiled"] > 0  # the instruments work
    assert cold["texts compiled"] > 0
    unknown = {name for name in ONLY_FOR_MISSES if importlib.util.find_spec(f"nbcache.{name}") is None}
    assert not unknown
    ours = [name for name in loaded if name.partition(".")[0] == "nbcache"]
    assert {"nbcache.glue.entries.pack", "nbcache.client.saving"} <= set(loaded_by_miss)
    assert not {name.removeprefix("nbcache.") for name in ours} & ONLY_FOR_MISSES
    assert len(ours) <= MOST_MODULES, ours
    assert not {name.partition(".")[0] for name in loaded} & SLOW
    # No named tuples of `typing`, no dataclasses, no patterns that a hit doesn't look for.
    assert not {"texts compiled", "patterns compiled"} & warm.keys(), warm


ARRAYS_AND_CALLBACKS = """
import sys
import numpy as np
from numba import cfunc, njit

TABLE, LARGE = np.arange(4.0), np.arange(200_000.0)

@njit
def read(at):
    return TABLE[at] + LARGE[-at]

@cfunc("float64(float64)")
def double(x):
    return 2 * x

@njit
def through(x):
    return double(x)

assert (read(1), double.ctypes(1.5), through(2.0)) == (200_000.0, 3.0, 4.0)
print(*(name for name in sys.modules if name.startswith("nbcache.glue.identity.")))
"""


def test_arrays_and_callbacks_load_no_describers_of_other_kinds(tmp_path):
    (tmp_path / "main.py").write_text(ARRAYS_AND_CALLBACKS)
    outcomes = [proc.run([tmp_path / "main.py"], tmp_path / "store", cwd=tmp_path) for _ in range(3)]
    assert [outcome.stderr for outcome in outcomes] == [""] * 3
    loaded = {name.rpartition(".")[2] for name in outcomes[2].stdout.split()}
    assert "describe_numpy" in loaded
    assert not loaded & {"kinds", "instances", "describe_python", "describe_foreign", "describe_cuda"}


COLLECTIONS = """
import gc, sys

def note(phase, info):
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "numba_imported":
            amid.append(info)
        frame = frame.f_back

amid = []
gc.callbacks.append(note)
import numba
print(amid, "nbcache.client.hook" in sys.modules)
"""


def test_nothing_is_collected_while_what_numba_made_is_noted(tmp_path):
    outcome = proc.run(["-c", COLLECTIONS], tmp_path / "store")
    assert (outcome.stdout, outcome.stderr) == ("[] True\n", "")


REGISTERED = """
from numba import njit
f = njit(lambda x: x + 1)
from nbcache.glue.identity import registrations
looked_at, are_numbas = [], registrations.are_numbas
registrations.are_numbas = lambda registered, keys: looked_at.append(len(registered)) or are_numbas(registered, keys)
print(f(1), sum(looked_at))
"""


def test_a_first_hit_looks_at_nothing_that_numba_registered_when_it_was_imported(tmp_path):
    outcomes = [proc.run(["-c", REGISTERED], tmp_path / "store") for _ in range(3)]
    assert [outcome.stderr for outcome in outcomes] == [""] * 3
    cold, warm = (outcomes[at].stdout.split() for at in (0, 2))
    assert int(cold[1]) > 1000  # the instruments work
    assert warm == ["2", "0"]
