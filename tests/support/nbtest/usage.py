"""Reading the usage records that processes leave in a store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbcache.store import content, layout, usage
from nbcache.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def paths(root: str) -> list[str]:
    """Return the paths of the records of single processes, in no order."""
    with Folder(root, layout.USAGE) as folder:
        return [f"{root}/{layout.USAGE}/{item.name}" for item in folder.json_files()]


def load(path: str) -> dict[str, Any] | None:
    """Return one of these records; None for anything else."""
    found = content.read_json(path, usage.MAX_RECORD, parse=usage._lines)
    return None if found is None else usage._cleaned(*found)


@dataclass
class Usage:
    """All records of a store, added up."""

    processes: int = 0
    hits: Counter[str] = field(default_factory=Counter)  # by key
    builds: Counter[str] = field(default_factory=Counter)  # by key
    functions: dict[str, str] = field(default_factory=dict)  # key -> function
    misses: Counter[str] = field(default_factory=Counter)  # by reason
    uncacheable: Counter[str] = field(default_factory=Counter)  # by reason
    errors: Counter[str] = field(default_factory=Counter)  # by what failed

    @property
    def built_twice(self) -> dict[str, int]:
        """Functions of the keys that were built more than once, with the number of builds."""
        return {f"{self.functions[key]} {key[:12]}": count for key, count in self.builds.items() if count > 1}

    def builds_in(self, module: str) -> Counter[str]:
        """How often each function of a module was built, by key; what Numba compiles inside them is another's."""
        return Counter({key: n for key, n in self.builds.items() if self.functions[key].startswith(f"{module}:")})

    def since(self, earlier: Usage) -> Usage:
        """What was added after ``earlier`` was read."""
        return Usage(
            self.processes - earlier.processes,
            self.hits - earlier.hits,
            self.builds - earlier.builds,
            self.functions,
            self.misses - earlier.misses,
            self.uncacheable - earlier.uncacheable,
            self.errors - earlier.errors,
        )


def _named(uncacheable: dict[str, dict[str, Any]]) -> Counter[str]:
    """Count ``{reason: {"count": n, "functions": [...]}}`` by reason and functions."""
    return Counter(
        {f"{reason} ({', '.join(each['functions'][:3])})": each["count"] for reason, each in uncacheable.items()}
    )


def records(store: Path | str) -> Iterator[dict[str, Any]]:
    """Every readable record of a single process under ``store``."""
    for path in sorted(paths(str(store))):
        loaded = load(path)
        if loaded is not None:  # it was summed up or deleted while we looked
            yield loaded


def read(store: Path | str) -> Usage:
    """Add up every readable record under ``store``."""
    found = Usage()
    for record in records(store):
        found.processes += record["processes"]
        found.hits.update(record["hits"])
        for build in record["builds"]:
            found.builds[build["key"]] += 1
            found.functions[build["key"]] = build["function"]
        found.misses.update(record["misses"])
        found.uncacheable.update(_named(record["uncacheable"]))
        found.errors.update(record["errors"])
    return found
