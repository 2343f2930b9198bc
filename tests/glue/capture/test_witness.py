"""What somebody's compile-time Python reads from outside: compared on a hit, or a reason not to cache."""

import json
import os
import textwrap

import pytest
from nbtest import proc

from nbcache.glue.capture import readings
from nbcache.glue.capture import witness as module_of_witness
from nbcache.glue.capture.witness import Witness

MAIN = """
import json, sys
import numba, nbcache
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    from lib import f
    result = f(1)
compiled = sum(each.is_start for _when, each in recorder.buffer)
stats = nbcache.stats()
reasons = [each if isinstance(each, str) else each["reason"] for each in stats["uncacheable"]]
print(json.dumps([result, compiled, reasons]))
"""
# The body of `generated` is run while Numba lowers the call; what it returns is compiled in.
INTRINSIC = """
import functools, glob, importlib, os, pathlib, socket, subprocess, sys
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
{head}

def generated():
{body}

@intrinsic
def ask(typingctx):
    def codegen(context, builder, signature, args):
        return context.get_constant(types.int64, int(generated()))
    return types.int64(), codegen

@njit
def f(x):
    return ask() + x
"""


class Place:
    """A directory with ``lib.py`` and a store."""

    def __init__(self, root):
        self.root = root

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def lib(self, body, head=""):
        self.write("lib.py", INTRINSIC.format(head=head, body=textwrap.indent(textwrap.dedent(body), "    ")))

    def run(self, *argv, cwd=".", main=MAIN, **environment):
        """(result, compiled, reasons) of one process."""
        (self.root / "main.py").write_text(main)
        outcome = proc.run(
            [self.root / "main.py", *argv], self.root / "store", {"PYTHONHASHSEED": "0", **environment},
            cwd=self.root / cwd,
        )  # fmt: skip
        assert outcome.status == 0, outcome.stderr
        assert outcome.stderr == ""
        return json.loads(outcome.stdout)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


LONG = pytest.mark.long
"""Of those that read the same thing in other words."""
ENVIRONMENT = [
    'return os.environ["_".join(["WITNESS", "X"])]',
    pytest.param('return os.environ.get("witness_x".upper())', marks=LONG),
    'return os.getenv("-WITNESS_X"[1:])',
    'return os.environb[b"_".join([b"WITNESS", b"X"])]',
    pytest.param(
        'return os.environ["_".join(["WITNESS", "X"])] if "_".join(["WITNESS", "X"]) in os.environ else 0', marks=LONG
    ),
    pytest.param("from os import environ\nreturn environ['_'.join(['WITNESS', 'X'])]", marks=LONG),
]


@pytest.mark.every(3)
@pytest.mark.parametrize("body", ENVIRONMENT)
def test_environment_variables_are_compared(place, body):
    place.lib(body)
    assert place.run(WITNESS_X="1")[:2] == [2, 1]
    assert place.run(WITNESS_X="1")[:2] == [2, 0]
    assert place.run(WITNESS_X="5")[:2] == [6, 1]
    assert place.run(WITNESS_X="5", OTHER="1")[:2] == [6, 0]
    assert place.run(WITNESS_X="1")[:2] == [2, 0]  # a variant beside the second


@pytest.mark.long
def test_a_variable_that_appears(place):
    place.lib('return os.environ.get("_".join(["WITNESS", "X"]), 3)')
    assert place.run()[:2] == [4, 1]
    assert place.run()[:2] == [4, 0]
    assert place.run(WITNESS_X="3")[:2] == [4, 1]
    assert place.run(WITNESS_X="7")[:2] == [8, 1]


@pytest.mark.long
def test_all_variables_at_once_are_a_reason(place):
    place.lib('return dict(os.environ)["WITNESS_X"]')
    for value in ("1", "2"):
        result, compiled, reasons = place.run(WITNESS_X=value)
        assert (result, compiled) == (int(value) + 1, 1)
        assert any("all environment variables" in reason for reason in reasons), reasons


FILES = [
    'return open("number").read()',
    pytest.param('return pathlib.Path("number").read_text()', marks=LONG),
    pytest.param('return open(os.path.join(os.path.dirname(__file__), "number")).read()', marks=LONG),
    'return os.read(os.open("number", os.O_RDONLY), 9)',
]


