"""``nbcache stats``: what the processes of a store hit, missed and saved, from their usage records.

``nbcache config``: each setting, its value and where that came from. ``nbcache metrics``: what Prometheus asks; a
daemon tells it itself (``serve --metrics``).
"""

from __future__ import annotations

import os
import sys
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from nbcache.cli.store_option import directory_of, open_store, settings_of
from nbcache.cli.text import CommandError, UsageError, ago, duration, print_json, print_table, printable, size
from nbcache.store import atomic, entry, reasons, usage, usage_sums

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from nbcache.config import Settings
    from nbcache.metrics.exposing import DaemonMetrics
    from nbcache.metrics.meter import Meter
    from nbcache.store.usage import Record

_EXAMPLES = 3
_BRIEF = 32
"""How long a reason may be that stands before its number [characters]."""
_MISSES = {
    reasons.NEW: "no entry has this key",
    reasons.RECACHE: "NBCACHE_RECACHE is set",
    entry.UNTRUSTED: "somebody who isn't trusted owns it or can write it",
    entry.REVOKED: "no trusted key signed it",
    reasons.QUARANTINED: "programs crashed with it: `nbcache quarantine`",
    reasons.REMOTE_FAILED: "the remote cache can't be asked",
}
"""What the words of nbcache mean that don't say it themselves."""


def show_stats(args: argparse.Namespace) -> int:
    """Print the statistics of a store, or begin them anew."""
    store = open_store(args, write=args.zero, looking=not args.zero)
    sizes, known = [], set()
    for info in store.scan():
        sizes.append(info.size)
        known.add(info.key)
    if args.zero:
        usage_sums.forget(store.path, known.__contains__)
        print(f"{store.path}: statistics begin anew; entries, and what `nbcache report` shows of the past, stay")
        return 0
    if store.writable:
        usage_sums.fold_all(store.path, known.__contains__)
    budget = usage.Budget()
    records = usage.read(store.path, budget) if args.since is None else usage_sums.since(store.path, args.since, budget)
    total = usage.merge(records)
    if budget.over:
        print(
            f"only {size(usage.MAX_READ)} of usage records were read; `nbcache gc` by the store's owner sums them up",
            file=sys.stderr,
        )
    names = len(store.names.known())
    if args.json:
        print_json({"dir": store.path, "entries": len(sizes), "size": sum(sizes), "names": names, **_told(total)})
        return 0
    by_name = f", {names} published names" if names else ""
    print(f"{store.path}: {len(sizes)} entries, {size(sum(sizes))}{by_name}")
    print_table(_rows(total))
    return 0


def _told(total: Record) -> dict[str, Any]:
    """Return the sum of all records as it is printed for programs."""
    names = ("processes", "published", "evicted", "evicted_bytes", "saved_seconds", "built_seconds", "start", "end",
             "sources", "misses", "uncacheable", "unasked", "errors", "checks")  # fmt: skip
    counts = {"hits": total["hit_count"], "builds": total["builds_count"], "missed": reasons.missed(total)}
    return {**{name: total[name] for name in names}, **counts, "hit_rate": reasons.hit_rate(total)}


def _rows(total: Record) -> list[tuple[str, str, str]]:
    """Return (what, number, remark) for each line."""
    rate, builds = reasons.hit_rate(total), total["builds_count"]
    uncacheable = {reason: item["count"] for reason, item in total["uncacheable"].items()}
    since = f"the first {ago(total['start'])}" if total["start"] else "none has used it yet"
    return [
        ("processes", str(total["processes"]), since),
        ("hits", str(total["hit_count"]), "" if rate is None else f"{rate:.1%} of look-ups"),
        *((f"  from {source}", str(count), "") for source, count in total["sources"].items()),
        ("compilation saved", duration(total["saved_seconds"]), ""),
        *_group("misses", total["misses"], words=_MISSES),
        ("compiled", str(builds), f"in {duration(total['built_seconds'])}" if builds else ""),
        ("stored", str(total["published"]), ""),
        ("evicted", str(total["evicted"]), size(total["evicted_bytes"]) if total["evicted"] else ""),
        *_group("uncacheable", uncacheable, total["uncacheable"]),
        *(_group("couldn't be asked for", total["unasked"]) if total["unasked"] else ()),
        *_group("errors", total["errors"]),
        *(_group("hits checked", total["checks"]) if total["checks"] else ()),
    ]


