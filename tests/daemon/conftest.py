"""What tests of a daemon share."""

import pytest
from nbtest import proc
from nbtest.town import BOB, Town


@pytest.fixture
def town(place):
    """Users at one daemon, who run the interpreter that all of them may run."""
    python = proc.interpreter_for(BOB)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    return Town(place, python)