@pytest.mark.every(2)
@pytest.mark.parametrize("body", FILES)
def test_files_are_compared(place, body):
    place.lib(body)
    place.write("number", "1")
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]
    place.write("number", "4")
    assert place.run()[:2] == [5, 1]
    assert place.run()[:2] == [5, 0]


@pytest.mark.long
def test_lines_that_were_read_before_are_compared(place):
    # Python's library keeps them, so nothing is opened while compiling.
    place.lib(
        "return linecache.getline(numbers.__file__, 1)", head="import linecache, numbers_ as numbers\nnumbers.line()"
    )
    line = "\nimport linecache\ndef line():\n    return linecache.getline(__file__, 1)\n"
    for number in (1, 4):
        place.write("numbers_.py", f"{number}{line}")
        assert place.run()[:2] == [number + 1, 1]
        assert place.run()[:2] == [number + 1, 0]


LOOKED_AT = {
    "a link": ("return os.readlink('link')", lambda link: (link.unlink(missing_ok=True), link.symlink_to("3"))),
    "access": ("return 3 if os.access('link', os.F_OK) else 1", lambda link: link.write_text("")),
}


@pytest.mark.long
@pytest.mark.parametrize("what", LOOKED_AT)
def test_what_is_asked_about_a_path_is_compared(place, what):
    body, change = LOOKED_AT[what]
    place.lib(body)
    if what == "a link":
        (place.root / "link").symlink_to("1")
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]
    change(place.root / "link")
    assert place.run()[:2] == [4, 1]


@pytest.mark.long
def test_what_is_looked_for_and_missing(place):
    place.lib('return open("number").read() if os.path.exists("number") else 0')
    assert place.run()[:2] == [1, 1]
    assert place.run()[:2] == [1, 0]
    place.write("number", "4")
    assert place.run()[:2] == [5, 1]
    assert place.run()[:2] == [5, 0]


def test_directories_are_compared(place):
    place.lib('return len(glob.glob("data/*"))')
    place.write("data/a", "")
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]
    place.write("data/b", "")
    assert place.run()[:2] == [3, 1]


ENTRIES = {
    "what sort each is": ("sum(each[0] != 'data' for each in os.walk('data'))", "data/a/b"),
    "how large each is": ("sum(each.stat().st_size for each in os.scandir('data'))", "data/a"),
}


@pytest.mark.long
@pytest.mark.parametrize("what", ENTRIES)
def test_what_entries_of_a_directory_tell_is_compared(place, what):
    body, path = ENTRIES[what]
    place.lib(f"return {body}")
    place.write("data/a", "")
    assert place.run()[:2] == [1, 1]
    assert place.run()[:2] == [1, 0]
    (place.root / "data/a").unlink()
    place.write(path, "x")
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]


@pytest.mark.long
def test_a_distribution_that_appears_where_python_has_looked_before(place):
    head = "import importlib.metadata as metadata"
    place.lib("return len([*metadata.distributions(name='appearing')])", head=f"{head}\n[*metadata.distributions()]")
    place.write("unrelated/x", "")
    assert place.run()[:2] == [1, 1]
    place.write("appearing-1.dist-info/METADATA", "Name: appearing\nVersion: 1\n")
    assert place.run()[:2] == [2, 1]


def test_text_that_the_library_makes_functions_of_is_no_reason(place):
    place.lib("return collections.namedtuple('Pair', 'a b')(1, 2).b", head="import collections")
    assert place.run()[:2] == [3, 1]
    assert place.run()[:2] == [3, 0]


@pytest.mark.long
def test_the_working_directory_counts_where_it_is_read(place):
    place.lib("return len(os.path.basename(os.path.abspath('.')))")
    place.write("a/x", "")
    place.write("abc/x", "")
    assert place.run(cwd="a")[:2] == [2, 1]
    assert place.run(cwd="a")[:2] == [2, 0]
    assert place.run(cwd="abc")[:2] == [4, 1]


OUTSIDE = [
    'return subprocess.run(["echo", "3"], capture_output=True).stdout',
    "return len(socket.gethostname())",
    'open("out", "w").write("x")\nreturn 1',
    'os.environ["WITNESS_NEW"] = "1"\nreturn 1',
    "import ctypes\nreturn ctypes.CDLL(None).abs(3)",
    "import threading\nasking = threading.Thread(target=int)\nasking.start()\nasking.join()\nreturn 1",
    "import builtins\nreturn vars(builtins)['ev' + 'al']('1 + 1')",
]


