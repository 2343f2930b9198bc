"""What is looked at in a function that was loaded is as if it had been compiled, however one looks."""

from nbtest import proc

TAKEN = """
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

for way, take in TAKING.items():
    @numba.njit(parallel=True)
    def function(numbers):
        total = 0.0
        for index in numba.prange(numbers.size):
            total += numbers[index]
        return total

    function(np.arange(3.0))
    (signature,) = function.signatures
    print(way, type(found := take(function.get_metadata(signature))).__name__, isinstance(found, list | tuple) and found)
"""


def test_metadata_can_be_changed_like_a_dictionary(tmp_path):
    plain = proc.run(["-c", TAKEN], None, cwd=tmp_path)
    assert plain.status == 0, plain.stderr
    assert "pop ParforDiagnostics" in plain.stdout
    for _ in ("cold", "warm"):
        found = proc.run(["-c", TAKEN], tmp_path / "store", cwd=tmp_path)
        assert (found.status, found.stdout, found.stderr) == (0, plain.stdout, plain.stderr)
