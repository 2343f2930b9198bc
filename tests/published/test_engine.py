"""LLVM's engine as nodes start it."""

import os
from types import SimpleNamespace

import pytest

from nbcache.published import engine


@pytest.mark.parametrize(("machine", "manages"), [("x86_64", False), ("aarch64", True)])
def test_memory_is_managed_as_llvmlite_does_it(machine, manages, monkeypatch):
    """Where code and data lie too far apart, LLVM ends the process."""
    asked = []
    functions = dict.fromkeys(engine._FUNCTIONS, lambda *_arguments: 1)
    functions["CreateMCJITCompiler"] = lambda _module, _machine, flag, _error: asked.append(flag) or 1
    monkeypatch.setattr(engine, "_functions", lambda _library: functions)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    engine.Engine()
    assert asked == [manages]
