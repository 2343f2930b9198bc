"""``nbcache remote``, ``push`` and ``pull``: the remote tiers of a store, and the helper that speaks to them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import nbcache
from nbcache.cli.store_option import directory_of, open_store, settings_of
from nbcache.cli.text import CommandError, Progress, print_json, printable
from nbcache.errors import NbcacheError
from nbcache.protocol import helper, requests
from nbcache.regular_files import open_to_read_or_pipe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from nbcache.config import Settings
    from nbcache.remote.helper import Helper

_ANSWER_SECONDS: Final = 2.0


def remote(args: argparse.Namespace) -> int:
    """Show the status, which is 1 when something is wrong; or end the helper."""
    settings = _settings(args)
    if args.action == "stop":
        ask(settings, "stop")
        return 0
    found = ask(settings, "status") or obstacle(settings)
    if args.json:
        print_json(found)
    elif found is None:
        print("no helper runs: none was needed in the last ten minutes (the next miss starts one)")
    else:
        for line in lines(found):
            print(printable(line))
    return 1 if found is not None and problems(found) else 0


def push(args: argparse.Namespace) -> int:
    """Upload the store."""
    from nbcache.remote import transfer

    made = _helper(args)
    store = open_store(args)
    keys, names = {info.key for info in store.scan()}, store.names.known()
    withdrawn = set(store.names.withdrawn()) - set(names)
    bar = Progress(len(keys) + len(names) + len(withdrawn), "push")
    counts, wrong = transfer.push(made, keys, bar.step, {*names, *withdrawn})
    bar.clear()
    also = f" and {len(names)} published names" if names else ""
    print(f"{len(keys)} keys{also}: {_counts(counts)}")
    _complain(wrong)
    return 1 if counts.get("failed") else 0


def pull(args: argparse.Namespace) -> int:
    """Fetch what was pushed, or what warm lists name."""
    from nbcache.remote import transfer

    made = _helper(args)
    keys = list(_named(args.list)) if args.list else transfer.known(made)
    bar = Progress(len(keys), "pull")
    counts, wrong = transfer.pull(made, keys, bar.step)
    bar.clear()
    words = {"came": "fetched", "missing": "here already, or in no tier", "refused": "refused", "failed": "failed"}
    print(f"{len(keys)} keys: {_counts({words[state]: count for state, count in counts.items()})}")
    _complain(wrong)
    return 1 if counts["failed"] or counts["refused"] else 0


def _helper(args: argparse.Namespace) -> Helper:
    """What a helper is made of, in this process: nobody waits for a function here."""
    from nbcache.remote.helper import Helper

    settings = _settings(args)
    directory_of(settings)
    return Helper(settings)


def _settings(args: argparse.Namespace) -> Settings:
    """The settings, which name a remote cache. Raises CommandError if they don't."""
    settings = settings_of(args)
    if not settings.remote:
        raise CommandError("no remote cache: NBCACHE_REMOTE is not set")
    return settings


def _named(lists: list[str]) -> Iterator[str]:
    """The keys that warm lists name. Raises CommandError, OSError."""
    for path in lists:
        with os.fdopen(open_to_read_or_pipe(path), "rb") as file:
            for line in file:
                try:
                    yield requests.read(line).key
                except requests.BadRequestError as error:
                    raise CommandError(f"{path}: {error}") from error


def _complain(wrong: Iterable[str]) -> None:
    for why in sorted(wrong):
        print(f"nbcache: {printable(why)}", file=sys.stderr)


def ask(settings: Settings, question: str) -> dict[str, Any] | None:
    """Ask the helper of these settings; None if none runs."""
    try:
        answer = helper.ask(helper.meeting(settings, nbcache.__version__), question, "", _ANSWER_SECONDS)
    except OSError:
        return None
    return {"broken": "its helper doesn't answer"} if answer is None else answer


def obstacle(settings: Settings) -> dict[str, Any] | None:
    """Return what the next helper will say is wrong, or why none can say it; None if it could work."""
    why = helper.hindrance(helper.meeting(settings, nbcache.__version__).folder)
    if why is None:
        from nbcache.remote.helper import Helper

        try:
            Helper(settings)
        except NbcacheError as error:
            why = str(error)
    return {"broken": why} if why else None


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
