"""A Python or a system that nobody verified: one line, and everything else is as without nbcache.

Pretended, since Numba itself runs under verified ones alone: what nbcache takes for verified is another range, or
`sys` says another version.
"""

import re
import sys
from pathlib import Path

import pytest
from nbtest import proc

from nbcache import pythons

ROOT = Path(__file__).resolve().parents[2]
PRETENDED = "import nbcache.pythons\nnbcache.pythons.VERIFIED = ((3, 5), (3, 6))\n"
# What needs more than any Python has.
BROKEN = "import sys\nsys.modules['nbcache.glue'] = sys.modules['nbcache.client.activation'] = None\n"
PROGRAM = """
import numba, nbcache

@numba.njit
def f(x):
    return x + 1

print(f(1), nbcache.stats()["hit_count"], nbcache.stats()["published"])
nbcache.disable()
"""
LINE = f"nbcache stays off: CPython {sys.version_info[0]}.{sys.version_info[1]} is not a Python that nbcache was verified with"


def run(tmp_path, program, store, **environ):
    (tmp_path / "main.py").write_text(program)
    return proc.run([tmp_path / "main.py"], store, environ)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def test_this_python_is_verified():
    assert pythons.problem() is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"version_info": (3, 9, 20, "final", 0)}, "CPython 3.9 is not"),
        ({"version_info": (3, 16, 0, "alpha", 1)}, "CPython 3.16 is not"),
        ({"version_info": (4, 0, 0, "final", 0)}, "CPython 4.0 is not"),
        ({"version_info": (3, 14, 0, "final", 0), "abiflags": "t"}, "CPython 3.14 without the GIL is not"),
        ({"implementation": type("", (), {"name": "pypy"})}, "pypy 3."),
        ({"platform": "darwin"}, "darwin is not a system"),
    ],
)
def test_another_python_is_refused_in_one_line(said, words, monkeypatch):
    for name, value in said.items():
        monkeypatch.setattr(sys, name, value)
    assert words in pythons.problem()
    assert "\n" not in pythons.problem()


def test_the_wheel_asks_for_the_first_one_and_names_them_all():
    text = (ROOT / "pyproject.toml").read_text()
    (first, last) = pythons.VERIFIED
    assert f'requires-python = ">={first[0]}.{first[1]}"' in text
    named = re.findall(r"Programming Language :: Python :: 3\.(\d+)", text)
    assert list(map(int, named)) == list(range(first[1], last[1] + 1))


@pytest.mark.parametrize("when", ["switch", "enable"])
def test_it_switches_nbcache_off_with_one_line(tmp_path, store, when):
    enable = f"import nbcache\nnbcache.enable({str(store)!r})\n" if when == "enable" else ""
    done = run(tmp_path, PRETENDED + BROKEN + enable + PROGRAM, store if when == "switch" else None)
    assert done.stdout == "2 0 0\n", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert LINE in done.stderr
    assert not store.exists()


SYSTEM = """
import ctypes, os, sys, llvmlite.binding, numpy  # which look for this system's libraries
sys.platform = NAME
if NAME == "win32":
    sys._vpath = ""
    sys.modules.update(dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios")))
    lacks = "fork register_at_fork getuid geteuid getgid getegid getgroups uname pread chown fchown fchmod mkfifo statvfs"
    for name in (*lacks.split(), "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"):
        delattr(os, name)
"""


@pytest.mark.parametrize("when", ["switch", "enable"])
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_on_another_system_a_program_is_told_in_one_line(tmp_path, store, system, when):
    """That of its team, which has the variable in its settings, or of a package that proposes a directory."""
    enable = f"import nbcache\nnbcache.enable({str(store)!r}, only_if_unset=True)\n" if when == "enable" else ""
    program = SYSTEM.replace("NAME", repr(system)) + enable + PROGRAM
    done = run(tmp_path, program, store if when == "switch" else None)
    assert done.stdout == "2 0 0\n", done.stderr
    line = f"nbcache stays off: {system} is not a system that nbcache was verified on, which is Linux\n"
    assert done.stderr == line
    assert not store.exists()


def test_who_switched_nbcache_off_hears_nothing(tmp_path, store):
    done = run(tmp_path, PRETENDED + BROKEN + PROGRAM, store, NBCACHE_DISABLE="1")
    assert (done.stdout, done.stderr) == ("2 0 0\n", "")


def test_it_is_tried_where_somebody_says_so(tmp_path, store):
    for counts in ("2 0 2", "2 1 0"):  # Numba's runtime is published as well
        done = run(tmp_path, PRETENDED + PROGRAM, store, NBCACHE_UNVERIFIED="1")
        assert done.stderr == ""
        assert done.stdout == counts + "\n"


def command(tmp_path, before, *argv, **environ):
    program = f"{before}\nfrom nbcache.cli.main import main\nsys.exit(main({list(argv)!r}))\n"
    return run(tmp_path, "import sys\nsys.version_info = (3, 99, 0, 'alpha', 0)\n" + program, None, **environ)


@pytest.mark.every(3)
@pytest.mark.parametrize("argv", [["ls"], ["stats"], ["gc"], ["status"], ["verify"], ["config"]], ids=" ".join)
def test_commands_work_there_or_say_one_line(tmp_path, store, argv):
    run(tmp_path, PROGRAM, store)
    whole = command(tmp_path, "", *argv, "--dir", str(store))
    assert (whole.status, whole.stderr) == (0, "")
    part = command(tmp_path, "import nbcache.store.listing\ndel nbcache.store.listing.scan", *argv, "--dir", str(store))
    assert part.stderr.count("\n") == part.status, part.stderr


def test_a_command_that_can_not_be_imported_there_says_one_line(tmp_path):
    done = command(tmp_path, "sys.modules['_blake2'] = sys.modules['hashlib'] = None", "ls")
    assert done.status == 1
    assert done.stderr.startswith(
        "nbcache: CPython 3.99 is not a Python that nbcache was verified with: CPython 3.10 to "
    )
    assert done.stderr.count("\n") == 1, done.stderr


def test_no_daemon_runs_there(tmp_path, store):
    done = command(tmp_path, "", "serve", "--dir", str(store), "--state", str(tmp_path / "state"))
    assert done.status == 1
    assert done.stderr.startswith("nbcache: no daemon runs here: CPython 3.99 is not")


def test_the_doctor_says_so(tmp_path):
    done = command(tmp_path, "import importlib.util\nimportlib.util.find_spec = lambda name: None", "doctor")
    assert done.status == 1
    assert "x python " in done.stdout
    assert "CPython 3.99 is not a Python that nbcache was verified with" in done.stdout
    assert "NBCACHE_UNVERIFIED=1" in done.stdout
