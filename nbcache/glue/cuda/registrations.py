"""What has been registered for CUDA by code that is neither Numba's nor numba-cuda's.

Any package may say how something is typed and lowered in kernels: ``@overload``, ``@intrinsic``, lowering functions,
data models, rewrites. On the CPU a compilation notes the names that it asks for, so that a function depends on what
concerns it alone. Here everything that others registered counts for every kernel of the process: that is never too
little, and few programs extend CUDA at all. What none of it reads while compiling is known of nobody; that is noted
when a kernel is compiled, as for the CPU (witness.py).

Registries are append-only lists, so an index reads on from where it stopped.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from numba.core import imputils as host_imputils
from numba.core.datamodel import default_manager
from numba.core.types.abstract import Type
from numba.core.typing import templates as host_templates
from numba.cuda.core import imputils
from numba.cuda.core.rewrites import rewrite_registry
from numba.cuda.descriptor import cuda_target
from numba.cuda.models import cuda_data_manager
from numba.cuda.typing import templates
from numba.cuda.typing.typeof import typeof_impl

from nbcache.glue.identity.asked_names import spelling_of
from nbcache.glue.identity.graph import IdentityEngine
from nbcache.glue.identity.node import Scope
from nbcache.glue.identity.ownership import address, cell_values, is_compilers, is_numba_type, module_edition, resolve

_TYPING = ("functions", "attributes", "globals")
_LOWERING = ("functions", "getattrs", "setattrs", "casts", "constants")
_KINDS = {
    templates.Registry: _TYPING,
    host_templates.Registry: _TYPING,
    imputils.Registry: _LOWERING,
    host_imputils.Registry: _LOWERING,
}
_DEPTH = 3
"""How many closures deep somebody's function may lie in what Numba made around it."""


class CudaRegistrations:
    """An incremental index; ``digest`` reads what is new first."""

    def __init__(self, engine: IdentityEngine) -> None:
        self._engine = engine
        self._modules: set[str] = set()
        self._registries: dict[int, tuple[Any, tuple[str, ...]]] = {}
        self._read: dict[tuple[int, str], int] = {}
        self._seen: dict[str, dict[Any, Any]] = {}
        self._foreign: list[tuple[str, Any]] = []
        self._digests: list[tuple[bytes, Scope]] = []
        self._whole = b""
        self._settled = False

    def digest(self) -> bytes:
        """Identity of all that others have registered, b"" if that is nothing.  Raises Unidentifiable."""
        self._refresh()
        self._settled = True
        if not self._foreign:
            return b""
        if len(self._digests) == len(self._foreign) and all(scope.unchanged() for _digest, scope in self._digests):
            return self._whole
        self._digests = [self._engine.scoped([each]) for _label, each in self._foreign]
        hasher = hashlib.blake2b(digest_size=32, person=b"nbcache cudareg")
        for (label, _each), (digest, _scope) in zip(self._foreign, self._digests, strict=True):
            text = label.encode("utf-8", "surrogatepass")
            hasher.update(len(text).to_bytes(8, "little") + text + digest)
        self._whole = hasher.digest()
        return self._whole

    def labels(self) -> list[str]:
        """What others have registered, in words."""
        return [label for label, _each in self._foreign]

    def modules(self) -> list[str]:
        """The modules that registered it, as far as others can import them; in the order of registering."""
        judge = _Judge()
        names = (name for _label, parts in self._foreign for name in judge.modules_in(parts))
        return [name for name in dict.fromkeys(names) if name in sys.modules and name != "__main__"]

    def _refresh(self) -> None:
        self._find_registries()
        lists, others = self._news()
        if not lists and not others:
            return
        judge = _Judge()
        if judge.is_all_known([*(_parts_of(item) for _field, items, at in lists for item in items[at:]), others]):
            return
        for field, items, start in lists:
            self._file_items(field, items, start, judge.is_foreign)
        self._foreign += [(label, each) for label, each in others if judge.is_foreign(each)]

    def _news(self) -> tuple[list[tuple[str, list[Any], int]], list[tuple[str, Any]]]:
        """What nobody has looked at yet: registries' lists and from where on, all else with what it is called."""
        lists: list[tuple[str, list[Any], int]] = []
        for registry, fields in self._registries.values():
            for field in fields:
                items = getattr(registry, field)
                start = self._read.get((id(registry), field), 0)
                if len(items) > start:
                    self._read[id(registry), field] = len(items)
                    lists.append((field, items, start))
        others: list[tuple[str, Any]] = []
        for kind, classes in rewrite_registry.rewrites.items():
            start = self._read.get((id(rewrite_registry), kind), 0)
            if len(classes) > start:
                self._read[id(rewrite_registry), kind] = len(classes)
                others += [(f"rewrite {kind}", cls) for cls in classes[start:]]
        for label, table in _tables():
            seen = self._seen.setdefault(label, {})
            if len(seen) != len(table) or any(seen.get(key) is not value for key, value in table.items()):
                others += [(label, [key, value]) for key, value in table.items() if seen.get(key) is not value]
                seen.update(table)
        return lists, others

    def _find_registries(self) -> None:
        """Those of Numba's and numba-cuda's modules, and those that others gave to the contexts."""
        if len(sys.modules) != len(self._modules):
            news = sys.modules.keys() - self._modules
            self._modules.update(news)
            # In the order of import, which decides who is asked first.
            for name in [name for name in sys.modules if name in news and name.startswith("numba.cuda.")]:
                values = vars(sys.modules[name]).values()
                if not _KINDS.keys().isdisjoint(map(type, values)):  # nearly all modules have none
                    self._add([value for value in values if type(value) in _KINDS])
            self._add([host_templates.builtin_registry, host_imputils.builtin_registry])
        for context in (cuda_target.typing_context, cuda_target.target_context):
            self._add([registry for registry in context._registries if type(registry) in _KINDS])

    def _add(self, registries: list[Any]) -> None:
        for registry in registries:
            self._registries.setdefault(id(registry), (registry, _KINDS[type(registry)]))

    def _file_items(self, field: str, items: list[Any], start: int, is_foreign: Callable[[object], bool]) -> None:
        for position, item in enumerate(items[start:], start):
            parts = _parts_of(item)
            if not any(map(is_foreign, parts)) or _is_consequence(field, parts):
                continue
            # Who is asked first matters: what came before it for the same thing is part of what it means. Once
            # something was looked up, numba-cuda would have registered all of its own, and all others come after it.
            key = _key_of(field, item)
            before = "late" if self._settled else str(sum(_key_of(field, each) is key for each in items[:position]))
            self._foreign.append((f"{field} {before} {_spelling(key)}", [*parts]))


