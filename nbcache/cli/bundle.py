"""``nbcache bundle``: what a program compiles, as a folder that goes into a wheel (:mod:`nbcache.store.layers`).

``nbcache bundle FILE`` and ``nbcache load-bundle``: compiled functions as one signed file.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from typing import TYPE_CHECKING

from nbcache import path_syntax, processors, signing_keys
from nbcache.cli import command
from nbcache.cli.command import Exercise
from nbcache.cli.prewarm import processors_of, wishes_of
from nbcache.cli.serve import limits_of
from nbcache.cli.store_option import away_from_strangers, open_store, opened, settings_of
from nbcache.cli.text import CommandError, UsageError, printable, size
from nbcache.file_trust import Trust
from nbcache.remote import bundles
from nbcache.secret import revealed
from nbcache.store import layers, layout
from nbcache.store.directory import Store

if TYPE_CHECKING:
    import argparse

    from nbcache.config import Settings
    from nbcache.daemon.prewarming import Wish
    from nbcache.store.entry import Header

_LEFT_OUT = ("extensions",)
"""Kinds of entries that only mean something where they were made."""


def bundle(args: argparse.Namespace) -> int:
    """Write a file, or make or extend a layer; the status is 1 when something couldn't be built."""
    if args.layer is None:
        return write(args)
    argv = command.needed(args, "bundle --layer DIR")
    cpus = processors_of(args.cpu or processors.common())
    if not cpus:
        raise CommandError(f"layers are made on x86-64 and AArch64, and this machine is {platform.machine()}")
    with away_from_strangers(Trust(settings_of(args).trusted_uids)):
        here, elsewhere = _runnable(cpus)
    root = os.path.abspath(os.path.expanduser(args.layer))
    if os.path.isdir(root) and os.listdir(root) and not os.path.isdir(f"{root}/{layout.OBJECTS}"):
        raise CommandError(f"{root} is neither empty nor a layer")
    with tempfile.TemporaryDirectory(prefix="nbcache-bundle-") as folder:
        exercise = Exercise(argv, f"{folder}/store", f"{folder}/list")
        for cpu in here or [path_syntax.HOST]:
            exercise.run(cpu)
        store = exercise.opened(args)
        failed = _build_elsewhere(args, store, exercise.record, elsewhere) if elsewhere else []
        wanted = cpus if here else elsewhere
        count = layers.fill(root, store, lambda header: _is_wanted(header, wanted, args.only))
    if not count:
        raise CommandError(f"nothing was put into {root}: the program compiled nothing that others could use")
    for reason in failed:
        print(printable(reason), file=sys.stderr)
    layer = Store(root, store.trust, writable=False)
    total = sum(info.size for info in layer.scan())
    print(f"{root}: {count} entries, {size(total)}, for {', '.join(layers.processors_of(layer))}")
    return 1 if failed else 0


def _runnable(cpus: list[str]) -> tuple[list[str], list[str]]:
    """Those whose code this host can run, and the others."""
    from nbcache.client import hook

    hook.disarm()  # asking LLVM would make this very process a client
    from nbcache.glue.keys import targets

    here = [cpu for cpu in cpus if not targets.lacks(cpu)]
    return here, [cpu for cpu in cpus if cpu not in here]


def _build_elsewhere(args: argparse.Namespace, store: Store, record: str, cpus: list[str]) -> list[str]:
    """Build for processors that this host isn't what the program recorded; return what can't be, and why."""
    from nbcache.daemon import prewarming

    if not os.path.exists(record):
        return []
    with open(record, "rb") as file:
        recorded = [wish for wish in prewarming.from_list(file) if not isinstance(wish, str)]
    # Kernels are for no processor, and no layer holds them.
    wishes = [wish for wish in recorded if not wish.is_for_gpu]
    return _failed(args, store, settings_of(args), prewarming.for_processors(wishes, cpus))


def _is_wanted(header: Header, cpus: list[str], only: list[str]) -> bool:
    """Whether an entry belongs into the layer: not one of the program itself, nor one for this host alone."""
    package = header.function.partition(":")[0].partition(".")[0]
    if header.kind in _LEFT_OUT or package == "__main__" or header.extra.get("cpu") not in cpus:
        return False
    return not only or package in {*only, "numba"}


def write(args: argparse.Namespace) -> int:
    """Write a bundle; the status is 1 when something couldn't be built."""
    usage = "bundle: nbcache bundle FILE, nbcache bundle FILE LIST ... or nbcache bundle FILE -- COMMAND"
    names, argv = command.behind(args, usage)
    if not names or (len(names) > 1 and argv):
        raise UsageError(usage)
    settings = settings_of(args)
    key = signing_keys.read(settings.signing_key) if settings.signing_key is not None else None
    if key is None and "unsigned" not in revealed(settings.trusted_keys):
        raise CommandError("NBCACHE_SIGNING_KEY is not set: nobody would take what isn't signed (`nbcache key`)")
    path, lists = os.path.abspath(names[0]), names[1:]
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="nbcache-bundle-") as folder:
        if argv:
            exercise = Exercise(argv, f"{folder}/store", f"{folder}/list")
            exercise.run(settings.cpu)
            store = exercise.opened(args)
        elif lists:
            store, failed = _built(args, lists, f"{folder}/store")
        else:
            store = open_store(args)
        count, total = bundles.write(path, bundles.of_store(store, key, store.keyring))
    if not count:
        raise CommandError("there is nothing to put into a bundle: nothing was compiled that could be stored")
    for reason in failed:
        print(printable(reason), file=sys.stderr)
    signer = f"signed as {key.name}" if key is not None else "unsigned"
    print(f"{path}: {count} entries, {size(total)} before compression ({size(os.path.getsize(path))}), {signer}")
    return 1 if failed else 0


def load(args: argparse.Namespace) -> int:
    """Take a bundle in; the status is 1 when an entry was refused."""
    store = opened(settings_of(args))
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

    counts = bundles.load(os.path.abspath(args.file), store, store.keyring, tell)
    print(f"{store.path}: " + ", ".join(f"{count} {how}" for how, count in counts.items()))
    return 1 if counts["refused"] else 0


def _built(args: argparse.Namespace, lists: list[str], root: str) -> tuple[Store, list[str]]:
    """Build what warm lists name in a store of its own; return it, and what couldn't be built."""
    settings = settings_of(args)._replace(dir=root, readonly=False)
    store = opened(settings)
    wishes, complaints = wishes_of(lists, store.trust)
    return store, complaints + _failed(args, store, settings, wishes)


def _failed(args: argparse.Namespace, store: Store, settings: Settings, wishes: list[Wish]) -> list[str]:
    """Have these built; return what can't be, and why."""
    from nbcache.daemon import prewarming

    granted = prewarming.grant(
        store, settings, wishes, workers=args.workers, limits=limits_of(args), path=[os.getcwd()]
    )  # fmt: skip
    return [f"{each.wish.name}: {each.reason}" for each in granted if each.reason is not None]
