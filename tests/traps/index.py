"""Writes INDEX.md: every trap program by family, with what changes between its runs and what is asked of the cache.

python -m traps.index        from tests/; test_index.py says when it has to be run again
"""

import difflib
import importlib
import pkgutil
import re
from itertools import groupby

from . import programs
from .harness import HERE, Program, Step

INDEX = HERE / "INDEX.md"
MOST = 150
"""How long what changes may be told [characters]."""
HEAD = """# Trap programs

Written by `python -m traps.index` in `tests/`. A program runs at least twice over one cache, each time in a process of its own, and
each time it has to print what it prints without a cache. In between something changes. *notice*: what is printed changes with it, so
whoever takes the old code is wrong. *hit*: nothing that counts changes, and the last run has to compile nothing. *same*: the
output has to be that of no cache, and nothing more is asked. [TABLE.md](TABLE.md) has how Numba's own cache does;
`pending.txt` what nbcache still gets wrong. `scripts/test tests/traps -m "" -k NAME` runs one.
"""


def text() -> str:
    """Return INDEX.md."""
    about = _about()
    parts = [HEAD]
    for family, members in groupby(sorted(programs.load(), key=lambda each: each.family), key=lambda each: each.family):
        parts.append(f"\n## Family {family}\n\n" + "".join(f"{line}  \n" for line in about[family]))
        parts.append("\n| program | what changes | asked |\n|---|---|---|\n")
        parts += [f"| {each.name} | {_changes(each)} | {_asked(each)} |\n" for each in members]
    return "".join(parts)


def _about() -> dict[int, list[str]]:
    """What the modules of a family say of it, in the first sentence of their docstrings."""
    said: dict[int, list[str]] = {}
    for module in sorted(pkgutil.iter_modules(programs.__path__), key=lambda each: each.name):
        number = int(module.name.split("_")[1])
        doc = importlib.import_module(f"{programs.__name__}.{module.name}").__doc__ or ""
        said.setdefault(number, []).append(re.sub(r"^Family \d+, ", "", " ".join(doc.split("\n\n")[0].split())))
    return said


def _asked(program: Program) -> str:
    return "hit" if program.hit else "notice" if program.differs else "same"


def _changes(program: Program) -> str:
    tree: dict[str, str] = {}
    said: list[str] = []
    for number, step in enumerate(program.steps):
        told = _step(step, tree)
        if number:
            said.append(told or "nothing")
        for path, content in step.files.items():
            if content is None:
                tree.pop(path, None)
            else:
                tree[path] = content
    joined = "; then ".join(said).replace("|", "\\|")
    return joined if len(joined) <= MOST else joined[:MOST].rsplit(" ", 1)[0].replace("`", "") + " …"


def _step(step: Step, tree: dict[str, str]) -> str:
    parts = [_edit(path, tree.get(path), content) for path, content in step.files.items()]
    if step.copy:
        parts.append("another checkout")
    if step.move:
        parts.append("the tree is moved")
    if step.touch:
        parts.append(f"new modification time of {', '.join(step.touch)}")
    if step.tamper:
        name = step.tamper.__name__.strip("_").replace("_", " ")
        parts.append("the cache is tampered with" if name in {"apply", "<lambda>"} else f"the cache: {name}")
    parts += [f"{name}={value}" for name, value in step.env.items()]
    if step.argv != ("main.py",):
        parts.append("python " + " ".join(step.argv))
    if step.cwd != ".":
        parts.append(f"in {step.cwd}")
    return ", ".join(parts)


def _edit(path: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"{path} is removed"
    if before is None:
        return f"{path} is new"
    old, new = [], []
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        (old if line[0] == "-" else new if line[0] == "+" else []).append(line[2:].strip())
    old, new = [line for line in old if line], [line for line in new if line]
    if len(old) == len(new) == 1:
        return f"{path}: `{old[0]}` → `{new[0]}`".replace("``", "`")
    return f"{path}: {len(old)} lines → {len(new)}" if old else f"{path}: {len(new)} lines more"


if __name__ == "__main__":
    INDEX.write_text(text(), encoding="utf-8")
