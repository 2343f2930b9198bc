"""Programs that look for modules in ways of their own."""

from nbtest import proc

PROGRAM = """
import sys
class AsksAll:
    @staticmethod
    def find_spec(name, path=None, target=None):
        for finder in [*sys.meta_path]:
            if finder is not AsksAll:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
sys.meta_path.insert(0, AsksAll)
from numba import njit
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(1)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
@njit
def f(x):
    return x + 1
print(f(1), len(compiled))
"""


def test_a_finder_that_asks_all_others(tmp_path):
    """As slipcover's: nbcache's, which asks those behind it, is asked by one of these."""
    (tmp_path / "main.py").write_text(PROGRAM)
    outcomes = [proc.run([tmp_path / "main.py"], tmp_path / "store", {}) for _ in range(2)]
    assert [outcome.stdout for outcome in outcomes] == ["2 1\n", "2 0\n"]
    assert [outcome.stderr for outcome in outcomes] == ["", ""]
