"""`scripts/numba-changes`, over two made-up releases and a made-up user of them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USER = """
import importlib
from numba.core import dispatcher
from numba.core.dispatcher import Dispatcher, LIMIT
from numba.core import gone
from user.replacing import Seam

WATCHED = (("numba.core.dispatcher", "Dispatcher", "wakes"),)

def hidden():
    from numba.core.lazy import Late
    return Late

def table():
    return [
        Seam(Dispatcher, "compile", "a reason"), Seam(hidden(), "run", "found by a function"),
        *(Seam(each, "apply", "one of two") for each in (dispatcher.One, dispatcher.Two)),
    ]

def read(obj):
    return dispatcher.helper(obj), obj._secret, importlib.import_module("numba.core.lazy")
"""
OLD = {
    "core/dispatcher.py": '''
LIMIT = 3
class Dispatcher:
    """The old words."""
    def compile(self, sig):
        return sig  # a comment
    def wakes(self):
        self._secret = 1
class One:
    def apply(self): return 1
class Two:
    def apply(self): return 2
def helper(x): return x
''',
    "core/lazy.py": "class Late:\n    def run(self): return 1\n",
    "core/gone.py": "",
}
NEW = {
    "core/dispatcher.py": '''
LIMIT = 4
class Dispatcher:
    """Other words."""
    def compile(self, sig):

        return sig  # another comment
    def wakes(self, how):
        self._secret = 2
class One:
    def apply(self): return 1
class Two:
    def apply(self): return 3
def helper(x): return x
''',
    "core/lazy.py": "class Late:\n    pass\n",
}


def release(place, version, files):
    for name, text in {"__init__.py": f"__version__ = {version!r}\n", "core/__init__.py": "", **files}.items():
        path = place / version / "numba" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return place / version


def changes(tmp_path, *options):
    user = tmp_path / "user"
    user.mkdir()
    (user / "uses.py").write_text(USER)
    old, new = release(tmp_path, "1.0", OLD), release(tmp_path, "2.0", NEW)
    command = [sys.executable, ROOT / "scripts" / "numba_changes.py", old, new, "--of", user, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_what_matters_most_comes_first_and_words_and_comments_do_not_matter(tmp_path):
    rows = [line.split(" | ") for line in changes(tmp_path).splitlines() if line.startswith("| ")][1:]
    assert [(row[0].strip("| "), row[1].strip("`"), row[2]) for row in rows] == [
        ("replaced", "numba.core.lazy:Late.run", "gone"),
        ("imported", "numba.core:gone", "gone"),
        ("replaced", "numba.core.dispatcher:Dispatcher.wakes", "signature"),
        ("replaced", "numba.core:dispatcher.Two.apply", "source"),
        ("read", "numba.core:dispatcher.Two", "source"),
        ("imported", "numba.core.dispatcher:Dispatcher", "source"),
        ("imported", "numba.core.lazy:Late", "source"),
        ("private", "._secret", "source"),
        ("imported", "numba.core.dispatcher:LIMIT", "value"),
    ]
    assert rows[-1][3] == "3 → 4" and rows[-1][4].startswith("user/uses.py:4")


def test_a_difference_is_shown(tmp_path):
    said = changes(tmp_path, "--diff", "Two.apply")
    assert "-def apply(self): return 2" in said and "+def apply(self): return 3" in said