@pytest.mark.every(7)
@pytest.mark.parametrize("body", OUTSIDE)
def test_what_cannot_be_compared_is_a_reason(place, body):
    place.lib(body)
    for _ in range(2):
        _result, compiled, reasons = place.run()
        assert compiled == 1
        assert any("somebody's code" in reason for reason in reasons), reasons


@pytest.mark.long
def test_readings_come_along(place):
    """The callee exists already, or was loaded, when its caller is compiled."""
    place.lib('return os.environ["_".join(["WITNESS", "X"])]')
    main = MAIN.replace(
        "result = f(1)", "f(1)\n    @numba.njit\n    def g(x):\n        return f(x) * 10\n    result = g(1)"
    )
    assert place.run(main=main, WITNESS_X="1")[:2] == [20, 2]
    assert place.run(main=main, WITNESS_X="1")[:2] == [20, 0]
    assert place.run(main=main, WITNESS_X="2")[:2] == [30, 2]
    assert place.run(WITNESS_X="2")[:2] == [3, 0]
    other = main.replace("* 10", "* 100")
    assert place.run(main=other, WITNESS_X="2")[:2] == [300, 1]  # f is loaded, g compiled
    alone = other.replace("    f(1)\n", "")
    assert place.run(main=alone, WITNESS_X="2")[:2] == [300, 0]
    assert place.run(main=alone, WITNESS_X="3")[:2] == [400, 2]


@pytest.mark.long
def test_what_the_toolchain_reads_does_not_count(place):
    place.write("lib.py", "from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    assert place.run(UNRELATED="1")[:2] == [2, 1]
    assert place.run(UNRELATED="2")[:2] == [2, 0]


def test_what_changes_while_it_is_used_is_not_stored(place):
    place.lib("STATE['n'] += 1\nreturn STATE['n']", head="STATE = {'n': 0}")
    for _ in range(2):
        result, compiled, reasons = place.run()
        assert (result, compiled) == (2, 1)
        assert reasons == ["what it depends on changed while it was compiled: lib.STATE"]


@pytest.mark.long
def test_what_is_filled_once_is_not_stored(place):
    # Nor is what uses it: which of the two states its code was made from can't be told.
    place.lib("if not STATE:\n    STATE.append(4)\nreturn STATE[0]", head="STATE = []")
    main = MAIN.replace(
        "result = f(1)", "f(1)\n    @numba.njit\n    def g(x):\n        return f(x) * 10\n    result = g(1)"
    )
    assert place.run(main=main)[:2] == [50, 2]
    assert place.run(main=main)[:2] == [50, 2]


@pytest.mark.long
def test_a_module_that_is_imported_late(place):
    place.lib("import settings\nfrom package import other, NUMBER\nreturn settings.K + other.K + NUMBER")
    place.write("settings.py", "K = 1\n")
    place.write("package/__init__.py", "NUMBER = 10\n")
    place.write("package/other.py", "from package.deep import K\n")
    place.write("package/deep.py", "K = 100\n")
    assert place.run()[:2] == [112, 1]
    assert place.run()[:2] == [112, 0]
    for name, text, result in (("package/deep.py", "K = 200\n", 212), ("package/__init__.py", "NUMBER = 30\n", 232)):
        place.write(name, text)
        assert place.run()[:2] == [result, 1]
        assert place.run()[:2] == [result, 0]


def test_what_nobody_reads_in_a_late_module_does_not_count(place):
    place.lib("import settings\nreturn settings.K")
    place.write(
        "settings.py",
        """
        import threading, time
        START, LOCK, IDS, K = time.time(), threading.Lock(), {id(object()): {("a", "b"), ("c", "d")}}, 1
        TABLE = {str(i): (i, i + 1) for i in range(60000)}
        """,
    )
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]


