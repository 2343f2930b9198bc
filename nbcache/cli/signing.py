"""``nbcache key``: the keys that sign what goes to a remote cache, and whose entries are taken from one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nbcache.cli.text import CommandError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = add(
        "key",
        help="make keys that sign entries, and look at them",
        description="Make the keys that sign what goes to a remote cache (NBCACHE_SIGNING_KEY), and print their public "
        "halves (NBCACHE_TRUSTED_KEYS). Whoever has a signing key executes code wherever its public half is trusted.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    action = actions.add_parser("generate", help="make a key; print its public half")
    action.add_argument("name", metavar="NAME", help="what others call it, such as ci-2026")
    action.add_argument("file", metavar="FILE", help="where to put it; must not be there yet")
    action.add_argument("--until", default="", metavar="YYYY-MM-DD", help="the last day on which it counts")
    action.set_defaults(command=generate)
    action = actions.add_parser("public", help="print the public half of a key")
    action.add_argument("file", metavar="FILE", help="the key")
    action.set_defaults(command=public)


def generate(args: argparse.Namespace) -> int:
    """Make a key, and print what others need to trust it."""
    from nbcache.remote import signing

    key = signing.generate(args.name, args.until)
    try:
        signing.save(key, os.path.abspath(args.file))
    except FileExistsError as error:
        raise CommandError(f"{args.file} is there already, and is not overwritten") from error
    print(key.public)
    return 0


def public(args: argparse.Namespace) -> int:
    """Print what others need to trust a key."""
    from nbcache.remote import signing

    print(signing.read(os.path.abspath(args.file)).public)
    return 0
