"""Masked arrays come to what they come to with Numba's own ufuncs and functions."""

import textwrap

import pytest
from nbtest.published import OF_FOUR_KINDS, accumulator, node

MODULE = """
import numpy as np
from numba import cfunc, guvectorize, njit, vectorize

TABLE = np.arange(5.0)

@guvectorize(["(float64[:], float64[:])"], "(n)->()")
def total(values, result):
    result[0] = values.sum()
"""
OUTCOMES = """
import numpy as np
masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
rows = np.ma.array(np.arange(6.0).reshape(2, 3), mask=[[0, 1, 0], [0, 0, 0]])
for call in (
    lambda: revenue(masked, 0.5),
    lambda: revenue(masked, masked),
    lambda: revenue([4.0, 5.0, 6.0], masked),
    lambda: revenue(rows, masked),
    lambda: revenue.reduce(masked),
    lambda: revenue.outer(masked, masked),
    lambda: revenue(masked, 0.5, out=np.zeros(3)),
    lambda: revenue(np.ones(3), 0.5, out=np.ma.zeros(3)),
    lambda: total(masked),
    lambda: total(rows),
    lambda: scaled(masked),
    lambda: scaled(values=masked),
):
    try:
        print(repr(call()))
    except Exception as error:
        print("refused" if "MaskedArray" in str(error) else type(error).__name__)
"""


@pytest.mark.every(2)
def test_masked_arrays_come_to_what_they_come_to_with_numba(way, tmp_path):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE) + OF_FOUR_KINDS)
    publish = "from functions import revenue, scaled, total\n" + OUTCOMES
    publish += "\nfor each in (revenue, scaled, total):\n    nbcache.publish(each.__name__, each)"
    loaded = "revenue, scaled, total = map(nbcache.load, ('revenue', 'scaled', 'total'))\n" + OUTCOMES
    expected = accumulator(tmp_path / "store", publish, tmp_path).stdout
    assert node(tmp_path / "store", loaded, tmp_path).stdout == expected
    assert expected.count("masked_array(") >= 5 and "refused" in expected
