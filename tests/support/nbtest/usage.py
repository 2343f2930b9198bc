"""Reading the usage records that processes leave in a store."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def _counts(value: object) -> Counter[str]:
    """Read ``{reason: count}`` or ``{reason: {"count": n, "functions": [...]}}``."""
    counts: Counter[str] = Counter()
    if isinstance(value, dict):
        for reason, entry in value.items():
            named = "" if isinstance(entry, int) else f" ({', '.join(entry['functions'][:3])})"
            counts[reason + named] += entry if isinstance(entry, int) else entry["count"]
    return counts


def records(store: Path | str) -> Iterator[dict[str, Any]]:
    """Every readable record under ``store``."""
    for path in sorted(Path(store).glob("v1/usage/*.json")):
        try:
            yield json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # compacted or deleted while we looked


def read(store: Path | str) -> Usage:
    """Add up every readable record under ``store``."""
    usage = Usage()
    for record in records(store):
        usage.processes += 1
        usage.hits.update({key: int(count) for key, count in record.get("hits", {}).items()})
        for build in record.get("builds", []):
            usage.builds[build["key"]] += 1
            usage.functions[build["key"]] = build["function"]
        usage.misses.update(_counts(record.get("misses")))
        usage.uncacheable.update(_counts(record.get("uncacheable")))
        usage.errors.update(_counts(record.get("errors")))
    return usage
