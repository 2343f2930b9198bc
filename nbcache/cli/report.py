"""``nbcache report``: one HTML page about a store, to be looked at in a browser. Only reads the store."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from nbcache.cli.place import open_store, settings_of
from nbcache.cli.text import printable
from nbcache.cli.upkeep import parse_size
from nbcache.store import atomic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

DEFAULT = "nbcache-report.html"


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add(
        "report",
        help="write an HTML page about the store",
        description="Write one HTML page: hit rate over time, what cost most to compile, why things missed, what would "
        "be evicted, which packages keep changing keys. It needs no network and holds no script.",
    )
    parser.add_argument(
        "file",
        nargs="?",
        default=DEFAULT,
        metavar="FILE",
        help=f"where to write it (default: {DEFAULT}); - for standard output",
    )
    parser.add_argument(
        "--max-size", metavar="SIZE", help="show what would be evicted at this size (default: NBCACHE_MAX_SIZE)"
    )
    parser.set_defaults(command=report)


def report(args: argparse.Namespace) -> int:
    """Write the page."""
    from nbcache.cli.reporting.gather import gather
    from nbcache.cli.reporting.page import render

    limit = settings_of(args).max_size if args.max_size is None else parse_size(args.max_size)
    data = render(gather(open_store(args), limit)).encode()
    if args.file == "-":
        sys.stdout.buffer.write(data)
        return 0
    path = os.path.abspath(args.file)
    atomic.replace_named(path, data)
    print(printable(path))
    return 0
