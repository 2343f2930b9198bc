"""``nbcache metrics``: what Prometheus wants to know of a store; a daemon tells it itself (``serve --metrics``)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from nbcache.cli.place import directory_of, settings_of
from nbcache.cli.text import CommandError, UsageError, printable
from nbcache.store import atomic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from types import ModuleType

    from nbcache.config import Settings
    from nbcache.metrics.exposing import DaemonMetrics
    from nbcache.metrics.meter import Meter

PATIENCE = 60.0
"""How long usage records are read [s]."""


def metrics(args: argparse.Namespace) -> int:
    """Print or write the metrics; the status is 1 when the store can't be used, which the metrics say as well."""
    families = _families()
    from nbcache.metrics.looking import Looker

    settings = settings_of(args)
    directory_of(settings)
    look = Looker(lambda: settings).look(PATIENCE)
    data, _ = families.text(families.of_store(look))
    if args.textfile is None:
        sys.stdout.write(data.decode())
    else:
        atomic.replace_named(os.path.abspath(args.textfile), data)
    if look.problem is not None:
        print(f"nbcache: {printable(look.problem)}", file=sys.stderr)
    return 0 if look.problem is None else 1


def of_daemon(address: str | None, settings: Callable[[], Settings], meter: Meter) -> DaemonMetrics | None:
    """Return what exposes a daemon's metrics, not started yet; None without an address. Raises UsageError."""
    if address is None:
        return None
    _families()
    from nbcache.metrics import exposing
    from nbcache.metrics.exposing import DaemonMetrics

    try:
        return DaemonMetrics(exposing.read_address(address), settings, meter)
    except exposing.BadAddressError as error:
        raise UsageError(f"--metrics: {error}") from error


def _families() -> ModuleType:
    try:
        from nbcache.metrics import families
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise CommandError("metrics need prometheus_client: pip install 'nbcache[metrics]'") from error
    return families