@pytest.mark.long
def test_functions_compiled_after_a_late_import_are_found_as_well(place):
    place.lib("import settings\nreturn settings.K")
    place.write("settings.py", "import os\nK = int(os.environ['_'.join(['WITNESS', 'X'])])\n")
    main = MAIN.replace(
        "result = f(1)",
        "import sys\n    result = f(1)\n    for n in range(3):\n"
        "        exec(f'@numba.njit\\ndef g{n}(x):\\n    return f(x) * {n}')\n        result += globals()[f'g{n}'](1)\n"
        "    result += 'settings' in sys.modules",
    )
    assert place.run(main=main, WITNESS_X="1")[:2] == [2 + 0 + 2 + 4 + 1, 4]
    assert place.run(main=main, WITNESS_X="1")[:2] == [2 + 0 + 2 + 4 + 1, 0]
    assert place.run(main=main, WITNESS_X="2")[:2] == [3 + 0 + 3 + 6 + 1, 4]


@pytest.mark.long
def test_a_module_that_is_missing_now(place):
    place.lib("try:\n    import settings\nexcept ImportError:\n    return 0\nreturn settings.K")
    assert place.run()[:2] == [1, 1]
    assert place.run()[:2] == [1, 0]
    place.write("settings.py", "K = 1\n")
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]


@pytest.mark.long
def test_a_module_that_is_only_looked_for_is_not_loaded(place):
    place.lib("return 1 if importlib.util.find_spec('settings') else 0", head="import importlib.util")
    main = MAIN.replace("result = f(1)", "result = [f(1), 'settings' in sys.modules]")
    assert place.run(main=main)[:2] == [[1, False], 1]
    assert place.run(main=main)[:2] == [[1, False], 0]
    place.write("settings.py", "raise AssertionError\n")
    assert place.run(main=main)[:2] == [[2, False], 1]
    assert place.run(main=main)[:2] == [[2, False], 0]


@pytest.mark.long
def test_a_module_that_can_not_be_imported_is_a_reason(place):
    # Whether it can, it decides by what nobody knows.
    place.lib("try:\n    import settings\nexcept ImportError:\n    return 0\nreturn settings.K")
    place.write("switch.py", "ON = False\n")
    place.write("settings.py", "import switch\nif not switch.ON:\n    raise ImportError\nK = 1\n")
    for _ in range(2):
        result, compiled, reasons = place.run()
        assert (result, compiled) == (1, 1)
        assert any("isn't there afterwards" in reason for reason in reasons), reasons
    place.write("switch.py", "ON = True\n")
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]


@pytest.mark.long
def test_a_module_of_the_library_that_can_not_be_imported(place):
    place.lib("try:\n    import asyncio.windows_events\nexcept ImportError:\n    return 0\nreturn 1")
    assert place.run()[:2] == [1, 1]
    assert place.run() == [1, 0, []]


IMPORTS = [
    "from . import settings\nreturn settings.K",
    "from .settings import K\nreturn K",
    "from package import settings as s\nreturn s.K",
    "import package.settings\nreturn package.settings.K",
    'return importlib.import_module(".settings", __package__).K',
    'return importlib.import_module("package.settings").K',
    "return importlib.import_module(NAME).K",
    'return __import__("package.settings", fromlist=["K"]).K',
    'return sys.modules["package.settings"].K',
]


@pytest.mark.every(20)
@pytest.mark.parametrize("body", IMPORTS)
def test_modules_that_are_loaded_count_for_what_is_read_off_them(place, body):
    place.lib(body, head='NAME = "package.settings"')
    (place.root / "package").mkdir()
    (place.root / "lib.py").rename(place.root / "package/mod.py")
    place.write("package/__init__.py", "import os\nfrom . import settings\nsettings.K += int(os.environ['WITNESS_X'])")
    place.write("package/settings.py", "K = 10\nUNUSED = 1\n")
    main = MAIN.replace("from lib", "from package.mod")
    assert place.run(main=main, WITNESS_X="1")[:2] == [12, 1]
    assert place.run(main=main, WITNESS_X="1")[:2] == [12, 0]
    assert place.run(main=main, WITNESS_X="2")[:2] == [13, 1]
    place.write("package/settings.py", "K = 10\nUNUSED = 2\n")
    assert place.run(main=main, WITNESS_X="2")[:2] == [13, 0]


def test_a_computed_name_of_a_module_is_a_reason(place):
    place.lib('return importlib.import_module("-".join(["set", "tings"]).replace("-", "")).K', head="import settings")
    place.write("settings.py", "K = 1")
    for _ in range(2):
        result, compiled, reasons = place.run()
        assert (result, compiled) == (2, 1)
        assert any("had to compute" in reason for reason in reasons), reasons


