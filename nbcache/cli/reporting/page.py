"""``nbcache report``: one HTML page, what an operator asks of a store in the order in which one asks. Only reads it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

import nbcache
from nbcache.cli.reporting import charts
from nbcache.cli.reporting.gather import MOST_TEXT, Report, gather
from nbcache.cli.store_option import open_store, settings_of
from nbcache.cli.text import CommandError, ago, plural, printable, size
from nbcache.cli.upkeep import parse_size
from nbcache.one_line import one_line
from nbcache.store import atomic, entry, reasons, usage

if TYPE_CHECKING:
    import argparse

    from jinja2 import Environment
    from markupsafe import Markup


MEANINGS: Final = {
    reasons.NEW: ("Nothing there", "Built for the first time, or changed since: see what changes keys below."),
    reasons.RECACHE: ("NBCACHE_RECACHE", "Every look-up is a miss while it is set."),
    "damaged": ("Damaged entry", "`nbcache verify --remove` clears them; see whether the disk is well."),
    "other-version": ("Another version of nbcache", "Passes by itself when all programs have the same one."),
    "other-key": ("Not the entry it says it is", "Somebody moved files; `nbcache verify` lists them."),
    "untrusted": (
        "Somebody else could have written it",
        "Ownership or permissions: `nbcache verify`, docs/security.md.",
    ),
    "unreadable": ("Can't be read", "Permissions (NBCACHE_UMASK), or a filesystem with errors."),
    reasons.QUARANTINED: (
        "Programs crashed in it",
        "`nbcache quarantine` lists such entries; a daemon builds them again.",
    ),
    entry.REVOKED: (
        "Signed by nobody who is trusted",
        "It came from a remote cache, and NBCACHE_TRUSTED_KEYS names none of its keys (any more).",
    ),
    reasons.REMOTE_FAILED: (
        "The remote cache couldn't be asked",
        "It may have been there: `nbcache remote status` says what is wrong.",
    ),
    reasons.UNUSABLE: (
        "Made for something else",
        "Packages, symbols or environment differ; NBCACHE_LOG=info says which.",
    ),
    reasons.FAULT: ("An internal error of nbcache", "NBCACHE_LOG=debug shows it; worth a report."),
}
REASONS: Final = 8


def report(args: argparse.Namespace) -> int:
    """Write the page about a store."""
    limit = settings_of(args).max_size if args.max_size is None else parse_size(args.max_size)
    data = render(gather(open_store(args, looking=True), limit)).encode()
    if args.file == "-":
        sys.stdout.buffer.write(data)
        return 0
    path = os.path.abspath(args.file)
    atomic.replace_named(path, data)
    print(printable(path))
    return 0


def render(report: Report) -> str:
    """Return the page."""
    total = report.total
    step, columns = charts.columns_of(report.past, report.made)
    return (
        environment()
        .get_template("page.html")
        .render(
            report=report,
            root=one_line(report.root),
            version=nbcache.__version__,
            made=time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(report.made)),
            total=total,
            rate=reasons.hit_rate(total),
            lately=_lately(report),
            lookups=total["hit_count"] + reasons.missed(total),
            step=step,
            columns=columns,
            costly=[(each.seconds, each) for each in report.costly],
            misses=sorted(((count, word) for word, count in report.misses.items() if count), reverse=True),
            meanings=MEANINGS,
            uncacheable=[(item[1]["count"], item) for item in list(total["uncacheable"].items())[:REASONS]],
            most=REASONS,
        )
    )


def environment() -> Environment:
    """Return what makes markup: what isn't of a template becomes part of it as text, whoever wrote it."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise CommandError("a report needs Jinja2: pip install 'nbcache[report]'") from error
    made = Environment(
        loader=FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    made.filters |= {
        "ago": ago,
        "moment": charts.moment,
        "name": _name,
        "percent": lambda share: f"{100 * min(1.0, max(0.0, share)):.2f}%",
        "plural": plural,
        "short": charts.short,
        "size": size,
        "span": charts.span,
    }
    made.globals |= {"runs": charts.runs, "span_of": charts.span_of}
    return made


def _shown(value: object) -> object:
    """Names, reasons and packages come from files that anybody may have written: one line of bounded length."""
    if value is None or hasattr(value, "__html__"):
        return value or ""
    text = str(value)
    return printable(text[: MOST_TEXT - 1] + "…" if len(text) > MOST_TEXT else text)


def _name(text: str) -> Markup:
    """Return a name, which may be broken between its parts where it is too long for its place."""
    from markupsafe import Markup, escape

    shown = escape(_shown(text) or "(no name)")
    for mark in ".:_/,":
        shown = shown.replace(mark, Markup("{}<wbr>").format(mark))
    return Markup("<code>{}</code>").format(shown)


def _lately(report: Report) -> float | None:
    """The hit rate of the last seven days, where there is a time before them."""
    first = (int(report.made // charts.DAY) - 6) * 24
    hours = report.past.hours
    if not any(hour < first for hour in hours):
        return None
    return reasons.hit_rate(usage.merge(bucket for hour, bucket in hours.items() if hour >= first))
