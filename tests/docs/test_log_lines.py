"""The operator's guide explains every line that nbcache logs at WARNING or above, in the source's own words.

What a line is filled in with is written `…` in the guide. Lines are found in the source by their calls: of a logger, of
`once`, of `Sparing.warning`, of a `report` of problems; and, where a line is nothing but a text made elsewhere, by
the functions that make it (`MADE`).
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
LOUD = {"warning", "error", "exception", "critical", "log", "report", "_report"}
SPEAKERS = re.compile(r"log|^self$|sparing|_failures_said|problems|getLogger")
QUIET = {"DEBUG", "INFO"}
REPORTING = {"service.py", "presence.py"}
"""Where a `problem` that was put into words is reported a line later."""
MADE = {("service.py", "_make_again"), ("confinement.py", "complaint"), ("cluster.py", "exposure")}
"""Functions whose results are logged as they are."""
ELSEWHERE = {"%s", "%s says: %s"}
"""What is filled in says it all: it comes from `MADE`, from settings that can't be read, or from a job."""


def text_of(node):
    """A string of the source with `…` for whatever is filled in; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%[sdr]", "…", node.value) if node.value not in ELSEWHERE else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.IfExp):
        return text_of(node.body) or text_of(node.orelse)
    return None


def is_telling(function):
    """Whether it is what adds the words of an exception to a line, or says a line once."""
    if isinstance(function, ast.Attribute):
        return function.attr == "tell" and isinstance(function.value, ast.Name) and function.value.id == "_nbcache"
    return isinstance(function, ast.Name) and function.id in {"tell", "once"}


def is_quiet(call):
    return any(isinstance(arg, ast.Attribute) and arg.attr in QUIET for arg in call.args[:2]) or any(
        isinstance(arg, ast.IfExp) and isinstance(arg.orelse, ast.Attribute) and arg.orelse.attr in QUIET
        and not (isinstance(arg.body, ast.Attribute) and arg.body.attr not in QUIET)
        for arg in call.args[:1]
    )  # fmt: skip


def loud_lines(path):
    """Yield (line number, text) of whatever a module logs at WARNING or above."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_telling(node.func):
            text = text_of(node.args[0])
            if text is not None:  # others have a function of that name, too
                yield node.lineno, text
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOUD:
            if not SPEAKERS.search(ast.unparse(node.func.value)) or (node.func.attr == "log" and is_quiet(node)):
                continue
            texts = [text for text in map(text_of, node.args) if text is not None]
            # Of two, the first is what the line is about, for saying it once.
            if texts:
                yield node.lineno, max(texts, key=len)
        elif path.name in REPORTING and isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "problem":
            text = text_of(node.value)
            if text is not None:
                yield node.lineno, text
        elif isinstance(node, ast.FunctionDef) and (path.name, node.name) in MADE:
            for each in ast.walk(node):
                text = text_of(each.value) if isinstance(each, ast.Return) and each.value is not None else None
                if text is not None:
                    yield each.lineno, text


def all_lines():
    for path in sorted([ROOT / "_nbcache.py", *(ROOT / "nbcache").rglob("*.py")]):
        for number, text in loud_lines(path):
            if " " in text:
                yield pytest.param(text, id=f"{path.relative_to(ROOT)}:{number}")


LINES = list(all_lines())
EXPLAINED = re.findall(r"^\| `(.+?)` \|", GUIDE.partition("\n## What the log says\n")[2], re.MULTILINE)


@pytest.mark.parametrize("text", LINES)
def test_a_line_of_the_log_is_explained(text):
    assert text in EXPLAINED, f"docs/operating.md has no row for it:\n| `{text}` | what it means | what to do |"


def test_lines_are_found():
    assert len(LINES) > 25
    assert any("heartbeat" in param.values[0] for param in LINES)


def test_no_line_is_explained_that_nobody_logs():
    assert sorted(set(EXPLAINED) - {param.values[0] for param in LINES}) == []
