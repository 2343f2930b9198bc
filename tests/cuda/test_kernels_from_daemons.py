"""A daemon builds kernels for any compute capability, without a GPU, for clients that have one."""

import json
import threading

import built_elsewhere
import pytest
from cuda_programs import HEAD, PROGRAMS
from nbtest import daemons, proc
from nbtest.kernels import needs_numba_cuda, needs_two_capabilities, run

pytestmark = needs_numba_cuda


def build(place, count, capabilities):
    """Have a daemon build kernels for clients of each compute capability, which find them and compile nothing."""
    tree, store = place / "tree", place / "store"
    tree.mkdir()
    (tree / "kernels_of_test.py").write_text(built_elsewhere.module(count))
    # To import the module means to compile a device function, for who wants its function for the CPU as well.
    program = {"main": built_elsewhere.main(count) + "assert kernels_of_test.both(3.0) == 7.0\n"}
    with daemons.daemon(store) as daemon:
        for cc, spelt in capabilities.items():
            plain = run(program, tree, cc=cc)["programs"]["main"]
            found = run(program, tree, cc=cc, store=store, env=daemons.WAITING)
            assert not found["programs"]["main"]["failure"], found["programs"]["main"]["failure"]
            assert not found["programs"]["main"]["runs"], (found["stderr"], daemon.log)
            assert not found["stats"]["builds_count"]
            assert found["programs"]["main"]["launched"] == plain["launched"]
            assert len(plain["launched"]) >= count
        daemon.settle()
    assert not daemons.failures(store)
    # The clients may not write: all of it is the daemon's.
    rows = json.loads(proc.run(["-m", "nbcache", "ls", "--dir", store, "--json"]).stdout)
    kernels = {(row["function"], row["cc"]) for row in rows if row["kind"] == "cuda kernel"}
    numbers = range(count)
    assert kernels == {(f"kernels_of_test:kernel{i}", spelt) for i in numbers for spelt in capabilities.values()}


@needs_two_capabilities
def test_a_daemon_builds_kernels_for_two_capabilities(place):
    build(place, 2, {"8.0": "8.0", "9.0": "9.0a"})


@pytest.mark.long
def test_a_daemon_builds_twenty_kernels_for_five_capabilities(place):
    build(place, 20, {"7.5": "7.5", "8.0": "8.0", "8.9": "8.9", "9.0": "9.0a", "12.0": "12.0a"})


# What a pickle can't carry, or nobody asks for; last, because what they register counts for all that comes after them.
LEFT_TO_CLIENTS = {
    "reduce": "a function made inside one of numba-cuda's",
    "compile-ptx": "what cuda.compile returns",
    "compile-ltoir": "what cuda.compile returns",
    "overload": "an overload that a main program registers",
    "intrinsic": "an intrinsic that a main program registers",
}


def have_built(names, place):
    """Have a daemon build what main programs define, which comes to it pickled."""
    programs = {name: PROGRAMS[name] for name in names}
    plain = run(programs, place / "tree")["programs"]
    with daemons.daemon(place / "store") as daemon:
        found = run(programs, place / "tree", store=place / "store", env=daemons.WAITING)["programs"]
        daemon.settle()
    for name in programs:
        assert not found[name]["failure"], (name, found[name]["failure"])
        assert found[name]["launched"] == plain[name]["launched"], name
    assert {name for name in programs if found[name]["runs"]} == LEFT_TO_CLIENTS.keys() & programs.keys(), daemon.log


def test_a_daemon_builds_what_main_programs_define(place):
    have_built(["device-function-eager", "vectorize", "linked-cuda", "njit-callee"], place)


@pytest.mark.long
def test_a_daemon_builds_every_kind_of_program(place):
    # Under debug, what earlier programs of the process used becomes part of the code.
    have_built([*(name for name in PROGRAMS if name not in {"debug", *LEFT_TO_CLIENTS}), *LEFT_TO_CLIENTS], place)


