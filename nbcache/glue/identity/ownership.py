"""Who owns a piece of Python: the toolchain, or somebody whose code can change under us.

The toolchain is Python itself, Numba, llvmlite and NumPy.  Their versions are in every key, so
what they define is identified by its name; everything else is identified by its content.

Names prove nothing: a script may have a ``wave.py`` beside it, and code executed in a copy of NumPy's
namespace says that it is NumPy's.  So what counts are files: a module is the toolchain's if it is
the one that ``sys.modules`` has under its name and was loaded from the toolchain's directories, a function if
its code was compiled from there (`roots`).  Whether a file lies there is asked once for each path; all else is
looked up each time, since modules can be replaced.

numba-cuda puts its own files in the place of ``numba.cuda``.  They are identified by name as well,
with the *edition*: its version, which is in no key otherwise.
"""

from __future__ import annotations

import functools
import gc
import importlib.machinery
import importlib.util
import os
import random
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
from numba.core.types.abstract import Type

from nbcache.glue.identity.roots import directories, is_below_package, is_standard, is_test, real_path
from nbcache.passing_exceptions import let_pass

HEAP_TYPE = 1 << 9  # CPython's Py_TPFLAGS_HEAPTYPE
address = object.__hash__
"""Tells objects apart as ``id`` does, of which Python tells each audit hook: a compilation has one (witness.py)."""

_INSIDE_PYTHON: tuple[object, ...] = (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter)


def is_toolchain_module(name: object) -> bool:
    """Whether the module called *name* comes with the toolchain (``__main__`` never does)."""
    return isinstance(name, str) and module_edition(name) == ""


def module_edition(name: str) -> str | None:
    """Whose the module called *name* is: "" the toolchain's, which every key knows; numba-cuda's version; or None."""
    found = sys.modules.get(name)
    return _edition_when_imported(name) if found is None else edition_of(found, name)


def edition_of(module: Any, name: str | None = None) -> str | None:
    """As `module_edition`, of a module object: a copy of a module is nobody's."""
    try:
        scope = vars(module)
        name = scope["__name__"] if name is None else name
        if sys.modules.get(name) is not module or name == "__main__":
            return None
        path = scope.get("__file__")
        if path is None:
            loader = getattr(scope.get("__spec__"), "loader", None)
            inside = loader in _INSIDE_PYTHON and name.partition(".")[0] in sys.stdlib_module_names
            return "" if inside else None
        return _edition_of_file(path)
    except (TypeError, KeyError):  # anything can be put into sys.modules
        return None


@functools.lru_cache(maxsize=256)
def _edition_when_imported(name: str) -> str | None:
    """Whose a module would be that nobody has imported yet.

    Only top-level modules are looked for, because looking for a submodule imports its parents.
    """
    root, _dot, rest = name.partition(".")
    if rest and root in sys.modules:
        return module_edition(root) if ".tests" not in name else None
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(root)
        if spec is not None and spec.loader in _INSIDE_PYTHON:
            return "" if root in sys.stdlib_module_names else None
        if spec is not None and spec.origin is not None:
            return _edition_of_file(spec.origin)
    return None


@functools.lru_cache(maxsize=16384)
def _edition_of_file(path: str) -> str | None:
    """Whose a source file, or a native module, is."""
    if path.startswith("<"):
        frozen = path.startswith("<frozen ") and path[8:].rstrip(">").partition(".")[0] in sys.stdlib_module_names
        return "" if frozen else None
    for resolve_path in (str, real_path):
        candidate = resolve_path(path)
        if is_below_package(candidate) or is_standard(candidate):
            return ""
        root = _redirected_root()
        if root is not None and candidate.startswith(root) and not is_test(candidate[len(root) :]):
            return _redirected_version(root)
    return None


def is_toolchain_file(path: str) -> bool:
    """Whether a source file, or a native module, comes with the toolchain."""
    return _edition_of_file(path) is not None


def _redirected_root() -> str | None:
    """Where ``numba.cuda`` comes from, if that isn't Numba."""
    path = getattr(sys.modules.get("numba.cuda"), "__file__", None)
    return None if path is None or is_below_package(path) else os.path.dirname(path) + os.sep


