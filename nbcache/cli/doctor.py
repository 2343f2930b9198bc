"""``nbcache doctor``: what is set up how, what is wrong, and what to do about it. Changes nothing.

With a command after ``--`` it runs that instead, and says what was compiled; see `nbcache.cli.run`.

A finding is fine, a remark ("!": works, but not as well as it could; the status stays 0), or wrong ("x": nbcache is off
or can't do its work; the status is 1).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial

import nbcache
from nbcache import capabilities, config, path_syntax, processors, pythons
from nbcache.cli import command, remote, run, upkeep
from nbcache.cli.store_option import FOUND, away_from_strangers, layer_places, settings_of
from nbcache.cli.text import plural, print_json, printable, size, user_name
from nbcache.config import Settings
from nbcache.errors import PublicationError
from nbcache.file_trust import Trust
from nbcache.protocol import heartbeats
from nbcache.store import layers, layout, locks, pins, usage
from nbcache.store.directory import Store
from nbcache.store.listing import EntryInfo
from nbcache.store.opened import Refusal

OK, REMARK, WRONG = "ok", "remark", "wrong"
_MARKS = {OK: " ", REMARK: "!", WRONG: "x"}
PTH = "nbcache.pth"
LITTLE_SPACE = 256 << 20
"""Free space below this is worth a remark [bytes]."""
MOST_PUBLISHED = 0.5
"""The share of a store that published names may have without a remark."""
_PROBE = "import sys; print(any(type(finder).__module__ == '_nbcache' for finder in sys.meta_path))"
_PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` says what to do about it, where there is something to do."""

    level: str
    what: str
    value: str
    advice: str = ""


ok, remark, wrong = partial(Finding, OK), partial(Finding, REMARK), partial(Finding, WRONG)
NFS_SEES_NEWS = frozenset({"lookupcache=pos", "lookupcache=positive", "lookupcache=none", "noac"})
"""Options of nfs(5), as the kernel may show them, under which a name that wasn't there is looked for again."""


def examine(args: argparse.Namespace) -> int:
    """Print the findings; the status is 1 when something is wrong. With a command, see `run.tally_of`."""
    settings = settings_of(args)
    argv = command.given(args)
    if argv:
        # Only a directory named here or in the environment is the command's too; others are for the commands alone.
        named = {"NBCACHE_DIR": settings.dir} if args.dir and settings.dir else {}
        return run.tally_of(argv, {**os.environ, **named}, as_json=args.json)
    with away_from_strangers(Trust(settings.trusted_uids)):
        findings = [*check_versions(), *check_cuda(), *check_processor(settings), *check_settings(settings)]
        findings += [*check_store(settings), *check_switch(settings)]
    count = sum(finding.level == WRONG for finding in findings)
    if args.json:
        print_json([asdict(finding) for finding in findings])
        return 1 if count else 0
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{_MARKS[finding.level]} {finding.what.ljust(width)}  {printable(finding.value)}".rstrip())
        if finding.advice:
            print(f"  {' ' * width}  -> {printable(finding.advice)}")
    hint = "; lines with ! say what could be better" if any(each.level == REMARK for each in findings) else ""
    print(f"\n{count} wrong" if count else f"\nNothing is wrong{hint}.")
    return 1 if count else 0


def check_versions() -> Iterator[Finding]:
    """Look at this Python and its Numba."""
    yield ok("nbcache", f"{nbcache.__version__}{', a node: it runs what is published' if is_node() else ''}")
    python = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    unverified = pythons.problem()
    if unverified is None:
        yield ok("python", python)
    else:
        yield wrong("python", f"{python}: {unverified}", _UNVERIFIED.format(pythons.verified()))
    if importlib.util.find_spec("numba") is None:
        advice = "install nbcache and Numba where programs are to compile; `nbcache.load` needs none"
        said = "not installed: this Python runs what is published, and nothing else"
        yield ok("numba", said) if is_node() else remark("numba", said, advice)
        yield _check_package("numpy")
        return
    yield from map(_check_package, ("numba", "llvmlite", "numpy"))
    yield check_seams()


