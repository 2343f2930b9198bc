"""Wheels made of publications: what is published, as a package that needs only NumPy.

A wheel holds the publication's image, manifest and files, and the modules of nbcache that load them
(:mod:`nbcache.published.packaged` and all that it imports), under a name within the package: so neither nbcache nor
Numba has to be installed, and wheels of different versions of nbcache live side by side.

The wheel is built by hatchling, with which nbcache itself is built: it is maintained by the Python Packaging
Authority, packs what lies in a folder without compiling anything, and tags the wheel for this platform. It is an
extra, ``nbcache[wheel]``.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import keyword
import os
import re
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from nbcache.errors import PublicationError
from nbcache.protocol import manifests
from nbcache.records import Record
from nbcache.store import atomic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbcache.protocol.manifests import Manifest
    from nbcache.store.directory import Store

LOADER: Final = "_loader"
"""Where in the package the modules of nbcache lie."""
_FIRST: Final = "nbcache.published.packaged"
_OURS: Final = ("nbcache", "_nbcache")
_NOT_NEEDED: Final = (
    "nbcache.published.entry_code",  # for entries, of which a package has none
    "nbcache.client",  # to switch the cache on, as these three
    "nbcache.glue",
    "nbcache.count_record",
)
"""What functions of the packed modules import that nobody calls in a package."""
_IMPORT: Final = re.compile(r"^(\s*)(from|import) (_?nbcache)\b(.*)$", re.MULTILINE)
# The path of this process before anything is imported: the package that is built may be called like one of hatchling's.
_BUILD: Final = """\
import sys
sys.path[:] = sys.argv[2:]
import hatchling.build
print(hatchling.build.build_wheel(sys.argv[1]))
"""
_NEEDED: Final = frozenset({"numpy", "numba", "llvmlite", "nbcache", "_nbcache"})
"""Packages whose files a wheel must not replace."""
_TAKEN: Final = frozenset({LOADER, "_os", "_packaged", "_functions", "__all__", "__version__", "__file__"})
"""What the package's own module needs for itself."""
_BUILD_SECONDS: Final = 300
_HOOK: Final = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ForThisPlatform(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
"""


class _Wheel(Record):
    """What is to be built."""

    name: str
    """What it is published as: a manifest may say anything of itself."""
    package: str
    version: str
    manifest: Manifest
    requires: tuple[str, ...]
    """Requirements besides NumPy."""


def export(store: Store, name: str, folder: str, *, package: str | None = None, requires: Sequence[str] = ()) -> str:
    """Make a wheel of what is published under a name; return its path in ``folder``.

    The package is called like the name, with underscores, unless ``package`` says otherwise. ``requires`` are further
    requirements of the wheel, such as the package that an exception class comes from. Raises what
    :meth:`nbcache.store.name_writing.Names.read` does, and PublicationError for what can't be a wheel.
    """
    found = store.names.read(name)
    manifest = manifests.decode(found.manifest)
    package = re.sub(r"[.-]", "_", name) if package is None else package
    problem = _problem(manifest, package, requires)
    if not store.trusts(manifest.beside):
        problem = manifests.UNTRUSTED
    if problem is not None:
        raise PublicationError(name, problem)
    with tempfile.TemporaryDirectory(prefix="nbcache-wheel-") as project:
        wheel = _Wheel(name, package, str(found.version), manifest, tuple(requires))
        for path, data in (*_project(wheel), (f"{package}/manifest.json", found.manifest)):
            _write(project, path, data)
        for digest in manifest.needed:
            _write(project, f"{package}/files/{digest}", store.names.files.read(digest, name))
        return _build(name, project, os.path.abspath(folder))


def _problem(manifest: Manifest, package: str, requires: Sequence[str]) -> str | None:
    """Say in one line why it can't be a wheel."""
    if importlib.util.find_spec("hatchling") is None:
        return "hatchling is not installed here: install nbcache[wheel]"
    if not package.isidentifier() or keyword.iskeyword(package) or package in {*sys.stdlib_module_names, *_NEEDED}:
        return f"{package!r} can't be the name of a package: give it one with --package"
    if manifest.image is None:
        return "there is no image of it: install a linker (ld, or a C compiler) here, and publish it again"
    for function in manifest.functions.values():
        if function.what == "numba":
            return f"{function.name} needs Numba: {function.reason}"
    for attribute, function in manifest.functions.items():
        name = attribute or function.name
        if keyword.iskeyword(name) or name in _TAKEN:
            return f"{name} can't be the name of a function in a package: publish it under another one"
    foreign = [each for each in manifest.imports if _is_foreign(each)]
    if foreign and not requires:
        return f"it imports {', '.join(foreign)}: name the package that has it with --requires"
    return None


def _is_foreign(imported: str) -> bool:
    root = imported.partition(":")[0].partition(".")[0]
    return root not in sys.stdlib_module_names and root != "numpy"


def _project(wheel: _Wheel) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and contents of the project's files that are text."""
    yield "pyproject.toml", _pyproject(wheel).encode()
    yield "hatch_build.py", _HOOK.encode()
    yield f"{wheel.package}/__init__.py", _init(wheel).encode()
    for path, source in _modules().items():
        yield f"{wheel.package}/{LOADER}/{path}", _moved(source, f"{wheel.package}.{LOADER}").encode()
    yield f"{wheel.package}/{LOADER}/__init__.py", b""
    for distribution in ("nbcache", "numba"):
        for file in importlib.metadata.files(distribution) or ():
            if "LICENSE" in file.name and file.locate().is_file():  # type: ignore[attr-defined,unused-ignore]
                yield f"licenses/{distribution}.{file.name}", file.read_binary()


def _numpy(manifest: Manifest) -> str:
    """The releases of NumPy that have the ABI which the code was built for, from the oldest that Numba runs with."""
    major = manifest.host.numpy[0] >> 24
    return f"numpy>={'1.24' if major == 1 else f'{major}.0'},<{major + 1}"


def _pyproject(wheel: _Wheel) -> str:
    needs = [_numpy(wheel.manifest), *wheel.requires]
    names = ", ".join(function.name for function in wheel.manifest.functions.values())
    about = {
        "name": wheel.package.replace("_", "-"),
        "version": wheel.version,
        "description": f"Compiled functions: {names}"[:500],
        "requires-python": f"=={sys.version_info[0]}.{sys.version_info[1]}.*",
        "dependencies": needs,
        "license-files": ["licenses/*"],
    }
    lines = ["[build-system]", 'requires = ["hatchling"]', 'build-backend = "hatchling.build"', "", "[project]"]
    # A JSON string or list of strings is one of TOML, too.
    lines += [f"{name} = {json.dumps(value)}" for name, value in about.items()]
    lines += ["", "[tool.hatch.build.targets.wheel]", f"packages = {json.dumps([wheel.package])}"]
    lines += ["", "[tool.hatch.build.targets.wheel.hooks.custom]", 'path = "hatch_build.py"', ""]
    return "\n".join(lines)


def _init(wheel: _Wheel) -> str:
    """Return the package's own module: it loads everything, and has each function under its name."""
    names = {}
    for attribute, function in wheel.manifest.functions.items():
        name = attribute or function.name
        names[attribute] = name if name.isidentifier() else wheel.package
    lines = [
        f'"""{wheel.name}, version {wheel.version}: compiled functions, exported by nbcache."""',
        "",
        "import os as _os",
        "",
        f"from {wheel.package}.{LOADER}.nbcache.published import packaged as _packaged",
        "",
        f"__all__ = {sorted(names.values())!r}",
        f"__version__ = {wheel.version!r}",
        "",
        "_functions = _packaged.load(_os.path.dirname(_os.path.abspath(__file__)))",
        *(f"{name} = _functions[{attribute!r}]" for attribute, name in names.items()),
        "",
    ]
    return "\n".join(lines)


def _modules() -> dict[str, str]:
    """Return the sources of the modules that a package needs, and of the packages that they are in, by their paths."""
    found: dict[str, str] = {}
    todo, seen = [_FIRST], set[str]()
    while todo:
        module = todo.pop()
        spec = importlib.util.find_spec(module) if module not in seen else None
        if spec is None or spec.origin is None:
            continue
        seen.add(module)
        is_package = spec.submodule_search_locations is not None
        # Packages only lead to their modules here: what they import besides isn't needed.
        with open(spec.origin, encoding="utf-8") as file:
            source = "" if is_package else file.read()
        path = module.replace(".", "/")
        found[f"{path}/__init__.py" if is_package else f"{path}.py"] = source
        todo += [] if is_package else _imported(source)
        todo += [module.rpartition(".")[0]] if "." in module else []
    return found


def _imported(source: str) -> list[str]:
    """Return what a module imports of nbcache, at whatever time, but for the sake of types."""
    names: list[str] = []
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        todo += ast.iter_child_nodes(node)
    ours = [name for name in names if name.partition(".")[0] in _OURS and not name.startswith(_NOT_NEEDED)]
    return [name for name in ours if _exists(name)]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # an attribute of a module
        return False


def _moved(source: str, into: str) -> str:
    """Return a module's source with its imports of nbcache's modules from elsewhere."""

    def moved(found: re.Match[str]) -> str:
        indent, word, root, rest = found.groups()
        if word == "import":
            return f"{indent}from {into} import {root}{rest}"
        return f"{indent}from {into}.{root}{rest}"

    return _IMPORT.sub(moved, source)


def _write(project: str, path: str, data: bytes) -> None:
    whole = os.path.join(project, path)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    with open(whole, "wb") as file:
        file.write(data)


def _build(name: str, project: str, folder: str) -> str:
    """Have the wheel built, and put it into the folder."""
    built = os.path.join(project, "built")
    path = [os.path.abspath(each) for each in sys.path if isinstance(each, str)]
    try:
        done = subprocess.run(  # noqa: S603  this Python
            [sys.executable, "-I", "-c", _BUILD, built, *path],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PublicationError(name, f"hatchling failed: {last}") from error
    except subprocess.TimeoutExpired as error:
        raise PublicationError(name, f"hatchling took longer than {_BUILD_SECONDS} s") from error
    file = done.stdout.strip().splitlines()[-1]
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, file)
    with open(os.path.join(built, file), "rb") as wheel:
        atomic.replace_named(target, wheel.read())
    return target
