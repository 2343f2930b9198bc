"""The process that proves a publication runs nobody's code but what the one that publishes runs."""

import json
import os
import textwrap
import time

import pytest
from nbtest.published import accumulator

MODULE = """
from numba import njit

@njit
def twice(x):
    return 2 * x
"""


def test_the_current_directory_is_not_where_it_imports_from(tmp_path):
    (tmp_path / "proved.py").write_text(MODULE)
    elsewhere = tmp_path / "elsewhere"
    for name in ("nbcache", "json", "numpy"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')")
    # `python -c` has put the current directory first; a script hasn't, and goes to another one.
    program = f"""
        import os, sys
        import proved
        sys.path.remove("")
        os.chdir({str(elsewhere)!r})
        nbcache.publish("twice", proved.twice, ["(i8,)"])
        print(nbcache.load("twice")(3))
        """
    assert accumulator(tmp_path / "store", program, tmp_path).stdout == "6\n"
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_what_the_environment_names_does_not_count_where_it_is_not_heeded(tmp_path):
    (tmp_path / "proved.py").write_text(MODULE)
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('it ran')")
    program = f"""
        import os
        os.environ["PYTHONPATH"] = {str(planted)!r}
        import proved
        nbcache.publish("twice", proved.twice, ["(i8,)"])
        """
    accumulator(tmp_path / "store", program, tmp_path)
    assert not (tmp_path / "ran").exists()


SEVERAL = """
from numba import njit

def adding(number):
    @njit("int64(int64)")
    def add(x):
        return x + number
    return add

@njit("int64(int64[:])")
def beyond(a):
    return a[1 << 40]
"""
WHO = """
import os, sys, time
import several
from nbcache.published import proof

def others():
    found = []
    for each in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{each}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{each}/environ", "rb") as file:
                environ = file.read()
        except OSError:
            continue
        # This program's own words are its command line.
        if words.split(b"\\0")[1:2] == [b"-I"] and MARK.encode() in environ:
            found.append(int(each))
    return sorted(found)

def is_nobody_s_child():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False
"""


@pytest.fixture
def several(tmp_path):
    (tmp_path / "several.py").write_text(SEVERAL)
    return tmp_path


def run(folder, program):
    mark = f"NBTEST_MARK={folder}"
    whole = WHO.replace("MARK", repr(mark)) + textwrap.dedent(program)
    return accumulator(folder / "store", whole, folder, NBTEST_MARK=str(folder)).stdout


def test_one_process_proves_several_publications_and_is_nobody_s_child(several):
    said = run(
        several,
        """
        seen = []
        for number in range(3):
            nbcache.publish(f"add{number}", several.adding(number))
            seen.append(others())
            print(is_nobody_s_child())
        print(len(seen[0]), seen[0] == seen[1] == seen[2], [nbcache.load(f"add{n}")(1) for n in range(3)])
        """,
    )
    assert said == "True\n" * 3 + "1 True [1, 2, 3]\n"


@pytest.mark.long
def test_it_ends_with_the_process_that_it_proves_for(several):
    said = run(several, "nbcache.publish('add', several.adding(1)); print(others())")
    (number,) = json.loads(said)
    while os.path.exists(f"/proc/{number}"):
        time.sleep(0.01)


@pytest.mark.long
def test_in_other_circumstances_there_is_another_one(several):
    said = run(
        several,
        """
        nbcache.publish("a", several.adding(1))
        before = others()
        sys.path.append("/nowhere")
        nbcache.publish("b", several.adding(2))
        os.environ["SAID"] = "otherwise"
        nbcache.publish("c", several.adding(3))
        # Neither the first one nor the second, and each ends when it does.
        while len(others()) > 1:
            time.sleep(0.01)
        print(len(others()), before[0] in others())
        """,
    )
    assert said == "1 False\n"


@pytest.mark.long
def test_it_is_asked_again_after_a_call_that_crashed_and_after_it_has_gone(several):
    said = run(
        several,
        """
        import signal
        nbcache.publish("beyond", several.beyond)
        first = others()
        nbcache.publish("add", several.adding(1))
        print(others() == first)
        os.kill(first[0], signal.SIGKILL)
        while others():
            time.sleep(0.01)
        nbcache.publish("add", several.adding(2))
        print(len(others()), nbcache.load("add")(1))
        """,
    )
    assert said == "True\n1 3\n"


@pytest.mark.long
def test_a_forked_child_has_one_of_its_own(several):
    said = run(
        several,
        """
        nbcache.publish("add", several.adding(1))
        first = others()
        child = os.fork()
        if child == 0:
            nbcache.publish("other", several.adding(2))
            print(len(others()), flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        nbcache.publish("more", several.adding(3))
        print(first[0] in others(), nbcache.load("more")(1), nbcache.load("other")(1))
        """,
    )
    assert said == "2\n0\nTrue 4 3\n"


def test_what_compiles_for_longer_than_it_waits_is_proved(several):
    said = run(
        several,
        """
        from nbcache.published import proof
        patient = proof._PROGRAM
        impatient = "from nbcache.published import proving; proving.IDLE_SECONDS = 0.01; main()"
        proof._PROGRAM = patient.replace("main()", impatient)
        prove = proof.Prover.prove

        def later(*args, **kwargs):
            while others():
                time.sleep(0.01)
            proof._PROGRAM, proof.Prover.prove = patient, prove
            return prove(*args, **kwargs)

        proof.Prover.prove = later
        nbcache.publish("add", several.adding(3))
        print(nbcache.load("add")(4))
        """,
    )
    assert said == "7\n"


ORDER = """
import errno, os
from nbcache.store import atomic
import proved

said, fails = [], False

class Noted(atomic.Syscalls):
    @staticmethod
    def fsync(fd):
        path = os.readlink(f"/proc/self/fd/{fd}")
        if fails:
            raise OSError(errno.EIO, "the disk is broken", path)
        said.append(path)
        os.fsync(fd)

    @staticmethod
    def replace(temporary, path):
        said.append(f"named {path}")
        os.replace(temporary, path)

atomic.SYS = Noted()
nbcache.publish("twice", proved.twice, ["(i8,)"])
(name,) = [at for at, each in enumerate(said) if each.startswith("named ") and each.endswith("/v1/names/twice.json")]
placed = {each[6:] for each in said[:name] if "/v1/files/" in each and each.startswith("named ")}
assert placed and placed <= set(said[:name]), said
fails = True
try:
    nbcache.publish("again", proved.twice)
except nbcache.errors.PublicationError as error:
    print(error)
print(nbcache.names())
"""


def test_a_name_is_given_when_its_files_are_on_the_disk(tmp_path):
    (tmp_path / "proved.py").write_text(MODULE)
    said = accumulator(tmp_path / "store", "import nbcache.errors\n" + ORDER, tmp_path).stdout
    assert said == f"again: its files can't be written to {tmp_path / 'store'}: the disk is broken\n['twice']\n"
