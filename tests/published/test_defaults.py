"""Published functions that are called with fewer arguments than they have: defaults are compiled into the code."""

import pytest
from nbtest.published import accumulator, node

pytestmark = [pytest.mark.usefixtures("way"), pytest.mark.every(2)]

MODULE = """
import enum
import numba
import numpy as np
from numba import njit

class Color(enum.Enum):
    RED = 1

@njit
def inner(x):
    return x + 1

@njit
def several(x, times=2, negated=False, name="plain", nothing=None):
    return (-x if negated else x) * times, len(name), nothing is None

@njit
def calling(x):
    return several(x)[0] + several(x, negated=True)[0]

@njit
def applied(x, function=inner):
    return function(x)

@njit
def filled(n, kind=np.float32):
    return np.ones(n, kind)

@njit
def converted(x, kind=numba.int16):
    return kind(x)

@njit
def colored(x, color=Color.RED):
    return x * 2 if color is Color.RED else x

@njit
def starred(x, times=2, *rest):
    return x * times + len(rest)

@njit
def told(x, factor=0.5, low=-np.inf, high=np.inf, fill=np.nan, axes=(0, -1.5, "text"), kind=np.float32):
    return x * factor
"""
CALLED = """
    import functions as f
    import numpy as np
    f.several(1.5), f.several(1.5, 3), f.several(1, negated=True), f.several(2, name="four"), f.calling(1.5)
    f.applied(1.5), f.filled(2), f.converted(2.5), f.colored(1.5), f.starred(1.5), f.told(1.5)
    names = "several calling applied filled converted colored starred told".split()
    nbcache.publish("all", {name: getattr(f, name) for name in names})
"""
HERE = """
    import inspect
    import numpy as np
    f = nbcache.load("all")
    assert f.several(1.5) == f.several(x=1.5) == f.several(np.float16(1.5)) == (3.0, 5, True)
    assert f.several(1.5, 3) == f.several(1.5, times=3) == (4.5, 5, True) and f.several(1, negated=True) == (-2, 5, True)
    assert f.several(2, name="four") == (4, 4, True) and f.calling(1.5) == 0.0
    assert f.applied(1.5) == f.applied(x=np.float32(1.5)) == 2.5 and f.colored(1.5) == f.colored(np.float32(1.5)) == 3.0
    assert f.filled(2).dtype == np.float32 and f.converted(2.5) == 2 and f.starred(1.5) == f.starred(np.float32(1.5)) == 3.0
    assert str(inspect.signature(f.several)) == "(x, times=2, negated=False, name='plain', nothing=None)"
    told = "(x, factor=0.5, low=-inf, high=inf, fill=nan, axes=(0, -1.5, 'text'), kind=Ellipsis)"
    assert str(inspect.signature(f.told)) == told
    assert str(inspect.signature(f.starred)) == "(x, times=2, *rest)" and "'starred'" in repr(f.starred)
    for call in (lambda: f.several(), lambda: f.several(1.5, "2"), lambda: f.applied(1.5, 2), lambda: f.several(1.5, name=3)):
        try:
            raise SystemExit(f"{call()} although it is not published")
        except TypeError:
            pass
"""


def test_defaults_of_every_kind_are_left_out(tmp_path):
    """Those that only Numba can make are known to the code alone."""
    (tmp_path / "functions.py").write_text(MODULE)
    accumulator(tmp_path / "store", CALLED, tmp_path)
    # The node needs nothing of the module, which imports Numba.
    (tmp_path / "functions.py").unlink()
    node(tmp_path / "store", HERE, tmp_path)


@pytest.mark.long
def test_a_signature_with_fewer_arguments_stands_for_such_a_call(tmp_path):
    (tmp_path / "functions.py").write_text(MODULE)
    published = """
        import functions as f
        nbcache.publish("several", f.several, ["(float64,)", "(float64, int64)"])
        nbcache.publish("starred", f.starred, ["int64(int64)", "int64(int64, int64)"])
        nbcache.publish("whole", f.several, ["(float64, int64, boolean, unicode_type, none)"])
        try:
            nbcache.publish("none", f.several, ["()"])
        except Exception as error:
            assert "missing a required argument: 'x'" in str(error), error
    """
    accumulator(tmp_path / "store", published, tmp_path)
    here = """
        several, starred, whole = map(nbcache.load, ("several", "starred", "whole"))
        assert several(1.5) == (3.0, 5, True) and several(1.5, 3) == (4.5, 5, True)
        assert starred(2) == 4 and starred(2, 3) == 6
        # No code was compiled for the defaults, so these are arguments.
        assert whole(1.5) == (3.0, 5, True) and whole(1.5, name="four") == (3.0, 4, True)
        assert nbcache.about(several).signatures[0].startswith("(float64, omitted, omitted")
    """
    node(tmp_path / "store", here, tmp_path)
