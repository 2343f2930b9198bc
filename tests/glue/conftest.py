"""A store of its own for each test, used by this very process."""

import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest
from nbtest import proc, programs

import nbcache
from nbcache.client import activation

REPOSITORY = Path(__file__).resolve().parents[2]
HEAD = (
    """
import nbcache
nbcache.enable(STORE)
import numba, numpy as np
from numba import njit
from numba.core import compiler, event

class Events(event.Listener):
    seen = []
    def on_start(self, e):
        self.seen.append(e.data["dispatcher"].py_func.__qualname__)
    def on_end(self, e):
        pass

event.register("numba:compile", Events())
"""
    + programs.FORBID
)


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


@pytest.fixture
def run(tmp_path):
    """`run(body)` runs a program over the test's store and returns what it printed."""

    def start(body, **environment):
        program = tmp_path / "program.py"
        program.write_text(HEAD.replace("STORE", repr(str(tmp_path / "store"))) + textwrap.dedent(body))
        result = subprocess.run(
            [sys.executable, str(program)],
            check=False,
            capture_output=True,
            text=True,
            timeout=900,
            env={**os.environ, "PYTHONPATH": proc.search_path(REPOSITORY), **proc.DEFAULTS, **environment},
        )
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    start.store = tmp_path / "store"
    return start
