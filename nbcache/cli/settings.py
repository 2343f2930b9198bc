"""``nbcache config``: each setting, its value and where that came from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nbcache.cli.place import settings_of
from nbcache.cli.text import print_json, printable, size, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from nbcache.config import Settings


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add(
        "config",
        help="show each setting and where it came from",
        description="Show each setting, its value, and whether it came from the environment, a file or the defaults.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=show_config)


def show_config(args: argparse.Namespace) -> int:
    """Print the settings; the status is 1 when one of them couldn't be read."""
    settings = settings_of(args)
    values = values_of(settings)
    if args.json:
        rows = {name: {"value": value, "source": source} for name, value, source in values}
        print_json({"settings": rows, "problems": list(settings.problems)})
    else:
        for line in table([(f"NBCACHE_{name.upper()}", _words(name, value), source) for name, value, source in values]):
            print(line)
    for problem in settings.problems:
        print(f"nbcache: {printable(problem)}", file=sys.stderr)
    return 1 if settings.problems else 0


def values_of(settings: Settings) -> list[tuple[str, Any, str]]:
    """Return (name, value as JSON has it, source) of each setting, in the order of their declaration."""
    rows = []
    for name, value in settings._asdict().items():
        if name not in ("sources", "problems"):
            plain = sorted(value) if isinstance(value, frozenset) else value
            if isinstance(value, tuple):
                plain = list(map(str, value))
            if name == "umask" and value is not None:
                plain = f"{value:03o}"  # as it is written
            rows.append((name, plain, settings.sources.get(name, "default")))
    return rows


def _words(name: str, value: object) -> str:
    if name == "max_size" and isinstance(value, int):
        return size(value)
    if value is None and name == "layers":
        return "none"
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    between = " " if name in {"remote", "trusted_keys"} else ","
    return between.join(map(str, value)) if isinstance(value, list) else str(value)
