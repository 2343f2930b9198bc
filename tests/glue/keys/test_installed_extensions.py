"""Packages that declare an extension of Numba stay unloaded as long as nothing can tell, and not longer."""

import shutil
import time

import pytest
from nbtest import proc, records

OURS = "[numba_extensions]\ninit = addition:init\n"
EXTENSION = """
from numba.extending import overload
def thing(x):
    return x
@overload(thing)
def choose(x):
    return lambda x: x + {number}
{more}
def init():
    {init}
"""
MAIN = """
import sys
from numba import njit
from numba.extending import overload
import events
@njit
def f(x):
    return x * 2
@njit
def g(a):
    return len(a)
print(f(1), g((1, 2)), events.seen, "addition" in sys.modules)
"""
EVENTS = """
from numba.core import event
seen = []
class Listener(event.Listener):
    def on_start(self, event):
        seen.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
"""


@pytest.fixture
def place(tmp_path):
    """Runs MAIN beside an installed extension; `extend` writes the extension anew."""
    info = tmp_path / "site" / "addition-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: addition\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(OURS)
    (tmp_path / "events.py").write_text(EVENTS)

    class Place:
        @staticmethod
        def extend(init="pass", more="", number=1):
            text = EXTENSION.format(init=init, more=more, number=number)
            (tmp_path / "site" / "addition.py").write_text(text)

        @staticmethod
        def install(more):
            Place.extend(more=more)
            content = (tmp_path / "site" / "addition.py").read_bytes()
            (info / "RECORD").write_text(records.row("addition.py", content) + "\n")
            Place.be_before()

        @staticmethod
        def be_before():
            """When a process began is known to 10 ms, and what was written since then doesn't count as installed."""
            time.sleep(0.05)

        @staticmethod
        def run(main=MAIN, store="store", site="site", **extra):
            (tmp_path / "main.py").write_text(main)
            return Place.python([tmp_path / "main.py"], store, site, **extra)

        @staticmethod
        def python(arguments, store, site="site", **extra):
            extra["PYTHONPATH"] = f"{proc.environment()['PYTHONPATH']}:{tmp_path / site}"
            outcome = proc.run(arguments, tmp_path / store if store else None, extra, cwd=tmp_path)
            assert outcome.stderr == ""
            return outcome.stdout

    Place.extend()
    return Place


def test_it_is_loaded_to_compile_and_not_for_a_hit(place):
    assert place.run() == "2 2 ['f', 'g'] True\n"
    assert place.run() == "2 2 [] False\n"
    more = MAIN + "@njit\ndef h(x):\n    return x - 2\nprint(h(1), events.seen, 'addition' in sys.modules)\n"
    assert place.run(more) == "2 2 [] False\n-1 ['h'] True\n"


MADE_BY_NUMBA = """
import operator
from numba import types
from numba.core.typing import templates
from numba.extending import type_callable
class Mine(types.Type):
    pass
@templates.infer_global(operator.inv)
class Derived(templates.AbstractTemplate):
    def generic(self, args, kws):
        return None
@type_callable(thing)
def typed(context):
    return lambda x: x if isinstance(x, Mine) else None
"""


def test_it_stays_unloaded_where_numba_made_the_templates(place):
    place.extend(more=MADE_BY_NUMBA)
    assert place.run() == "2 2 ['f', 'g'] True\n"
    assert place.run() == "2 2 [] False\n"


DECLINING = """
import operator
from numba import types
from numba.core.typing import templates
@templates.infer_global(operator.getitem)
class Getitem(templates.AbstractTemplate):
    def generic(self, args, kws):
        if {asked}:
            return templates.signature(types.int64, *args)
@overload(abs)
def of_mine(x):
    if x is types.none:
        return lambda x: 7
"""
LOWERED = """
from numba.core.imputils import lower_builtin
@lower_builtin(operator.getitem, types.Array, types.Integer)
def own(context, builder, sig, args):
    return context.get_constant(types.int64, 77)
"""
ASKING = """
import sys
import numpy as np
from numba import njit
import events
@njit
def g(a):
    return abs(a[0]) + a[1]
print(g(np.array([-5, 7])), events.seen, "addition" in sys.modules)
"""
CALLING = """
@njit
def h(a):
    return g(a) + 1
print(h(np.array([3, 4])), "addition" in sys.modules)
"""
ANSWERED = """
print(njit(lambda x: abs(x))(None), "addition" in sys.modules)
"""


