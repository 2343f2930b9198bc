"""``nbcache report``: one HTML page, what an operator asks of a store in the order in which one asks. Only reads it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

import nbcache
from nbcache.cli.place import open_store, settings_of
from nbcache.cli.reporting import charts
from nbcache.cli.reporting.gather import gather
from nbcache.cli.reporting.html import Html, join, name_of, prose, tag
from nbcache.cli.text import ago, plural, printable, size
from nbcache.cli.upkeep import parse_size
from nbcache.plain import one_line
from nbcache.store import atomic, reasons, usage

if TYPE_CHECKING:
    import argparse

    from nbcache.cli.reporting.gather import Package, Report
    from nbcache.cli.reporting.html import Child

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
    reasons.REVOKED: (
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
_STYLE: Final = os.path.join(os.path.dirname(__file__), "style.css")
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


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
    root = one_line(report.root)
    body = tag(
        "main",
        _head(report, root),
        _tiles(report),
        _course(report),
        tag("div", _costly(report), tag("div", _misses(report), _uncacheable(report), class_="stack"), class_="two"),
        _packages(report),
        _eviction(report),
        _foot(report),
    )
    with open(_STYLE, encoding="utf-8") as file:
        style = Html(file.read())
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"nbcache: {root}"),
        tag("style", style),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', body), lang='en')}\n"


def _head(report: Report, root: str) -> Html:
    made = time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(report.made))
    alive = len(report.daemons)
    daemons = "no daemon" if not alive else f"{alive} {plural(alive, 'daemon')}"
    since = f"first used {ago(report.total['start'], report.made)}" if report.total["start"] else "not used yet"
    return tag(
        "header",
        tag("div", "nbcache", class_="brand"),
        tag("h1", root),
        tag("p", f"{made} · {since} · {daemons}", class_="quiet"),
    )


def _tiles(report: Report) -> Html:
    total = report.total
    hit_rate, builds = reasons.hit_rate(total), charts.short(total["builds_count"])
    rate = "none" if hit_rate is None else f"{hit_rate:.1%}"
    lookups = f"of {charts.short(total['hit_count'] + reasons.missed(total))} look-ups"
    lately = _lately(report)
    if lately is not None:
        lookups += f", {lately:.1%} in the last week"
    fill = "no limit"
    bar = None
    if report.limit:
        fill = f"of {size(report.limit)}, {charts.short(report.entries)} entries"
        bar = charts.strip([("full", report.size, "used"), ("free", max(0, report.limit - report.size), "left")])
    return tag(
        "section",
        _tile("Hit rate", rate, lookups, kind=_mood(hit_rate)),
        _tile("Compilation saved", charts.span(total["saved_seconds"]), f"by {charts.short(total['hit_count'])} hits"),
        _tile("Spent compiling", charts.span(total["built_seconds"]), f"{builds} compilations"),
        _tile("Store", size(report.size), fill, bar),
        _tile("Programs", charts.short(total["processes"]), f"{charts.short(total['published'])} entries stored"),
        class_="tiles",
    )


def _lately(report: Report) -> float | None:
    """The hit rate of the last seven days, where there is a time before them."""
    first = (int(report.made // charts.DAY) - 6) * 24
    hours = report.past.hours
    if not any(hour < first for hour in hours):
        return None
    return reasons.hit_rate(usage.merge(bucket for hour, bucket in hours.items() if hour >= first))


def _tile(what: str, value: str, more: str, extra: Child = None, kind: str = "") -> Html:
    parts = tag("div", what, class_="quiet"), tag("div", value, class_=f"value {kind}"), extra
    return tag("div", *parts, tag("div", more, class_="quiet small"), class_="tile")


def _mood(rate: float | None) -> str:
    if rate is None:
        return ""
    return "good" if rate >= 0.8 else "fair" if rate >= 0.5 else "poor"


def _card(title: str, said: str | None, *content: Child, class_: str = "card") -> Html:
    return tag(
        "section", tag("h2", title), tag("p", prose(said), class_="quiet") if said else None, *content, class_=class_
    )


def _course(report: Report) -> Html:
    step, columns = charts.columns_of(report.past, report.made)
    if not columns:
        return _card("Hit rate over time", "No program has used this store yet.")
    legend = tag(
        "p",
        [
            tag("span", tag("span", class_=f"key {kind}"), words)
            for kind, words in (("rate", "hit rate"), ("hits", "hits"), ("misses", "misses"))
        ],
        class_="legend",
    )
    said = f"Each column is {_span(step)}; programs count when they end."
    drawing = tag("div", charts.course(step, columns), class_="wide")
    return _card("Hit rate over time", said, legend, drawing)


def _span(step: float) -> str:
    if step >= charts.DAY:
        days = int(step // charts.DAY)
        return "a day" if days == 1 else f"{days} days"
    hours = int(step // charts.HOUR)
    return "an hour" if hours == 1 else f"{hours} hours"


def _costly(report: Report) -> Html:
    rows = [
        (
            name_of(each.name),
            each.seconds,
            join(
                tag("b", charts.span(each.seconds)), f" in {charts.short(each.builds)} ", plural(each.builds, "build")
            ),
        )
        for each in report.costly
    ]
    said = (
        "All builds of a function and its objmode blocks, without what it calls. `nbcache prewarm` builds in advance."
    )
    return _card("What cost most to compile", said if rows else "Nothing was compiled yet.", charts.bars(rows))


def _misses(report: Report) -> Html:
    told = sorted(report.misses.items(), key=lambda pair: -pair[1])
    whole = sum(report.misses.values()) or 1
    rows = [
        (
            join(tag("div", MEANINGS[word][0]), tag("div", prose(MEANINGS[word][1]), class_="quiet small")),
            count,
            join(tag("b", charts.short(count)), f" {count / whole:.0%}"),
        )
        for word, count in told
        if count
    ]
    said = "Nothing missed." if not rows else None
    if report.changed:
        said = f"{charts.short(report.changed)} of these, or more, were of functions known under another key."
    return _card("Why things missed", said, charts.bars(rows, "amber"))


def _packages(report: Report) -> Html:
    if not report.packages:
        return _card("What keeps changing keys", "No function was built under more than one key.")
    most = max(package.changes for package in report.packages)
    head = tag("tr", [tag("th", name) for name in ("Package", "Changes", "", "Compiling took", "What changes")])
    rows = [_package_row(package, most) for package in report.packages]
    said = (
        "A key changes with everything that is compiled in: code, globals, options, versions. "
        "`nbcache why FUNCTION` shows old and new values."
    )
    return _card("Which packages keep changing keys", said, tag("div", tag("table", head, rows), class_="wide"))


def _package_row(package: Package, most: int) -> Html:
    name = "scripts (__main__)" if package.name == "__main__" else package.name
    causes: Child = [
        tag("div", _cause(what), tag("span", f" {count} times", class_="quiet"), class_="cause")
        for what, count in package.causes
    ]
    if not package.causes:
        causes = tag("span", "the older entries are gone", class_="quiet")
    worst = tag("div", "most: ", name_of(package.worst), class_="quiet small") if package.worst else None
    functions = f"{charts.short(package.functions)} {plural(package.functions, 'function')}"
    return tag(
        "tr",
        tag("td", tag("b", name), tag("div", functions, class_="quiet small"), worst),
        tag("td", charts.short(package.changes), class_="number"),
        tag("td", charts.meter(package.changes / most, "violet"), class_="meter"),
        tag("td", charts.span(package.seconds), class_="number"),
        tag("td", causes),
    )


def _cause(what: str) -> Html:
    kind, tick, rest = what.partition("`")
    name, _, where = rest.partition("`")
    return join(kind, name_of(name), where) if tick else join(what)


def _eviction(report: Report) -> Html:
    shades = ["age0", "age1", "age2", "age3", "age4"]
    parts = [
        (shade, float(amount), f"used {words}: {count} entries, {size(amount)}")
        for shade, (words, count, amount) in zip(shades, report.ages, strict=True)
    ]
    legend = tag(
        "p",
        [
            tag("span", tag("span", class_=f"key {shade}"), f"{words} ({size(amount)})")
            for shade, (words, _, amount) in zip(shades, report.ages, strict=True)
            if amount
        ],
        class_="legend",
    )
    rows = [
        tag(
            "tr",
            tag("td", name_of(each.name), " ", tag("span", each.signature, class_="quiet small")),
            tag("td", ago(each.used, report.made), class_="number"),
            tag("td", size(each.size), class_="number"),
            class_="goes" if each.goes else None,
        )
        for each in report.victims
    ]
    head = tag("tr", [tag("th", name) for name in ("Next to go", "Last used", "Size")])
    table = tag("div", tag("table", head, rows, class_="victims"), class_="wide") if rows else None
    return _card("What would be evicted", _evicted(report), charts.strip(parts), legend, table)


def _evicted(report: Report) -> str:
    total = report.total
    past = (
        f" {charts.short(total['evicted'])} entries, {size(total['evicted_bytes'])}, were evicted so far."
        if total["evicted"]
        else ""
    )
    if not report.limit:
        return f"Nothing: there is no limit (NBCACHE_MAX_SIZE).{past}"
    if report.evicts:
        return (
            f"{charts.short(report.evicts)} entries now, the least recently used: the store is above its limit.{past}"
        )
    share = report.size / report.limit
    return f"Nothing now: {share:.0%} of the limit is used. Above it, the least recently used go first.{past}"


def _uncacheable(report: Report) -> Html | None:
    told = list(report.total["uncacheable"].items())[:REASONS]
    if not told:
        return None
    rows = [
        (
            join(tag("div", reason), tag("div", _listed(item["functions"][:3]), class_="quiet small")),
            item["count"],
            tag("b", charts.short(item["count"])),
        )
        for reason, item in told
    ]
    said = "These functions depend on something that means nothing in another process, and are compiled each time."
    return _card("What can't be cached", said, charts.bars(rows, "grey"))


def _listed(names: list[str]) -> Html:
    return join([", " if number else "", name_of(name)] for number, name in enumerate(names))


def _foot(report: Report) -> Html:
    notes = [tag("p", note) for note in report.notes]
    errors = [tag("p", f"{what}: {charts.short(count)} times") for what, count in report.total["errors"].items()][
        :REASONS
    ]
    if errors:
        notes.append(_card("Faults that were turned into misses", None, *errors))
    checks = [tag("p", f"{what}: {charts.short(count)}") for what, count in report.total["checks"].items()][:REASONS]
    if checks:
        notes.append(_card("Hits that were compiled all the same, and compared", None, *checks))
    own = "Programs write these numbers when they end. Everybody who may use the store could have written false ones."
    return tag("footer", notes, tag("p", f"nbcache {nbcache.__version__}. {own}", class_="quiet small"))
