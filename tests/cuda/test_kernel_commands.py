"""The commands know kernels: compute capability, registers, shared memory, size of the cubin."""

import json
import subprocess
import sys

import pytest
from cuda_programs import HEAD
from nbtest.kernels import needs_numba_cuda, run

pytestmark = needs_numba_cuda

KERNEL = HEAD + (
    "@cuda.jit\ndef shared(x):\n    s = cuda.shared.array(64, float32)\n    t = cuda.threadIdx.x\n"
    "    s[t] = x[t]\n    cuda.syncthreads()\n    x[t] = s[63 - t] + 1\nshared[1, 64](a)\n"
)


def command(store, *arguments):
    line = [sys.executable, "-m", "nbcache", *arguments, "--dir", str(store)]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_commands_show_what_a_kernel_needs(tmp_path):
    store = tmp_path / "store"
    run({"shared": KERNEL}, tmp_path / "tree", store=store)
    run({"shared": KERNEL.replace("+ 1", "+ 2")}, tmp_path / "tree", store=store, cc="8.0")
    rows = {row["cc"]: row for row in json.loads(command(store, "ls", "--json", "shared"))}
    assert set(rows) == {"9.0a", "8.0"}
    for row in rows.values():
        assert row["kind"] == "cuda kernel"
        assert row["registers"] > 0
        assert row["shared"] >= 256
        assert 1_000 < row["cubin"] < row["size"]
    assert "cc 9.0a" in command(store, "ls", "shared")
    shown = command(store, "show", rows["8.0"]["key"])
    assert "toolkit/nvvm" in shown
    assert "numba-cuda" in shown
    why = command(store, "why", "shared")
    assert "target `cc`" in why
    assert "code of `__main__:shared`: changed" in why


BOTH = HEAD + (
    "@njit\ndef both(v):\n    return v * 3\n@cuda.jit\ndef kernel(x):\n    x[0] = both(x[1])\n{first}\n{second}\n"
)
ON_HOST, ON_DEVICE = "assert both(2.0) == 6.0", "kernel[1, 1](a)"


@pytest.mark.long
def test_one_function_for_both_processors(tmp_path):
    """Whoever compiles first, each gets its own code, and neither changes what the other is known by."""
    one, other = BOTH.format(first=ON_HOST, second=ON_DEVICE), BOTH.format(first=ON_DEVICE, second=ON_HOST)
    first = run({"both": one}, tmp_path / "tree", store=tmp_path / "store")
    second = run({"both": other}, tmp_path / "tree", store=tmp_path / "store")
    third = run({"both": one}, tmp_path / "tree", store=tmp_path / "store")
    plain = run({"both": one}, tmp_path / "tree")
    assert first["programs"]["both"]["runs"]["nvJitLink"] == 1
    for report in (second, third):
        assert not report["programs"]["both"]["failure"]
        assert not report["programs"]["both"]["runs"]
        assert not report["stats"]["misses"]
        assert report["programs"]["both"]["launched"] == plain["programs"]["both"]["launched"]


SENDING = HEAD + (
    "import cloudpickle, sys\n"
    "def make(n):\n    @cuda.jit\n    def kernel(x):\n        x[0] = x[1] * n\n    return kernel\n"
    "made = make(7)\nmade[1, 1](a)\nopen({path!r}, 'wb').write(cloudpickle.dumps(made))\n"
)
RECEIVING = HEAD + "import cloudpickle\ncloudpickle.loads(open({path!r}, 'rb').read())[1, 1](a)\n"


@pytest.mark.long
def test_a_kernel_that_arrives_pickled_is_found(tmp_path):
    path = str(tmp_path / "kernel.pickle")
    sent = run({"sending": SENDING.format(path=path)}, tmp_path / "tree", store=tmp_path / "store")
    assert not sent["programs"]["sending"]["failure"]
    receiving = {"receiving": RECEIVING.format(path=path)}
    same = run(receiving, tmp_path / "tree", store=tmp_path / "store")["programs"]["receiving"]
    assert not same["failure"]
    assert not same["runs"]
    assert same["launched"] == sent["programs"]["sending"]["launched"]
    other = run(receiving, tmp_path / "tree", store=tmp_path / "store", cc="8.0")["programs"]["receiving"]
    assert other["runs"]["nvJitLink"] == 1


PUT_OFF = HEAD + (
    "import nbcache\n"
    "@cuda.jit('float32(float32)', device=True)\ndef eager(v):\n    return v + 1\n"
    "{between}\n"
    "@cuda.jit\ndef kernel(x):\n    x[0] = eager(x[1]) * {factor}\n"
    "kernel[1, 1](a)\n"
)


def test_a_kernel_that_calls_what_a_hit_put_off_is_stored(tmp_path):
    texts = [PUT_OFF.format(between="", factor=factor) for factor in (2, 3)]
    run({"put-off": texts[0]}, tmp_path / "tree", store=tmp_path / "store")
    second = run({"put-off": texts[1]}, tmp_path / "tree", store=tmp_path / "store")
    assert not second["stats"]["uncacheable"]
    assert not run({"put-off": texts[1]}, tmp_path / "tree", store=tmp_path / "store")["programs"]["put-off"]["runs"]


@pytest.mark.long
@pytest.mark.parametrize("between", ["", "nbcache.disable()", "eager.inspect_llvm()"])
def test_a_device_function_that_a_hit_put_off_is_there_when_it_is_called(between, tmp_path):
    first = PUT_OFF.format(between="", factor=2)
    second = PUT_OFF.format(between=between, factor=3)
    run({"put-off": first}, tmp_path / "tree", store=tmp_path / "store")
    plain = run({"put-off": second.replace("nbcache.disable()", "")}, tmp_path / "tree")["programs"]["put-off"]
    found = run({"put-off": second}, tmp_path / "tree", store=tmp_path / "store")["programs"]["put-off"]
    assert not found["failure"], found["failure"]
    assert found["launched"] == plain["launched"]