def _parts_of(item: Any) -> tuple[Any, ...]:
    """What a registry's item consists of: templates say themselves what they are for."""
    return item if isinstance(item, tuple) else (item, item.key)


def _is_consequence(field: str, parts: tuple[Any, ...]) -> bool:
    """Whether a template registered this when it was used first, which adds nothing to the template.

    An intrinsic's code is registered for itself.
    """
    registered = parts[0]
    if field == "functions" and registered is parts[1]:
        return True
    return isinstance(registered, FunctionType) and registered.__module__ in _TEMPLATES


_TEMPLATES = (templates.__name__, host_templates.__name__)


def _key_of(field: str, item: Any) -> object:
    if not isinstance(item, tuple):
        key: object = item.key
        return key
    return item[0] if field == "globals" else item[1]


def _spelling(key: object) -> str:
    return key if isinstance(key, str) else repr(spelling_of(key))


def _tables() -> tuple[tuple[str, dict[Any, Any]], ...]:
    """What holds one thing for each class."""
    return (
        ("data model", cuda_data_manager._handlers),
        ("data model of Numba's", default_manager._handlers),
        ("typeof", typeof_impl.registry),
    )


class _Judge:
    """Looks at each thing, module and file once: thousands of signatures consist of the same few types.

    For as long as nobody else's code runs.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[object, bool]] = {}
        self._modules: dict[str, bool] = {}
        self._files: dict[str, bool] = {}

    def is_all_known(self, parts: list[Any]) -> bool:
        """Whether `is_foreign` says no of each; one look at a thousand, which takes half as long as as many."""
        flat: list[Any] = []
        for _ in range(_DEPTH + 1):
            nested = [part for part in parts if type(part) in _NESTED]
            flat += [part for part in parts if type(part) not in _NESTED]
            parts = [*chain.from_iterable(nested)]
        if parts:  # a list that holds itself, say
            return False
        flat = [*dict(zip(map(address, flat), flat, strict=True)).values()]
        kinds = {*map(type, flat)} - _WITHOUT_CODE
        types = {kind for kind in kinds if Type in kind.__mro__}
        metaclasses = {kind for kind in kinds if issubclass(kind, type)}
        codes = kinds - types - metaclasses
        classes = [part for part in flat if type(part) in metaclasses]
        if not all(map(self._is_known_class, [*types, *classes])):
            return False
        named = {name: vars(sys.modules[name]) for name in {cls.__module__ for cls in classes} & sys.modules.keys()}
        nowhere = [cls for cls in classes if named.get(cls.__module__, {}).get(cls.__qualname__) is not cls]
        functions = _functions_in([part for part in flat if type(part) in codes] + nowhere)
        return all(map(self.is_harmless, functions))

    def is_foreign(self, part: object) -> bool:
        """Whether somebody else's code, class or type is in a registration, or is what it is for."""
        kind = type(part)
        if kind in _NESTED:
            return any(map(self.is_foreign, part))  # type: ignore[call-overload]
        if kind in _WITHOUT_CODE:
            return False
        known = self._parts.get(address(part))
        if known is None:
            known = self._parts[address(part)] = (part, self._is_foreign(part, kind))
        return known[1]

    def _is_foreign(self, part: object, kind: type) -> bool:
        if is_numba_type(part):
            return not self._is_known_class(kind)
        if issubclass(kind, type):
            if not self._is_known_class(part):  # type: ignore[arg-type]
                return True
            if resolve(part.__module__, part.__qualname__) is part:  # type: ignore[attr-defined]
                return False
        return not all(map(self.is_harmless, _functions_in([part])))

    def is_harmless(self, function: FunctionType) -> bool:
        """Whether a function is the compiler's or the toolkit's, or does nothing: numba-cuda makes empty ones."""
        code = function.__code__
        file = code.co_filename
        if file.startswith("<"):  # then it depends on more than where its text is
            if is_compilers(function):
                return True
        else:
            known = self._files.get(file)
            if known is None:
                known = self._files[file] = is_compilers(function) or file.startswith(_toolkit())
            if known:
                return True
        return code.co_code == _EMPTY.co_code and code.co_consts == (None,)

    def modules_in(self, part: object) -> Iterator[str]:
        """Whose code a registration consists of."""
        if isinstance(part, tuple | list):
            for each in part:
                yield from self.modules_in(each)
        elif isinstance(part, type) and self.is_foreign(part):
            yield part.__module__
        elif self.is_foreign(part):
            yield from (each.__module__ for each in _functions_in([part]) if not self.is_harmless(each))

    def _is_known_class(self, cls: type) -> bool:
        """Whether a class was defined by Python, Numba, numba-cuda or the toolkit, in the module that it names."""
        module = cls.__module__
        known = self._modules.get(module)
        if known is None:
            known = self._modules[module] = module == "builtins" or module_edition(module) is not None
        if known:
            return True
        file = getattr(sys.modules.get(module), "__file__", None)
        return isinstance(file, str) and file.startswith(_toolkit()) and resolve(module, cls.__qualname__) is cls