@functools.cache
def _redirected_version(root: str) -> str | None:
    """Which numba-cuda the files below *root* are; None if they are another distribution's, or nobody's."""
    locations = getattr(importlib.util.find_spec("numba_cuda"), "submodule_search_locations", None) or ()
    if not root.startswith(directories(*locations)):
        return None
    told = getattr(sys.modules.get("numba_cuda"), "__version__", None)
    # Where installers write it down; to look for it takes as long as a hit.
    if any(os.path.isdir(f"{location}-{told}.dist-info") for location in locations):
        return f"numba-cuda {told}"
    from importlib.metadata import PackageNotFoundError, version

    with suppress(PackageNotFoundError):
        return f"numba-cuda {version('numba-cuda')}"
    return None


def is_numba_type(obj: object) -> bool:
    """``isinstance(obj, numba.types.Type)``, without asking a hundred subclasses for each new class of object."""
    return Type in type(obj).__mro__


def resolve(module: str, qualname: str) -> object | None:
    """What ``module:qualname`` names in this process right now, or None."""
    found: object | None = sys.modules.get(module)
    if found is None:
        return None
    for part in qualname.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def toolchain_name(obj: object) -> str | None:
    """``module:qualname`` when *obj* is a toolchain definition reachable by that very name.

    Closures, instances, and what others put in the place of a definition have no such name: None.
    """
    if type(type.__getattribute__(type(obj), "__getattribute__")) is FunctionType:
        # A class of a program's, whose instances may do anything when they are asked. None of the toolchain's has it.
        return None
    module = getattr(obj, "__module__", None)
    if module is None:
        # Builtin methods of modules such as math keep their module in __self__.
        owner = getattr(obj, "__self__", None)
        if not isinstance(owner, ModuleType):
            return None
        module = owner.__name__
    edition = module_edition(module) if isinstance(module, str) else None
    if edition is None:
        return None
    qualname = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if not isinstance(qualname, str) or "<" in qualname:
        return None
    try:
        if resolve(module, qualname) is obj and _is_genuine(obj):
            return f"{module}:{qualname} {edition}" if edition else f"{module}:{qualname}"
    except Exception as raised:  # noqa: BLE001  a module's __getattr__ may raise anything
        let_pass(raised)
        return None
    return None


def drawing_name(obj: object) -> str | None:
    """``module:name`` when *obj* is a method of the generator that Python's library or NumPy keep for everybody.

    ``random.gauss`` is one. Numba compiles it by what it is, to code with a generator of its own: the state of that one
    says nothing.
    """
    if type(obj) not in (MethodType, BuiltinFunctionType):
        return None
    owner = obj.__self__  # type: ignore[attr-defined]
    module: ModuleType
    if type(owner) is random.Random:
        module = random
    elif type(owner) is np.random.RandomState:
        module = np.random
    else:
        return None
    name: str = obj.__name__  # type: ignore[attr-defined]
    return f"{module.__name__}:{name}" if getattr(module, name, None) is obj else None


def _is_genuine(obj: object) -> bool:
    """Whether *obj*, which says that it is the toolchain's, is: ``functools.wraps`` makes functions say such things."""
    if isinstance(obj, FunctionType):
        return has_toolchain_globals(obj)
    if isinstance(obj, type):
        return has_toolchain_methods(obj)
    own = getattr(obj, "__dict__", None)
    if not own:
        return True
    if module_edition(type(obj).__module__) is None:
        return False
    # What it calls may be hidden in it, and __wrapped__ is what it was told to say.
    held = (*gc.get_referents(obj), *own.values())
    return all(is_toolchain_file(part.__code__.co_filename) for part in held if isinstance(part, FunctionType))


def has_toolchain_globals(function: FunctionType) -> bool:
    """Whether *function* was written by the toolchain's authors, for the very module whose globals it reads."""
    scope = function.__globals__
    if not is_toolchain_file(function.__code__.co_filename):
        return False
    name = scope.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and vars(module) is scope and edition_of(module) is not None


def is_compilers(function: FunctionType) -> bool:
    """Whether Numba, numba-cuda or something below them defines a function, or made it of text of its own."""
    path = function.__code__.co_filename
    if not path.startswith("<"):
        return is_toolchain_file(path)
    name = function.__globals__.get("__name__")
    return isinstance(name, str) and module_edition(name) is not None


def _is_numbas(cls: type) -> bool:
    return cls.__module__.startswith("numba.") and is_toolchain_module(cls.__module__)


