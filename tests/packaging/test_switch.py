"""The .pth switch: free when off, light when on, and harmless when nbcache is broken."""

import json
import os
import time

import pytest
from bare import ROOT, Environment

MODULES = "import sys, json; print(json.dumps(sorted(sys.modules)))"
LINE = (ROOT / "nbcache" / "nbcache.pth").read_text()
PLAIN = "import os; (os.environ.get('NO_SUCH_NAME') or os.environ.get('NO_OTHER_NAME')) and print('never')"
"""A line that does as little: what it takes says how slow a machine is on which 50 µs are too few for anything."""


def modules(environment, **environ):
    done = environment.run(MODULES, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    return set(json.loads(done.stdout))


def least(line):
    """The shortest time that executing a line takes [s]."""
    best = 1.0
    for _ in range(100):
        started = time.perf_counter()
        exec(line)
        best = min(best, time.perf_counter() - started)
    return best


@pytest.fixture
def bare(tmp_path):
    """An environment without nbcache, and with such a file: to read any, Python imports a module since 3.14."""
    environment = Environment(tmp_path / "bare")
    (environment.site / "other.pth").write_text("# nothing\n")
    return environment


def test_unset_imports_nothing(installed, bare):
    assert modules(installed) == modules(bare)
    assert modules(installed, NBCACHE_DIR="", NBCACHE_COUNT="") == modules(bare)


def test_unset_takes_less_than_50_microseconds(monkeypatch):
    monkeypatch.delenv("NBCACHE_DIR", raising=False)
    monkeypatch.delenv("NBCACHE_COUNT", raising=False)
    assert least(LINE) < max(50e-6, 3 * least(PLAIN))


@pytest.mark.parametrize("variable", ["NBCACHE_DIR", "NBCACHE_COUNT"])
def test_set_arms_the_hook_and_reads_one_file(installed, bare, tmp_path, variable):
    loaded = modules(installed, **{variable: str(tmp_path / "store")})
    assert loaded - modules(bare) == {"_nbcache", "gc"}


ARMED = """import sys, numba
hook = sys.modules.get("nbcache.client.hook")
print(hook is not None and hook._state["armed"])"""


@pytest.mark.every(8)
@pytest.mark.parametrize(("options", "armed"), [((), True), (("-s",), True), (("-I",), False), (("-E",), False)])
def test_a_python_that_ignores_its_environment_is_left_alone(own, options, armed):
    (own.site / "numba.py").write_text("__version__ = '0.0'\n")
    done = own.run(ARMED, *options, NBCACHE_DIR="/nonexistent", NBCACHE_COUNT="/nonexistent")
    assert done.stdout == f"{armed}\n"
    assert bool(done.stderr) == armed  # this is no Numba that nbcache knows


@pytest.mark.every(2)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: changes ids")
@pytest.mark.parametrize("which", ["user", "group"])
def test_a_python_with_rights_of_somebody_else_is_left_alone(own, which):
    """As one that a setuid program executes: who wrote the environment has fewer rights."""
    (own.site / "numba.py").write_text("__version__ = '0.0'\n")
    become = (lambda: os.setresuid(4321, 0, 0)) if which == "user" else (lambda: os.setresgid(4321, 0, 0))
    done = own.run(ARMED, preexec_fn=become, NBCACHE_DIR="/nonexistent")
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "code", ["raise RuntimeError('broken')", "def (", "raise ImportError", "arm = None", "def arm():\n    1 / 0"]
)
def test_a_broken_nbcache_does_not_disturb_python(own, tmp_path, code):
    for name in ("_nbcache.py", "nbcache/client/hook.py"):
        (own.site / name).write_text(code)
        done = own.run("print('fine')", NBCACHE_DIR=str(tmp_path / "store"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: changes ids")
def test_a_process_that_had_rights_when_numba_was_imported_is_left_alone_for_good(own):
    (own.site / "numba.py").write_text("__version__ = '0.0'\n")
    program = (
        "import os; os.setegid(4321)\n" + ARMED + "\nos.setegid(0); hook.init_extension(); print(hook._state['armed'])"
    )
    done = own.run(program, NBCACHE_DIR="/nonexistent")
    assert (done.stdout, done.stderr) == ("False\nFalse\n", "")


@pytest.mark.long
def test_a_cache_that_is_switched_off_while_numba_is_imported_stays_off(own):
    (own.site / "numba.py").write_text("import nbcache\nnbcache.disable()\n__version__ = '0.0'\n")
    done = own.run(ARMED, NBCACHE_DIR="/nonexistent")
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.every(2)
@pytest.mark.parametrize("older", ["", "INTERFACE = 1\n"])
def test_a_program_under_which_nbcache_is_upgraded_is_told_so(own, tmp_path, older):
    (own.site / "numba").mkdir()
    (own.site / "numba" / "__init__.py").write_text("__version__ = '0.68.1'\n")
    (own.site / "numba" / "part.py").write_text("answer = 42\n")
    program = (
        f"import _nbcache; del _nbcache.INTERFACE; exec({older!r}, vars(_nbcache))\nimport numba.part\n"
        "print(numba.part.answer)\nimport nbcache; nbcache.enable('/nonexistent/x'); nbcache.disable()\n"
    )
    done = own.run(program, NBCACHE_DIR=str(tmp_path / "store"))
    assert (done.returncode, done.stdout) == (0, "42\n")
    line = "nbcache stays off: it was upgraded while this Python ran (RuntimeError: start it anew)\n"
    assert done.stderr == line


COLLECTED = """
import gc
gc.collected = []
gc.callbacks.append(lambda _, info: gc.collected.append(info["generation"]))
gc.set_threshold(100, 1, 1)
try:
    import numba
except ValueError as raised:
    print(raised)
print(*gc.meanwhile, gc.isenabled(), gc.get_threshold()[:2] == (100, 1), len(gc.made))
"""


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("options", "setup", "ends", "collected", "enabled"),
    [
        ((), "", "", [0], True),
        ((), "", "raise ValueError('own')", [0], True),
        ((), "import gc; gc.disable()", "", [], False),
        (("-I",), "", "", [0, 1, 2], True),
    ],
)
def test_the_collector_looks_at_what_is_young_until_numba_is_imported(
    own, tmp_path, options, setup, ends, collected, enabled
):
    """So that to hook Numba takes next to no time; a program's own choice, and its exceptions, are as ever."""
    lines = "import gc\ngc.collected.clear()\ngc.made = [[] for _ in range(5000)]\ngc.meanwhile = {*gc.collected}\n"
    (own.site / "numba.py").write_text(f"{lines}__version__ = '0.0'\n{ends}\n")
    done = own.run(f"{setup}\n{COLLECTED}", *options, NBCACHE_DIR=str(tmp_path / "store"))
    *said, counts = done.stdout.splitlines()
    *meanwhile, now_enabled, is_usual, made = counts.split()
    assert said == (["own"] if ends else []), done.stderr
    assert (sorted(map(int, meanwhile)), now_enabled, is_usual, made) == (collected, str(enabled), "True", "5000")


LOADERS = """
import importlib.util, sys
from importlib.machinery import ModuleSpec

class Loader:
    def create_module(self, spec):
        return MADE() if spec.name == "numba" else None
    def exec_module(self, module):
        RAN.append(module)

class Frozen(Loader):
    def __setattr__(self, name, value):
        raise TypeError("frozen")

class Nameless:
    def __setattr__(self, name, value):
        if name.startswith("__"):
            raise AttributeError(name)

class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, LOADER) if name in {"numba", "other"} else None
    def __eq__(self, other):
        raise ValueError("incomparable")

RAN = []
sys.meta_path.append(Finder())
"""


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("program", "ran"),
    [
        ("LOADER, MADE = Frozen(), lambda: None\nimport numba", 1),
        ("LOADER, MADE = Loader(), Nameless\nimport numba", 1),
        ("LOADER, MADE = Loader(), lambda: None\nimport numba", 1),
        ("LOADER, MADE = Loader(), lambda: None\nimportlib.util.find_spec('numba'); import other\nassert 'numba' not in sys.modules", 1),
        ("LOADER, MADE = Loader(), lambda: None\nimportlib.util.find_spec('numba'); import other, numba", 2),
    ],
)  # fmt: skip
def test_modules_of_loaders_of_others_are_imported_as_ever(own, tmp_path, program, ran):
    environ = {"NBCACHE_DIR": str(tmp_path / "store"), "NBCACHE_LOG": "error"}
    done = own.run(f"{LOADERS}\n{program}\nprint(len(RAN))", **environ)
    assert (done.returncode, done.stdout) == (0, f"{ran}\n"), done.stderr