def test_who_was_asked_and_said_nothing_stays_unloaded(place):
    place.install(DECLINING.format(asked="False"))
    assert place.run(ASKING) == "12 ['g'] True\n"
    assert place.run(ASKING) == "12 [] False\n"
    assert place.run(ASKING + CALLING) == "12 [] False\n8 True\n"
    assert place.run(ASKING + CALLING) == "12 [] False\n8 False\n"
    for _ in range(2):
        assert place.run(ASKING + ANSWERED) == "12 [] False\n7 True\n"


def test_who_said_nothing_to_another_installation_does_not_here(place, tmp_path):
    place.install(DECLINING.format(asked="False"))
    place.run(ASKING)
    shutil.copytree(tmp_path / "site", tmp_path / "elsewhere")
    place.be_before()
    assert place.run(ASKING, site="elsewhere") == "12 [] True\n"
    assert place.run(ASKING, site="elsewhere") == "12 [] False\n"


@pytest.mark.parametrize("more", [DECLINING.format(asked="True"), DECLINING.format(asked="False") + LOWERED])
def test_who_had_nothing_to_say_is_asked_once_its_package_changes(place, more):
    place.install(DECLINING.format(asked="False"))
    place.run(ASKING)
    place.install(more)
    plain = place.run(ASKING, store=None)
    assert [place.run(ASKING) for _ in range(2)] == [plain, plain.replace("['g']", "[]")]


def test_who_had_nothing_to_say_to_what_is_prewarmed_stays_unloaded(place, tmp_path):
    place.install(DECLINING.format(asked="False"))
    function = ASKING[ASKING.index("@njit") : ASKING.index("print")]
    (tmp_path / "asking.py").write_text(f"from numba import njit\n{function}")
    main = ASKING.replace(function, "from asking import g\n")
    place.run(main, store="first", NBCACHE_RECORD=str(tmp_path / "warm"), **proc.SCIPY)
    place.python(["-m", "nbcache", "prewarm", tmp_path / "warm"], "store", **proc.SCIPY)
    assert [place.run(main, **proc.SCIPY) for _ in range(2)] == ["12 [] True\n", "12 [] False\n"]


ELSEWHERE = "import sys, pathlib\n" + DECLINING.format(asked="pathlib.Path(sys.path[0], 'asked').exists()") + LOWERED


def test_what_no_installer_wrote_down_is_asked_again(place, tmp_path):
    place.extend(more=ELSEWHERE)
    place.run(ASKING)
    (tmp_path / "asked").touch()
    assert place.run(ASKING) == place.run(ASKING, store=None)


RAISING = """
class Raising(type):
    @property
    def __module__(cls):
        raise RuntimeError("whose am I?")
class Key(metaclass=Raising):
    pass
from numba.core.pythonapi import _boxers
_boxers.functions[Key] = lambda *_args: None
"""


@pytest.mark.long
def test_what_raises_when_it_is_looked_at_is_loaded_as_numba_would(place):
    place.extend(more=RAISING)
    for _ in range(2):
        assert place.run().startswith("2 2 ")


UNASKABLE = """
import logging
class Unaskable:
    @property
    def handlers(self):
        raise RuntimeError("whose are they?")
logging.root.manager.loggerDict["unaskable"] = Unaskable()
from numba import vectorize
@vectorize(["int64(int64)"])
def early(x):
    return x + 1
"""


def test_what_raises_beside_them_is_no_fault_of_what_is_compiled_at_once(place):
    """Numba would have loaded them amid the compilation."""
    main = MAIN.replace("import events\n", f"import events\n{UNASKABLE}", 1)
    assert place.run(main) == "2 2 ['f', 'g'] True\n"
    assert place.run(main) == "2 2 [] True\n"


@pytest.mark.long
def test_what_is_imported_is_loaded(place):
    main = "import addition\n" + MAIN.replace("x * 2", "addition.thing(x)")
    assert place.run(main) == "2 2 ['f', 'choose.<locals>.<lambda>', 'g'] True\n".replace("choose.<locals>.", "")
    assert place.run(main) == "2 2 [] True\n"
    place.extend(number=2)
    assert place.run(main).startswith("3 2 ['f', '<lambda>'] True")