_EMPTY = (lambda *_args: None).__code__


@functools.cache
def _toolkit() -> tuple[str, ...]:
    """The directories of NVIDIA's Python packages, whose versions are in every key."""
    return tuple(
        os.path.join(path, "") for name in ("core", "bindings") for path in sys.modules[f"cuda.{name}"].__path__
    )


def _functions_in(parts: Iterable[object]) -> list[FunctionType]:
    """The functions that things registered consist of, those among them that others were made around."""
    functions = []
    for _ in range(_DEPTH + 1):
        inside: list[object] = []
        for each in parts:
            if type(each) in _WITHOUT_CODE:
                continue
            part = each if type(each) is FunctionType else _function_of(each)
            if isinstance(part, FunctionType):
                functions.append(part)
                if part.__closure__:
                    inside += cell_values(part)
                inside.append(getattr(part, "__wrapped__", None))
            elif isinstance(part, type):
                inside += vars(part).values()
        parts = inside
    return functions


_NESTED = frozenset({tuple, list})
_WITHOUT_CODE = frozenset({str, int, bool, type(None), tuple, dict, frozenset, float, BuiltinFunctionType})


def _function_of(part: object) -> object:
    """The function inside what Python or numba-cuda wraps one in; else the same."""
    field = _FIELDS.get(type(part))
    if field is None:
        return part if isinstance(part, type) else getattr(part, "py_func", part)
    return getattr(part, field)


_FIELDS: dict[type, str] = {
    staticmethod: "__func__",
    classmethod: "__func__",
    MethodType: "__func__",
    property: "fget",
    functools.partial: "func",
}
