"""What has been registered with Numba by code that is not Numba's.

Numba lets any package say how a function is typed and compiled: ``@overload``, ``@intrinsic``,
lowering functions, data models, boxing.  None of it is in the bytecode of the functions it changes.

Registrations *for* somebody's own object (a function, a class, a type class) are part of that
object's identity: whoever reaches the object reaches them.  Registrations that say something new
about what belongs to the toolchain (``@overload(np.sum)``, ``@overload_method(types.Array, ...)``,
a rewrite, ``operator.add`` for somebody's type) could change any compilation, so they count for
every key.  That is coarse, and safe: merely installing a package that registers such things
(``numba_extensions``) is then a different key.

Registries are append-only lists, so the index reads on from where it stopped.
"""

from __future__ import annotations

import hashlib
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

from numba.core import imputils, pythonapi
from numba.core.datamodel import default_manager
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.types.abstract import Type
from numba.core.typing import templates

from nbcache.glue.ownership import is_numba_type, is_toolchain_definition, is_toolchain_module

if TYPE_CHECKING:
    from collections.abc import Iterator


class ExtensionIndex:
    """An incremental index over Numba's registries; `refresh` before asking."""

    def __init__(self) -> None:
        self._positions: dict[tuple[int, str], int] = {}
        self._by_key: dict[int, tuple[object, list[tuple[str, object]]]] = {}
        self.for_everything: list[tuple[str, object]] = []
        self._sizes: tuple[int, ...] = ()
        self.generation = 0

    def refresh(self) -> int:
        """Read what has been registered since the last call; return a number that grows with news."""
        sizes = self._current_sizes()
        if sizes != self._sizes:
            self._sizes = sizes
            before = self._count()
            for registry in self._typing_registries():
                self._read_typing(registry)
            for registry in self._lowering_registries():
                self._read_lowering(registry)
            self._read_rewrites()
            if self._count() != before:
                self.generation += 1
        return self.generation

    def registered_for(self, obj: object) -> list[tuple[str, object]]:
        """(label, callable or class) of what is registered for *obj* itself."""
        found = self._by_key.get(id(obj))
        registered = list(found[1]) if found is not None and found[0] is obj else []
        if isinstance(obj, type) and Type in obj.__mro__ and not is_toolchain_module(obj.__module__):
            registered += _type_machinery(obj)
        return registered

    def modules(self) -> list[str]:
        """The modules that registered what counts for every key, as far as another process can import them."""
        named = dict.fromkeys(module_of(registered) for _label, registered in self.for_everything)
        return [name for name in named if name != "__main__" and name in sys.modules]

    def _count(self) -> int:
        return len(self.for_everything) + sum(len(entry[1]) for entry in self._by_key.values())

    def _typing_registries(self) -> list[Any]:
        context = cpu_target.typing_context
        return [templates.builtin_registry, *(r for r in context._registries if r is not templates.builtin_registry)]

    def _lowering_registries(self) -> list[Any]:
        context = cpu_target.target_context
        return [imputils.builtin_registry, *(r for r in context._registries if r is not imputils.builtin_registry)]

    def _current_sizes(self) -> tuple[int, ...]:
        sizes: list[int] = []
        for registry in self._typing_registries():
            sizes += (id(registry), len(registry.functions), len(registry.attributes), len(registry.globals))
        for registry in self._lowering_registries():
            sizes += (
                id(registry), len(registry.functions), len(registry.getattrs),
                len(registry.setattrs), len(registry.casts), len(registry.constants),
            )  # fmt: skip
        sizes += [len(classes) for classes in rewrite_registry.rewrites.values()]
        return tuple(sizes)

    def _news(self, registry: Any, field: str) -> Iterator[Any]:
        items = getattr(registry, field)
        start = self._positions.get((id(registry), field), 0)
        self._positions[id(registry), field] = len(items)
        return iter(items[start:])

    def _read_typing(self, registry: Any) -> None:
        for template in self._news(registry, "functions"):
            self._file("template", getattr(template, "key", None), template)
        for template in self._news(registry, "attributes"):
            self._file("attributes", getattr(template, "key", None), template)
        for value, typ in self._news(registry, "globals"):
            for template in getattr(typ, "templates", ()):
                self._file("template", value, template)

    def _read_lowering(self, registry: Any) -> None:
        for implementation, function, signature in self._news(registry, "functions"):
            self._file("lowering", function, implementation, signature)
        for field in ("getattrs", "setattrs"):
            for implementation, _attribute, signature in self._news(registry, field):
                self._file(field, signature[0] if signature else None, _undecorated(implementation))
        for field in ("casts", "constants"):
            for implementation, signature in self._news(registry, field):
                self._file(field, signature[0] if signature else None, implementation)

    def _read_rewrites(self) -> None:
        for kind, classes in rewrite_registry.rewrites.items():
            start = self._positions.get((id(rewrite_registry), kind), 0)
            self._positions[id(rewrite_registry), kind] = len(classes)
            for cls in classes[start:]:
                self._file(f"rewrite {kind}", None, cls)

    def _file(self, label: str, key: object, registered: object, signature: tuple[Any, ...] = ()) -> None:
        if not _is_foreign_registration(registered):
            return
        owner = key if _is_foreign(key) else None
        if owner is None and is_numba_type(key) and _is_foreign(type(key)):
            owner = type(key)
        name = f"{label} {getattr(registered, '__qualname__', registered)!s}"
        formal = tuple(t for t in signature if isinstance(t, type | Type))
        entry = (name, (registered, *formal) if formal else registered)
        if owner is None:
            self.for_everything.append(entry)
        else:
            self._by_key.setdefault(id(owner), (owner, []))[1].append(entry)


