"""``nbcache quarantine``: the entries that programs crashed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbcache.cli.entries import SHORT
from nbcache.cli.place import open_store
from nbcache.cli.text import ago, print_json, printable, table
from nbcache.store import quarantine

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from nbcache.store.directory import Store
    from nbcache.store.quarantine import Suspect


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add(
        "quarantine",
        help="list entries that programs crashed with",
        description="List the entries that programs died in, within seconds of first calling them. After "
        f"{quarantine.CRASHES} crashes an entry is skipped, and a daemon builds it again.",
    )
    parser.add_argument("key", nargs="*", help="list only entries whose key begins with this")
    parser.add_argument("--clear", action="store_true", help="forget these crashes, so that the entries are used again")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=show)


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
    for line in table(lines, ("key", "crashes", "last", "state", "function") if lines else (), " >"):
        print(line)
    if not lines:
        print("no entry is suspected of a crash")
    return 0


def _state(store: Store, suspect: Suspect) -> str:
    digests = {found.digest for found in store.find(suspect.key)}
    if suspect.digest in digests:
        return "skipped" if suspect.condemned else "suspected"
    return "built again" if digests else "removed"
