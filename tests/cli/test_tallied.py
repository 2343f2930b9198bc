"""`nbcache doctor -- CMD` and NBCACHE_COUNT: every compilation of a command and its children, cache or no cache."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from nbtest import proc
from nbtest.daemons import wait_for

from nbcache import count_record

PROGRAM = """
import sys
import numpy as np
from numba import njit, vectorize

@njit
def single(x):
    return x + 1

@vectorize
def double(x):
    return x * 2

print(single(1), double(np.arange(3.0)))
sys.exit(5)
"""
CHILDREN = """
import multiprocessing
from numba import njit

@njit
def single(x):
    return x + 1

def task(x):
    return single(x)

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(task, [1]))
"""


@pytest.fixture
def doctor(tmp_path):
    def run(text, *options, store=None, **extra):
        path = tmp_path / "program.py"
        path.write_text(text)
        return proc.run(["-m", "nbcache", "doctor", *options, "--", sys.executable, path], store, extra)

    return run


def ignores(pid, number):
    """Whether a process ignores a signal."""
    with open(f"/proc/{pid}/status") as file:
        (mask,) = (line.split()[1] for line in file if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def told(done):
    start = done.stdout.index("{\n")
    return json.loads(done.stdout[start:])


def test_counts_come_after_the_output_and_the_status_is_the_commands(doctor):
    done = doctor(PROGRAM)
    assert (done.status, done.stderr) == (5, "")
    output, rest = done.stdout.split("\n", 1)
    assert output == "2 [0. 2. 4.]"
    assert re.search(
        r"^compile events +1  functions .*\npipelines +2  functions .*\nLLVM runs +[3-9]  pieces ", rest, re.MULTILINE
    )
    assert "\n  __main__:single(int64)\n" in rest
    assert "\n  __main__:double(float64)\n" in rest
    # The kernel of a ufunc triggers no event, its wrapper has no pipeline, and the NRT is a library too.
    assert "\n  ufunc_wrapper\n" in rest


def test_with_the_cache_on_the_second_time_counts_nothing(doctor, tmp_path):
    first = told(doctor(PROGRAM, "--json", store=tmp_path / "store"))
    assert first["status"] == 5
    assert first["totals"]["compile"] == 1
    assert first["totals"]["pipeline"] == 2
    assert "\nNumba compiled nothing.\n" in doctor(PROGRAM, store=tmp_path / "store").stdout
    second = told(doctor(PROGRAM, "--json", store=tmp_path / "store"))
    assert len(second["processes"]) == 1
    assert (second["totals"]["compile"], second["totals"]["pipeline"]) == (0, 0)


@pytest.mark.long
def test_dir_is_for_the_command(doctor, tmp_path):
    done = doctor(PROGRAM, "--dir", tmp_path / "store")
    assert done.status == 5
    assert (tmp_path / "store").is_dir()


@pytest.mark.long
def test_children_count_whether_forked_or_spawned(doctor):
    done = told(doctor(CHILDREN, "--json"))
    compiled = [name for process in done["processes"] for name in process["compile"]]
    assert sorted(compiled) == ["__main__:single(int64)", "__mp_main__:single(int64)"]
    assert len(done["processes"]) == 3


@pytest.mark.long
def test_a_command_that_is_killed_is_counted_up_to_then(doctor):
    done = doctor(PROGRAM.replace("sys.exit(5)", "import os; os.kill(os.getpid(), 9)"), "--json")
    assert done.status == 128 + signal.SIGKILL
    assert told(done)["totals"]["pipeline"] == 2


def test_an_interrupt_ends_the_command_and_not_the_report(tmp_path):
    # Started in the background of a script, the tests themselves may have been told to ignore interrupts.
    code = (
        "import numba, signal, time; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "print('ready', flush=True); time.sleep(100)"
    )
    argv = ["-m", "nbcache", "doctor", "--", sys.executable, "-c", code]
    process = subprocess.Popen(
        [sys.executable, *argv],
        env=proc.environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    # It leaves interrupts to the command once it has started that, which may be ready before.
    wait_for(lambda: ignores(process.pid, signal.SIGINT))
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGINT
    assert "processes that import Numba  1\n" in out


def test_nothing_to_see_says_so(doctor):
    done = doctor("print('no numba')")
    assert done.status == 0
    assert "None was seen" in done.stdout


def test_what_cannot_be_run(process, tmp_path):
    done = process("doctor", "--", "no-such-command-anywhere")
    assert (done.status, done.err) == (1, "nbcache: doctor: no such command: no-such-command-anywhere\n")


@pytest.mark.long
def test_without_the_cache_nothing_but_counting_is_switched_on(tmp_path):
    """A settings file that names a directory switches no process on, also when NBCACHE_COUNT arms the hook."""
    folder = tmp_path / "home" / ".config" / "nbcache"
    folder.mkdir(parents=True)
    (folder / "nbcache.toml").write_text(f'dir = "{tmp_path}/store"\n')
    (tmp_path / "counts").mkdir()
    code = "from numba import njit; print(njit(lambda x: x)(1))"
    done = proc.run(["-c", code], extra={"NBCACHE_COUNT": str(tmp_path / "counts"), "HOME": str(tmp_path / "home")})
    assert done.said == (0, "1\n")
    assert count_record.totals(count_record.read(str(tmp_path / "counts")))["compile"] == 1
    assert not (tmp_path / "store").exists()


@pytest.mark.long
def test_a_directory_that_is_not_there_is_no_error(tmp_path):
    code = "from numba import njit; print(njit(lambda x: x)(1))"
    done = proc.run(["-c", code], extra={"NBCACHE_COUNT": str(tmp_path / "gone")})
    assert (done.said, done.stderr) == ((0, "1\n"), "")


def test_torn_lines_and_other_versions_are_left_out(tmp_path):
    start = {"tally": count_record.VERSION, "pid": 1, "parent": 0, "argv": ["x"]}
    good = json.dumps({"what": "llvm", "name": "f"})
    (tmp_path / "1-a.jsonl").write_text(f"{json.dumps(start)}\n{good}\n{good[:9]}")
    (tmp_path / "2-b.jsonl").write_text(json.dumps({**start, "tally": count_record.VERSION + 1}) + f"\n{good}\n")
    (tmp_path / "3-c.jsonl").write_text("")
    (tmp_path / "other").write_text("not a record")
    (process,) = count_record.read(str(tmp_path))
    assert (process.pid, count_record.totals([process])) == (1, {"compile": 0, "pipeline": 0, "llvm": 1})
