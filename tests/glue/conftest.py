"""A store of its own for each test, used by this very process."""

import sys
import types

import pytest

import nbcache
from nbcache.client import activation


@pytest.fixture
def store(tmp_path):
    """The directory of a store that the hook of this process uses until the test ends."""
    nbcache.enable(tmp_path / "store")
    active = activation._active
    assert active is not None and active.enabled, "the hook stayed off"
    yield active.store.path
    nbcache.disable()


@pytest.fixture
def module():
    """`module(name, source, **names)` executes source as a module that can be imported by name."""
    made = []

    def make(name, source, **names):
        found = sys.modules.get(name)
        if found is None or name not in made:
            found = types.ModuleType(name)
            made.append(name)
        sys.modules[name] = found
        vars(found).update(names)
        exec(compile(source, f"<{name}>", "exec"), vars(found))
        return found

    yield make
    for name in made:
        sys.modules.pop(name, None)
