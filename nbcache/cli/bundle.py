"""``nbcache bundle``: what a program compiles, as a folder that goes into a wheel (:mod:`nbcache.store.layers`)."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from nbcache import processors, values
from nbcache.cli import archives, command
from nbcache.cli.exercise import Exercise, opened, run
from nbcache.cli.place import away_from_strangers, settings_of
from nbcache.cli.prewarm import processors_of
from nbcache.cli.serve import add_job_options, limits_of
from nbcache.cli.text import CommandError, UsageError, printable, size
from nbcache.store import Store, layers, layout
from nbcache.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.store.entry import Header

_LEFT_OUT = ("extensions",)
"""Kinds of entries that only mean something where they were made."""


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add(
        "bundle",
        help="put compiled functions into one signed file, or into the layer that a package ships",
        description=(
            "Put what the store holds, what a program compiles, or what warm lists name into one FILE, signed with "
            "NBCACHE_SIGNING_KEY, for `nbcache load-bundle`. With --layer: run a program that exercises a package, "
            "once for each processor asked for, and put what Numba compiled "
            "into a folder that goes into the package's wheel. docs/layers.md says what to do with it. "
            "Exit status 1 if something could not be built."
        ),
        usage="nbcache bundle FILE [LIST ...] [-- COMMAND [ARGUMENT ...]]\n"
        "       nbcache bundle --layer DIR [--cpu CPU,...] [--only PACKAGE] -- COMMAND [ARGUMENT ...]",
    )
    parser.add_argument("--layer", metavar="DIR", help="make a layer: the folder; what is in it stays")
    parser.add_argument(
        "--cpu",
        metavar="CPU,...",
        help="the processors to build for, such as x86-64-v2,x86-64-v3 (default: x86-64-v3, on AArch64 neoverse-n1)",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="only functions of this package, and of Numba's inside them; can be given several times",
    )
    add_job_options(parser)
    command.add_argument(parser, "what the usage says")
    parser.set_defaults(command=bundle)


def bundle(args: argparse.Namespace) -> int:
    """Write a file, or make or extend a layer; the status is 1 when something couldn't be built."""
    if args.layer is None:
        return archives.write(args)
    argv = command.given(args)
    if not argv:
        raise UsageError("bundle: no program given: nbcache bundle --layer DIR -- python exercise.py")
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
        for cpu in here or [values.HOST]:
            run(exercise, cpu)
        store = opened(args, exercise.root)
        failed = _build_elsewhere(args, store, exercise.record, elsewhere) if elsewhere else []
        wanted = cpus if here else elsewhere
        count = layers.fill(root, store, lambda header: _is_wanted(header, wanted, args.only))
    before = layers.read_manifest(root)
    made_for = {*cpus, *(before["cpus"] if before else ())}
    if not count or not layers.write_manifest(root, made_for, time.time()):
        raise CommandError(f"nothing was put into {root}: the program compiled nothing that others could use")
    for reason in failed:
        print(printable(reason), file=sys.stderr)
    total = sum(os.path.getsize(info.path) for info in Store(root, store.trust, writable=False).scan())
    print(f"{root}: {count} entries, {size(total)}, for {', '.join(sorted(made_for))}")
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
    granted = prewarming.grant(
        store, settings_of(args), prewarming.for_processors(wishes, cpus),
        workers=0, limits=limits_of(args), path=[os.getcwd()],
    )  # fmt: skip
    return [f"{each.wish.name}: {each.reason}" for each in granted if each.reason is not None]


def _is_wanted(header: Header, cpus: list[str], only: list[str]) -> bool:
    """Whether an entry belongs into the layer: not one of the program itself, nor one for this host alone."""
    package = header.function.partition(":")[0].partition(".")[0]
    if header.kind in _LEFT_OUT or package == "__main__" or header.extra.get("cpu") not in cpus:
        return False
    return not only or package in {*only, "numba"}
