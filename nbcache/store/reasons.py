"""Why look-ups miss and what fails, as one of a few words: for what is kept for long, and for labels of metrics.

Usage records hold reasons as text for people, which names types, symbols and files, and which anybody may have made up.
Here each of them becomes a word of an enumeration, so that neither a busy store nor a forged record makes more of them.
How many a record may have is said here as well, and how two are added up: counting and writing need no more of usage
records (`usage.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nbcache.store.entry import DAMAGED, OTHER_KEY, OTHER_VERSION, REVOKED, UNREADABLE, UNTRUSTED

REJECTIONS: Final = (DAMAGED, OTHER_VERSION, OTHER_KEY, UNTRUSTED, UNREADABLE, REVOKED)
"""Why a file can be passed over, as :meth:`~nbcache.store.directory.Store.find` tells it."""
NEW: Final = "new"
RECACHE: Final = "recache"
FAULT: Final = "fault"
UNUSABLE: Final = "unusable"
"""An entry is there, and something that it was built with is different in this process."""
QUARANTINED: Final = "quarantined"
"""Programs crashed in the entry, so it is skipped."""
CAME: Final = "came"
"""No reason: it was fetched from the remote cache."""
REMOTE_FAILED: Final = "remote-failed"
"""It isn't here, and the remote cache, which may have it, can't be asked at the moment."""
MISSES: Final = (NEW, RECACHE, *REJECTIONS, QUARANTINED, REMOTE_FAILED, UNUSABLE, FAULT)
"""What :func:`miss` returns."""
PUBLISH: Final = "publish"
REMOTE: Final = "remote"
"""The remote cache couldn't be asked."""
OTHER: Final = "other"
ERRORS: Final = (PUBLISH, REMOTE, FAULT, OTHER)
"""What :func:`error` returns."""
WAITS: Final = ("0.1", "1", "10", "inf")
"""By which words waiting is counted: upper bounds [s]."""
IN_VAIN: Final = "in vain"
"""Beside them: how often what was waited for didn't come."""
SAME: Final = "same"
REORDERED: Final = "same in another order"
DIFFERENT: Final = "different"
NO_DIGEST: Final = "no digest to compare"
RECURSION: Final = "recursive code, perhaps entered by another of its functions"
NOT_STORABLE: Final = "what was compiled can't be stored"
NOT_COMPILED: Final = "compiling it raised an exception"
PROMISED: Final = "an overload that a loaded function relies on"
ALONGSIDE: Final = "loaded to look at another entry"
SHARED: Final = "code that this process had compiled already"
FOR_A_GPU: Final = "code for a GPU"
COMPARED: Final = (SAME, REORDERED, DIFFERENT)
CHECKS: Final = (
    *COMPARED, NO_DIGEST, RECURSION, NOT_STORABLE, NOT_COMPILED, PROMISED, ALONGSIDE, SHARED, FOR_A_GPU,
)  # fmt: skip
"""What came of checking a hit (`nbcache.client.checking`): all but the first three say why nothing was compared."""
INTERNAL: Final = "internal error of nbcache"
"""What went wrong is nbcache's own doing; more may follow."""
_INTERNAL: Final = (INTERNAL, "a fault of nbcache")
# The second is how versions before 0.2 said it, in usage records that are still there.
KNOWN: Final = frozenset({*MISSES, *ERRORS, *CHECKS, *WAITS, IN_VAIN, *_INTERNAL})
"""What nbcache itself says, word by word."""
_FAULT_WHILE: Final = "fault while "
SUMS: Final = (
    "processes", "hit_count", "saved_seconds", "builds_count", "built_seconds", "waited_seconds", "published",
    "evicted", "evicted_bytes",
)  # fmt: skip
"""The numbers of a record that add up; beside them there are counts by reason."""
MAX_KEYS: Final = 8_000
"""How many keys one usage record names at most, in ``hits`` and in ``builds`` each."""
MAX_REASONS: Final = 200
"""How many different reasons, errors… are kept, besides :data:`KNOWN` ones."""
OTHERS: Final = "other reasons"
"""What stands for the rest."""
MAX_EXAMPLES: Final = 50
"""How many functions are named as examples of each reason under ``uncacheable``."""
MAX_TEXT: Final = 300
"""How long each text of it may be."""


