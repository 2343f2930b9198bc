"""What the records of many processes add up to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nbcache.store import usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(slots=True)
class Summary:
    """What many processes did, taken together."""

    processes: int = 0
    hits: int = 0
    sources: dict[str, int] = field(default_factory=dict)
    """Hits from elsewhere than the store, or for another processor: by layer and processor."""
    builds: int = 0
    """Compilations."""
    misses: dict[str, int] = field(default_factory=dict)
    """By reason, the most frequent first."""
    uncacheable: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By reason: ``count``, and ``functions`` as examples."""
    errors: dict[str, int] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    """Hits that were checked, by what came of it."""
    published: int = 0
    evicted: int = 0
    evicted_bytes: int = 0
    saved_seconds: float = 0.0
    """Compilation that hits saved [s]."""
    built_seconds: float = 0.0
    """Compilation that took place [s]."""
    start: float = 0.0
    """When the first process began, Unix time [s]; 0 if unknown."""
    end: float = 0.0
    """When the last one ended."""

    @property
    def missed(self) -> int:
        """Look-ups that found nothing to use."""
        return sum(self.misses.values())

    @property
    def hit_rate(self) -> float | None:
        """Hits among look-ups, 0 to 1; None if there were none."""
        looked_up = self.hits + self.missed
        return self.hits / looked_up if looked_up else None

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON-able data."""
        return {**asdict(self), "missed": self.missed, "hit_rate": self.hit_rate}


def aggregate(records: Iterable[Mapping[str, Any]]) -> Summary:
    """Add up usage records, or snapshots. What isn't a record is left out."""
    cleaned = (usage.clean({"version": usage.VERSION, **record}) for record in records)
    total = usage.merge(record for record in cleaned if record is not None)
    reasons = sorted(total["uncacheable"].items(), key=lambda pair: -pair[1]["count"])
    return Summary(
        processes=total["processes"],
        hits=total["hit_count"],
        sources=_by_frequency(total["sources"]),
        builds=total["builds_count"],
        misses=_by_frequency(total["misses"]),
        uncacheable=dict(reasons),
        errors=_by_frequency(total["errors"]),
        checks=_by_frequency(total["checks"]),
        published=total["published"],
        evicted=total["evicted"],
        evicted_bytes=total["evicted_bytes"],
        saved_seconds=total["saved_seconds"],
        built_seconds=total["built_seconds"],
        start=total["start"],
        end=total["end"],
    )


def _by_frequency(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: -pair[1]))
