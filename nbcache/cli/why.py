"""``nbcache why FUNCTION``: why a function was compiled again.

Each entry of the function is compared with the nearest earlier one of the same kind, and what differs is said in words.
What made a function uncacheable is in the usage records.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbcache.cli.entries import SHORT, processor_of, read_components
from nbcache.cli.explain import differing, explain, nearest
from nbcache.cli.store_option import open_layers, open_store
from nbcache.cli.text import CommandError, ago, print_json, printable
from nbcache.store import usage
from nbcache.store.directory import Store
from nbcache.store.entry import Header

SAME_KEY = (
    "the same key, for another state of what only shows while compiling (see the guard of each in `nbcache show`)"
)
NO_REASON = "no component differs: another version of nbcache or of its key made one of them"


@dataclass(frozen=True, slots=True)
class Built:
    """One entry of a function: its header and the components of its key."""

    header: Header
    components: dict[str, str]
    layer: str = ""
    """The layer that it lies in; "" for the store."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One entry, the nearest one that is older (None: it is the first), and what differs, in words."""

    new: Header
    old: Header | None
    lines: list[str]
    layer: str = ""
    """Where the first of them lies."""


def show_why(args: argparse.Namespace) -> int:
    """Print the comparisons of the functions that match."""
    store = open_store(args, looking=True)
    functions = _collect([store, *open_layers(args)], args.function)
    reasons = _uncacheable(usage.read(store.path), args.function)
    if not functions and not reasons:
        raise CommandError(f"no entry, and no record, of a function {args.function}: see `nbcache ls`")
    compared = {name: compare(built) for name, built in sorted(functions.items())}
    if not args.all:
        compared = {name: found[-1:] for name, found in compared.items()}
    if args.json:
        _print_as_json(compared, reasons)
        return 0
    for name, found in compared.items():
        print(printable(name))
        for comparison in found:
            _print_comparison(comparison)
    for name, reason in reasons:
        print(printable(name))
        print(printable(f"  not cached: {reason}"))
    return 0


def compare(built: Iterable[Built]) -> list[Comparison]:
    """Compare each entry of one function with the nearest older one of its kind, the oldest entry first. Pure."""
    ordered = sorted(built, key=lambda item: (item.header.created, item.header.key, item.header.guard))
    found = []
    for index, item in enumerate(ordered):
        older = [other for other in ordered[:index] if other.header.kind == item.header.kind]
        position = nearest(item.components, [other.components for other in older])
        if position is None:
            found.append(Comparison(item.header, None, [], item.layer))
        else:
            found.append(Comparison(item.header, older[position].header, _lines(older[position], item), item.layer))
    return found


def _lines(old: Built, new: Built) -> list[str]:
    if differing(old.components, new.components):
        return explain(old.components, new.components, new.header.function)
    return [SAME_KEY if old.header.key == new.header.key else NO_REASON]


def matches(function: str, asked: str) -> bool:
    """Whether `asked` names `function` ("module:qualname"): all of it, or its end after a dot or colon."""
    return function == asked or function.endswith((f":{asked}", f".{asked}"))


def _collect(stores: Iterable[Store], asked: str) -> dict[str, list[Built]]:
    functions: dict[str, list[Built]] = {}
    for store in stores:
        headers = ((info.key, info.header) for info in store.scan())
        for key in {key for key, header in headers if header is not None and matches(header.function, asked)}:
            for entry in store.find(key):
                built = Built(entry.header, read_components(entry), entry.layer)
                functions.setdefault(entry.header.function, []).append(built)
    return functions


def _uncacheable(records: Iterable[dict[str, Any]], asked: str) -> list[tuple[str, str]]:
    """Return (function, reason), each once."""
    found = {
        (function, reason)
        for record in records
        for reason, item in record["uncacheable"].items()
        for function in item["functions"]
        if matches(function, asked)
    }
    return sorted(found)


def _print_comparison(comparison: Comparison) -> None:
    new, old = comparison.new, comparison.old
    where = f"  in the layer {comparison.layer}" if comparison.layer else ""
    what = f"{new.key[:SHORT]}  {new.signature}  for {processor_of(new)}"
    print(printable(f"  {what}  built {ago(new.created)}{where}"))
    if old is None:
        print("    the first of its kind: nothing older to compare with")
        return
    what = f"{old.key[:SHORT]}  {old.signature}  for {processor_of(old)}"
    if old.key == new.key:
        what = "another one with the same key"
    print(printable(f"    differs from {what}  built {ago(old.created)}, in:"))
    for line in comparison.lines:
        print(printable(f"      {line}"))


def _print_as_json(compared: dict[str, list[Comparison]], reasons: list[tuple[str, str]]) -> None:
    rows = [
        {
            "function": name,
            "key": item.new.key,
            "signature": item.new.signature,
            "created": item.new.created,
            "cpu": item.new.extra.get("cpu"),
            "layer": item.layer,
            "nearest": item.old and item.old.key,
            "differs": item.lines,
        }
        for name, found in compared.items()
        for item in found
    ]
    print_json({"entries": rows, "uncacheable": [{"function": name, "reason": reason} for name, reason in reasons]})
