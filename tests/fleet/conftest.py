"""Other users, for those who may become them."""

import os

import pytest


@pytest.fixture
def as_root():
    """Skip unless we may change owners and drop privileges."""
    if os.getuid() != 0:
        pytest.skip("needs root: changes owners")


@pytest.fixture
def nobody(as_root):
    """Run keywords for a child without privileges, with an ordinary uid: the overflow uid is trusted by nobody."""
    from nbtest import proc

    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    return {"user": 54321, "python": python, "extra": proc.packages()}
