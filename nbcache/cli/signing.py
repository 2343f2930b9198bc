"""``nbcache key``: the keys that sign what goes to a remote cache, and whose entries are taken from one."""

from __future__ import annotations

import argparse
import os
from typing import Final

from nbcache import signing_keys
from nbcache.cli.store_option import settings_of
from nbcache.cli.text import CommandError, UsageError, printable
from nbcache.keyring import Keyring
from nbcache.remote import bundles, objects
from nbcache.secret import Secret, revealed
from nbcache.setting_syntax import what_exists


def key(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    usage, action = _ACTIONS[args.action]
    if len(args.words) != len(usage.split()):
        raise UsageError(f"usage: nbcache key {args.action} {usage}")
    return action(args)


def _generate(args: argparse.Namespace) -> int:
    """Make a key, and print what others need to trust it."""
    name, path = args.words
    made = signing_keys.generate(name, args.until)
    try:
        signing_keys.save(made, os.path.abspath(path))
    except FileExistsError as error:
        raise CommandError(f"{path} is there already, and is not overwritten") from error
    print(made.public)
    return 0


def _public(args: argparse.Namespace) -> int:
    """Print what others need to trust a key."""
    print(signing_keys.read(Secret(os.path.abspath(args.words[0]), what_exists)).public)
    return 0


def _sign(args: argparse.Namespace) -> int:
    """Add one's own signature to every entry of a bundle."""
    settings = settings_of(args)
    if settings.signing_key is None:
        raise CommandError("NBCACHE_SIGNING_KEY is not set: it names the file with the key")
    own = signing_keys.read(settings.signing_key)
    count = bundles.sign(os.path.abspath(args.words[0]), own)
    print(f"{args.words[0]}: {count} entries signed as {own.name}")
    return 0


def _verify(args: argparse.Namespace) -> int:
    """Say who signed the entries of a bundle, and whether they would be taken; the status is 1 if one wouldn't be."""
    keyring = Keyring(revealed(settings_of(args).trusted_keys))
    verdicts: dict[str, int] = {}
    for name, data in bundles.read(os.path.abspath(args.words[0])):
        judged = objects.admit(data, name, keyring)
        if not isinstance(judged, str):
            judged = "signed by " + (", ".join(each.name for each in judged.header.signed or ()) or "nobody, and taken")
        verdicts[judged] = verdicts.get(judged, 0) + 1
    for verdict, count in verdicts.items():
        print(printable(f"{count} entries: {verdict}"))
    return 0 if all(verdict.startswith("signed by ") for verdict in verdicts) else 1


_ACTIONS: Final = {
    "generate": ("NAME FILE", _generate),
    "public": ("FILE", _public),
    "sign": ("BUNDLE", _sign),
    "verify": ("BUNDLE", _verify),
}
