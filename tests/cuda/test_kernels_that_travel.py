"""Kernels that arrive pickled: found where the compute capability matches, asked for or built where it doesn't."""

import pytest
from cuda_programs import HEAD
from nbtest import daemons
from nbtest.kernels import needs_numba_cuda, needs_two_capabilities, run

pytestmark = needs_numba_cuda

SENDING = HEAD + (
    "import cloudpickle\n"
    "FACTOR = np.float32(7)\n"
    "@njit\ndef both(v):\n    return v * FACTOR\n"
    "@cuda.jit(device=True)\ndef device(v):\n    return both(v) + 1\n"
    "def make(n):\n    @cuda.jit\n    def kernel(x):\n        x[0] = device(x[1]) * n + both(x[2])\n    return kernel\n"
    "made = make(7)\n"
    "made[1, 1](a)\n"
    "both(np.float32(1))\n"
    "open({path!r}, 'wb').write(cloudpickle.dumps({what}))\n"
)
DISPATCHER = "(made, both)"
OVERLOAD = "next(iter(made.overloads.values()))"
RECEIVING = HEAD + (
    "import cloudpickle\n"
    "kernel, both = cloudpickle.loads(open({path!r}, 'rb').read())\n"
    "kernel[1, 1](a)\n"
    "assert both(np.float32(2)) == 14\n"
)
LAUNCHING = HEAD + (
    "import cloudpickle\n"
    "kernel = cloudpickle.loads(open({path!r}, 'rb').read())\n"
    "kernel.bind()\nkernel.launch((a,), (1, 1, 1), (1, 1, 1))\n"
)


def send(place, what, store=None):
    path = str(place / "sent.pickle")
    report = run({"sending": SENDING.format(path=path, what=what)}, place / "tree", store=store)
    assert not report["programs"]["sending"]["failure"], report["programs"]["sending"]["failure"]
    return path, report["programs"]["sending"]["launched"]


def receive(program, path, place, **more):
    report = run({"receiving": program.format(path=path)}, place / "tree", **more)
    found = report["programs"]["receiving"]
    assert not found["failure"], found["failure"]
    return found, report


@needs_two_capabilities
def test_a_pickled_dispatcher_is_found_and_asked_for_elsewhere(place):
    store = place / "store"
    path, launched = send(place, DISPATCHER, store)
    with daemons.daemon(store) as daemon:
        same, report = receive(RECEIVING, path, place, store=store, env=daemons.WAITING)
        assert not same["runs"]
        assert same["launched"] == launched
        assert not report["stats"]["misses"]
        assert "built" not in daemon.log
        # Another device: whoever has it compiles nothing.
        other, report = receive(RECEIVING, path, place, store=store, cc="8.0", env=daemons.WAITING)
        daemon.settle()
        assert not other["runs"], (report["stderr"], daemon.log)
        assert "make.<locals>.kernel (array(float32, 1d, C)) for 8.0 for " in daemon.log
    assert not daemons.failures(store)
    assert other["launched"] == receive(RECEIVING, path, place, cc="8.0")[0]["launched"]


@pytest.mark.long
def test_a_pickled_dispatcher_is_built_where_no_daemon_is(place):
    store = place / "store"
    path, _launched = send(place, DISPATCHER, store)
    first, _report = receive(RECEIVING, path, place, store=store, cc="8.0")
    second, _report = receive(RECEIVING, path, place, store=store, cc="8.0")
    assert first["runs"]["nvJitLink"] == 1
    assert not second["runs"]
    assert second["launched"] == first["launched"]


@pytest.mark.long
@pytest.mark.parametrize("warm", [False, True])
def test_a_pickled_overload_carries_its_code(place, warm):
    """It runs as it is where the compute capability matches; elsewhere numba-cuda links its IR anew."""
    store = place / "store"
    plain_path, launched = send(place, OVERLOAD)
    plain_other = receive(LAUNCHING, plain_path, place, cc="8.0")[0]
    for _ in range(1 + warm):
        path, _launched = send(place, OVERLOAD, store)
    same, _report = receive(LAUNCHING, path, place, store=store)
    assert not same["runs"]
    assert same["launched"] == launched
    other, report = receive(LAUNCHING, path, place, store=store, cc="8.0")
    assert other["launched"] == plain_other["launched"]
    assert other["runs"]["nvJitLink"] == 1
    assert "front end" not in other["runs"]
    assert not report["stats"]["errors"]
