"""What somebody's compile-time Python reads from outside is a reason not to cache, unless its code spells it."""

import json
import os
import textwrap

import pytest
from nbtest import proc

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

    def is_compiled(self, wanted, because, **given):
        """Check that a process compiles, with the right result, and says why others will, too."""
        result, compiled, reasons = self.run(**given)
        assert (result, compiled) == (wanted, 1)
        assert any(because in reason for reason in reasons), reasons


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


LONG = pytest.mark.long
"""Of those that read the same thing in other words."""
ENVIRONMENT = [
    'return os.environ["_".join(["WITNESS", "X"])]',
    pytest.param('return os.environ.get("witness_x".upper())', marks=LONG),
    'return os.getenv("-WITNESS_X".lstrip("-"))',
    'return os.environb[b"_".join([b"WITNESS", b"X"])]',
    pytest.param(
        'return os.environ["_".join(["WITNESS", "X"])] if "_".join(["WITNESS", "X"]) in os.environ else 0', marks=LONG
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("body", ENVIRONMENT)
def test_an_environment_variable_of_a_computed_name_is_a_reason(place, body):
    place.lib(body)
    for value in (1, 1, 5):
        place.is_compiled(value + 1, "an environment variable", WITNESS_X=str(value))


SPELT = [
    'return os.environ["WITNESS_X"]',
    pytest.param('return os.environ.get("WITNESS_X", 3)', marks=LONG),
    pytest.param('return os.getenv("WITNESS_X")', marks=LONG),
    pytest.param('from os import environ\nreturn environ["WITNESS_X"]', marks=LONG),
    pytest.param('return os.environ["WITNESS_X"] if "WITNESS_X" in os.environ else 0', marks=LONG),
]


@pytest.mark.parametrize("body", SPELT)
def test_environment_variables_that_code_spells_are_compared(place, body):
    place.lib(body)
    assert place.run(WITNESS_X="1")[:2] == [2, 1]
    assert place.run(WITNESS_X="1")[:2] == [2, 0]
    assert place.run(WITNESS_X="5")[:2] == [6, 1]
    assert place.run(WITNESS_X="5", OTHER="1")[:2] == [6, 0]
    assert place.run(WITNESS_X="1")[:2] == [2, 0]  # a variant beside the second


@pytest.mark.long
def test_a_variable_that_appears(place):
    place.lib('return os.environ.get("WITNESS_X", 3)')
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


LOOKED_AT = [
    'return open("number").read()',
    pytest.param('return pathlib.Path("number").read_text()', marks=LONG),
    'return os.read(os.open("number", os.O_RDONLY), 9)',
    pytest.param("import linecache\nreturn linecache.getline('number', 1)", marks=LONG),
    pytest.param("return len(os.readlink('link'))", marks=LONG),
    pytest.param("return 1 if os.access('number', os.F_OK) else 2", marks=LONG),
    pytest.param('return 1 if os.path.exists("number") else 2', marks=LONG),
    'return len(glob.glob("numb*"))',
    pytest.param("return sum(each[0] != 'data' for each in os.walk('data'))", marks=LONG),
    pytest.param("return len([*os.scandir('data')])", marks=LONG),
    pytest.param("return 1 if os.path.abspath('.') else 2", marks=LONG),
    pytest.param("return 1 if os.getcwd() else 2", marks=LONG),
    pytest.param("import importlib.metadata as m\nreturn 1 + len([*m.distributions(name='none')])", marks=LONG),
]


@pytest.mark.every(7)
@pytest.mark.parametrize("body", LOOKED_AT)
def test_files_and_directories_are_a_reason(place, body):
    place.lib(body)
    place.write("number", "1")
    place.write("data/a/b", "")
    (place.root / "link").symlink_to("1")
    for _ in range(2):
        place.is_compiled(2, "somebody's code")


@pytest.mark.long
def test_text_that_the_library_makes_functions_of_is_no_reason(place):
    place.lib("return collections.namedtuple('Pair', 'a b')(1, 2).b", head="import collections")
    assert place.run()[:2] == [3, 1]
    assert place.run()[:2] == [3, 0]


OUTSIDE = [
    'return subprocess.run(["echo", "3"], capture_output=True).stdout',
    "return len(socket.gethostname())",
    'open("out", "w").write("x")\nreturn 1',
    'os.environ["WITNESS_NEW"] = "1"\nreturn 1',
    "import ctypes\nreturn ctypes.CDLL(None).abs(3)",
    "import threading\nasking = threading.Thread(target=int)\nasking.start()\nasking.join()\nreturn 1",
    "import builtins\nreturn vars(builtins)['ev' + 'al']('1 + 1')",
]


@pytest.mark.long
@pytest.mark.parametrize("body", OUTSIDE)
def test_what_cannot_be_compared_is_a_reason(place, body):
    place.lib(body)
    for _ in range(2):
        _result, compiled, reasons = place.run()
        assert compiled == 1
        assert any("somebody's code" in reason for reason in reasons), reasons


@pytest.mark.long
def test_what_is_compiled_later_is_not_stored_either(place):
    """Numba keeps what it was told, and uses it for whatever asks."""
    place.lib('return open("number").read()')
    place.write("number", "1")
    main = MAIN.replace(
        "result = f(1)", "f(1)\n    @numba.njit\n    def g(x):\n        return x * 10\n    result = g(1)"
    )
    for _ in range(2):
        result, compiled, reasons = place.run(main=main)
        assert (result, compiled) == (10, 2)
        assert [each for each in reasons if "opened a file" in each], reasons


@pytest.mark.long
def test_what_the_toolchain_reads_does_not_count(place):
    place.write("lib.py", "from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    assert place.run(UNRELATED="1")[:2] == [2, 1]
    assert place.run(UNRELATED="2")[:2] == [2, 0]


@pytest.mark.long
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


LATE = [
    "import settings\nreturn settings.K",
    pytest.param("from package.other import K\nreturn K", marks=LONG),
    pytest.param('return importlib.import_module("settings").K', marks=LONG),
    pytest.param("try:\n    import missing\nexcept ImportError:\n    return 1", marks=LONG),
    pytest.param("return 2 if importlib.util.find_spec('missing') else 1", marks=LONG),
]


@pytest.mark.parametrize("body", LATE)
def test_a_module_that_is_imported_late_is_a_reason(place, body):
    place.lib(body, head="import importlib.util")
    place.write("settings.py", "K = 1\n")
    place.write("package/__init__.py", "")
    place.write("package/other.py", "from package.deep import K\n")
    place.write("package/deep.py", "K = 1\n")
    for _ in range(2):
        place.is_compiled(2, "module")


@pytest.mark.long
def test_functions_compiled_after_a_late_import_are_found_all_the_same(place):
    place.lib("import settings\nreturn settings.K")
    place.write("settings.py", "K = 1\n")
    main = MAIN.replace(
        "result = f(1)", "f(1)\n    @numba.njit\n    def g(x):\n        return x * 10\n    result = g(1)"
    )
    assert place.run(main=main)[:2] == [10, 2]
    assert place.run(main=main)[:2] == [10, 1]


@pytest.mark.long
def test_a_module_of_the_library_may_be_imported_late(place):
    place.lib("try:\n    import asyncio.windows_events\nexcept ImportError:\n    return 0\nreturn 1")
    assert place.run()[:2] == [1, 1]
    assert place.run() == [1, 0, []]


IMPORTS = [
    "from . import settings\nreturn settings.K",
    "from .settings import K\nreturn K",
    "from package import settings as s\nreturn s.K",
    "import package.settings\nreturn package.settings.K",
]


@pytest.mark.long
@pytest.mark.parametrize("body", IMPORTS)
def test_modules_that_are_loaded_count_for_what_is_read_off_them(place, body):
    place.lib(body)
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('return importlib.import_module("settings").K', "asked for a module by its name"),
        ("load = importlib.import_module\nreturn load(NAME).K", "asked for a module by its name"),
        ('return __import__("settings").K', "modules that it names by a text"),
        ('import pkgutil\nreturn pkgutil.resolve_name("settings:K")', "asked for a module by its name"),
        ('import pickle\nreturn pickle.loads(b"csettings\\nK\\n.")', "unpickled what a module has"),
    ],
)
def test_a_module_that_is_named_by_a_text_is_a_reason(place, body, reason):
    place.lib(body, head="import settings\nNAME = 'settings'")
    place.write("settings.py", "K = 1")
    for _ in range(2):
        result, compiled, reasons = place.run()
        assert (result, compiled) == (2, 1)
        assert any(reason in each for each in reasons), reasons


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
def listening(monkeypatch):
    """A witness that listens to this thread, and what it said."""
    said = []
    monkeypatch.setattr(module_of_witness, "_so_far", [])
    witness = Witness(said.append)
    witness.start()
    yield witness, said
    witness.stop()


def test_looking_is_not_looked_at_whosever_code_looks(listening, tmp_path, monkeypatch):
    """As where nbcache's own code passes for somebody's: each look would call for another."""
    witness, said = listening
    monkeypatch.setattr(module_of_witness, "whose_code", lambda _file: module_of_witness.OTHERS_CODE)
    (tmp_path / "data").write_text("3")
    os.listdir(tmp_path)
    os.getcwd()
    assert os.environ["path".upper()] and os.path.exists(tmp_path / "data")
    assert (tmp_path / "data").read_text() == "3"
    witness.stop()
    for what in (
        "listed a directory",
        "the working directory",
        "an environment variable",
        "looked at",
        "opened a file",
    ):
        assert [each for each in said if what in each], what


def test_a_look_that_fails_raises_nothing_and_keeps_what_is_compiled_out_of_the_cache(listening, monkeypatch):
    witness, said = listening
    said.clear()  # of what pytest does between the fixture and this
    monkeypatch.setattr(module_of_witness, "others_caller", lambda _frame: 1 // 0)
    assert os.path.isabs(os.getcwd()) and os.environ["PATH"]
    witness.stop()
    assert said and all("failed to look at" in each for each in said)
    assert not witness.paused


@pytest.mark.long
def test_who_traces_takes_no_part(place):
    """As coverage's tracer, which asks where a file lies when its first code runs."""
    place.write("vendored/coverage/__init__.py", "")
    tracer = "import os, sys\ndef trace(frame, event, arg):\n    os.path.realpath(frame.f_code.co_filename)\n"
    place.write("vendored/coverage/tracer.py", tracer)
    place.write("lib.py", "from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    main = MAIN.replace(
        "result = f(1)",
        "from vendored.coverage import tracer\n    sys.settrace(tracer.trace)\n    result = f(1)\n    sys.settrace(None)",
    )
    assert place.run(main=main) == [2, 1, []]
    assert place.run(main=main) == [2, 0, []]


FINDER = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        os.path.exists(name)
        open(__file__).close()
sys.meta_path.insert(0, Finder())
"""


def test_who_finds_modules_for_python_takes_no_part(place):
    """As pytest's finder, which looks at the file of each module that Numba imports when it compiles first."""
    place.write("finder.py", FINDER)
    place.write("lib.py", "from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    main = "import finder\n" + MAIN
    assert place.run(main=main) == [2, 1, []]
    assert place.run(main=main) == [2, 0, []]


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


@pytest.mark.long
def test_what_colours_numbas_messages_takes_no_part_in_compiling(place):
    """Numba words thousands of errors that nobody sees while it looks for a type, and has each coloured."""
    place.write("colorama/__init__.py", COLORAMA)
    place.write("lib.py", "from numba import njit\n@njit\ndef f(x):\n    return len([x, 2.5]) + max(x, 2.5)")
    main = "from numba.core import errors\nassert hasattr(errors, 'ColorShell')\n" + MAIN
    result, compiled, refused = place.run(main=main)
    assert (result, compiled > 0, refused) == (4.5, True, [])
    assert place.run(main=main) == [4.5, 0, []]
    assert place.run(main=main, PYCHARM_HOSTED="1") == [4.5, 0, []]


def test_what_asks_finders_for_us_is_known_by_what_its_code_says(tmp_path):
    """In a frozen app that is no path, whatever the module's file is."""
    (tmp_path / "main.py").write_text(
        """
import _nbcache
_nbcache.spec_of_others.__code__ = _nbcache.spec_of_others.__code__.replace(co_filename="_nbcache.py")
from nbcache.glue.capture import witness
print(witness.whose_code("_nbcache.py"), "_nbcache.py" in witness._IMPORT_SYSTEM)
"""
    )
    assert proc.run([tmp_path / "main.py"]).stdout == "library True\n"


@pytest.mark.parametrize(
    ("file", "whose"),
    [
        ("/env/lib/site-packages/importlib_metadata/_compat/_functools.py", "library"),
        ("/env/lib/site-packages/zipp/__init__.py", "library"),
        ("/env/lib/site-packages/coverage/plugins/deep/tracer.py", "onlooker"),
        ("/ide/helpers/_pydevd_bundle/pydevd_trace.py", "onlooker"),
        ("/env/lib/site-packages/package/coverage/areas.py", "others"),
    ],
)
def test_whose_code_is_that_of_a_package_in_all_its_folders(file, whose):
    assert module_of_witness.whose_code(file) == whose


@pytest.mark.parametrize("decorator", ["@njit", "@njit(inline=lambda *_sites: open('data').read() == 'yes')"])
def test_what_python_tells_of_is_heard_only_where_code_of_others_may_run(place, decorator):
    place.write("data", "yes")
    place.write(
        "lib.py",
        f"from numba import njit\n{decorator}\ndef g(x):\n    return x + 1\n@njit\ndef f(x):\n    return g(x) * 2\n",
    )
    runs = "inline" in decorator
    heard = 'bool(sys.modules["nbcache.glue.capture.witness"]._hooked)'
    result, _compiled, reasons, hears = place.run(main=MAIN.replace("reasons]))", f"reasons, {heard}]))"))
    assert (result, hears) == (4, runs)
    assert any("opened a file" in reason for reason in reasons) == runs
