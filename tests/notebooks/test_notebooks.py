"""Notebooks: a second Jupyter kernel finds everything that the first one compiled, cell by cell."""

import json
from pathlib import Path

import pytest
from nbtest import proc

from nbcache import count_record

HERE = Path(__file__).parent


@pytest.fixture
def play(tmp_path):
    """Run the notebook in a new kernel; return what its cells put out, and what was compiled by kind."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    tmp_path.chmod(0o755)
    (tmp_path / "home").mkdir()

    def play(cells, label, store=None):
        counts = tmp_path / label
        counts.mkdir()
        home = str(tmp_path / "home")
        extra = {"NBCACHE_COUNT": str(counts), "HOME": home, "IPYTHONDIR": home, "JUPYTER_PLATFORM_DIRS": "0"}
        done = proc.run([HERE / "play.py", HERE / cells], store, extra, cwd=tmp_path)
        assert done.status == 0, done.stderr
        return json.loads(done.stdout), count_record.read(str(counts))

    return play


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("cells", "value"),
    [
        ("cells.py", "(3, 3.5)"),
        ("classes.py", "([1.0, 1.5, 3.0], 3)"),
    ],
)
def test_a_second_kernel_compiles_nothing(play, tmp_path, cells, value):
    expected, counted = play(cells, "plain")
    assert count_record.totals(counted)[count_record.COMPILE] >= 3
    assert ["value", value] in [output for outputs in expected for output in outputs]
    store = tmp_path / "store"
    assert play(cells, "first", store)[0] == expected
    said, counted = play(cells, "second", store)
    assert said == expected
    assert {kind: dict(count_record.names(counted, kind)) for kind in count_record.KINDS} == {
        kind: {} for kind in count_record.KINDS
    }
