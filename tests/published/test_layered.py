"""Functions that were found in a layer are published like those of the store itself."""

import json
import textwrap

from nbtest.published import accumulator, node

from nbcache.config import Settings
from nbcache.store import Store, layers

MODULE = """
from numba import njit

@njit
def inner(x):
    return x + 1

@njit
def f(x):
    return 2 * inner(x)
"""


def test_what_comes_from_a_layer_is_published_with_its_entry(tmp_path):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    accumulator(tmp_path / "built", "import functions; functions.f(1.5)", tmp_path)
    layers.fill(str(tmp_path / "layer"), Store.open(Settings(dir=str(tmp_path / "built"))), lambda _: True)
    program = """
        import functions, json
        assert functions.f(1.5) == 5.0
        nbcache.publish("f", functions.f)
        print(json.dumps(nbcache.stats()))
        """
    outcome = accumulator(tmp_path / "store", program, tmp_path, NBCACHE_LAYERS=str(tmp_path / "layer"))
    counts = json.loads(outcome.stdout)
    assert counts["hits"] and not counts["misses"].get("new")
    node(tmp_path / "store", "assert nbcache.load('f')(1.5) == 5.0", tmp_path)
