"""The version that the package says of itself is the one that the changelog tells of."""

import re

from bare import ROOT

import nbcache


def test_the_newest_section_is_of_this_version_and_dated():
    sections = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [(version, date) for version, date in sections if version != "Unreleased"]
    assert released[0][0] == nbcache.__version__
    assert all(date for _, date in released)


def test_the_version_is_said_in_one_place():
    said = f'"{nbcache.__version__}"'
    files = [ROOT / "pyproject.toml", ROOT / "_nbcache.py", *(ROOT / "nbcache").rglob("*.py")]
    assert [str(path.relative_to(ROOT)) for path in files if said in path.read_text()] == ["nbcache/__init__.py"]
