"""Whole stores to and from the remote tiers: ``nbcache push`` and ``pull``.

A tier can't be asked what it holds: plain HTTP lists nothing, and names are digests. So who pushes leaves an index, by
a well-known name::

    index = {"version": 1, "keys": [key, ...]}      ; the newest first, at most MAX_KEYS

It isn't signed: all that one that was forged can do is to have somebody ask for keys in vain.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from nbcache.errors import RemoteError
from nbcache.protocol import helper as protocol
from nbcache.remote.helper import Helper
from nbcache.remote.tiers import Tier
from nbcache.remote.uploading import UPLOADERS
from nbcache.store import layout
from nbcache.store.content import blake2b

VERSION: Final = 1
MAX_KEYS: Final = 20_000
MAX_INDEX: Final = 4 << 20
"""The largest index that is read [bytes]: so many keys, and more."""
SECONDS: Final = 30.0
"""How long one fetch may take where nobody waits for a function [s]."""
_INDEX: Final = blake2b(b"nbcache index", digest_size=32).hexdigest()


def push(
    helper: Helper, keys: Iterable[str], step: Callable[[], None], names: Iterable[str] = ()
) -> tuple[dict[str, int], set[str]]:
    """Upload the entries of these keys and name them in each tier's index, and what is published under these names, or
    that nothing is any more.

    Return how many went how, and what was wrong with those that didn't go.

    What is there already is fetched and looked at, and replaced where nobody could take it. *step* is called after each
    key. Raises RemoteError where nothing may be uploaded.
    """
    if not helper.uploading.signs:
        raise RemoteError("NBCACHE_SIGNING_KEY is not set: nobody would take what isn't signed")
    if not any(tier.writable for tier in helper.tiers):
        raise RemoteError("every address in NBCACHE_REMOTE is read-only: there is nowhere to upload to")
    wanted = sorted(set(keys))

    def upload(key: str) -> None:
        helper.uploading.upload(key, whole=True)
        step()

    def publish(name: str) -> None:
        why = helper.publications.publish(name, whole=True).why
        helper.uploading.counts[helper.uploading.failed(f"{name}: {why}") if why else "stored"] += 1
        step()

    with ThreadPoolExecutor(UPLOADERS) as pool:
        list(pool.map(upload, wanted))
        list(pool.map(publish, names))
    for tier in helper.tiers:
        if tier.writable and wanted:
            others, problem = _read(tier)
            known = dict.fromkeys([*wanted, *others])
            data = json.dumps({"version": VERSION, "keys": list(known)[:MAX_KEYS]}).encode()
            # Where it can't be read now, there are keys in it that others pushed: nobody could pull them any more.
            problem = problem or tier.put(_INDEX, data)
            if problem:
                helper.uploading.counts[helper.uploading.failed(problem)] += 1
    return {how: count for how, count in helper.uploading.counts.items() if count}, set(helper.uploading.wrong)


def pull(helper: Helper, keys: Iterable[str], step: Callable[[], None]) -> tuple[dict[str, int], set[str]]:
    """Fetch these keys into the store; return how many went how, and what was wrong with those that didn't come."""
    wrong: set[str] = set()

    def fetch(key: str) -> str:
        done = helper.reading.fetch(key, seconds=SECONDS)
        state = done.state
        while done.state == protocol.CAME:
            done = helper.reading.fetch(key, done.slot + 1, SECONDS)
        if done.why:
            wrong.add(done.why)
        step()
        return state

    counts = dict.fromkeys(sorted(protocol.STATES), 0)
    with ThreadPoolExecutor(UPLOADERS) as pool:
        for state in pool.map(fetch, sorted(set(keys))):
            counts[state] += 1
    return counts, wrong


def known(helper: Helper) -> list[str]:
    """Return the keys that are named in the tiers' indexes. Raises RemoteError if no tier has one."""
    found = [_read(tier)[0] for tier in helper.tiers]
    if not any(found):
        problems = [tier.problem for tier in helper.tiers if tier.problem]
        raise RemoteError("; ".join(problems) or "nobody has pushed anything yet: `nbcache push` writes the index")
    return list(dict.fromkeys(key for keys in found for key in keys))


def _read(tier: Tier) -> tuple[list[str], str]:
    """Return the keys in a tier's index, none where there is no index, and why the tier can't be asked, if so."""
    got = tier.get(_INDEX, SECONDS, patient=True)
    return ([], got.problem) if got.problem else (_keys_in(got.data or b"{}"), "")


def _keys_in(data: bytes) -> list[str]:
    if len(data) > MAX_INDEX:
        return []
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return []
    if not isinstance(found, dict) or found.get("version") != VERSION or not isinstance(found.get("keys"), list):
        return []
    return [key for key in found["keys"][:MAX_KEYS] if layout.is_key(key)]