def _check_package(name: str) -> Finding:
    try:
        return ok(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return wrong(name, "not installed", f"install {name} into this Python, or run another one's nbcache")


def check_seams() -> Finding:
    """Look whether this Numba is one that nbcache was verified on."""
    what = "numba internals"
    try:
        from nbcache.client import hook

        # Looking at Numba imports it. With NBCACHE_DIR set that would make this very process a client of the store.
        hook.disarm()
        from nbcache.glue import releases

        problem = releases.problem(importlib.metadata.version("numba"))
        if problem is None:
            from nbcache.glue.hooks import seams

            problem = seams.problem()
    except Exception as error:  # noqa: BLE001 - whatever is broken is what is to be reported
        return wrong(what, f"can't be examined: {type(error).__name__}: {error}", "reinstall numba and nbcache")
    if problem is not None:
        return wrong(what, problem, _UNVERIFIED.format(f"a Numba from {releases.verified()}"))
    return ok(what, f"as verified on {releases.verified()}")


_UNVERIFIED = "nbcache stays off, unless NBCACHE_UNVERIFIED=1 has it try all the same; take {}"


def check_cuda() -> Iterator[Finding]:
    """Look at numba-cuda where it is installed: whether kernels are cached, what builds them, and for which device."""
    if importlib.util.find_spec("numba_cuda") is None:
        return
    try:
        from nbcache.glue.cuda import seams, toolkit

        version, problem = importlib.metadata.version("numba-cuda"), seams.problem()
    except Exception as error:  # noqa: BLE001 - as for the seams
        yield remark("numba-cuda", f"can't be examined: {type(error).__name__}: {error}")
        return
    if problem is not None:
        yield remark("numba-cuda", f"{version}: {problem}", "kernels aren't cached; functions are")
        return
    yield ok("numba-cuda", version)
    try:
        yield from (ok("cuda toolkit", f"{name}: {toolkit.library_path(name)}") for name in toolkit.LIBRARIES)
        known = ", ".join(capabilities.spelt(capabilities.of_device(*each)) for each in toolkit.supported())
        yield ok("cuda toolkit", f"daemons and prewarm build kernels here for {known}")
    except Exception as error:  # noqa: BLE001
        advice = "install numba-cuda[cu12] or [cu13], or the CUDA toolkit; until then kernels aren't cached"
        yield remark("cuda toolkit", f"not found: {error}", advice)
    try:
        yield ok("cuda device", f"compute capability {capabilities.spelt(toolkit.capability())}")
    except Exception as error:  # noqa: BLE001
        yield ok("cuda device", f"none that can be used here ({type(error).__name__})")


def check_processor(settings: Settings) -> Iterator[Finding]:
    """Look at the processor, what is compiled for, and whose code is taken besides."""
    try:
        from nbcache.glue.keys import targets

        own, lacks = targets.host_name(), targets.lacks
    except Exception as error:  # noqa: BLE001 - as for the seams
        if not is_node():  # it compiles nothing, and needs no LLVM
            yield remark("processor", f"can't be examined: {type(error).__name__}: {error}")
        return
    has = [name for name in processors.levels() if not lacks(name)]
    able = f", which can run code for {', '.join(has)}" if has else f" ({platform.machine()})"
    yield ok("processor", f"{own}{able}")
    for cpu in [*([settings.cpu] if settings.cpu != path_syntax.HOST else []), *settings.cpu_ladder]:
        lacking = lacks(cpu) if cpu in processors.here() else ["such instructions"]
        if lacking:
            advice = "take a lower level; until then this host compiles for itself"
            yield remark("processor", f"{cpu} is asked for, and this host has no {', '.join(lacking)}", advice)
    yield ok("compiles for", settings.cpu)


def check_settings(settings: Settings) -> Iterator[Finding]:
    """Look for settings that can't be read, mean nothing, or switch nbcache off."""
    for problem in settings.problems:
        yield wrong("setting", problem, "correct it; until then the default holds")
    for name in config.unknown_variables():
        yield remark("setting", f"{name} means nothing to nbcache", "see `nbcache config` for the names")
    for name in ("disable", "disable_all"):
        if getattr(settings, name):
            words = f"NBCACHE_{name.upper()} is set ({settings.sources.get(name)})"
            yield remark("setting", words, "unset it to use the cache")
    if settings.recache:
        yield remark("setting", "NBCACHE_RECACHE is set: every look-up is a miss", "unset it for normal use")
    yield ok("trusted users", ", ".join(map(user_name, sorted(Trust(settings.trusted_uids).uids))))


def check_store(settings: Settings) -> Iterator[Finding]:
    """Look at the directory: where it is, on what, whether it may be trusted and written."""
    advice = "set NBCACHE_DIR, in the environment of your programs"
    if settings.dir is None:
        yield wrong("directory", "not set: nbcache is off", advice)
        return
    if (source := settings.sources.get("dir", "")) == FOUND:
        yield remark("directory", f"{settings.dir}, which only `nbcache run` uses: NBCACHE_DIR is not set", advice)
    else:
        yield ok("directory", f"{settings.dir} ({source})")
    path = os.path.realpath(settings.dir)
    yield from _check_filesystem(path)
    if not os.path.lexists(path):
        yield _check_parent(path, Trust(settings.trusted_uids))
        return
    store = Store.open(settings._replace(readonly=True))
    if isinstance(store, Refusal):
        advice = "nobody but you, root and trusted uids may own or write it, or what is above it: chmod go-w on that"
        yield wrong("trust", store.reason, advice)
        return
    yield ok("trust", "owner and permissions as they should be, here and in the directories above")
    yield from check_daemons(store)
    yield _check_writing(settings, store)
    entries = list(store.scan())
    yield from _check_contents(settings, store, entries)
    yield from check_layers(settings)
    yield from check_hits(settings, store, entries)
    yield from check_names(store, entries, settings.max_size)
    yield from check_quarantine(store)
    yield from check_remote(settings)


def _check_filesystem(path: str) -> Iterator[Finding]:
    there = _existing(path)
    kind, lock = locks.filesystem_kind(there), locks.lock_kind(there)
    yield ok("filesystem", f"{kind}, leases by {'flock' if lock == locks.FLOCK else 'lease files (with a time limit)'}")
    kind, options = locks.mount_of(there)
    if kind.startswith("nfs") and not options & NFS_SEES_NEWS:
        yield remark(
            "mount options",
            "what another host publishes may be seen seconds later",
            "mount with lookupcache=positive: a client then asks the server for what it didn't find before",
        )
    status = os.statvfs(there)
    free = status.f_bavail * status.f_frsize
    if free < LITTLE_SPACE:
        yield remark("free space", size(free), "make room: when the disk is full, nothing more is published")
    else:
        yield ok("free space", size(free))


def _check_parent(path: str, trust: Trust) -> Finding:
    above = _existing(path)
    problem = trust.parents_problem(os.path.join(above, os.path.basename(path)))
    if problem is not None:
        return wrong("trust", f"{path} {problem}", "choose a place below directories that only you or root can write")
    if os.access(above, os.W_OK | os.X_OK):
        return ok("store", "not there yet; the first process that uses Numba makes it")
    return wrong("store", f"not there, and {above} is not writable for this user", "make it, or choose another place")


def _existing(path: str) -> str:
    """Return the nearest directory at or above `path` that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _check_writing(settings: Settings, store: Store) -> Finding:
    if settings.readonly:
        return remark("writing", f"no: NBCACHE_READONLY is set ({settings.sources.get('readonly')})")
    objects = os.path.join(store.path, layout.OBJECTS)
    if os.access(objects if os.path.isdir(objects) else store.path, os.W_OK | os.X_OK):
        return ok("writing", "yes")
    if _is_served(store):
        return ok("writing", "no permission: a daemon builds what programs ask it for")
    return remark("writing", "no permission: hits work, what is compiled isn't shared", "run as the owner to publish")


def _check_contents(settings: Settings, store: Store, entries: list[EntryInfo]) -> Iterator[Finding]:
    sizes = [info.size for info in entries]
    limit = size(settings.max_size) if settings.max_size else "no limit"
    text = f"{len(sizes)} entries, {size(sum(sizes))} of {limit}"
    if settings.max_size and sum(sizes) > settings.max_size:
        yield remark("entries", text, "over the limit: `nbcache gc` evicts what was not used for longest")
    else:
        yield ok("entries", text)
    for what, count in usage.merge(usage.read(store.path))["errors"].items():
        yield remark("errors", f"{what}: {count}", "NBCACHE_LOG=debug says more; `nbcache verify` checks the entries")


def check_names(store: Store, entries: list[EntryInfo], limit: int = 0) -> Iterator[Finding]:
    """What is published by name; ``limit`` is how large the store may be [bytes]; 0: as large as can be."""
    known = store.names.known()
    if not known:
        return
    pinned = pins.read(store.path, store.trust)
    taken = pins.size(store.path, pinned) + sum(info.size for info in entries if info.key in pinned.entries)
    text = f"{len(known)} {plural(len(known), 'name')}, {size(taken)}; what they refer to is not evicted"
    if limit and taken > limit * MOST_PUBLISHED:
        advice = "`nbcache unpublish`, publish with an age (expires=), or raise NBCACHE_MAX_SIZE"
        yield remark("published", f"{text}, and that is most of {size(limit)}", advice)
    else:
        yield ok("published", text)
    for name in known:
        try:
            problem = store.names.missing(store.names.read(name))
        except PublicationError as error:
            problem = error
        if problem is not None:
            yield remark("published", str(problem), "nobody can load it")


def check_layers(settings: Settings) -> Iterator[Finding]:
    """Look at the layers under the store: whether each is used, what is in it, whether it is as it was made."""
    trust = Trust(settings.trusted_uids)
    for place in layer_places(settings):
        what, layer = "layer", layers.open_layer(place, trust)
        if isinstance(layer, Refusal):
            yield remark(what, f"{place.name} is not used: {layer.reason}", "its entries are compiled instead")
            continue
        sizes = [info.size for info in layer.scan()]
        cpus = layers.processors_of(layer)
        made = f", for {', '.join(cpus)}" if cpus else ""
        text = f"{place.name}: {len(sizes)} entries, {size(sum(sizes))}{made} ({layer.path})"
        wrong = list(layer.verify())
        if wrong:
            advice = f"such as {wrong[0].path}: install the package again"
            yield remark(what, f"{text}; {len(wrong)} can't be used ({wrong[0].reason})", advice)
        else:
            yield ok(what, text)


def check_remote(settings: Settings) -> Iterator[Finding]:
    """The remote tiers, as their helper sees them. Connects to none of them."""
    if not settings.remote:
        return
    what = "remote cache"
    yield ok(what, " ".join(map(str, settings.remote)))
    for module in ("filelock", "opendal", "nacl"):
        if importlib.util.find_spec(module) is None:
            extra = "nbcache-node[remote]" if is_node() else "nbcache[remote]"
            yield remark(what, f"{module} is not installed: it is not used", f"pip install '{extra}'")
    if not settings.trusted_keys:
        advice = "`nbcache key` makes keys; the word unsigned takes everything (docs/remote.md)"
        yield remark(what, "NBCACHE_TRUSTED_KEYS is not set: it is not used", advice)
    found = remote.ask(settings, "status")
    if found is None:
        yield ok(what, "no helper runs; the first program that misses something starts one")
        return
    for problem in remote.problems(found):
        yield remark(what, problem, "`nbcache remote status` says more")


def check_quarantine(store: Store) -> Iterator[Finding]:
    """What programs crashed with."""
    for row in upkeep.rows(store):
        yield remark(
            "crashes",
            f"{row.suspect.crashes} programs crashed when they first used {row.suspect.function}: {row.state}",
            "`nbcache quarantine` lists and clears them; a faulty memory or LLVM makes such entries",
        )


def check_daemons(store: Store) -> Iterator[Finding]:
    """Who builds for those that can't write, and whether it builds for this user."""
    alive = [each for each in heartbeats.read(store.path, store.trust) if each.alive]
    yield ok("daemons", ", ".join(each.name for each in alive) or "none: every process builds what it misses")
    uid = os.geteuid()
    if alive and not any(each.hears(uid) for each in alive):
        advice = f"add {uid} to NBCACHE_TRUSTED_UIDS of the daemon, and restart it; until then programs compile"
        yield remark("daemons", f"none of them accepts requests of this user (uid {uid})", advice)


def _is_served(store: Store) -> bool:
    """Whether a daemon builds for this user."""
    return any(each.alive and each.hears(os.geteuid()) for each in heartbeats.read(store.path, store.trust))


def check_hits(settings: Settings, store: Store, entries: list[EntryInfo]) -> Iterator[Finding]:
    """Whether there is anything that a program could hit, now or later."""
    what = "hits"
    made_for = set(layers.processors_of(store))
    wanted = {settings.cpu, *settings.cpu_ladder} - {path_syntax.HOST}
    if settings.cpu == path_syntax.HOST:
        with suppress(Exception):  # what is wrong with Numba has been said
            from nbcache.glue.keys import targets

            wanted.add(targets.host_name())
    if made_for and wanted and not made_for & wanted:
        advice = "compile for a level that all hosts have: NBCACHE_CPU=x86-64-v3 on each of them"
        yield remark(
            what, f"no entry is for {', '.join(sorted(wanted))}: they are for {', '.join(sorted(made_for))}", advice
        )
    may_write = not settings.readonly and os.access(os.path.join(store.path, layout.OBJECTS), os.W_OK)
    if not (entries or may_write or _is_served(store) or layer_places(settings)):
        advice = "let programs write it, run a daemon (`nbcache serve`), or name a layer in NBCACHE_LAYERS"
        yield wrong(what, "there is nothing in the store, and nobody adds anything: every look-up will miss", advice)


def check_switch(settings: Settings) -> Iterator[Finding]:
    """Look whether a Python that starts with NBCACHE_DIR set is armed: the file first, then by starting one."""
    if is_node():
        yield ok("switch", "none: a node has nothing to compile, so there is no Numba to wait for")
        return
    places = _switches()
    if not places:
        purelib = sysconfig.get_paths()["purelib"]
        advice = f"reinstall nbcache with pip into {purelib}, or call nbcache.enable(dir) first thing"
        yield wrong("switch", f"no {PTH} in this Python's site-packages", advice)
        return
    yield ok("switch", os.path.join(places[0], PTH))
    # `run` sets NBCACHE_DIR for the child and nothing else, so what is tried is what users do.
    directory = settings.dir or os.path.join(places[0], "nowhere")
    argv = [sys.executable, "-m", "nbcache", "run", "--dir", directory, "--", sys.executable, "-c", _PROBE]
    try:
        # Both options have Python look into the current directory first: what lies there is no part of the setup.
        done = subprocess.run(  # noqa: S603  this Python
            argv, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False, cwd="/"
        )
        armed = done.stdout.strip() == "True"
    except (OSError, subprocess.SubprocessError):
        armed = False
    if armed:
        yield ok("armed", "yes: a Python that starts with NBCACHE_DIR set uses the cache")
    else:
        advice = "try `python -c 'import _nbcache, nbcache.client.hook'`; reinstall nbcache if that fails"
        yield wrong("armed", "no: a Python that starts with NBCACHE_DIR set does not load the hook", advice)


def _switches() -> list[str]:
    return [place for place in switch_places() if os.path.isfile(os.path.join(place, PTH))]


def is_node() -> bool:
    """Whether this is nbcache without its switch and without Numba, as nbcache-node installs it."""
    return importlib.util.find_spec("numba") is None and not _switches()


def switch_places() -> list[str]:
    """Return the directories whose .pth files this Python processes at start-up."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*dict.fromkeys([sysconfig.get_paths()["purelib"], *site.getsitepackages(), *user])]
