"""``nbcache stats``: what the processes of a store hit, missed and saved, from their usage records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nbcache.cli.place import open_store
from nbcache.cli.text import ago, duration, print_json, size, table
from nbcache.store import folding, usage
from nbcache.summary import aggregate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from nbcache.summary import Summary

_EXAMPLES = 3


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add(
        "stats",
        help="show hits, misses by reason, compilation saved and the size of the store",
        description="Show what all processes that used the store did so far, and what is in the store.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=show_stats)


def show_stats(args: argparse.Namespace) -> int:
    """Print the statistics of a store."""
    store = open_store(args)
    sizes, known = [], set()
    for info in store.scan():
        sizes.append(info.size)
        known.add(info.key)
    if store.writable:
        folding.fold_all(store.path, known.__contains__)
    budget = usage.Budget()
    summary = aggregate(usage.read(store.path, budget))
    if budget.over:
        print(
            f"only {size(usage.MAX_READ)} of usage records were read; `nbcache gc` by the store's owner sums them up",
            file=sys.stderr,
        )
    names = len(store.names.known())
    if args.json:
        print_json({"dir": store.path, "entries": len(sizes), "size": sum(sizes), "names": names, **summary.to_json()})
        return 0
    by_name = f", {names} published names" if names else ""
    print(f"{store.path}: {len(sizes)} entries, {size(sum(sizes))}{by_name}")
    for line in table(_rows(summary)):
        print(line)
    return 0


def _rows(summary: Summary) -> list[tuple[str, str, str]]:
    """Return (what, number, remark) for each line."""
    rate = "" if summary.hit_rate is None else f"{summary.hit_rate:.1%} of look-ups"
    since = f"since {ago(summary.start)}" if summary.start else "none has used it yet"
    uncacheable = {reason: item["count"] for reason, item in summary.uncacheable.items()}
    return [
        ("processes", str(summary.processes), since),
        ("hits", str(summary.hits), rate),
        *((f"  from {source}", str(count), "") for source, count in summary.sources.items()),
        ("compilation saved", duration(summary.saved_seconds), ""),
        *_group("misses", summary.misses),
        ("compiled", str(summary.builds), f"in {duration(summary.built_seconds)}" if summary.builds else ""),
        ("published", str(summary.published), ""),
        ("evicted", str(summary.evicted), size(summary.evicted_bytes) if summary.evicted else ""),
        *_group("uncacheable", uncacheable, summary.uncacheable),
        *_group("errors", summary.errors),
        *(_group("hits checked", summary.checks) if summary.checks else ()),
    ]


def _group(
    name: str, counts: Mapping[str, int], details: Mapping[str, Mapping[str, Any]] | None = None
) -> list[tuple[str, str, str]]:
    """Return a line for the sum and one for each reason, the most frequent first."""
    rows = [(name, str(sum(counts.values())), "")]
    for reason, count in counts.items():
        functions = details[reason]["functions"] if details else []
        more = ", ..." if len(functions) > _EXAMPLES else ""
        remark = f"such as {', '.join(functions[:_EXAMPLES])}{more}" if functions else ""
        rows.append((f"  {reason}", str(count), remark))
    return rows
