"""``nbcache prewarm``: fill a store before anybody asks."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from typing import TYPE_CHECKING

from nbcache import capabilities, config, environ, processors
from nbcache.cli import command
from nbcache.cli.serve import farm_of, limits_of
from nbcache.cli.store_option import away_from_strangers, opened, settings_of
from nbcache.cli.text import CommandError, Progress, UsageError, print_json, printable
from nbcache.importing import Paths
from nbcache.regular_files import open_to_read_or_pipe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from nbcache.daemon.prewarming import Wish
    from nbcache.file_trust import Trust
    from nbcache.store.directory import Store


def prewarm(args: argparse.Namespace) -> int:
    """Collect what is wished for, build it, say what could not be."""
    # Imported here: no other command needs it.
    from nbcache.daemon import prewarming

    if not (args.list or args.module or args.from_store or args.run):
        raise UsageError("prewarm: name a warm list, or --module, --from-store, --run")
    limits, cluster = limits_of(args), farm_of(args.dask, "--dask")
    if args.confined and cluster:
        raise UsageError("prewarm: --confined is for what is built here; clusters confine jobs anyway")
    settings = settings_of(args)
    config.tell_namespace(settings.namespace)
    store = opened(settings)
    if not store.writable:
        raise CommandError(f"{store.path} can't be written; programs that run ask its daemon")
    cpus = processors_of(args.cpu)
    with away_from_strangers(store.trust):
        ccs = capabilities_of(args.cc, elsewhere=bool(cluster))
    wishes, complaints, status = _wishes(args, store)
    wishes = prewarming.for_processors(wishes, cpus) if cpus else wishes
    wishes = prewarming.for_capabilities(wishes, ccs) if ccs else wishes
    bar = Progress(len(wishes), "prewarm")
    if cluster:
        answers = prewarming.farm(cluster, store, settings, wishes, limits=limits, path=[os.getcwd()])
    else:
        answers = prewarming.grant(
            store, settings, wishes,
            workers=args.workers, limits=limits, path=[os.getcwd()], confined=args.confined,
        )  # fmt: skip
    failed: list[dict[str, str]] = []
    for granted in answers:
        bar.step()
        if granted.reason is not None:
            failed.append({"function": granted.wish.name, "reason": granted.reason})
    bar.clear()
    if args.json:
        print_json({"wished": len(wishes), "failed": failed, "unreadable": complaints, "status of the program": status})
    else:
        _say(len(wishes), failed, complaints)
        _count_functions(store, args.module)
    return 1 if failed or complaints or status else 0


def processors_of(text: str | None) -> list[str]:
    """Return the processors that an option names; raise UsageError."""
    try:
        cpus = list(dict.fromkeys(map(processors.named, text.split(",")))) if text else []
    except ValueError as error:
        known = ", ".join(processors.here())
        raise UsageError(f"--cpu: {error} is not a processor that is known here; known are {known}") from error
    elsewhere = next((cpu for cpu in cpus if cpu not in processors.here()), None)
    if elsewhere is not None:
        raise UsageError(f"--cpu: no code for {elsewhere} can be built on {os.uname().machine}")
    return cpus


def capabilities_of(text: str | None, *, elsewhere: bool = False) -> list[str]:
    """Return the compute capabilities that an option names; raise UsageError, CommandError.

    Those that the toolkit here can't build for are refused, unless it is *elsewhere* that they are built.
    """
    if not text:
        return []
    try:
        named = list(dict.fromkeys(map(capabilities.named, text.split(","))))
    except ValueError as error:
        raise UsageError(f"--cc: {error}") from error
    if not elsewhere:
        known = _buildable()
        for cc in named:
            if cc[:2] not in known:
                shown = ", ".join(capabilities.spelt(capabilities.of_device(*each)) for each in known)
                raise UsageError(f"--cc: the CUDA toolkit can't build for {capabilities.spelt(cc)}; it can for {shown}")
    return list(map(capabilities.spelt, named))


def _buildable() -> list[tuple[int, int]]:
    """The compute capabilities that can be built for here, without a device. Raises CommandError."""
    from nbcache.client import hook

    # Looking imports Numba. With NBCACHE_DIR set that would make this very process a client of the store.
    hook.disarm()
    from nbcache.glue import warmth

    problem = warmth.kernels_problem()
    if problem is not None:
        raise CommandError(f"--cc: {problem}")
    from nbcache.glue.cuda import toolkit

    try:
        return toolkit.supported()
    except Exception as error:
        raise CommandError(f"--cc: the CUDA toolkit can't be used ({type(error).__name__}: {error})") from error


def _wishes(args: argparse.Namespace, store: Store) -> tuple[list[Wish], list[str], int]:
    """What is to be built, lines that are no requests, and the exit status of the program that was run."""
    from nbcache.daemon import prewarming

    wishes = [prewarming.Wish(name, module=name) for name in args.module]
    with tempfile.TemporaryDirectory(prefix="nbcache-prewarm-") as folder:
        status, used = _run(args.run, store, folder) if args.run else (0, [])
        listed, complaints = wishes_of([*args.list, *used], store.trust)
    wishes.extend(listed)
    if args.from_store:
        wishes.extend(prewarming.from_store(store))
    return wishes, complaints, status


def _count_functions(store: Store, modules: list[str]) -> None:
    """Say of how many functions of each module the store has code: a module alone counts as one thing to build."""
    headers = [info.header for info in store.scan()] if modules else []
    functions = {each.function for each in headers if each is not None}
    for module in modules:
        count = sum(each.partition(":")[0] == module for each in functions)
        print(f"{printable(module)}: the store has {count} of its functions")


def _say(wished: int, failed: list[dict[str, str]], complaints: list[str]) -> None:
    for complaint in complaints:
        print(printable(complaint), file=sys.stderr)
    for each in failed:
        print(f"{printable(each['function'])}: {printable(each['reason'])}", file=sys.stderr)
    print(f"{wished - len(failed)} of {wished} built or there already")


def _run(argv: list[str], store: Store, folder: str) -> tuple[int, list[str]]:
    """Run a program; return its exit status and the warm list that it wrote, if it compiled anything."""
    path = f"{folder}/list"
    status = command.run(argv, environ.child_environment(store.path, path), "prewarm")
    return status, [path] if os.path.exists(path) else []


def wishes_of(paths: list[str], trust: Trust) -> tuple[list[Wish], list[str]]:
    """Return what warm lists name, and their lines that are no requests."""
    from nbcache.daemon import prewarming

    found = [(path, wish) for path in paths for wish in prewarming.from_list(lines_of(path, trust))]
    complaints = [f"{path}: {wish}" for path, wish in found if isinstance(wish, str)]
    return [wish for _, wish in found if not isinstance(wish, str)], complaints


def lines_of(path: str, trust: Trust) -> Iterator[bytes]:
    """The lines of a warm list, which may hold pickles: so whoever may write it, may run code here.

    So may whoever says which file has that name, where one that a trusted user owns holds what others wrote.
    """
    if path == "-":
        yield from sys.stdin.buffer
        return
    with os.fdopen(open_to_read_or_pipe(path), "rb") as file:
        status = os.fstat(file.fileno())
        problem = trust.writers_problem(status, file.fileno())
        if problem is not None:
            raise CommandError(f"{path}: {problem}")
        # A pipe of a shell's has no place among files.
        if not stat.S_ISREG(status.st_mode):
            yield from file
            return
    try:
        fd = Paths(trust).open_named(os.path.join(os.getcwd(), path))
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from None
    with open(fd, "rb") as file:
        yield from file