CHECK_RESULTS: Final = (*CHECKS, OTHER)
"""What :func:`check` returns."""


def miss(reason: str) -> str:
    """Return which of :data:`MISSES` a reason is."""
    if reason in MISSES:
        return reason
    return FAULT if reason.startswith(_INTERNAL) else UNUSABLE


def error(what: str) -> str:
    """Return which of :data:`ERRORS` an error is."""
    word = what.partition(":")[0]
    if word in {PUBLISH, REMOTE} or what in ERRORS:
        return word
    return FAULT if what.startswith(_FAULT_WHILE) else OTHER


def check(result: str) -> str:
    """Return which of :data:`CHECK_RESULTS` a result of a check is."""
    return result if result in CHECKS else OTHER


def _by_word(counts: Mapping[str, int], word_of: Callable[[str], str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text, count in counts.items():
        word = word_of(text)
        found[word] = found.get(word, 0) + count
    return found


def brief(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record counts without a name in it that somebody chose: reasons are words. Zeros are left out."""
    words: dict[str, Callable[[str], str]] = {"misses": miss, "errors": error, "checks": check}
    found: dict[str, Any] = {name: _by_word(record[name], word_of) for name, word_of in words.items()}
    found["waits"] = {word: record["waits"][word] for word in (*WAITS, IN_VAIN) if word in record["waits"]}
    count = uncacheable(record)
    found["uncacheable"] = {OTHER: {"count": count, "functions": []}} if count else {}
    found.update({name: record[name] for name in (*SUMS, "start", "end")})
    return {name: value for name, value in found.items() if value or name == "processes"}


def missed(record: Mapping[str, Any]) -> int:
    """Return how many look-ups found nothing to use."""
    return sum(record["misses"].values())


def hit_rate(record: Mapping[str, Any]) -> float | None:
    """Return the hits among look-ups, 0 to 1; None if there were none."""
    looked_up = record["hit_count"] + missed(record)
    return record["hit_count"] / looked_up if looked_up else None


def uncacheable(record: Mapping[str, Any]) -> int:
    """Return how many functions couldn't be cached."""
    return sum(item["count"] for item in record["uncacheable"].values())


def none_counted() -> dict[str, Any]:
    """Return a record's counts, none of which has begun."""
    return {
        "hits": {}, "hit_count": 0, "saved_seconds": 0.0, "sources": {},
        "builds": [], "builds_count": 0, "built_seconds": 0.0, "published": 0,
        "misses": {}, "uncacheable": {}, "errors": {}, "waits": {}, "waited_seconds": 0.0,
        "checks": {}, "unasked": {},
    }  # fmt: skip


def add(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what was counted to what was counted before, of each list and dict as much as a record may have.

    Reasons beyond that count as :data:`OTHERS`, so that none gets lost; those that nbcache gives keep their names.
    """
    for name, value in more.items():
        if name == "uncacheable":
            for reason, item in value.items():
                known = total[name].setdefault(_place(total[name], reason), {"count": 0, "functions": []})
                known["count"] += item["count"]
                known["functions"] = [*dict.fromkeys([*known["functions"], *item["functions"]])][:MAX_EXAMPLES]
        elif type(value) is dict:
            counts = total[name]
            for text, number in value.items():
                if name != "hits" or text in counts or len(counts) < MAX_KEYS:
                    place = text if name == "hits" else _place(counts, text)
                    counts[place] = counts.get(place, 0) + number
        elif type(value) is list:
            total[name].extend(value[: MAX_KEYS - len(total[name])])
        else:
            total[name] += value


def _place(counts: Mapping[str, object], reason: str) -> str:
    return reason if reason in counts or len(counts) < MAX_REASONS - 1 or reason in KNOWN else OTHERS


def copied(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts that don't change when others are added to the first ones."""
    total = none_counted()
    add(total, counts)
    total["builds"] = [dict(build) for build in total["builds"]]
    return total
