"""NBCACHE_NAMESPACE, NBCACHE_DISABLE_ALL, NBCACHE_STATS_LOG and `nbcache.enable`, as programs meet them."""

import json
import os

import pytest
from nbtest import daemons, proc

PROGRAM = "import numba, nbcache\n@numba.njit(cache=True)\ndef f(x): return x + 1\nprint(f(1))\n"
COUNTED = PROGRAM + "import sys; print(nbcache.stats()['builds_count'], file=sys.stderr)\n"


@pytest.fixture
def program(tmp_path):
    tmp_path.chmod(0o755)
    path = tmp_path / "program.py"
    path.write_text(COUNTED)

    def run(store=None, **settings):
        outcome = proc.run([path], store, {f"NBCACHE_{name.upper()}": value for name, value in settings.items()})
        assert outcome.stdout == "2\n", outcome
        return int(outcome.stderr)

    run.path = path
    return run


def nbcache(store, *argv):
    outcome = proc.run(["-m", "nbcache", *argv, "--dir", store])
    assert outcome.status == 0, outcome
    return outcome.stdout


def test_programs_of_different_namespaces_share_nothing_and_one_is_evicted_by_name(program, tmp_path):
    store = tmp_path / "store"
    assert program(store) > 0
    assert program(store, namespace="release-7") > 0
    assert program(store, namespace="release-7") == 0
    assert "config/NBCACHE_NAMESPACE" in nbcache(
        store, "show", json.loads(nbcache(store, "ls", "f", "--json"))[-1]["key"]
    )
    assert " 0 entries removed" not in nbcache(store, "clear", "--namespace", "release-7", "--yes")
    assert program(store) == 0
    assert program(store, namespace="release-7") > 0


@pytest.mark.long
def test_a_daemon_builds_in_the_namespace_of_who_asks(program, tmp_path):
    store = tmp_path / "store"
    (tmp_path / "lib.py").write_text("import numba\n@numba.njit\ndef f(x): return x + 1\n")
    program.path.write_text(
        "import sys; import nbcache; from lib import f\n" + COUNTED.partition("def f(x): return x + 1\n")[2]
    )
    with daemons.daemon(store) as builder:
        program(store, namespace="tenant", on_miss="wait", wait_seconds="600")
        builder.says("lib:f")
    # Who waited and was served has missed nothing: all that counts as missed was compiled here.
    told = json.loads(nbcache(store, "stats", "--json"))
    assert told["hits"] >= 1 and told["missed"] == told["builds"], told
    assert "lib:f" in nbcache(store, "ls")
    before = json.loads(nbcache(store, "ls", "lib:f", "--json"))
    assert [each["function"] for each in before] == ["lib:f"]
    assert program(store, namespace="tenant") == 0
    assert program(store) > 0


@pytest.mark.long
def test_without_any_cache_numba_s_own_is_not_written_either(program, tmp_path):
    beside = tmp_path / "__pycache__"
    assert program(disable_all="1") == 0
    assert not list(beside.glob("*.nb[ic]"))
    assert program(tmp_path / "store", disable_all="1") == 0
    assert not list(beside.glob("*.nb[ic]")) and not (tmp_path / "store").exists()
    assert program(disable_all="0") == 0
    assert list(beside.glob("*.nb[ic]"))


@pytest.mark.long
def test_each_process_adds_a_line_of_what_it_did(program, tmp_path):
    log = tmp_path / "log"
    program(tmp_path / "store", stats_log=str(log))
    program(tmp_path / "store", stats_log=str(log))
    cold, warm = map(json.loads, log.read_text().splitlines())
    assert cold["builds_count"] > 0 and cold["hit_count"] == 0
    assert warm["builds_count"] == 0 and warm["hit_count"] > 0 and warm["saved_seconds"] > 0
    assert warm["argv0"] == str(program.path)


WORKER = """
import multiprocessing, numba, sys

@numba.njit
def f(x):
    return x + 1

def work():
    f(1)

if __name__ == "__main__":
    worker = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    worker.start(), worker.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_adds_its_line_however_it_was_started(tmp_path, method):
    """One that a fork server forked ends as one that was forked does, and has imported Numba itself."""
    (tmp_path / "main.py").write_text(WORKER)
    log = tmp_path / "log"
    assert proc.run([tmp_path / "main.py", method], tmp_path / "store", {"NBCACHE_STATS_LOG": str(log)}).stderr == ""
    (line,) = map(json.loads, log.read_text().splitlines())
    assert line["builds_count"] > 0


@pytest.mark.long
def test_a_log_that_can_not_be_written_is_a_line(program, tmp_path):
    extra = {"NBCACHE_STATS_LOG": str(tmp_path)}
    outcome = proc.run([program.path], tmp_path / "store", extra)
    assert outcome.status == 0 and outcome.stderr.count("NBCACHE_STATS_LOG=") == 1


@pytest.mark.long
def test_a_directory_below_one_s_home_is_found_when_a_program_names_it(tmp_path):
    (tmp_path / "home").mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    source = "import nbcache; nbcache.enable('~/cache')\n" + PROGRAM
    outcome = proc.run(["-c", source], extra={"HOME": str(tmp_path / "home")}, cwd=tmp_path)
    assert outcome.status == 0 and os.listdir(tmp_path / "home") == ["cache"]
    assert not (tmp_path / "~").exists()
