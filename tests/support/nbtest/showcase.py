"""A store with a past: some weeks of made-up programs, for the report and its picture."""

from __future__ import annotations

import json
import math
import os
import random
import time
from hashlib import blake2b
from typing import TYPE_CHECKING

from nbcache.config import Settings
from nbcache.store import usage_sums
from nbcache.store.directory import Store
from nbcache.store.entry import Header

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0
FUNCTIONS = {
    "orbits.integrate": ("leapfrog", "rk45_step", "acceleration", "energy", "close_encounters"),
    "pricing.models.heston": ("paths", "characteristic", "calibrate_residuals"),
    "pricing.curves": ("bootstrap", "discount"),
    "imaging.filters": ("median3d", "bilateral", "watershed", "label_components"),
    "genome.align": ("smith_waterman", "traceback", "kmer_counts"),
    "__main__": ("simulate", "score"),
}
SIGNATURES = ("(array(float64, 1d, C), float64)", "(array(float32, 2d, A), int64)", "(int64, int64)")


def build(root: Path | str, days: int = 45, seed: int = 7, *, now: float | None = None) -> Store:
    """Fill a store: entries, some of which differ in a global or an option, and usage that gets better with time."""
    now = time.time() if now is None else now
    chance = random.Random(seed)
    store = Store.open(Settings(dir=str(root)))
    assert isinstance(store, Store), store
    keys: list[tuple[str, str, float]] = []
    for module, names in FUNCTIONS.items():
        for name in names:
            for signature in SIGNATURES[: chance.randint(1, 3)]:
                keys += _entries(store, chance, f"{module}:{name}", signature, now)
    chance.shuffle(keys)
    # Oldest first, as a store really fills.
    for day in range(days, -1, -1):
        for hour in range(24):
            when = now - day * DAY - hour * 3600.0
            if when <= now and (busy := _busy(when)) > chance.random() * 0.8:
                _program(store, chance, keys, when, busy, 1 - day / days)
    usage_sums.fold_all(store.path, lambda _: True)
    store.write_usage({"processes": 0, "evicted": 37, "evicted_bytes": 9_400_000})
    return store


def _entries(store, chance, function, signature, now):
    """Entries of one function: one, or several that differ."""
    changing = {
        "orbits": ("global orbits.config.SOFTENING", 9),
        "pricing": ("code pricing.models.heston:paths", 5),
        "imaging": ("options/fastmath", 2),
        "__main__": ("code __main__:simulate", 4),
    }
    label, most = changing.get(function.partition(".")[0], ("options/fastmath", 1))
    made = []
    for number in range(chance.randint(1, most)):
        pairs = [["signature", signature], [label, f"0.0{number}"]]
        if number % 3 == 2:
            pairs.append(["toolchain/numpy", f"2.{number}.0"])
        key = blake2b(json.dumps([function, pairs]).encode(), digest_size=32).hexdigest()
        created = now - (most - number) * 3 * DAY - chance.random() * DAY
        seconds = chance.lognormvariate(0.3, 0.9)
        header = Header(key, "dispatcher", function, signature, "numba 0.68.1", seconds, created, "b" * 8, "")
        size = int(chance.lognormvariate(10.5, 0.8))
        sections = {"meta": b"m" * 64, "object": b"o" * size, "components": json.dumps(pairs).encode()}
        assert store.publish(header, sections).ok
        path = next(store.find(key, lambda _: None)).path
        age = chance.choice((0.3, 2, 5, 20, 50, 120)) * DAY * chance.random()
        os.utime(path, (now - age, now - age))
        made.append((key, f"{function} {signature}", seconds))
    return made


def _busy(when):
    """How much goes on: on weekdays, by day."""
    weekday, hour = time.gmtime(when).tm_wday, time.gmtime(when).tm_hour
    return max(0.05, math.sin((hour - 5) / 17 * math.pi)) * (0.25 if weekday > 4 else 1.0)


def _program(store, chance, keys, when, busy, progress):
    # What is in fashion moves on through the store.
    first = int(progress * 0.6 * len(keys))
    used = chance.sample(keys[first : first + len(keys) * 2 // 5], k=8)
    fresh = [one for one in used if chance.random() > 0.55 + 0.42 * progress]
    hits = {key: chance.randint(1, 9) for key, _, _ in used if (key, _, _) not in fresh}
    # At first many look for the same at once, before it is there.
    misses = {"new": len(fresh) * (1 + int(9 * (1 - progress) ** 2))} if fresh else {}
    if chance.random() < 0.15:
        misses["the symbol __cxa_guard_acquire does not exist in this process"] = 2
    if chance.random() < 0.05:
        misses["damaged"] = 1
    if 0.55 < progress < 0.6:
        misses["other-version"] = 14
    path = store.write_usage(
        {
            "start": when - 60,
            "end": when,
            "hits": hits,
            "hit_count": int(sum(hits.values()) * (1 + 3 * busy)),
            "saved_seconds": sum(hits.values()) * 0.8,
            "misses": misses,
            "builds": [{"key": key, "function": what, "seconds": seconds} for key, what, seconds in fresh],
            "builds_count": len(fresh),
            "built_seconds": sum(seconds for _, _, seconds in fresh),
            "published": len(fresh),
            "uncacheable": {
                "an object of type _thread.RLock (cannot pickle '_thread.RLock' object)": {
                    "count": 1,
                    "functions": ["imaging.viewer:redraw", "orbits.plot:frame"],
                },
                "a pointer of ctypes to data": {"count": chance.randint(0, 1), "functions": ["genome.fasta:mapped"]},
            },
        }
    )
    os.utime(path, (when, when))
