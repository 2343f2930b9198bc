"""The guides build as a site, in which every link leads somewhere; and its navigation has every guide."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = re.compile(r'\b(?:href|src|srcset)="([^"#]+)')


def test_each_guide_is_in_the_navigation():
    named = set(re.findall(r"docs/[\w\-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert named == {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}


@pytest.mark.long
def test_the_site_builds_and_its_links_lead_somewhere():
    done = subprocess.run([ROOT / "scripts" / "site"], capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr:
        pytest.skip("mkdocs-material can't be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "site" / "docs").rglob("*.html")}
    # mkdocs checks what Markdown links to; some pages have pictures in HTML.
    targets = {(page.parent, urlsplit(target)) for page, text in pages.items() for target in PATH.findall(text)}
    lost = [each.path for folder, each in targets if not each.netloc and not (folder / unquote(each.path)).exists()]
    assert not lost
    security = pages[ROOT / "site" / "docs" / "security.html"]
    assert security.count("<ol>") == 1, "a list that is interrupted begins to count anew"
