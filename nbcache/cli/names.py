"""``nbcache names``, ``unpublish`` and ``fetch``: what is published by name, taken back, copied to another store."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbcache.cli.place import DEFAULT, open_store, settings_of
from nbcache.cli.text import CommandError, UsageError, age, print_json, size, table
from nbcache.errors import PublicationError
from nbcache.store import Refusal, Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from nbcache.store.publication import Publication


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = add(
        "names",
        help="list what is published",
        description="List the functions that are published by name, for nbcache.load(NAME).",
    )
    parser.add_argument("text", nargs="?", default="", help="list only names with this text in them")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=list_names)

    parser = add(
        "unpublish",
        help="take published functions back",
        description="Take back what is published under each NAME, all versions of it. "
        "What it refers to may be evicted from then on; processes that have loaded it keep it.",
    )
    parser.add_argument("name", metavar="NAME", nargs="+", help="a published name")
    parser.set_defaults(command=unpublish)

    parser = add(
        "fetch",
        help="copy a published function to another store",
        description="Copy what is published under NAME, with everything that loading it needs, into another store, "
        "such as one on this node's own disk. Every byte is checked.",
    )
    parser.add_argument("name", metavar="NAME", nargs="+", help="a published name")
    parser.add_argument("--to", metavar="DIR", default=DEFAULT, help=f"the other store (default: {DEFAULT})")
    parser.set_defaults(command=fetch)


def list_names(args: argparse.Namespace) -> int:
    """Print a line for each name; the status is 1 when one of them can't be used."""
    store = open_store(args)
    names = [name for name in store.names.known() if args.text in name]
    found: dict[str, Publication | str] = {}
    for name in names:
        try:
            found[name] = store.names.read(name)
        except PublicationError as error:
            found[name] = error.reason
    if args.json:
        print_json([_as_json(store, name, one) for name, one in found.items()])
    else:
        rows = [_cells(name, one) for name, one in found.items()]
        for line in table(rows, ("NAME", "VERSION", "AGE", "ENTRIES", "FILES", ""), right=" >>>>"):
            print(line)
    return 1 if any(isinstance(one, str) for one in found.values()) else 0


def unpublish(args: argparse.Namespace) -> int:
    """Take back each name."""
    store = open_store(args, write=True)
    for name in args.name:
        store.names.remove(name)
        print(f"{name} is not published any more")
    return 0


def fetch(args: argparse.Namespace) -> int:
    """Copy each name."""
    from nbcache.store import fetching

    source = open_store(args)
    path = os.path.abspath(os.path.expanduser(args.to))
    if not args.to or os.path.realpath(path) == source.path:
        raise UsageError(f"--to: not another store than {source.path}: {args.to!r}")
    settings = settings_of(args)
    target = Store.open(replace(settings, dir=path, readonly=False))
    if isinstance(target, Refusal):
        raise CommandError(target.reason)
    for name in args.name:
        done = fetching.fetch(source, target, name)
        print(f"{name}, version {done.publication.version}: {size(done.size)} are in {target.path}")
    return 0


def _cells(name: str, found: Publication | str) -> tuple[object, ...]:
    if isinstance(found, str):
        return name, "?", "?", "?", "?", found
    return name, found.version, age(found.created), len(found.entries), len(found.files), ""


def _as_json(store: Store, name: str, found: Publication | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"name": name, "problem": found}
    return {
        "name": name,
        "version": found.version,
        "versions": store.names.versions(name),
        "created": found.created,
        "entries": found.entries,
        "files": found.files,
        "digest": found.digest,
    }
