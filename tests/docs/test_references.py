"""What the guides name is there: files, sections, commands and their options, settings."""

import argparse
import re
from pathlib import Path

import pytest

from nbcache import config
from nbcache.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "deploy" / "README.md"]
guides = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(path):
    """The names by which sections of a page are linked."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@guides
def test_links_lead_somewhere(guide):
    text = guide.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text)
    for target in targets:
        if "://" in target:
            continue
        path, _, section = target.partition("#")
        found = guide.parent / path if path else guide
        assert found.exists(), target
        assert not section or section in anchors(found), target


@guides
def test_files_of_the_project_are_there(guide):
    if guide.name in {"CHANGELOG.md", "ARCHITECTURE.md"}:
        pytest.skip("names what is no more, or files of a folder")
    text = guide.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:nbcache|tests|scripts|systemd|deploy|docs)/[\w./\-]+)", text):
        assert (ROOT / name.rstrip(".")).exists(), name


def commands():
    """The options of each command."""
    (choices,) = (
        action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return {name: set(parser._option_string_actions) for name, parser in choices.items()}


COMMANDS = commands()


@guides
def test_commands_and_their_options_exist(guide):
    text = guide.read_text(encoding="utf-8")
    shown = re.findall(r"`nbcache ([^`\n]+)`", text)
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        shown += re.findall(r"(?:^|bin/|\w=\S* |: )nbcache ([a-z][^#\n]*)", block, re.MULTILINE)
    for line in shown:
        command, *rest = line.split(" -- ")[0].split()
        assert command in {*COMMANDS, "stays"}, line  # "nbcache stays off" is a line of the log
        for option in rest:
            assert not option.startswith("--") or option.strip("[]") in COMMANDS[command], line


@guides
def test_settings_exist(guide):
    names = {config.PREFIX + name.upper() for name in config.NAMES}
    for name in set(re.findall(r"NBCACHE_[A-Z_]+[A-Z]", guide.read_text(encoding="utf-8"))):
        assert name in names, name