@pytest.mark.long
def test_a_broken_client_does_not_disturb_numba(own, tmp_path):
    (own.site / "numba.py").write_text("answer = 42\n")
    (own.site / "nbcache" / "client" / "hook.py").write_text("raise RuntimeError('broken')")
    done = own.run("import numba; print(numba.answer)", NBCACHE_DIR=str(tmp_path / "store"))
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert "nbcache stays off: it can't be imported" in done.stderr


def test_a_missing_nbcache_does_not_disturb_python(own, tmp_path):
    for name in ("nbcache", "_nbcache.py"):
        os.rename(own.site / name, own.site / f"gone-{name}")
        done = own.run("print('fine')", NBCACHE_DIR=str(tmp_path / "store"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_the_line_leaves_no_names_behind(monkeypatch):
    monkeypatch.setenv("NBCACHE_DIR", "/nonexistent/nbcache")
    names = {}
    exec(LINE.replace("_nbcache.switch()", "pass").replace("import _nbcache", "pass"), names)
    assert set(names) <= {"os", "__builtins__"}


@pytest.mark.long
def test_an_editable_install_has_the_same_switch(environment, tmp_path):
    pytest.importorskip("hatchling")
    environment.borrow_packages()  # pip runs the build inside it
    environment.install("--editable", ROOT)
    assert (environment.site / "nbcache.pth").read_text() == LINE
    assert "_nbcache" not in modules(environment)
    done = environment.run("import sys; print(sys.modules['_nbcache'].__file__)", NBCACHE_DIR=str(tmp_path / "store"))
    assert done.stdout.strip() == str(ROOT / "_nbcache.py")


def test_importing_the_package_imports_nothing_else(installed):
    done = installed.run(
        "import sys; before = set(sys.modules); import nbcache; print(sorted(set(sys.modules) - before))"
    )
    assert done.stdout.strip() == "['__future__', 'nbcache']"
