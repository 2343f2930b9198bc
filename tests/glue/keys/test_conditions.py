"""Numba's settings in a key are those that Numba compiles with: it reads them again before each compilation."""

import os
from pathlib import Path

import pytest
from nbtest import proc
from numba.core import config

from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.conditions import Conditions


@pytest.fixture
def reloads(monkeypatch, tmp_path):
    """How often the settings were read again, in a folder without a file of settings."""
    monkeypatch.chdir(tmp_path)
    calls = []
    monkeypatch.setattr(config, "reload_config", lambda: calls.append(1))
    return calls


def test_nothing_changed(reloads):
    conditions = Conditions()
    first = conditions.digest()
    assert conditions.digest() == first
    assert len(reloads) == 1


def test_the_environment(reloads, monkeypatch):
    conditions = Conditions()
    conditions.digest()
    for change in (lambda: monkeypatch.setenv("NUMBA_OPT", "1"), lambda: monkeypatch.delenv("NUMBA_OPT")):
        before = len(reloads)
        change()
        conditions.digest()
        assert len(reloads) == before + 1


def test_a_setting_that_the_code_generator_was_made_with_and_that_changed(reloads, monkeypatch):
    conditions = Conditions()
    at_first = conditions.digest()
    monkeypatch.setattr(config, "OPT", 0)
    late = conditions.digest()
    assert late not in {at_first, Conditions().digest()}
    monkeypatch.undo()
    assert conditions.digest() == at_first


def test_settings_that_numba_refuses(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    conditions = Conditions()
    first = conditions.digest()

    def refuse():
        msg = "Cannot set NUMBA_NUM_THREADS to a different value"
        raise RuntimeError(msg)

    with monkeypatch.context() as refused:
        refused.setenv("NUMBA_NUM_THREADS", "1")
        refused.setattr(config, "reload_config", refuse)
        for _ in range(2):  # as often as Numba would
            with pytest.raises(Unidentifiable, match="that it refuses: reading them raises RuntimeError"):
                conditions.digest()
    assert conditions.digest() == first


def test_a_file_of_settings_that_comes_and_goes(reloads, tmp_path):
    conditions = Conditions()
    conditions.digest()
    Path(config._config_fname).write_text("opt: 1\n")
    conditions.digest()
    conditions.digest()
    assert len(reloads) == 3
    (tmp_path / config._config_fname).unlink()
    conditions.digest()
    assert len(reloads) == 4
    conditions.digest()
    assert len(reloads) == 4


def test_leaving_the_folder_of_the_file(reloads, tmp_path):
    Path(config._config_fname).write_text("opt: 1\n")
    conditions = Conditions()
    conditions.digest()
    os.chdir("/")
    conditions.digest()
    assert len(reloads) == 2


REREAD = """
import os
from numba import config, njit

@njit
def first(x):
    return x + 1

@njit
def second(x):
    return x + 2

first(1)
os.environ["NUMBA_BOUNDSCHECK"] = "1"
config.reload_config()
del os.environ["NUMBA_BOUNDSCHECK"]
second(1)
print(config.BOUNDSCHECK)
"""


def test_a_program_that_has_the_settings_read_itself(tmp_path):
    """What Numba reads again as it compiles is read again for the key, and is what the function is compiled with."""
    (tmp_path / "main.py").write_text(REREAD)
    plain = proc.run([tmp_path / "main.py"], None, cwd=tmp_path)
    runs = [proc.run([tmp_path / "main.py"], tmp_path / "store", cwd=tmp_path) for _ in range(2)]
    assert [each.stderr for each in (plain, *runs)] == [""] * 3
    assert {each.stdout for each in runs} == {plain.stdout}
