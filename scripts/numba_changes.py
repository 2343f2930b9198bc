"""What two releases of Numba have differently among what nbcache replaces, imports or reads: see scripts/numba-changes.

What nbcache uses is read off its own source (`Uses`): the rows of the tables of seams, imports, attributes that are
read off what was imported, names in text such as ``"numba.core.dispatcher"``, and private names (``._x``) that nbcache
doesn't define itself. Each environment then says what these are there (`probe`, which runs in it), and both are
compared.

Not seen: public attributes of Numba's objects, whose class no syntax tree tells, and what is computed.
"""

import argparse
import ast
import difflib
import hashlib
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("numba", "llvmlite")
_NAMED = re.compile(r"(?:numba|llvmlite)(?:\.[a-zA-Z_]\w*)+(?::[a-zA-Z_][\w.]*)?")
REPLACED, IMPORTED, READ, PRIVATE = "replaced", "imported", "read", "private"


# -- what nbcache uses ---------------------------------------------------------------------------


class Uses:
    """What the modules below a directory use of Numba and llvmlite: for each name how, and where."""

    def __init__(self, root, without=()):
        self.root = root
        self.found = defaultdict(set)
        self._modules = {}
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent).as_posix()
            if not any(name.startswith(each) for each in without):
                self._modules[name] = _Module(self, name, ast.parse(path.read_text(encoding="utf-8")))
        for module in self._modules.values():
            module.read()
        own = {name for module in self._modules.values() for name in module.defined}
        for module in self._modules.values():
            for name, line in module.private:
                if name not in own:
                    self.found["." + name].add((PRIVATE, f"{module.name}:{line}"))

    def module(self, dotted):
        """The module of nbcache's that is called so, or None."""
        path = dotted.replace(".", "/")
        return self._modules.get(f"{path}.py") or self._modules.get(f"{path}/__init__.py")


