"""What is looked at in a function that was loaded is as if it had been compiled, however one looks."""

import pytest
from nbtest import proc

TAKEN = """
import sys

import numba
import numpy as np

TAKING = {
    "pop": lambda metadata: metadata.pop("parfor_diagnostics"),
    "setdefault": lambda metadata: metadata.setdefault("parfor_diagnostics", 0),
    "popped": lambda metadata: len([metadata.popitem() for _ in range(6)]),
    "copied": lambda metadata: sorted(metadata.copy()),
    "deleted": lambda metadata: metadata.__delitem__("parfor_diagnostics"),
    "cleared": lambda metadata: (metadata.clear(), sorted(metadata)),
    "merged": lambda metadata: sorted(metadata | {"more": 1}),
    "merged into": lambda metadata: sorted({"more": 1} | metadata),
    "backwards": lambda metadata: sorted(reversed(metadata)),
}

@numba.njit(parallel=True)
def function(numbers):
    total = 0.0
    for index in numba.prange(numbers.size):
        total += numbers[index]
    return total

function(np.arange(3.0))
(signature,) = function.signatures
found = TAKING[sys.argv[1]](function.get_metadata(signature))
print(sys.argv[1], type(found).__name__, isinstance(found, list | tuple) and found)
"""
WAYS = ["pop", "setdefault", "popped", "copied", "deleted", "cleared", "merged", "merged into", "backwards"]


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_metadata_can_be_changed_like_a_dictionary(tmp_path, way):
    plain = proc.run(["-c", TAKEN, way], None, cwd=tmp_path)
    assert plain.status == 0, plain.stderr
    assert plain.stdout.split()[0] == way.split()[0]
    for _ in ("cold", "warm"):
        found = proc.run(["-c", TAKEN, way], tmp_path / "store", cwd=tmp_path)
        assert (found.status, found.stdout, found.stderr) == (0, plain.stdout, plain.stderr)
