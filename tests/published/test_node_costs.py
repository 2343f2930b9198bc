"""What a node does until the first result of a published function, in modules, files and memory: times depend on the
machine, these don't.
"""

import json
import textwrap

import pytest
from nbtest import published
from nbtest.published import accumulator, node

MODULE = """
import numpy as np
from numba import njit

@njit("float64[::1](float64[::1], float64)")
def scaled(values, factor):
    return np.sqrt(values * factor + 1.0)

@njit("float64[::1](float64[::1], float64)")
def halved(values, factor):
    return values / factor
"""
FURTHER = """
from nbcache.published.realize import process
if way == "llvm":
    (code,) = process._code.values()
    calls, call = [], code._entries._engine._call
    call.update({name: (lambda function, name: lambda *args: (calls.append(name), function(*args))[1])(each, name)
                 for name, each in call.items()})
opened.clear()
assert nbcache.load("halved")(values, 2.0)[4] == 2.0
further = [each for each in opened if isinstance(each, str) and each.startswith(os.environ["NBCACHE_DIR"])]
made_executable = calls.count("FinalizeObject") if way == "llvm" else 0
"""
FIRST = """
import json
before = set(sys.modules)
import numpy as np
values = np.arange(1000.0)
numpy_s = set(sys.modules) - before
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
result = nbcache.load("scaled")(values, 2.0)
assert result[4] == 3.0
loaded = sorted(sys.modules.keys() - before - numpy_s)
files = [each for each in opened if isinstance(each, str) and not each.endswith((".py", ".pyc"))]
"""
MAPPED = """
library = {}
with open("/proc/self/smaps") as file:
    for line in file:
        words = line.split()
        if not words[0].endswith(":"):
            inside = words[-1].endswith("libllvmlite.so")
        elif inside and words[-1] == "kB":
            library[words[0]] = library.get(words[0], 0) + int(words[1])
"""
MOST_MODULES = {"image": 20, "llvm": 23}
"""What a node loads of nbcache. Each takes a tenth of a millisecond."""
ONLY_FOR_OTHERS = {
    *("environ", "groups", "memory_files", "path_syntax", "settings_files", "values"),
    *("store." + name for name in ("directory", "name_listing", "name_writing", "reasons", "tree")),
    *("protocol." + name for name in ("blobs", "rare_parts")),
    *("published." + name for name in ("dispatch", "introspection", "rare_symbols", "threads", "variables")),
}
"""What is for settings besides the store's place, for who writes to a store, and for other functions."""
FROM_ELSEWHERE = {"__future__", "_blake2", "_json", "atexit", "ctypes", "errno", "gc", "importlib", "numba"}
"""Parts of Python that NumPy doesn't load, none of them in Python but the first, and what `ctypes` loads for structures
since Python 3.14; Numba's two extensions in C."""
MOST_KIB = 20 << 10
"""Of LLVM's library, which is 170 MiB long and touches 45 of them when it is loaded. That of llvmlite 0.49 needs 17."""


@pytest.fixture(scope="module", params=["image", "llvm"])
def costs(request, tmp_path_factory):
    """How a node loads, and what it did."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "functions.py").write_text(textwrap.dedent(MODULE))
    with pytest.MonkeyPatch.context() as patch:
        published.choose(request.param, patch, tmp_path_factory.mktemp("no-linker"))
        program = 'import functions\nfor name in ("scaled", "halved"): nbcache.publish(name, getattr(functions, name))'
        accumulator(folder / "store", program, folder)
        said = "print(json.dumps([loaded, files, library, further, made_executable]))\n"
        program = f"import os\nway = {request.param!r}\n" + FIRST + MAPPED + FURTHER + said
        said = node(folder / "store", program, folder).stdout
    return request.param, *json.loads(said)


def test_a_node_loads_few_modules_and_nothing_that_only_others_need(costs):
    way, loaded, *_ = costs
    ours = [each for each in loaded if each.partition(".")[0] == "nbcache"]
    assert {"nbcache.published.load", "nbcache.store.publication"} <= set(ours)  # the instruments work
    assert len(ours) <= MOST_MODULES[way], ours
    assert {each.partition(".")[0] for each in loaded} - {"nbcache"} <= FROM_ELSEWHERE, loaded
    assert ("nbcache.published.engine" in ours) == (way == "llvm")
    assert ("nbcache.published.images" in ours) == (way == "image")
    # Exceptions are for those who have something to say: what is raised or caught has them all the same.
    assert not {each for each in ours if each.startswith(("nbcache.client", "nbcache.glue", "nbcache.errors"))}
    assert not {each.partition(".")[2] for each in ours} & ONLY_FOR_OTHERS


@pytest.mark.every(2)
def test_a_node_opens_each_file_once(costs):
    way, _loaded, files, *_ = costs
    assert len(files) == len(set(files)), files
    own = [each for each in files if not each.startswith("/proc/") and not each.endswith(".so")]
    # The name, and its image; or else the memo, the entry and the check. A file with settings may be there twice.
    assert len(own) <= {"image": 2, "llvm": 4}[way] + 2, files


def test_what_llvm_s_library_needed_to_start_is_let_go(costs):
    way, _loaded, _files, library, *_ = costs
    if way == "llvm":
        assert 0 < library["Rss:"] <= MOST_KIB, library
    else:
        assert not library


def test_a_further_function_opens_what_is_its_own_once_and_makes_code_executable_once(costs):
    way, *_, further, made_executable = costs
    # Its name, and its image; or else its entry and its check.
    assert len(further) == len(set(further)) == {"image": 2, "llvm": 3}[way], further
    assert made_executable == (way == "llvm")