def _group(
    name: str,
    counts: Mapping[str, int],
    details: Mapping[str, Mapping[str, Any]] | None = None,
    words: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[str, str, str]]:
    """Return a line for the sum and one for each reason, the most frequent first."""
    rows = [(name, str(sum(counts.values())), "")]
    for reason, count in counts.items():
        functions = details[reason]["functions"] if details else []
        more = ", ..." if len(functions) > _EXAMPLES else ""
        remark = f"such as {', '.join(functions[:_EXAMPLES])}{more}" if functions else words.get(reason, "")
        # A column is as wide as its widest cell: what is long goes into the last one.
        brief = len(reason) <= _BRIEF
        long = f"{reason}: {remark}" if remark else reason
        rows.append((f"  {reason}", str(count), remark) if brief else ("", str(count), long))
    return rows


def show_config(args: argparse.Namespace) -> int:
    """Print the settings; the status is 1 when one of them couldn't be read."""
    settings = settings_of(args)
    values = values_of(settings)
    if args.json:
        rows = {name: {"value": value, "source": source} for name, value, source in values}
        print_json({"settings": rows, "problems": list(settings.problems)})
    else:
        print_table([(f"NBCACHE_{name.upper()}", _words(name, value), source) for name, value, source in values])
    for problem in settings.problems:
        print(f"nbcache: {printable(problem)}", file=sys.stderr)
    return 1 if settings.problems else 0


def values_of(settings: Settings) -> list[tuple[str, Any, str]]:
    """Return (name, value as JSON has it, source) of each setting, in the order of their declaration."""
    rows = []
    for name, value in settings._asdict().items():
        if name not in ("sources", "problems"):
            plain = sorted(value) if isinstance(value, frozenset) else value
            if isinstance(value, tuple):
                plain = list(map(str, value))
            if name == "umask" and value is not None:
                plain = f"{value:03o}"  # as it is written
            rows.append((name, plain, settings.sources.get(name, "default")))
    return rows


def _words(name: str, value: object) -> str:
    if name == "max_size" and isinstance(value, int):
        return size(value)
    if (value is None and name == "layers") or (value == 0 and name == "check"):
        return "none"
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    between = " " if name in {"remote", "trusted_keys"} else ","
    return between.join(map(str, value)) if isinstance(value, list) else str(value)


PATIENCE = 60.0
"""How long usage records are read [s]."""


def metrics(args: argparse.Namespace) -> int:
    """Print or write the metrics; the status is 1 when the store can't be used, which the metrics say as well."""
    families = _families()
    from nbcache.metrics.store_scan import Looker

    settings = settings_of(args)
    directory_of(settings)
    look = Looker(lambda: settings).look(PATIENCE)
    data, _ = families.text(families.of_store(look))
    if args.textfile is None:
        sys.stdout.write(data.decode())
    else:
        atomic.replace_named(os.path.abspath(args.textfile), data)
    if look.problem is not None:
        print(f"nbcache: {printable(look.problem)}", file=sys.stderr)
    return 0 if look.problem is None else 1


def of_daemon(address: str | None, settings: Callable[[], Settings], meter: Meter) -> DaemonMetrics | None:
    """Return what exposes a daemon's metrics, not started yet; None without an address. Raises UsageError."""
    if address is None:
        return None
    _families()
    from nbcache.metrics import exposing
    from nbcache.metrics.exposing import DaemonMetrics

    try:
        return DaemonMetrics(exposing.read_address(address), settings, meter)
    except exposing.BadAddressError as error:
        raise UsageError(f"--metrics: {error}") from error


def _families() -> ModuleType:
    try:
        from nbcache.metrics import metric_names
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise CommandError("metrics need prometheus_client: pip install 'nbcache[metrics]'") from error
    return metric_names