def _is_foreign_registration(registered: Any) -> bool:
    """Whether somebody else's code is behind a function or template that is registered.

    Templates are often made by Numba around somebody's function: an overload's chooser, the typing
    function of ``@type_callable``.
    """
    if not isinstance(registered, type):
        return not is_toolchain_definition(registered)
    members = vars(registered)
    for field in ("_overload_func", "_definition_func"):
        if field in members:
            return not is_toolchain_definition(members[field].__func__)
    if not is_toolchain_definition(registered):
        return True
    if getattr(sys.modules[registered.__module__], registered.__name__, None) is registered:
        return False
    return any(
        not is_toolchain_definition(part) for member in members.values() for part in (member, *_enclosed(member))
        if isinstance(part, FunctionType)
    )  # fmt: skip


def _enclosed(function: Any) -> list[Any]:
    """The values of a closure's cells."""
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]


def _undecorated(implementation: Any) -> Any:
    """The user's function inside the closure that ``lower_getattr`` makes around it."""
    return next((value for value in _enclosed(implementation) if callable(value)), implementation)


def _is_foreign(key: object) -> bool:
    """Whether *key* is an object with a home outside the toolchain."""
    if key is None or isinstance(key, str | tuple):
        return False
    module = getattr(key, "__module__", None)
    return isinstance(module, str) and not is_toolchain_module(module)


def _type_machinery(cls: type) -> list[tuple[str, object]]:
    """Data model, boxing, unboxing and reflection of one type class."""
    found: list[tuple[str, object]] = []
    model = default_manager._handlers.get(cls)
    if model is not None:
        found.append(("data model", model))
    for label, registry in (
        ("boxing", pythonapi._boxers),
        ("unboxing", pythonapi._unboxers),
        ("reflection", pythonapi._reflectors),
    ):
        implementation = registry.functions.get(cls)
        if implementation is not None:
            found.append((label, implementation))
    return found


def package_digest(module: str) -> bytes:
    """Digest of every loaded source file of the package that *module* belongs to.

    Stands in for the identity of a registration that cannot be described.
    """
    from nbcache.glue.describers import file_digest

    root = module.partition(".")[0]
    hasher = hashlib.blake2b(digest_size=32)
    for name in sorted(sys.modules):
        if name == root or name.startswith(root + "."):
            path = getattr(sys.modules[name], "__file__", None)
            if path is not None:
                hasher.update(name.encode())
                hasher.update(file_digest(path))
    return hasher.digest()


def module_of(registered: Any) -> str:
    """The module of a function, template, or (function, types...) that is registered."""
    part = registered[0] if isinstance(registered, tuple) else registered
    chooser = getattr(part, "_overload_func", None) or getattr(part, "_definition_func", None) or part
    return str(getattr(chooser, "__module__", ""))