@pytest.mark.long
def test_two_processes_compile_a_kernel_once(place):
    """Without a daemon: the second one waits for the first."""
    reports = {}

    def client(name):
        program = {"lazy": PROGRAMS["lazy"]}
        settings = {**daemons.WAITING, "NBCACHE_READONLY": "0"}
        reports[name] = run(program, place / name, store=place / "store", env=settings)

    threads = [threading.Thread(target=client, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = [report["programs"]["lazy"]["runs"].get("nvJitLink", 0) for report in reports.values()]
    assert sorted(runs) == [0, 1], reports


OTHER_TOOLKIT = HEAD + (
    "import nbcache.glue.cuda.toolkit as toolkit\n"
    "toolkit._identity_of_library = lambda name: 'another build'\n"
    "@cuda.jit\ndef kernel(x):\n    x[0] = 12\n"
    "kernel[1, 1](a)\n"
)


def test_who_has_another_toolkit_is_told_once_and_compiles(place):
    with daemons.daemon(place / "store") as daemon:
        for _ in range(2):
            found = run({"other": OTHER_TOOLKIT}, place / "tree", store=place / "store", env=daemons.WAITING)
            assert not found["programs"]["other"]["failure"]
            assert found["programs"]["other"]["runs"]["nvJitLink"] == 1
        daemon.settle()
        (failure,) = daemons.failures(place / "store")
        assert failure["reason"].startswith("nvvm of the CUDA toolkit here is another than the client's (")
        assert daemon.log.count("could not build __main__:kernel") == 1
        assert "it failed before" in found["stderr"]
        status = proc.run(["-m", "nbcache", "status", "--dir", place / "store"]).stdout
        assert "__main__:kernel (array(float32, 1d, C)) for 9.0a: nvvm of the CUDA toolkit here" in status


def test_an_interpreter_without_numba_cuda_says_so(place):
    import subprocess
    import sys

    tree, warm = place / "tree", place / "warm.jsonl"
    program = HEAD + "@cuda.jit\ndef kernel(x):\n    x[0] = 13\nkernel[1, 1](a)\n"
    run({"kernel": program}, tree, store=place / "store", env={"NBCACHE_RECORD": str(warm)})
    (line,) = warm.read_text().splitlines()
    job = (
        "import sys\nsys.modules['numba_cuda'] = None\nfrom nbcache.daemon import job_functions, job_side\n"
        "from nbcache.store.directory import Store\nfrom nbcache.file_trust import Trust\n"
        f"job_side.store = Store({str(place / 'other')!r}, Trust(), writable=False)\nprint(job_functions.build({line!r}))\n"
    )
    said = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True, check=True, cwd=place).stdout
    assert said == f"['environment', \"numba-cuda isn't installed for {sys.executable}\"]\n"


ON_A_DEVICE = "import numpy as np\nfrom numba import cuda\n{before}\n@cuda.jit\ndef kernel(x):\n    x[0] = 14\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("assert cuda.is_available() and cuda.get_current_device().compute_capability == (8, 9)", ""),
        ("assert cuda.is_bfloat16_supported() and len(cuda.gpus) == 1", ""),
        (
            "allocated = cuda.device_array(4)",
            "memalloc was asked of a device, and there is none here that has compute capability 8.9",
        ),
        ("n = cuda.get_current_device().MULTIPROCESSOR_COUNT", "MULTIPROCESSOR_COUNT was asked of a device"),
    ],
)
def test_what_a_module_asks_of_the_device_is_answered_where_that_is_known(place, before, said):
    tree = place / "tree"
    tree.mkdir()
    (tree / "kernels_of_test.py").write_text(ON_A_DEVICE.format(before=before))
    program = "import numpy as np\n{}import kernels_of_test\nkernels_of_test.kernel[1, 1](np.ones(4, np.float32))\n"
    # The client's device isn't there either.
    there = (
        "from numba import cuda\ncuda.is_available = cuda.is_bfloat16_supported = lambda: True\n"
        "cuda.gpus = [0]\ncuda.device_array = lambda n: None\n"
        "cuda.get_current_device().MULTIPROCESSOR_COUNT = 1\n"
        "from numba.cuda import api\ncuda.get_current_device = api.get_current_device\n"
    )
    with daemons.daemon(place / "store") as daemon:
        found = run({"main": program.format(there)}, tree, cc="8.9", store=place / "store", env=daemons.WAITING)
        assert not found["programs"]["main"]["failure"], found["programs"]["main"]["failure"]
        daemon.settle()
        reasons = [each["reason"] for each in daemons.failures(place / "store")]
    if said:
        assert len(reasons) == 1
        assert said in reasons[0], reasons
        assert found["programs"]["main"]["runs"]["nvJitLink"] == 1
    else:
        assert not reasons
        assert not found["programs"]["main"]["runs"]


def test_a_warm_list_has_what_each_process_asked_for(place):
    """Kernels and device functions, with their compute capability; the same when they are found as when compiled."""
    tree, lists = place / "tree", [place / "cold.jsonl", place / "warm.jsonl"]
    tree.mkdir()
    (tree / "kernels_of_test.py").write_text(built_elsewhere.module(2))
    program = {"main": built_elsewhere.main(2)}
    for warm in lists:
        run(program, tree, cc="9.0", store=place / "store", env={"NBCACHE_RECORD": str(warm)})
    cold, again = ([json.loads(line) for line in warm.read_text().splitlines()] for warm in lists)
    assert [(each["kind"], each["function"], each["cc"]) for each in cold] == [
        ("cuda device function", "kernels_of_test:eager", "9.0a"),
        ("cuda kernel", "kernels_of_test:kernel0", "9.0a"),
        ("cuda kernel", "kernels_of_test:kernel1", "9.0a"),
    ]
    assert [each["key"] for each in again] == [each["key"] for each in cold]
    assert {"toolkit/nvvm", "toolkit/libdevice", "toolchain/numba-cuda"} <= cold[0]["toolkit"].keys()
