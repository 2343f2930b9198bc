"""ARCHITECTURE.md's lists of functions, for a hit and for a miss, are what runs, in this order."""

import json
import re
import sys
import textwrap
from pathlib import Path

import pytest
from nbtest import proc

if sys.version_info < (3, 11):
    pytest.skip("code objects don't know their qualified names yet", allow_module_level=True)

ARCHITECTURE = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"
PROGRAM = """
    import json, sys
    from numba import njit
    from numba.extending import overload

    def halved(x):
        pass

    @overload(halved)
    def choose(x):
        return lambda x: x / 2

    @njit
    def checked(x):
        if x < 0:
            raise ValueError("below zero")
        return halved(x)

    called = []

    def note(frame, event, argument):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(("nbcache.", "numba.core.dispatcher")):
            called.append(f"{module}.{frame.f_code.co_qualname}")

    sys.setprofile(note)
    checked(3)
    sys.setprofile(None)
    print(json.dumps(called))
    """


def steps(title):
    """The functions that a list names, in order."""
    text = ARCHITECTURE.read_text(encoding="utf-8").partition("## The life of a call")[2]
    listed = re.match(r"\n\n((?:\d\. .*\n|   .*\n)+)", text.partition(title)[2])[1]
    return re.findall(r"`([\w.]+)`", listed)


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """The functions that ran in a process that missed, and in one that hit, in order."""
    folder = tmp_path_factory.mktemp("life")
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    outcomes = [proc.run([program], folder / "store") for _ in range(2)]
    return {title: json.loads(outcome.stdout) for title, outcome in zip(("miss", "hit"), outcomes, strict=True)}


@pytest.mark.parametrize(
    ("which", "title"), [("hit", "A hit, function by function:"), ("miss", "A miss goes on after step 4:")]
)
def test_what_is_listed_runs_in_this_order(called, which, title):
    named = [name for name in steps(title) if name not in {"SessionCache", "CompileResult"}]
    assert len(named) > 8
    left = iter(called[which])
    for name in named:
        pattern = re.compile(rf"(^|\.){re.escape(name)}(\.<locals>|$)")
        assert any(map(pattern.search, left)), f"{name} doesn't run after what is listed before it"
