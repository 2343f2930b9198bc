"""``nbcache bundle FILE`` and ``nbcache load-bundle``: compiled functions as one signed file."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

from nbcache.cli.exercise import Exercise, opened, run
from nbcache.cli.place import open_store, settings_of
from nbcache.cli.prewarm import lines_of
from nbcache.cli.serve import limits_of
from nbcache.cli.text import CommandError, UsageError, printable, size
from nbcache.secret import revealed
from nbcache.store import Refusal, Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add(
        "load-bundle",
        help="take in the file that `nbcache bundle` wrote",
        description="Put the entries of a bundle into the store: those that a key in NBCACHE_TRUSTED_KEYS signed. "
        "Exit status 1 if any was refused.",
    )
    parser.add_argument("file", metavar="FILE", help="the bundle")
    parser.set_defaults(command=load)


def write(args: argparse.Namespace) -> int:
    """Write a bundle; the status is 1 when something couldn't be built."""
    from nbcache.remote import archive, signing

    dash = args.argv.index("--") if "--" in args.argv else len(args.argv)
    names, argv = args.argv[:dash], args.argv[dash + 1 :]
    if not names or (len(names) > 1 and argv) or ("--" in args.argv[dash:] and not argv):
        raise UsageError("bundle: nbcache bundle FILE, nbcache bundle FILE LIST ... or nbcache bundle FILE -- COMMAND")
    settings = settings_of(args)
    key = signing.read(settings.signing_key) if settings.signing_key is not None else None
    if key is None and "unsigned" not in revealed(settings.trusted_keys):
        raise CommandError("NBCACHE_SIGNING_KEY is not set: nobody would take what isn't signed (`nbcache key`)")
    path, lists = os.path.abspath(names[0]), names[1:]
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="nbcache-bundle-") as folder:
        if argv:
            exercise = Exercise(argv, f"{folder}/store", f"{folder}/list")
            run(exercise, settings.cpu)
            store = opened(args, exercise.root)
        elif lists:
            store, failed = _built(args, lists, f"{folder}/store")
        else:
            store = open_store(args)
        count, total = archive.write(path, archive.of_store(store, key, store.keyring))
    if not count:
        raise CommandError("there is nothing to put into a bundle: nothing was compiled that could be stored")
    for reason in failed:
        print(printable(reason), file=sys.stderr)
    signer = f"signed as {key.name}" if key is not None else "unsigned"
    print(f"{path}: {count} entries, {size(total)} before compression ({size(os.path.getsize(path))}), {signer}")
    return 1 if failed else 0


def load(args: argparse.Namespace) -> int:
    """Take a bundle in; the status is 1 when an entry was refused."""
    from nbcache.remote import archive

    settings = settings_of(args)
    if settings.dir is None:
        raise CommandError("no cache directory: set NBCACHE_DIR or pass --dir DIR")
    store = Store.open(settings)
    if isinstance(store, Refusal):
        raise CommandError(store.reason)
    if not store.writable:
        raise CommandError(f"{store.path} can't be written")
    if store.keyring is None:
        raise CommandError("NBCACHE_TRUSTED_KEYS is not set: whose entries may be executed?")
    said: set[str] = set()

    def tell(reason: str) -> None:
        words = reason.partition(": ")[2]
        if words not in said:
            said.add(words)
            print(f"refused {printable(reason)}", file=sys.stderr)

    counts = archive.load(os.path.abspath(args.file), store, store.keyring, tell)
    print(f"{store.path}: " + ", ".join(f"{count} {how}" for how, count in counts.items()))
    return 1 if counts["refused"] else 0


def _built(args: argparse.Namespace, lists: list[str], root: str) -> tuple[Store, list[str]]:
    """Build what warm lists name in a store of its own; return it, and what couldn't be built."""
    from nbcache.daemon import prewarming

    settings = settings_of(args)._replace(dir=root, readonly=False)
    store = Store.open(settings)
    if isinstance(store, Refusal):
        raise CommandError(store.reason)
    wishes, failed = [], []
    for path in lists:
        for wish in prewarming.from_list(lines_of(path, store.trust)):
            if isinstance(wish, str):
                failed.append(f"{path}: {wish}")
            else:
                wishes.append(wish)
    granted = prewarming.grant(
        store, settings, wishes, workers=args.workers, limits=limits_of(args), path=[os.getcwd()]
    )  # fmt: skip
    failed += [f"{each.wish.name}: {each.reason}" for each in granted if each.reason is not None]
    return store, failed