class _Module:
    """One module's names, and what it does with them."""

    def __init__(self, uses, name, tree):
        self.uses, self.name, self.tree = uses, name, tree
        self.bound = {}  # what a local name is: "numba.core:types", or a module of nbcache's
        self.defined, self.private = set(), set()
        for node in ast.walk(tree):
            self._bind(node)

    def _bind(self, node):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                self.bound[each.asname or each.name] = f"{node.module}:{each.name}"
        elif isinstance(node, ast.Import):
            for each in node.names:
                name = each.name if each.asname else each.name.partition(".")[0]
                self.bound[each.asname or name] = name
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.defined.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            self.defined.add(node.attr)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self.defined.update(each.id for each in targets if isinstance(each, ast.Name))

    def read(self):
        inner = {node.value for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}
        inner.update(each for node in ast.walk(self.tree) if isinstance(node, ast.JoinedStr) for each in node.values)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                self._imports(node)
            elif isinstance(node, ast.Call) and _last(node.func) == "Seam":
                self._seam(node)
            elif isinstance(node, ast.Attribute):
                if node not in inner:
                    self._note(READ, self.resolve(node), node)
                if re.fullmatch(r"_[a-zA-Z]\w*", node.attr):
                    self.private.add((node.attr, node.lineno))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMED.fullmatch(node.value):
                if node not in inner:
                    self._note(READ, [node.value], node)
            elif isinstance(node, ast.Tuple):
                texts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
                if len(texts) > 1 and all(map(_is_path, texts[1:])) and _NAMED.fullmatch(str(texts[0])):
                    self._note(REPLACED, [f"{texts[0]}:{'.'.join(texts[1:])}"], node)

    def _imports(self, node):
        if isinstance(node, ast.Import):
            self._note(IMPORTED, [each.name for each in node.names], node)
        elif node.module:
            self._note(IMPORTED, [f"{node.module}:{each.name}" for each in node.names], node)

    def _seam(self, node):
        owner, name = node.args[:2]
        owners = self.resolve(owner)
        if not owners:
            owners = [f"{self.name}:{ast.unparse(owner)}"]
        self._note(REPLACED, [_member(each, name.value) for each in owners], node, anyway=True)

    def _note(self, how, names, node, *, anyway=False):
        for name in names:
            if anyway or name.partition(":")[0].partition(".")[0] in PACKAGES:
                self.uses.found[name].add((how, f"{self.name}:{node.lineno}"))

    def resolve(self, node):
        """The names of what an expression may be, as far as they are Numba's or modules of nbcache's."""
        if isinstance(node, ast.Name):
            known = self.bound.get(node.id)
            if known is None and node.id in self.defined:
                known = f"{self.name.removesuffix('.py').replace('/', '.')}:{node.id}"
            return [known] if known else self._looped(node.id)
        if isinstance(node, ast.Attribute):
            return [_member(each, node.attr) for each in self.resolve(node.value)]
        if isinstance(node, ast.Call) and len(node.args) == 1 and _last(node.func) == "import_module":
            return [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
        if isinstance(node, ast.Call) and len(node.args) == 1 and _last(node.func) == "type":
            return [_member(each, "__class__") for each in self.resolve(node.args[0])]
        if isinstance(node, ast.Call) and not node.args:  # a function of nbcache's that finds it
            return [found for each in self.resolve(node.func) for found in self._returned(each)]
        return []

    def _looped(self, name):
        for node in ast.walk(self.tree):
            if isinstance(node, ast.comprehension) and isinstance(node.iter, ast.Tuple) and _last(node.target) == name:
                return [found for each in node.iter.elts for found in self.resolve(each)]
        return []

    def _returned(self, name):
        dotted, _, function = name.replace(":", ".").rpartition(".")
        module = self.uses.module(dotted)
        for node in ast.walk(module.tree) if module else ():
            if isinstance(node, ast.FunctionDef) and node.name == function:
                returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
                return [found for each in returned for found in module.resolve(each)]
        return []


def _is_path(text):
    return isinstance(text, str) and text.isidentifier()


def _last(node):
    """The last name of an expression."""
    return getattr(node, "attr", getattr(node, "id", ""))


def _member(name, member):
    return f"{name}.{member}" if ":" in name else f"{name}:{member}"


# -- what that is in one environment -------------------------------------------------------------


def probe():
    """In an environment: read names from standard input, and print what each is there."""
    names = json.load(sys.stdin)
    private = _definitions({name[1:] for name in names if name.startswith(".")})
    told = {name: private[name[1:]] if name.startswith(".") else _looked_up(name) for name in names}
    json.dump({"version": _version(), "names": told}, sys.stdout)


def _version():
    import numba

    try:
        import llvmlite
    except ImportError:
        return f"numba {numba.__version__}"
    return f"numba {numba.__version__}, llvmlite {llvmlite.__version__}"


def _looked_up(name):
    module, _, path = name.partition(":")
    try:
        found = importlib.import_module(module)
    except Exception as raised:  # noqa: BLE001  whatever it is, it can't be used
        return {"gone": f"{type(raised).__name__}: {raised}"}
    for part in path.split(".") if path else ():
        holder, found = found, _attribute(found, part)
        if found is None:
            return {"gone": f"{getattr(holder, '__name__', type(holder).__name__)} has no {part}"}
    return _described(found)


def _attribute(holder, name):
    if name == "__class__":
        return type(holder)
    # A class as it is written; anything else answers, or refuses to in a process that compiles nothing.
    for look in (inspect.getattr_static, getattr) if isinstance(holder, type) else (getattr, inspect.getattr_static):
        try:
            found = look(holder, name)
            break
        except Exception:  # noqa: BLE001, S112
            continue
    else:
        try:
            return importlib.import_module(f"{holder.__name__}.{name}")
        except (ImportError, AttributeError):
            return None
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def _described(found):
    if inspect.ismodule(found):
        return {"is": f"module {found.__name__}"}
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(found) if callable(found) else found
    if isinstance(found, type):
        members = {name: _digest(_source(_plain(each))) for name, each in vars(found).items()}
        bases = ", ".join(f"{base.__module__}.{base.__qualname__}" for base in found.__bases__)
        return _there(found, bases, {name: digest for name, digest in members.items() if digest})
    if inspect.isfunction(found):
        return _there(found, re.sub(" at 0x[0-9a-f]+", "", str(inspect.signature(found))), None)
    if isinstance(found, str) and os.path.isabs(found):
        return {"is": "path"}
    if isinstance(found, bool | int | float | str | bytes | tuple | frozenset | None):
        return {"is": "constant", "value": str(sorted(map(repr, found))) if type(found) is frozenset else repr(found)}
    return {"is": f"{type(found).__module__}.{type(found).__qualname__}"}


def _plain(member):
    member = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
    return inspect.unwrap(member) if callable(member) else member


def _there(found, signature, members):
    source = _source(found)
    place = f"{found.__module__}:{found.__qualname__}"
    return {"is": place, "signature": signature, "digest": _digest(source), "source": source, "members": members}


def _source(found):
    if not (inspect.isfunction(found) or isinstance(found, type)):
        return ""
    try:
        return textwrap.dedent(inspect.getsource(found))
    except (OSError, TypeError):
        return ""


def _digest(source):
    """Of what *source* says, without comments and docstrings."""
    if not source:
        return ""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a lambda within an expression
        return hashlib.sha256(" ".join(source.split()).encode()).hexdigest()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()


def _definitions(names):
    """Where Numba and llvmlite define private *names*: functions, classes, and what is assigned to."""
    found = {name: {} for name in names}
    for package in PACKAGES:
        try:
            root = Path(importlib.import_module(package).__file__).parent
        except ImportError:
            continue
        for path in sorted(root.rglob("*.py")):
            place = path.relative_to(root.parent)
            if "tests" not in place.parts:
                _define(found, place.as_posix(), path.read_text(encoding="utf-8"))
    return {name: {"is": "definitions", "members": places} if places else {"gone": "defined nowhere"}
            for name, places in found.items()}  # fmt: skip


def _define(found, place, text):
    if not any(name in text for name in found):
        return

    def visit(node, within):
        for child in ast.iter_child_nodes(node):
            inner, name = within, None
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name, inner = child.name, f"{within}.{child.name}".lstrip(".")
            elif isinstance(child, ast.Name | ast.Attribute) and isinstance(child.ctx, ast.Store):
                name = _last(child)
            if name in found:
                key = f"{place}:{within}"
                parent = node if not isinstance(child, ast.FunctionDef | ast.ClassDef) else child
                source = ast.unparse(parent)
                found[name][key] = _digest(found[name].get(key, "") + source) if source else ""
            visit(child, inner)

    visit(ast.parse(text), "")


# -- comparing -----------------------------------------------------------------------------------

_RANKS = {
    (REPLACED, "gone"): 0, (IMPORTED, "gone"): 1, (READ, "gone"): 2, (PRIVATE, "gone"): 3,
    (REPLACED, "signature"): 4, (REPLACED, "source"): 5, (IMPORTED, "signature"): 6, (READ, "signature"): 7,
    (REPLACED, "moved"): 8, (IMPORTED, "moved"): 9, (READ, "moved"): 10,
    (READ, "source"): 11, (IMPORTED, "source"): 12, (PRIVATE, "source"): 13,
    (READ, "value"): 14, (IMPORTED, "value"): 15,
}  # fmt: skip
"""What matters more comes first: what is gone breaks nbcache, another signature a call, another source a premise."""


def change(old, new):
    """What became of one name, in a word and in words; None if it is what it was."""
    if "gone" in new:
        return None if "gone" in old else ("gone", new["gone"])
    if "gone" in old:
        return "new", f"not in the old one: {old['gone']}"
    if old.get("signature") != new.get("signature"):
        return "signature", f"{old.get('signature')} → {new.get('signature')}"
    if old.get("digest") != new.get("digest") or old.get("members") != new.get("members"):
        if old.get("members") is None:
            return "source", _changed_lines(old["source"], new["source"])
        return "source", _changed_members(old["members"], new.get("members"))
    if old["is"] != new["is"]:
        return "moved", f"{old['is']} → {new['is']}"
    if old.get("value") != new.get("value"):
        return "value", f"{old.get('value')} → {new.get('value')}"
    return None


def _changed_lines(*sources):
    lines = [*difflib.unified_diff(*(each.splitlines() for each in sources), n=0)][2:]
    return ", ".join(f"{sum(line.startswith(sign) for line in lines)} lines {what}"
                     for sign, what in (("+", "more"), ("-", "less")))  # fmt: skip


def _changed_members(old, new):
    new = new or {}
    signs = [(each, "-" if each not in new else "+" if each not in old else "~") for each in {**old, **new}
             if old.get(each) != new.get(each)]  # fmt: skip
    shown = ", ".join(f"{sign}{each}" for each, sign in signs[:6])
    return shown + (f" and {len(signs) - 6} more" if len(signs) > 6 else "")


def compared(uses, old, new):
    """Rows of what changed, what matters most first: rank, how it is used, name, what changed, in words, where.

    What has several names, in several modules of Numba's, is one row.
    """
    rows = {}
    for name, places in sorted(uses.items()):
        how = next(each for each in (REPLACED, IMPORTED, READ, PRIVATE) if any(each == kind for kind, _ in places))
        found = change(old[name], new[name])
        if found is not None:
            where = sorted(place for kind, place in places if kind == how)
            row = _RANKS.get((how, found[0]), 99), how, name, *found, where
            identity = old[name].get("is", name)
            key = (identity if ":" in identity else name), found
            rows[key] = min(row, rows.get(key, row))
    return sorted(rows.values())


def shown_difference(name, old, new):
    """A unified diff of the sources of one name."""
    sources = [each.get("source", json.dumps(each, indent=1, sort_keys=True)) for each in (old, new)]
    return "\n".join(difflib.unified_diff(*(each.splitlines() for each in sources), name, name, lineterm=""))


# -- environments --------------------------------------------------------------------------------


def environment(named):
    """The command of a Python that has a Numba: a release's, an environment's, or one of a folder with packages."""
    if os.path.isdir(named):
        python = os.path.join(named, "bin", "python")
        return ([python], "") if os.path.exists(python) else ([sys.executable], os.path.abspath(named))
    place = ROOT / ".venvs" / f"numba-{named}"
    python = place / "bin" / "python"
    if not (place / ".done").exists():
        print(f"installing numba {named} into {place.relative_to(ROOT)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        wanted = f"numba=={named}" if named.count(".") > 1 else f"numba=={named}.*"
        subprocess.run([python, "-m", "pip", "install", "-qq", wanted], check=True)
        (place / ".done").touch()
    return [str(python)], ""


def asked(named, names):
    """What the names are in an environment."""
    python, path = environment(named)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NBCACHE_", "NUMBA_", "PYTHON"))}
    places = [str(ROOT / "scripts"), *([path] if path else [])]
    program = f"import sys; sys.path[:0] = {places!r}; import numba_changes; numba_changes.probe()"
    done = subprocess.run(
        [*python, "-W", "ignore", "-c", program], input=json.dumps(names), env=env, check=True, text=True, stdout=-1
    )
    return json.loads(done.stdout[done.stdout.index("{") :])


def main():
    """Compare two releases."""
    options = argparse.ArgumentParser(prog="scripts/numba-changes")
    options.add_argument("old")
    options.add_argument("new")
    options.add_argument("--all", action="store_true", help="list what is the same, too")
    options.add_argument("--diff", metavar="NAME", help="show the sources of what has NAME in its name")
    options.add_argument("--of", type=Path, default=ROOT / "nbcache", help="whose uses (default: nbcache's)")
    options.add_argument("--cuda", action="store_true", help="both environments have numba-cuda: its seams as well")
    given = options.parse_args()
    uses = Uses(given.of, () if given.cuda else (f"{given.of.name}/glue/cuda",)).found
    names = sorted(uses)
    old, new = (asked(each, names) for each in (given.old, given.new))
    if given.diff:
        for name in (each for each in names if given.diff in each):
            print(shown_difference(name, old["names"][name], new["names"][name]))
        return
    rows = compared(uses, old["names"], new["names"])
    print(f"{old['version']} → {new['version']}: {len(rows)} of {len(names)} names changed\n")
    print("| how | name | what changed | in words | where |\n|---|---|---|---|---|")
    for _rank, how, name, what, words, where in rows:
        print(f"| {how} | `{name}` | {what} | {words} | {', '.join(where[:2])} |")
    if given.all:
        changed = {row[2] for row in rows}
        print("\nThe same: " + ", ".join(f"`{name}`" for name in names if name not in changed))
    neither = [name for name in names if "gone" in old["names"][name] and "gone" in new["names"][name]]
    neither = [name for name in neither if not name.startswith(".")]  # Python's own
    print("\nIn neither: " + (", ".join(f"`{name}`" for name in neither) or "none"))


if __name__ == "__main__":
    main()
