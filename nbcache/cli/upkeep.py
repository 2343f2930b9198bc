"""``nbcache verify``, ``gc`` and ``clear``: keeping a store in order. Safe while other processes use it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nbcache import config
from nbcache.cli.entries import SHORT
from nbcache.cli.place import open_store
from nbcache.cli.text import CommandError, Progress, UsageError, printable, size
from nbcache.protocol import heartbeats

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = add(
        "verify",
        help="check every byte of every entry",
        description="Check every byte of every entry against its checksums.",
    )
    parser.add_argument("--remove", action="store_true", help="remove the entries that are damaged")
    parser.set_defaults(command=verify)

    parser = add(
        "gc",
        help="evict the least recently used entries",
        description="Evict the least recently used entries until the store has the given size, "
        "and remove leftovers of crashed processes.",
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        help="the size to reach, such as 500MiB; 0 for no limit (default: NBCACHE_MAX_SIZE)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be evicted")
    parser.set_defaults(command=collect)

    parser = add(
        "clear",
        help="remove every entry that isn't published",
        description="Remove every entry of the store that no published name means. Its statistics are kept.",
    )
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")
    parser.set_defaults(command=clear)


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
        print(f"Remove every entry of {store.path}? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise CommandError("nothing removed")
    count, freed = store.clear()
    print(f"{count} entries removed, {size(freed)}")
    left = sum(1 for _ in store.scan())
    if left:
        print(f"{left} entries stay, of published functions (`nbcache unpublish` frees them) or written meanwhile")
    return 0


def parse_size(text: str) -> int:
    """Return the bytes that `text` means, by the rules of NBCACHE_MAX_SIZE; raise UsageError."""
    settings = config.load({"NBCACHE_MAX_SIZE": text})
    if settings.sources["max_size"] != "environment NBCACHE_MAX_SIZE":
        raise UsageError(f"--max-size: not a size: {text!r} (such as 5GiB or 500MB)")
    return settings.max_size
