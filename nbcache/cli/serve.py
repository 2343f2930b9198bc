"""``nbcache serve`` and ``nbcache status``: the daemon, and what the daemons of a store are doing."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbcache import config, environ, pythons
from nbcache.cli import stats
from nbcache.cli.store_option import open_store, settings_of
from nbcache.cli.text import CommandError, UsageError, ago, duration, print_json, print_table, printable, user_name
from nbcache.cli.upkeep import parse_size
from nbcache.client import logs
from nbcache.protocol import heartbeats, spool

if TYPE_CHECKING:
    import argparse

    from nbcache.config import Settings
    from nbcache.daemon.pool import Limits
    from nbcache.protocol.heartbeats import Heartbeat

SHOWN = 10
"""Failures that `status` lists."""
STATE = "/var/lib/nbcache"


def limits_of(args: argparse.Namespace) -> Limits:
    """What a job may take. Raises UsageError, for ``--workers`` too."""
    from nbcache.daemon.pool import Limits

    if args.workers < 0 or args.job_seconds <= 0:
        raise UsageError("--workers and --job-seconds: a positive number")
    return Limits(args.job_seconds, parse_size(args.job_memory), parse_size(args.job_result))


def farm_of(address: str | None, option: str) -> str:
    """Return the address of a scheduler that an *option* names; "" for none. Raises UsageError, CommandError."""
    if not address:
        return ""
    from nbcache.daemon import cluster

    problem = cluster.scheduler_problem(address)
    if problem is not None:
        raise UsageError(f"{option} {address}: {problem}")
    problem = cluster.missing()
    if problem is not None:
        raise CommandError(f"{option}: {problem}")
    return address


def insist_on_python(settings: Settings) -> None:
    """Raise CommandError where this Python is one that nobody verified, and settings don't say that it will do."""
    unverified = None if settings.unverified else pythons.problem()
    if unverified is not None:
        raise CommandError(f"no daemon runs here: {unverified}")


def serve(args: argparse.Namespace) -> int:
    """Run a daemon in the foreground."""
    # Imported here: no other command needs the watchdog, and most are gone before it would be imported.
    from nbcache.daemon import presence
    from nbcache.daemon.service import Service
    from nbcache.daemon.shared_parts import Options

    limits = limits_of(args)
    farm = farm_of(args.farm, "--farm")
    if farm and args.watch:
        raise UsageError("--watch: a daemon with a farm builds no profiles")

    def read_settings() -> Settings:
        settings = settings_of(args)
        # A service is expected to say what it does.
        said = settings.sources.get("log", config.DEFAULT) != config.DEFAULT
        return settings._replace(readonly=False, recache=False, log=settings.log if said else "INFO")

    settings = read_settings()
    insist_on_python(settings)
    _log(settings)
    # A helper has the environment of the program that started it, whose unit it isn't.
    given = {} if args.helper else environ.inherited(("STATE_DIRECTORY", "NOTIFY_SOCKET"))
    # systemd names all of a unit's directories, with colons. All that a helper builds is its user's.
    state = args.state or given.get("STATE_DIRECTORY", "").partition(":")[0] or ("" if args.helper else STATE)
    name = args.name or (presence.name_of_helper() if args.helper else "")
    options = Options(
        name, args.workers, limits, os.path.abspath(state) if state else "", args.job_uids, farm,
        farm_waits=args.farm_away == "wait", idle=args.idle, alone=args.helper,
        watched=() if args.watch else None,
    )  # fmt: skip
    if args.helper and not os.path.isdir(settings.dir or ""):
        return 0  # its user has removed the store meanwhile
    service = Service(settings, options, read_settings)
    if args.helper:
        lease = service.store.lease(presence.key_of_helper())
        if lease is None:
            return 0
        presence.give_way()
    watched = stats.of_daemon(args.metrics, lambda: service.settings, service.meter)
    service.handle_signals()
    with contextlib.ExitStack() as stack:
        if watched is not None:
            stack.callback(watched.close)
            watched.start()
        service.run(presence.Notifier(given))
    return 0


def _log(settings: Settings) -> None:
    """Log what a daemon does from here on, and what is wrong with its settings."""
    logs.configure(settings._replace(sources={**settings.sources, "log": "serve"}))
    for problem in settings.problems:
        logs.log.warning("%s", problem)


def status(args: argparse.Namespace) -> int:
    """Say which daemons are alive, what waits, and what failed lately."""
    store = open_store(args, looking=True)
    daemons = heartbeats.read(store.path, store.trust)
    waiting = len(spool.scan(store.path, store.trust))
    failed = spool.failures(store.path)
    if args.json:
        print_json(
            {
                "daemons": [{**each._asdict(), "alive": each.alive} for each in daemons],
                "waiting": waiting,
                "failures": [asdict(each) for each in failed],
            }
        )
        return 0
    if not daemons:
        print("no daemon: clients build for themselves (`nbcache serve` starts one)")
    rows = [
        (
            each.name,
            each.pid,
            _state(each),
            f"{each.busy} of {each.workers}",
            each.queue,
            duration(each.seconds),
            printable(each.confined),
        )
        for each in daemons
    ]
    print_table(rows, ("daemon", "pid", "state", "busy", "queue", "per job", "how jobs run") if rows else (), " > >>>")
    for daemon in daemons:
        print(f"{printable(daemon.name)} accepts requests of {_trusted(daemon)}")
    words = "1 request waits" if waiting == 1 else f"{waiting} requests wait"
    print(words if waiting < spool.MAX_SCANNED else f"at least {words}")
    done = sorted((job for each in daemons for job in each.jobs), key=lambda job: -job[1])
    for what, when, seconds, how in done[:SHOWN]:
        print(f"{ago(when)}, in {duration(seconds)}: {printable(what)}: {printable(how)}")
    for each in failed[:SHOWN]:
        what = f"{each.function} {each.signature}".strip()
        print(f"{ago(each.created)}, {printable(what)}: {printable(each.reason)}")
    if len(failed) > SHOWN:
        print(f"and {len(failed) - SHOWN} more failures")
    return 0


def _trusted(daemon: Heartbeat) -> str:
    """Return whose requests a daemon carries out, by name where there is one."""
    return "whom it trusts: it doesn't say" if daemon.trusts is None else ", ".join(map(user_name, daemon.trusts))


def _state(daemon: Heartbeat) -> str:
    if daemon.alive:
        return "draining" if daemon.draining else "alive"
    silent = f"silent for {duration(time.time() - daemon.written)}"
    return f"dead, {silent}" if daemon.gone else silent
