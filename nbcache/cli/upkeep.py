"""``nbcache verify``, ``gc`` and ``clear``: keeping a store in order. Safe while other processes use it.

``nbcache quarantine``: the entries that programs crashed with.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from nbcache import config
from nbcache.cli.entries import SHORT
from nbcache.cli.store_option import open_store
from nbcache.cli.text import CommandError, Progress, UsageError, ago, print_json, print_table, printable, size
from nbcache.protocol import heartbeats
from nbcache.store import quarantine
from nbcache.store.directory import Store
from nbcache.store.quarantine import Suspect


def verify(args: argparse.Namespace) -> int:
    """Check everything; the status is 1 when something wrong is left."""
    store = open_store(args, write=args.remove)
    total = sum(1 for _ in store.scan())
    wrong = left = 0
    bar = Progress(total, "verify")
    for bad in store.verify(remove=args.remove, checked=bar.step):
        wrong += 1
        left += not bad.removed
        bar.clear()
        print(f"{bad.key[:SHORT]}  {bad.reason}{'  removed' if bad.removed else ''}  {printable(bad.path)}")
    bar.clear()
    print(f"{total} entries checked, {wrong} wrong" + (f", {wrong - left} removed" if args.remove else ""))
    if wrong and not args.remove:
        print("Wrong entries are never used. `nbcache verify --remove` removes them.")
    return 1 if left else 0


def collect(args: argparse.Namespace) -> int:
    """Evict and sweep, or say what would be evicted."""
    limit = None if args.max_size is None else parse_size(args.max_size)
    store = open_store(args, write=not args.dry_run)
    plan = store.gc(limit, dry_run=args.dry_run)
    swept = 0 if args.dry_run else store.sweep() + heartbeats.sweep(store.path, store.trust)
    verb = "would be evicted" if args.dry_run else "evicted"
    print(f"{plan.entries} entries, {size(plan.total)}; {len(plan.remove)} {verb}, {size(plan.freed)}")
    if plan.expired:
        print(f"{plan.expired} versions of published names {'would be ' if args.dry_run else ''}given up: they expired")
    if plan.pinned:
        print(f"{plan.pinned} of them belong to published functions and stay (`nbcache unpublish` frees them)")
    if swept:
        print(f"{swept} leftovers of killed processes and of unpublished functions removed")
    if plan.problem is not None:
        raise CommandError(f"nothing is evicted: {plan.problem}")
    return 0


def clear(args: argparse.Namespace) -> int:
    """Remove every entry, after asking on a terminal; elsewhere ``--yes`` is needed."""
    store = open_store(args, write=True)
    if not args.yes:
        if not sys.stdin.isatty():
            raise UsageError("clear: not a terminal to ask on: pass --yes")
        which = "every entry" if args.namespace is None else f"every entry of the namespace {args.namespace}"
        print(f"Remove {which} of {store.path}? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise CommandError("nothing removed")
    count, freed = store.clear(args.namespace)
    print(f"{count} entries removed, {size(freed)}")
    left = sum(1 for _ in store.scan()) if args.namespace is None else 0
    if left:
        print(f"{left} entries stay, of published functions (`nbcache unpublish` frees them) or written meanwhile")
    return 0


def parse_size(text: str) -> int:
    """Return the bytes that `text` means, by the rules of NBCACHE_MAX_SIZE; raise UsageError."""
    settings = config.load({"NBCACHE_MAX_SIZE": text})
    if settings.sources["max_size"] != "environment NBCACHE_MAX_SIZE":
        raise UsageError(f"--max-size: not a size: {text!r} (such as 5GiB or 500MB)")
    return settings.max_size


@dataclass(frozen=True)
class Row:
    """A suspected entry, and what has become of it."""

    suspect: Suspect
    state: str


def rows(store: Store) -> list[Row]:
    """What is suspected, the worst first."""
    quarantine.settle(store.path, store.trust)
    found = quarantine.read(store.path, store.trust).values()
    return [Row(each, _state(store, each)) for each in sorted(found, key=lambda each: (-each.crashes, -each.latest))]


def show(args: argparse.Namespace) -> int:
    """List what is suspected, or forget it."""
    store = open_store(args, write=args.clear)
    chosen = [row for row in rows(store) if not args.key or row.suspect.key.startswith(tuple(args.key))]
    if args.clear:
        digests = {row.suspect.digest for row in chosen} if args.key else None
        print(f"{quarantine.clear(store.path, store.trust, digests)} crashes forgotten")
        return 0
    if args.json:
        print_json([{**row.suspect._asdict(), "state": row.state} for row in chosen])
        return 0
    lines = [
        (row.suspect.key[:SHORT], row.suspect.crashes, ago(row.suspect.latest), row.state,
         printable(row.suspect.function))
        for row in chosen
    ]  # fmt: skip
    print_table(lines, ("key", "crashes", "last", "state", "function") if lines else (), " >")
    if not lines:
        print("no entry is suspected of a crash")
    return 0


def _state(store: Store, suspect: Suspect) -> str:
    digests = {found.digest for found in store.find(suspect.key)}
    if suspect.digest in digests:
        return "skipped" if suspect.condemned else "suspected"
    return "built again" if digests else "removed"
