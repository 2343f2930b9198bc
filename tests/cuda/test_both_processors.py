"""Functions for the CPU in programs that use numba-cuda: what it registers with Numba changes none of them."""

import pytest
from cuda_programs import HEAD
from nbtest.kernels import needs_numba_cuda, run

pytestmark = needs_numba_cuda

BOTH = HEAD + (
    "@njit\ndef both(v):\n    return v * 7\n@cuda.jit\ndef kernel(x):\n    x[0] = both(x[1])\n{first}\n{second}\n"
)
ON_HOST, ON_DEVICE = "assert both(np.float32(2)) == 14", "kernel[1, 1](a)"


@pytest.mark.parametrize(("first", "second"), [(ON_HOST, ON_DEVICE), (ON_DEVICE, ON_HOST)])
def test_a_process_that_compiles_no_kernel_finds_what_one_left_that_did(first, second, tmp_path):
    """numba-cuda loads its registries for what it compiles, and for nothing that is found."""
    run({"both": BOTH.format(first=first, second=second)}, tmp_path / "tree", store=tmp_path / "store")
    for steps in ((first, second), (second, first), ("", ON_HOST)):
        program = BOTH.format(first=steps[0], second=steps[1])
        found = run({"both": program}, tmp_path / "tree", store=tmp_path / "store")
        assert not found["programs"]["both"]["failure"], found["programs"]["both"]["failure"]
        assert not found["programs"]["both"]["runs"]
        assert not found["stats"]["misses"], steps


def test_where_wheels_are_looked_for_is_nobodys_reading(tmp_path):
    """importlib_metadata takes the place of Python's finder, and looks at all of sys.path when numba-cuda asks it."""
    pytest.importorskip("importlib_metadata")
    places = [tmp_path / name for name in ("one", "other")]
    for place in places:
        place.mkdir()
    before = "import sys\nsys.path.append({!r})\nimport importlib_metadata\n"
    program = "from numba import cuda\nimport numpy as np\n@cuda.jit\ndef kernel(x):\n    x[0] = 21\nkernel[1, 1](np.ones(4))\n"
    for number, place in enumerate(places):
        text = before.format(str(place)) + program
        found = run({"kernel": text}, tmp_path / "tree", store=tmp_path / "store")
        # As that of a Dask worker, which is on its path and goes with it.
        place.rmdir()
        assert bool(found["programs"]["kernel"]["runs"]) == (number == 0), found["stats"]["misses"]