def has_toolchain_methods(cls: type) -> bool:
    """Whether the toolchain's authors wrote the methods that a class defines."""
    if cls not in _classes:
        files = {function.__code__.co_filename for function in _functions_in([cls])}
        # Dataclasses and named tuples have methods that were generated.
        _classes[cls] = all(file.startswith("<") or _edition_of_file(file) is not None for file in files)
    return _classes[cls]


def _functions_in(classes: list[type]) -> list[FunctionType]:
    """The functions among the members of classes, and those that members are made around."""
    # The first hit of a process asks this about hundreds of classes, the first compilation about thousands: hence one
    # pass, without a function call for each member.
    functions: list[FunctionType] = []
    around: list[Any] = []
    for cls in classes:
        for member in vars(cls).values():
            kind = type(member)
            if kind is FunctionType:
                functions.append(member)
            elif kind is staticmethod:
                around.append(member.__func__)
            elif kind not in _WITHOUT_CODE:
                around += (member, getattr(member, "__func__", None), getattr(member, "fget", None))
    return functions + [part for part in around if isinstance(part, FunctionType)]


_WITHOUT_CODE = frozenset(
    {str, int, bool, type(None), tuple, dict, frozenset, type, GetSetDescriptorType, MemberDescriptorType,
     BuiltinFunctionType, type(vars(Type)["_abc_impl"])}
)  # fmt: skip
"""What kinds of members have no code."""
_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def module_name(name: object) -> str | None:
    """A module name as it counts for identity: a spawned child's ``__mp_main__`` is ``__main__``."""
    if name == "__mp_main__":
        return "__main__"
    return name if isinstance(name, str) else None


def is_toolchain_definition(obj: object) -> bool:
    """Whether *obj*, a function or class, was written by the toolchain's authors.

    Numba generates some functions with ``exec`` in namespaces without a name; those are known by
    the file their code came from.
    """
    module = getattr(obj, "__module__", None)
    if module is not None and not is_toolchain_module(module):
        return False
    if isinstance(obj, type):
        # What is executed without a module says that it is from builtins; Numba's templates are found nowhere either.
        return has_toolchain_methods(obj) and (not _is_nowhere(obj) or any(map(_is_numbas, obj.__bases__)))
    if isinstance(obj, FunctionType):
        return _edition_of_file(obj.__code__.co_filename) == ""
    return module is not None


def are_toolchain_definitions(objs: list[Any]) -> bool:
    """Whether each of *objs* and each function inside them `is_toolchain_definition`.  May say no where it is so.

    One look at hundreds of them, where as many calls would take a third of the first hit of a process.
    """
    # Templates are registered twice, data models many times.
    objs = [*dict(zip(map(address, objs), objs, strict=True)).values()]
    kinds = dict(zip(map(address, map(type, objs)), map(type, objs), strict=True)).values()
    if not all(kind is FunctionType or issubclass(kind, type) for kind in kinds):
        return False
    classes = [obj for obj in objs if type(obj) is not FunctionType]
    functions = [obj for obj in objs if type(obj) is FunctionType] + _functions_in(classes)
    cells = [cell for function in functions if function.__closure__ for cell in function.__closure__]
    functions += [value for value in _contents(cells) if type(value) is FunctionType]
    modules = [cls.__module__ for cls in classes]
    modules += [function.__module__ for function in functions if function.__module__ is not None]
    if not {*map(type, modules)} <= {str} or not all(map(is_toolchain_module, {*modules})):
        return False
    if not all(_edition_of_file(file) == "" for file in {function.__code__.co_filename for function in functions}):
        return False
    bases = {base for cls in classes for base in cls.__bases__}
    if not all(is_toolchain_module(base.__module__) for base in bases):
        return False
    numbas = {*filter(_is_numbas, bases)}
    return not any(map(_is_nowhere, [c for c in classes if "cases" in vars(c) or numbas.isdisjoint(c.__bases__)]))


def cell_values(function: Any) -> Iterator[Any]:
    """What the cells of a function's closure hold, but for those that are still empty."""
    return _contents(getattr(function, "__closure__", None) or ())


def _contents(cells: Iterable[CellType]) -> Iterator[Any]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:
            continue


def _is_nowhere(cls: type) -> bool:
    return "<" not in cls.__qualname__ and resolve(str(cls.__module__), cls.__qualname__) is not cls
