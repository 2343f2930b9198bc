"""``nbcache profile``: what programs left for the day on which all of it has to be compiled again."""

from __future__ import annotations

import argparse
import os

from nbcache.cli.store_option import open_store
from nbcache.cli.text import CommandError, UsageError, ago, duration, plural, print_json, print_table, printable, size
from nbcache.protocol import profiles
from nbcache.protocol.profiles import Head, Profile
from nbcache.store.directory import Store

_LISTED = 10_000


def profile(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    if (args.action == "ls") != (not args.name):
        raise UsageError("usage: nbcache profile ls | show NAME | rm NAME ...")
    if args.action == "show" and len(args.name) != 1:
        raise UsageError("usage: nbcache profile show NAME")
    return {"ls": _list, "show": _show, "rm": _remove}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    """List the profiles of trusted users, the newest first."""
    store = open_store(args)
    heads = profiles.heads(store.path, store.trust, _LISTED)
    if args.json:
        print_json([head._asdict() for head in heads])
        return 0
    rows = [
        (_short(head), sum(head.packages.values()), size(head.size), ago(head.written), head.program) for head in heads
    ]
    print_table([("NAME", "FUNCTIONS", "SIZE", "WRITTEN", "PROGRAM"), *rows] if rows else [], right="<>>>")
    return 0


def _show(args: argparse.Namespace) -> int:
    """Show what a profile lists, in the order in which it would be built."""
    store = open_store(args)
    found = _found(store, args.name[0])
    ranks = found.ranks()
    if args.json:
        print_json({**found.head._asdict(), "units": [{**each._asdict(), "value": None} for each in found.units]})
        return 0
    print(printable(found.head.program))
    print(f"of uid {found.head.uid}, compiled last with {printable(found.head.toolchain)}")
    longest = max(ranks, default=0.0)
    print(f"{len(found.units)} functions, {duration(found.seconds)} on one processor, {duration(longest)} on many")
    rows = []
    for at in found.in_order():
        unit = found.units[at]
        how = "by value" if unit.value is not None else ""
        upon = f"upon {len(unit.inside)} {plural(len(unit.inside), 'other')}" if unit.inside else ""
        # Last, because types can be longer than any terminal is wide.
        rows.append((duration(unit.seconds), " ".join(filter(None, (how, upon))), f"{unit.function} {unit.signature}"))
    print_table(rows, right=">")
    return 0


def _remove(args: argparse.Namespace) -> int:
    """Remove profiles."""
    store = open_store(args)
    for name in args.name:
        head = _named(store, name)
        if not profiles.remove(store.path, head.name, store.trust, head.uid):
            raise CommandError(f"{_short(head)} can't be removed: it belongs to uid {head.uid}")
    return 0


def _named(store: Store, name: str) -> Head:
    """The one profile whose name begins so, or whose program's path ends so."""
    heads = profiles.heads(store.path, store.trust, _LISTED)
    found = [head for head in heads if head.name.startswith(name)]
    found = found or [head for head in heads if head.program.endswith(f"/{name}") or head.program == name]
    if not found:
        raise CommandError(f"there is no profile {name}; `nbcache profile ls` lists them")
    if len({head.name for head in found}) > 1:
        raise CommandError(f"{name} may be any of {', '.join(map(_short, found))}")
    mine = [head for head in found if head.uid == os.geteuid()]
    return (mine or found)[0]


def _found(store: Store, name: str) -> Profile:
    head = _named(store, name)
    found = profiles.read(store.path, head.name, store.trust, head.uid)
    if found is None:
        raise CommandError(f"the profile {_short(head)} can't be read: it is damaged, or of another version")
    return found


def _short(head: Head) -> str:
    return head.name[:12]
