"""Whether README and the guides in docs/ can be read by somebody who doesn't know the project: part of scripts/check.

Three things a program can see: lines of at most 120 characters, sentences of at most 30 words (19 of 20 on each page),
and none of the words in `DENIED`. Rows of tables, pictures and single words may be longer, since they can't be
broken. Headings are not looked at, nor is docs/decisions, which is written for those who change the code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_LINE = 120  # [characters]
LONGEST_SENTENCE = 30  # [words]
SHARE = 0.95
"""What share of a page's sentences may not be longer than that."""
DENIED = {
    r"\bhand(s|ed|ing)? on\b": "passes as an argument, or returns",
    r"\bowe[sd]?\b": "must repeat",
    r"\b(are|is|was|were|be) told\b": "says, or is configured",
    r"\bof before\b": "older",
    r"\bin vain\b": "without an answer",
    r"\bon one's way\b": "while",
    r"\bthe same word\b": "the same option",
    r"\bbut for\b": "except",
    r"\bnor (are|is|do|does|what)\b": "and … not",
    r"^Who(ever)? (?!.*\?)": "a program that, or a user who",
}
"""What to write in place of words that only mean something to those who wrote the code."""


def pages() -> list[Path]:
    """Return what is looked at."""
    return [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "deploy" / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]


def plain(text: str) -> str:
    """Return a page without code, comments, pictures and addresses; a piece of code in a sentence is one word."""
    text = re.sub(r"^ *(```|~~~).*?^ *\1 *$", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|</?[a-z][^>]*>", "", text, flags=re.DOTALL)
    text = re.sub(r"``.+?``|`[^`]+`", "CODE", text)
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a page: of paragraphs, items of lists and cells of tables."""
    blocks: list[str] = []
    for line in plain(text).splitlines():
        if re.match(r" {4,}\S", line) and not blocks[-1:]:
            continue
        if line.lstrip().startswith("|"):
            blocks += ["", *line.strip().strip("|").split("|"), ""]
        elif not line.strip() or line.startswith("#"):
            blocks.append("")
        elif re.match(r"\s*([-*>]|\d+\.)\s", line):
            blocks += ["", re.sub(r"^\s*([-*>]|\d+\.)\s", "", line)]
        elif blocks and blocks[-1]:
            blocks[-1] += " " + line.strip()
        else:
            blocks.append(line.strip())
    ends = re.compile(r"(?<=[.!?])[\"”)*_]*\s+(?=[\"“(*_]*[A-Z0-9…])")
    return [each.strip() for block in blocks for each in ends.split(block) if re.search(r"\w", each)]


def words(sentence: str) -> int:
    """Return how many words a sentence has."""
    return len(re.findall(r"\S*\w\S*", sentence))


def complaints(text: str, *, line: int = LONGEST_LINE) -> list[str]:
    """Return what is wrong with a page, a line each; *line*: the longest one [characters]."""
    found = [
        f"{number}: a line of {len(each)} characters"
        for number, each in enumerate(text.splitlines(), 1)
        if len(each) > line and not each.lstrip().startswith(("|", "![")) and " " in each.strip()
    ]
    all_of_them = sorted(sentences(text), key=words)
    if all_of_them and words(all_of_them[int(SHARE * (len(all_of_them) - 1))]) > LONGEST_SENTENCE:
        long = [each for each in reversed(all_of_them) if words(each) > LONGEST_SENTENCE]
        found += [f"{len(long)} of {len(all_of_them)} sentences have more than {LONGEST_SENTENCE} words:"]
        found += [f"    {words(each)}: {each}" for each in long]
    for pattern, instead in DENIED.items():
        hits = (each for each in all_of_them if re.search(pattern, each))
        found += [f"instead of {re.search(pattern, each)[0]!r} write {instead!r}: {each}" for each in hits]  # type: ignore[index]
    return found


def main() -> int:
    """Print what is wrong, and return the exit status."""
    status = 0
    for page in pages():
        for line in complaints(page.read_text(encoding="utf-8")):
            print(f"{page.relative_to(ROOT)}:{line}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