MANY = """
def register():
    for each in range(4000):
        @overload(thing)
        def more(x):
            return None
"""
LOOKED_AT = """
import gc
import addition
from numba import njit
@njit
def f(x):
    return x * 2
looked_at, before = [], gc.get_threshold()
gc.callbacks.append(lambda phase, info: looked_at.append(info["generation"]))
print(f(1), 2 in looked_at, gc.get_threshold() == before)
"""


def test_all_there_is_is_not_looked_at_while_many_registrations_are_loaded_and_read(place):
    place.extend(init="register()", more=MANY)
    place.run(LOOKED_AT)
    assert place.run(LOOKED_AT) == "2 False True\n"
    assert place.run(LOOKED_AT, store=None) == "2 True True\n"


def test_what_would_change_a_hit_is_loaded(place):
    place.run()
    more = "import builtins\n@overload(abs)\ndef of_tuples(x):\n    if hasattr(x, 'count'):\n        return lambda x: 7"
    main = MAIN.replace("len(a)", "abs(a)")
    place.extend(more=more)
    assert place.run(main) == "2 7 ['g', '<lambda>'] True\n"
    assert place.run(main) == "2 7 [] True\n"
    place.extend(more=more.replace("7", "8"))
    assert place.run(main) == "2 8 ['g', '<lambda>'] True\n"


OWN = """
def mine(x):
    return x
@overload(mine)
def choose_mine(x):
    return lambda x: x + 5
@njit
def h(x):
    return mine(x)
print(h(1), events.seen, "addition" in sys.modules)
"""


@pytest.mark.long
def test_what_the_program_registers_itself_has_none_loaded(place):
    assert place.run(MAIN + OWN).endswith("True\n")
    assert place.run(MAIN + OWN) == "2 2 [] False\n6 [] False\n"


def test_whatever_the_environment_holds(place, monkeypatch):
    place.extend(init="import os; {**os.environ}")
    for number in range(3):
        monkeypatch.setenv("JOB_ID", str(number))
        outcome = place.run()
    assert outcome == "2 2 [] False\n"


@pytest.mark.long
def test_who_imported_it_himself_leaves_nothing_behind_for_others(place):
    place.run("import addition\n" + MAIN)
    main = MAIN.replace("x * 2", "x * 3")
    assert place.run(main) == "3 2 ['f'] True\n"
    assert place.run(main) == "3 2 [] False\n"


def test_classes_that_c_code_shares_are_nobody_elses(place):
    """As Cython's, in a module that nobody imported and that each module built by it adds to."""
    place.extend(init=SHARE)
    main = MAIN.replace("import events\n", f"import events\n{SHARED}", 1)
    for expected in ("2 2 ['f', 'g'] True\n", "2 2 [] False\n"):
        assert place.run(main) == expected


SHARED = """
from types import ModuleType
sys.modules["_shared_by_c"] = ModuleType("_shared_by_c")  # as PyImport_AddModule makes it
sys.modules["_shared_by_c"].first = type("first", (), {"__module__": "_shared_by_c"})
"""
SHARE = 'import sys; sys.modules["_shared_by_c"].second = type("second", (), {"__module__": "_shared_by_c"})'


PROXY = """
class Other:
    pass
class Proxy:
    __slots__ = ()
    __dict__ = vars(Other)["__dict__"]
proxy = Proxy()
"""


def test_who_shows_another_ones_dictionary_is_no_fault(place):
    """Proxies of wrapt do, which numcodecs keeps in a module; that of a built-in function raises."""
    main = MAIN.replace("import events\n", f"import events\n{PROXY}", 1)
    assert place.run(main) == "2 2 ['f', 'g'] True\n"
    assert place.run(main) == "2 2 [] False\n"


