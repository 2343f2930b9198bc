"""The releases of Numba that nbcache is said to work with."""

import re
from pathlib import Path

from nbcache.glue.hooks import seams

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


def test_the_wheel_asks_for_the_verified_releases():
    low, above = re.search(r'"numba>=0\.(\d+),<0\.(\d+)"', PYPROJECT.read_text()).groups()
    assert ((0, int(low)), (0, int(above) - 1)) == seams.VERIFIED


def test_every_seam_is_as_expected():
    assert seams.problem() is None