ARGUMENTS = [
    "return len(sys.argv)",
    "import sys as s\nreturn len(s.argv)",
    "from sys import argv\nreturn len(argv)",
    'return len(getattr(sys, "argv"))',
]


@pytest.mark.every(4)
@pytest.mark.parametrize("body", ARGUMENTS)
def test_arguments_of_the_program_count_where_they_are_read(place, body):
    place.lib(body)
    assert place.run()[:2] == [2, 1]
    assert place.run()[:2] == [2, 0]
    assert place.run("one")[:2] == [3, 1]
    assert place.run("one")[:2] == [3, 0]


def test_who_listens_to_events_takes_no_part(place):
    place.write("lib.py", "from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    main = MAIN.replace("with event", LISTENER + "with event")
    assert place.run(main=main)[:2] == [2, 1]
    assert place.run(main=main)[:2] == [2, 0]


LISTENER = """
class Writing(event.Listener):
    def on_start(self, event):
        open("log", "a").write("x")
    def on_end(self, event):
        pass
event.register("numba:compile", Writing())
event.register("numba:run_pass", Writing())
"""


@pytest.mark.long
def test_who_is_told_of_collections_takes_no_part(place):
    """Python collects in whatever thread allocates: Dask has its workers look at their memory then."""
    place.lib("return 7")
    told = """
        import gc
        seen = []
        def look(phase, info):
            with open("/proc/self/stat") as file:
                seen.append(file.read())
        gc.callbacks.append(look)
    """
    place.write("told.py", told)
    main = "import told\n" + MAIN + "assert told.seen\n"
    assert place.run(main=main) == [8, 1, []]
    assert place.run(main=main) == [8, 0, []]


@pytest.fixture
def listening():
    """A witness that listens to this thread, and what it noted."""
    noted, before = [], dict(readings.so_far)
    witness = Witness(lambda effect: noted.append(effect.obj))
    witness.start()
    yield witness, noted
    witness.stop()
    readings.so_far.clear()
    readings.so_far.update(before)


def test_looking_is_not_looked_at_whosever_code_looks(listening, tmp_path, monkeypatch):
    """As where nbcache's own code passes for somebody's: each look would call for another."""
    witness, noted = listening
    monkeypatch.setattr(readings, "whose_code", lambda _file: readings.OTHERS_CODE)
    (tmp_path / "data").write_text("3")
    os.listdir(tmp_path)
    os.getcwd()
    assert os.environ["PATH"] and os.path.exists(tmp_path / "data")
    assert (tmp_path / "data").read_text() == "3"
    witness.stop()
    assert {"the directory", "the working directory", "the environment variable"} <= {each.kind for each in noted}
    assert [each.name for each in noted if each.kind == "the file"] == [str(tmp_path / "data")]


def test_a_look_that_fails_raises_nothing_and_keeps_what_is_compiled_out_of_the_cache(listening, monkeypatch):
    witness, noted = listening
    monkeypatch.setattr(module_of_witness, "others_caller", lambda _frame: 1 // 0)
    assert os.path.isabs(os.getcwd()) and os.environ["PATH"]
    witness.stop()
    assert {each.kind for each in noted} == {"refused"}
    assert not witness.paused


COLORAMA = """
import os
__version__ = "0.4.6"
class Fore:
    BLUE = YELLOW = WHITE = GREEN = RED = BLACK = MAGENTA = CYAN = ""
class Style:
    RESET_ALL = BRIGHT = ""
def init():
    "PYCHARM_HOSTED" in os.environ
reinit = deinit = init
"""


def test_what_colours_numbas_messages_takes_no_part_in_compiling(place):
    """Numba words thousands of errors that nobody sees while it looks for a type, and has each coloured."""
    place.write("colorama/__init__.py", COLORAMA)
    place.write("lib.py", "from numba import njit\n@njit\ndef f(x):\n    return len([x, 2.5]) + max(x, 2.5)")
    main = "from numba.core import errors\nassert hasattr(errors, 'ColorShell')\n" + MAIN
    result, compiled, refused = place.run(main=main)
    assert (result, compiled > 0, refused) == (4.5, True, [])
    assert place.run(main=main) == [4.5, 0, []]
    assert place.run(main=main, PYCHARM_HOSTED="1") == [4.5, 0, []]
