"""ARCHITECTURE.md can be read in one go, and names each module under its folder, and constants where they are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nbcache"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LONGEST = 25 * 1024  # [bytes]


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


ROOMS = dict(re.findall(r"^\*\*`([\w/]+)/`\*\*(.*(?:\n.+)*?)(?=\n\n|\n\*\*`|\n*\Z)", section("Rooms"), re.MULTILINE))
FOLDERS = sorted({str(path.parent.relative_to(ROOT)) for path in PACKAGE.rglob("*.py")})


def test_it_is_short():
    assert len(PAGE.encode()) <= LONGEST


@pytest.mark.parametrize("folder", [each for each in FOLDERS if not each.endswith("rthooks")])
def test_a_room_names_its_modules_and_no_others(folder):
    path = ROOT / folder
    text = ROOMS[folder.removeprefix("nbcache/")]
    named = re.findall(r"`([\w\-/]+)`", text)
    there = {str(each.relative_to(path).with_suffix("")) for each in path.glob("*.py")}
    there |= {f"rthooks/{each.stem}" for each in path.glob("rthooks/*.py")}
    if folder != "nbcache":  # the others say nothing but what their folder is
        there.discard("__init__")
    assert there - set(named) == set()
    others = {each for each in named if each == each.lower() and each not in there}
    assert others <= {"_nbcache", "why", "report", "health", "numba_extensions", "fastmath", "status", "objmode"}


def test_other_sections_name_what_is_there():
    modules = {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py")}
    tops = {each.name for each in PACKAGE.iterdir() if each.is_dir()} | {"hooks"}
    for name in re.findall(r"`((?:\w+/)+\w+)`", PAGE.replace(section("Rooms"), "")):
        if name.partition("/")[0] in tops:
            assert any(f"/{each}".endswith(f"/{name}") for each in modules), name


def test_the_guides_and_decisions_name_modules_that_are_there():
    """``room/module.py``, and of the decisions a module alone, which may be one of the program that is spoken of."""
    modules = {f"/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*.py")}
    rooms = {path.parent.name for path in PACKAGE.rglob("*.py")}
    pages = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {
        (page.name, *found) for page in pages for found in re.findall(r"`([\w/]*?)(\w+\.py)`", page.read_text("utf-8"))
    }
    assert len(named) > 40
    for page, folder, module in named:
        if not folder.startswith("tests/") and folder.rstrip("/").rpartition("/")[2] in rooms:
            assert any(f"/nbcache{each}".endswith(f"/{folder}{module}") for each in modules), (page, folder + module)


def test_versions_are_where_it_says():
    rows = re.findall(r"^\| .* \| (`.*) \| (`.*) \|$", section("Formats"), re.MULTILINE)
    found = 0
    for constants, modules in rows:
        for group, group_of_modules in zip(constants.split("; "), modules.split("; "), strict=False):
            for constant in re.findall(r"`([A-Z_]+)`", group):
                for module in re.findall(r"`([\w/]+)`", group_of_modules):
                    assert re.search(rf"^{constant}\b", (PACKAGE / f"{module}.py").read_text("utf-8"), re.MULTILINE)
                    found += 1
    assert found >= 20
