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


def report(args: argparse.Namespace) -> int:
    """Write the page."""
    from nbcache.cli.reporting.gather import gather
    from nbcache.cli.reporting.page import render

    limit = settings_of(args).max_size if args.max_size is None else parse_size(args.max_size)
    data = render(gather(open_store(args, looking=True), limit)).encode()
    if args.file == "-":
        sys.stdout.buffer.write(data)
        return 0
    path = os.path.abspath(args.file)
    atomic.replace_named(path, data)
    print(printable(path))
    return 0
