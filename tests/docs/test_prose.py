"""What people read can be read: README is short and its commands work, and so are help texts and lines of the log."""

import argparse
import sys
from pathlib import Path

import pytest
from nbtest import proc

from nbcache import config
from nbcache.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]
import prose  # noqa: E402
import test_log_lines  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST = 9 * 1024  # [bytes]


def commands():
    (choices,) = (
        action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return choices


def texts(parser):
    yield parser.description or ""
    yield from (action.help or "" for action in parser._actions)


def test_the_readme_is_short():
    assert len(README.encode()) <= LONGEST


def test_the_two_commands_of_the_readme_do_what_it_says(tmp_path):
    (block,) = prose.re.findall(r"<!-- test: the two commands -->\n```sh\n(.*?)```", README, prose.re.DOTALL)
    install, run = block.splitlines()
    assert install == "pip install ."  # as scripts/venv has done
    (tmp_path / "program.py").write_text(
        "import numba, nbcache\n@numba.njit\ndef f(x): return x + 1\nprint(f(1), nbcache.stats()['builds_count'])\n"
    )
    (tmp_path / "home").mkdir()
    argv = run.replace("nbcache", "-m nbcache", 1).replace("python", sys.executable).split()
    said = [proc.run(argv, extra={"HOME": str(tmp_path / "home")}, cwd=tmp_path).stdout for _ in range(2)]
    assert said[0].startswith("2 ") and said[0] != "2 0\n" and said[1] == "2 0\n"


@pytest.mark.parametrize("name", commands())
def test_help_can_be_read(name):
    said = [text for text in texts(commands()[name]) if text != argparse.SUPPRESS]
    assert prose.complaints("\n\n".join(text.replace("\n", " ") for text in said), line=10_000) == []


def test_each_setting_and_each_command_has_a_row():
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [name for name in config.NAMES if f"| `NBCACHE_{name.upper()}` |" not in settings] == []
    shown = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in commands() if f"| `nbcache {name}" not in shown] == []


def test_the_log_can_be_read():
    said = sorted({param.values[0] for param in test_log_lines.LINES})
    assert prose.complaints("\n\n".join(said), line=10_000) == []
