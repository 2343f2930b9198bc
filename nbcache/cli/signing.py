"""``nbcache key``: the keys that sign what goes to a remote cache, and whose entries are taken from one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from nbcache.cli.text import CommandError, UsageError

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
    parser.add_argument("action", choices=sorted(_ACTIONS), help="generate NAME FILE, or public FILE")
    parser.add_argument("words", nargs="+", metavar="WORD", help="what the key is called; the file that it is in")
    parser.add_argument("--until", default="", metavar="YYYY-MM-DD", help="the last day on which a new key counts")
    parser.set_defaults(command=key)


def key(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    usage, action = _ACTIONS[args.action]
    if len(args.words) != len(usage.split()):
        raise UsageError(f"usage: nbcache key {args.action} {usage}")
    action(args)
    return 0


def _generate(args: argparse.Namespace) -> None:
    """Make a key, and print what others need to trust it."""
    from nbcache.remote import signing

    name, path = args.words
    made = signing.generate(name, args.until)
    try:
        signing.save(made, os.path.abspath(path))
    except FileExistsError as error:
        raise CommandError(f"{path} is there already, and is not overwritten") from error
    print(made.public)


def _public(args: argparse.Namespace) -> None:
    """Print what others need to trust a key."""
    from nbcache.remote import signing

    print(signing.read(os.path.abspath(args.words[0])).public)


_ACTIONS: Final = {"generate": ("NAME FILE", _generate), "public": ("FILE", _public)}
