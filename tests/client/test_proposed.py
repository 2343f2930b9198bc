"""`nbcache.enable(dir, only_if_unset=True)`: a package proposes a place, and whoever runs the program has the last word."""

import pytest
from nbtest import proc

PROPOSE = "import nbcache; nbcache.enable('~/proposed', only_if_unset=True)"
ASK = "from nbcache.client import hook; print(hook.settings().dir if hook._state['armed'] else None)"
COMPILE = """
from numba import njit
print(njit(lambda x: x + 1)(1), nbcache.stats()["hit_count"])
"""


@pytest.fixture
def child(tmp_path):
    (tmp_path / "home").mkdir()

    def run(text, *options, **settings):
        env = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config"), **settings}
        done = proc.run([*options, "-c", text], extra=env)
        assert (done.status, done.stderr) == (0, ""), done
        return done.stdout.replace(str(tmp_path), "")

    return run


def test_a_program_that_says_nothing_uses_it(child):
    program = PROPOSE + COMPILE
    assert [child(program), child(program)] == ["2 0\n", "2 1\n"]
    assert child(program, NBCACHE_DISABLE="1") == "2 0\n"


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("before", "settings", "place"),
    [
        ("", {}, "/home/proposed"),
        ("", {"NBCACHE_DIR": "/elsewhere"}, "/elsewhere"),
        ("import nbcache; nbcache.enable('/chosen')", {}, "/chosen"),
        (PROPOSE.replace("proposed", "first"), {}, "/home/first"),
        ("import nbcache; nbcache.disable()", {}, "None"),
    ],
)
def test_whoever_said_something_is_heard(child, before, settings, place):
    assert child(f"{before}\n{PROPOSE}\nimport numba\n{ASK}", **settings) == f"{place}\n"


def test_a_directory_in_a_file_is_used_instead(child, tmp_path):
    (tmp_path / "config" / "nbcache").mkdir(parents=True)
    (tmp_path / "config" / "nbcache" / "nbcache.toml").write_text("dir = '/in-a-file'\n")
    assert child(f"{PROPOSE}\n{ASK}") == "/in-a-file\n"


def test_nothing_is_proposed_where_the_environment_has_no_say(child):
    path = f"import sys; sys.path[:0] = {[str(proc.ROOT)]!r}"
    assert child(f"{path}\n{PROPOSE}\n{ASK}", "-I") == "None\n"
