"""``nbcache remote``: the remote tiers of a store, and the helper that speaks to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import nbcache
from nbcache.cli.place import settings_of
from nbcache.cli.text import CommandError, print_json, printable
from nbcache.protocol import helper

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from nbcache.config import Settings

_ANSWER_SECONDS: Final = 2.0


def register(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = add(
        "remote",
        help="show how the remote cache is doing, or end its helper",
        description="Show how the tiers of NBCACHE_REMOTE are doing, as the helper of these settings sees them; "
        "or end that helper, which the next program that misses something starts again.",
    )
    parser.add_argument("action", choices=("status", "stop"), nargs="?", default="status", help="default: status")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=remote)


def remote(args: argparse.Namespace) -> int:
    """Show the status, which is 1 when something is wrong; or end the helper."""
    settings = settings_of(args)
    if not settings.remote:
        raise CommandError("no remote cache: NBCACHE_REMOTE is not set")
    if args.action == "stop":
        ask(settings, "stop")
        return 0
    found = ask(settings, "status")
    if args.json:
        print_json(found)
    elif found is None:
        print("no helper runs: none was needed in the last ten minutes (the next miss starts one)")
    else:
        for line in lines(found):
            print(printable(line))
    return 1 if found is not None and problems(found) else 0


def ask(settings: Settings, question: str) -> dict[str, Any] | None:
    """Ask the helper of these settings; None if none runs, or it doesn't answer."""
    try:
        return helper.ask(helper.meeting(settings, nbcache.__version__), question, "", _ANSWER_SECONDS)
    except OSError:
        return None


def problems(status: Mapping[str, Any]) -> list[str]:
    """Return what is wrong, each in a line."""
    if "broken" in status:
        return [str(status["broken"])]
    found = [tier["problem"] for tier in status["tiers"] if tier["problem"]]
    found += [
        f"{tier['address']}: refuses what is uploaded; reads go on"
        for tier in status["tiers"]
        if not tier["readonly"] and not tier["writes"]
    ]
    found += [f"{count} entries were refused: {why}" for why, count in status["refused"].items()]
    if status["uploads"]["dropped"]:
        found.append(f"{status['uploads']['dropped']} uploads found no room in the queue: `nbcache push` sends them")
    return found


def lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a person wants to know."""
    if "broken" in status:
        yield f"the remote cache can't be used: {status['broken']}"
        return
    yield f"helper {status['pid']} for {status['store']}"
    for tier in status["tiers"]:
        how = f"left alone for a while: {tier['alone']}" if tier["alone"] else f"{tier['milliseconds']} ms an answer"
        yield f"  {tier['address']}{' (read-only)' if tier['readonly'] else ''}: {how}"
        yield f"    {_counts(tier['counts'])}"
    yield f"asked for: {_counts(status['fetches'])}"
    signer = f"signed as {status['signs']}" if status["signs"] else "nothing is signed (NBCACHE_SIGNING_KEY is not set)"
    yield f"uploads: {_counts(status['uploads'])}, {status['waiting']} waiting; {signer}"
    for problem in problems(status):
        yield f"! {problem}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "nothing yet"