def test_what_changes_numba_is_loaded_at_once(place):
    place.extend(init="import numba.core.typeinfer as inner; inner.added = lambda: 1")
    for compiled in ("['f', 'g']", "[]"):
        assert place.run() == f"2 2 {compiled} True\n"


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("init", "shown"),
    [
        ("import random; random.seed(7)", "__import__('random').random()"),
        ("import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "int(__import__('signal').getsignal(10))"),
        ("import events; events.TABLE.append('addition')", "events.TABLE"),
        ("import events; events.Settings.level = 2", "events.Settings.level"),
        ("import events; events.SETTINGS.level = 2", "vars(events.SETTINGS)"),
        ("import numba; numba.config.BOUNDSCHECK = 1", "__import__('numba').config.BOUNDSCHECK"),
    ],
)
def test_what_changes_the_process_or_others_is_loaded_at_once(place, init, shown):
    place.extend(init=init)
    main = MAIN.replace("import events\n", f"import events\n{TABLES}", 1) + f"print({shown})\n"
    without = place.run(main, store=None).splitlines()[-1]
    assert place.run(main) == f"2 2 ['f', 'g'] True\n{without}\n"
    assert place.run(main) == f"2 2 [] True\n{without}\n"


@pytest.mark.every(2)
@pytest.mark.parametrize("init", ["print('ready')", "raise RuntimeError('no licence')"])
def test_what_says_something_or_fails_is_loaded_at_once(place, init):
    """The second process said nothing."""
    place.extend(init=init)
    warned = "import warnings\nwarnings.showwarning = lambda message, *_args, **_more: print(message)\n"
    without = place.run(warned + MAIN, store=None)
    said = without.splitlines()[0]
    assert "ready" in said or "no licence" in said
    assert place.run(warned + MAIN) == without
    assert place.run(warned + MAIN) == without.replace("['f', 'g']", "[]")


@pytest.mark.every(2)
@pytest.mark.parametrize("signature", ["", '("float64(float64)")'], ids=["lazy", "eager"])
def test_its_failure_is_told_where_numba_tells_it(place, signature):
    place.extend(init="raise RuntimeError('no licence')")
    program = f"""
import os, warnings
warnings.showwarning = lambda message, _category, path, line, *_more: print(message, os.path.basename(path), line)
from numba import njit
@njit{signature}
def f(x):
    return x * 2
print(f(1.0))
"""
    without = place.run(program, store=None)
    assert "no licence" in without
    assert [place.run(program) for _ in range(2)] == [without] * 2


@pytest.mark.long
def test_a_package_that_fails_is_loaded_also_where_its_warning_was_not_shown(place):
    place.extend(init="raise RuntimeError('no licence')")
    ignored = "import warnings\nwarnings.simplefilter('ignore')\n"
    assert place.run(ignored + MAIN) == "2 2 ['f', 'g'] True\n"
    assert place.run(ignored + MAIN) == "2 2 [] True\n"


TABLES = """
class Settings:
    level = 1
events.Settings, events.SETTINGS, events.TABLE = Settings, Settings(), []
"""


@pytest.mark.long
def test_a_package_that_changed_is_loaded_again(place):
    place.run()
    assert place.run().endswith("False\n")
    place.extend(init="pass  # another")
    assert place.run() == "2 2 [] True\n"
    assert place.run() == "2 2 [] False\n"


ASKED_FIRST = """
import operator
from numba.core.typing import templates
@templates.infer_global(operator.getitem)
class Derived(templates.AbstractTemplate):
    def generic(self, args, kws):
        return None
"""
LOOKING_AT_CONTEXT = """
from numba import njit, types
from numba.extending import lower_builtin, type_callable
import events
def mine(x):
    return x
@type_callable(mine)
def typed(context):
    def typer(x):
        return None if context.can_convert(x, x) is None else x
    return typer
@lower_builtin(mine, types.Any)
def lowered(context, builder, sig, args):
    return args[0]
@njit
def f(x):
    return mine(x) * 2
@njit
def g(several, i):
    return several[i]
print(f(1), g((1, 2), 1), events.seen)
"""


def test_it_is_loaded_before_a_chooser_has_numba_filled(place):
    """It stands before Numba's own for tuples then, as in the process that compiled."""
    place.install(ASKED_FIRST)
    assert place.run(LOOKING_AT_CONTEXT) == "2 2 ['f', 'g']\n"
    assert place.run(LOOKING_AT_CONTEXT) == "2 2 []\n"
