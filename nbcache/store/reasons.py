"""Why look-ups miss and what fails, as one of a few words: for what is kept for long, and for labels of metrics.

Usage records hold reasons as text for people, which names types, symbols and files, and which anybody may have made up.
Here each of them becomes a word of an enumeration, so that neither a busy store nor a forged record makes more of them.
How many a record may have is said here as well, and how two are added up: counting and writing need no more of usage
records (`usage.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nbcache.store.entry import DAMAGED, OTHER_VERSION, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHER_KEY: Final = "other-key"
UNTRUSTED: Final = "untrusted"
REVOKED: Final = "revoked"
"""It came from elsewhere, and none of the keys that signed it is trusted here."""
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
NOT_STORABLE: Final = "what was compiled can't be stored"
NOT_COMPILED: Final = "compiling it raised an exception"
PROMISED: Final = "an overload that a loaded function relies on"
ALONGSIDE: Final = "loaded to look at another entry"
SHARED: Final = "code that this process had compiled already"
FOR_A_GPU: Final = "code for a GPU"
COMPARED: Final = (SAME, REORDERED, DIFFERENT)
CHECKS: Final = (*COMPARED, NO_DIGEST, NOT_STORABLE, NOT_COMPILED, PROMISED, ALONGSIDE, SHARED, FOR_A_GPU)
"""What came of checking a hit (`nbcache.client.checking`): all but the first three say why nothing was compared."""
INTERNAL: Final = "internal error of nbcache"
"""What went wrong is nbcache's own doing; more may follow."""
_INTERNAL: Final = (INTERNAL, "a fault of nbcache")
# The second is how versions before 0.2 said it, in usage records that are still there.
KNOWN: Final = frozenset({*MISSES, *ERRORS, *CHECKS, *WAITS, IN_VAIN, *_INTERNAL})
"""What nbcache itself says, word by word."""
_FAULT_WHILE: Final = "fault while "
MAX_KEYS: Final = 8_000
"""How many keys one usage record names at most, in ``hits`` and in ``builds`` each."""
MAX_REASONS: Final = 200
"""How many different reasons, errors… are kept."""
MAX_EXAMPLES: Final = 50
"""How many functions are named as examples under ``uncacheable``."""
MAX_TEXT: Final = 300
"""How long each text of it may be."""


def miss(reason: str) -> str:
    """Return which of :data:`MISSES` a reason is."""
    if reason in MISSES:
        return reason
    return FAULT if reason.startswith(_INTERNAL) else UNUSABLE


def error(what: str) -> str:
    """Return which of :data:`ERRORS` an error is."""
    if what == PUBLISH or what.startswith(REMOTE + ":"):
        return what.partition(":")[0]
    return FAULT if what.startswith(_FAULT_WHILE) else OTHER


def check(result: str) -> str:
    """Return which of :data:`CHECKS`, or :data:`OTHER`, a result of a check is."""
    return result if result in CHECKS else OTHER


def misses(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how often each of :data:`MISSES` occurred, those that did."""
    found: dict[str, int] = {}
    for reason, count in counts.items():
        word = miss(reason)
        found[word] = found.get(word, 0) + count
    return found


def none_counted() -> dict[str, Any]:
    """Return a record's counts, none of which has begun."""
    return {
        "hits": {}, "hit_count": 0, "saved_seconds": 0.0, "sources": {},
        "builds": [], "builds_count": 0, "built_seconds": 0.0, "published": 0,
        "misses": {}, "uncacheable": {}, "errors": {}, "waits": {}, "waited_seconds": 0.0,
        "checks": {},
    }  # fmt: skip


def add(total: dict[str, Any], more: Mapping[str, Any], most_names: int = MAX_REASONS) -> None:
    """Add what was counted to what was counted before, of each list and dict as much as a record may have."""
    for name, value in more.items():
        if name == "uncacheable":
            _add_uncacheable(total[name], value)
        elif type(value) is dict:
            counts, most = total[name], MAX_KEYS if name == "hits" else most_names
            for key, number in value.items():
                if key in counts or len(counts) < most:
                    counts[key] = counts.get(key, 0) + number
        elif type(value) is list:
            total[name].extend(value[: MAX_KEYS - len(total[name])])
        else:
            total[name] += value


def _add_uncacheable(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    room = MAX_EXAMPLES - sum(len(item["functions"]) for item in total.values())
    for reason, item in more.items():
        if reason not in total and len(total) >= MAX_REASONS:
            continue
        known = total.setdefault(reason, {"count": 0, "functions": []})
        known["count"] += item["count"]
        new = [name for name in dict.fromkeys(item["functions"]) if name not in known["functions"]][: max(0, room)]
        known["functions"] += new
        room -= len(new)


def copied(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts that don't change when others are added to the first ones."""
    total = none_counted()
    add(total, counts)
    total["builds"] = [dict(build) for build in total["builds"]]
    return total
