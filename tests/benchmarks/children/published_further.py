"""Load small functions one after the other: what each takes, and what memory they take together."""

import json
import statistics
import sys
import time

import numpy as np


def memory():
    """Resident memory, and this process's share of it [MiB]."""
    fields = {}
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            name, _, value = line.partition(":")
            if value.endswith("kB\n"):
                fields[name] = int(value[:-3]) / 1024
    return fields["Rss"], fields["Pss"]


np.sqrt(np.arange(1000.0))
before = memory()
import nbcache  # noqa: E402  what it takes counts
from nbcache.client import hook  # noqa: E402
from nbcache.protocol import manifests  # noqa: E402
from nbcache.published import load  # noqa: E402
from nbcache.published.realize import realize  # noqa: E402

nbcache.load("scaled")(np.arange(1000.0), 2.0)
count = int(sys.argv[1])
whole, in_hand, held = [], [], []
for index in range(count):
    name = f"many.f{index}"
    started = time.perf_counter()
    if index % 2:
        function = nbcache.load(name)
        whole.append(time.perf_counter() - started)
    else:
        store = load.opened(hook.settings())
        raw = store.names.read(name, None).manifest
        manifest = manifests.decode(raw)
        started = time.perf_counter()
        function = realize(load.stored(raw, manifest, store))
        in_hand.append(time.perf_counter() - started)
    function(3.0)
    held.append(function)  # what nobody has is unmapped by who loads the next one
after = memory()
print(
    json.dumps(
        {
            "us": statistics.median(whole) * 1e6,
            "us in hand": statistics.median(in_hand) * 1e6,
            "Rss MiB": after[0] - before[0],
            "Pss MiB": after[1] - before[1],
        }
    )
)
