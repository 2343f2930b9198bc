"""Rebuild real packages' wheels with their layers, and measure the first call in fresh environments.

    python tests/packages/layers.py                          # librosa, sparse, umap for a level
    python tests/packages/layers.py resampy --cpu x86-64-v3,x86-64-v4

For each package: an environment with it and with nbcache; `nbcache bundle` over its script of `tests/packages/scripts`;
its wheel from the registry, with the layer and the entry point added (docs/layers.md); then a second environment, in
which the script runs for the first time: without nbcache, and, with the wheel that has its layer and an empty cache
directory, with nbcache. It prints how much the wheel grew, both times [s], and what Numba compiled (``NBCACHE_COUNT``).
Then every function of the package that it decorates for Numba is edited where it is installed, and the script runs once
more without nbcache, and with it and another empty cache directory: the layer is of no use any more.
Exit status 1 when outputs differ, when anything was compiled with the layer, or when nothing was after the edit.

``+v3`` after a name has the second run compile for that level: so that `fastmath` functions come from the layer too.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parents[1])]

from nbtest import proc  # noqa: E402
from run import PACKAGES  # noqa: E402

from nbcache import count_record  # noqa: E402

FIRST = ["librosa", "sparse", "umap+v3"]
ENTRY_POINT = "[nbcache.layers]\nmain = {module}._nbcache_layer\n"


@dataclass
class First:
    """The first run of a script in an environment."""

    seconds: float
    stdout: str
    compiled: int
    """Numba's compile events, runs of its compiler and of LLVM."""


def environment(folder: Path, requirements: list[str], wheels: list[Path]) -> str:
    """Make a virtual environment; return its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "wheel", *requirements, *map(str, wheels)], check=True)
    return python


def nbcache_wheel(folder: Path) -> Path:
    """Build nbcache's own wheel from this checkout."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(proc.ROOT)], check=True)
    return next(folder.glob("nbcache-*.whl"))


def rebuilt(python: str, requirement: str, module: str, layer: Path, folder: Path) -> tuple[Path, int, int]:
    """The package's wheel with its layer inside; and the sizes of the one from the registry and of this [bytes]."""
    plain, tree, packed = folder / "plain", folder / "tree", folder / "packed"
    packed.mkdir()
    run = [python, "-m"]
    subprocess.run(
        [*run, "pip", "wheel", "-q", "--no-deps", "--no-cache-dir", "-w", str(plain), requirement], check=True
    )
    original = next(plain.glob("*.whl"))
    subprocess.run([*run, "wheel", "unpack", "-d", str(tree), str(original)], check=True, stdout=subprocess.DEVNULL)
    root = next(tree.iterdir())
    layer.rename(root / module / "_nbcache_layer")
    points = next(root.glob("*.dist-info")) / "entry_points.txt"
    before = points.read_text() + "\n" if points.exists() else ""
    points.write_text(before + ENTRY_POINT.format(module=module))
    subprocess.run([*run, "wheel", "pack", "-d", str(packed), str(root)], check=True, stdout=subprocess.DEVNULL)
    wheel = next(packed.glob("*.whl"))
    return wheel, original.stat().st_size, wheel.stat().st_size


def first_run(python: str, script: Path, folder: Path, **settings: str) -> First:
    """Run a script with an empty directory for Numba's own cache, and count what is compiled."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NBCACHE_", "NUMBA_", "PYTHON"))}
    env.update(NUMBA_CACHE_DIR=str(folder / "numba"), NBCACHE_COUNT=str(folder / "count"), **settings)
    began = time.perf_counter()
    done = subprocess.run([python, str(script)], env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{script.name} fails:\n{done.stderr}")
    return First(seconds, done.stdout, sum(count_record.totals(count_record.read(str(folder / "count"))).values()))


def edit(python: str, module: str) -> int:
    """Give each function that a package decorates for Numba one more statement; return how many there were."""
    code = f"import importlib.util as u; print(u.find_spec({module!r}).submodule_search_locations[0])"
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    count = 0
    for path in Path(found.stdout.strip()).rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines(keepends=True)
        nodes = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
        places = [_begin(each) for each in nodes if any(map(_is_numbas, each.decorator_list))]
        for line, indent in sorted(filter(None, places), reverse=True):
            lines.insert(line, f"{' ' * indent}_edited = 1\n")
        if places:
            path.write_text("".join(lines), encoding="utf-8")
        count += sum(place is not None for place in places)
    return count


def _begin(function: ast.FunctionDef) -> tuple[int, int] | None:
    """Before which line, and how far to the right, the body begins; None where that is the line of ``def``."""
    first = next((each for each in function.body if not _is_docstring(each)), function.body[0])
    decorators = getattr(first, "decorator_list", [])
    line = min(each.lineno for each in (first, *decorators))
    return None if line == function.lineno else (line - 1, first.col_offset)


def _is_numbas(decorator: ast.expr) -> bool:
    return any(word in ast.unparse(decorator) for word in ("jit", "vectorize", "numba"))


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def show(name: str, cpus: str, own: Path, folder: Path) -> bool:
    """Do it all for one package; return whether it is as it should be."""
    name, _, target = name.partition("+")
    requirement, script = PACKAGES[name][0], HERE / "scripts" / f"run_{name}.py"
    maker = environment(folder / "maker", PACKAGES[name], [own])
    layer = folder / "layer"
    command = [maker, "-m", "nbcache", "bundle", "--layer", str(layer), "--cpu", cpus, "--", maker, str(script)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wheel, before, after = rebuilt(maker, requirement, name, layer, folder)
    user = environment(folder / "user", [*PACKAGES[name][1:]], [own, wheel])
    places = [folder / "first", folder / "second", folder / "third", folder / "fourth"]
    for place in places:
        (place / "count").mkdir(parents=True)
    settings = {"NBCACHE_CPU": target} if target else {}
    plain = first_run(user, script, places[0])
    layered = first_run(user, script, places[1], NBCACHE_DIR=str(places[1] / "store"), **settings)
    functions = edit(user, name)
    edited = first_run(user, script, places[2])
    again = first_run(user, script, places[3], NBCACHE_DIR=str(places[3] / "store"), **settings)
    same = plain.stdout == layered.stdout and edited.stdout == again.stdout
    as_it_should_be = same and layered.compiled == 0 and edited.compiled > 0 and again.compiled > 0
    print(
        f"{name:12}{f'for {target}' if target else '':8}wheel {before / 1e6:6.2f} -> {after / 1e6:6.2f} MB, "
        f"first run {plain.seconds:5.1f} s -> {layered.seconds:4.1f} s, compiled {plain.compiled} -> {layered.compiled}, "
        f"{functions} functions edited: compiled {edited.compiled} -> {again.compiled}, "
        f"outputs {'identical' if same else 'DIFFER'}",
        flush=True,
    )
    return as_it_should_be


def main() -> int:
    """Parse the command line and go through the packages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FIRST, help=f"default: {' '.join(FIRST)}")
    parser.add_argument("--cpu", default="x86-64-v3", help="the processors that the layers are made for")
    args = parser.parse_args()
    well = True
    with tempfile.TemporaryDirectory(prefix="nbcache-layers-") as folder:
        own = nbcache_wheel(Path(folder))
        for name in args.names:
            (Path(folder) / name).mkdir()
            well &= show(name, args.cpu, own, Path(folder) / name)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
