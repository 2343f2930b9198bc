"""Simulate fleets of up to a thousand hosts that start at once behind one remote cache.

    python tests/simulation/run.py [--hosts 10 --hosts 100] [--server Redis --server S3] [--keys 40] [--seed 1]
    python tests/simulation/run.py --figures now        # what docs/remote.md shows: measures, and draws the picture
    python tests/simulation/run.py --draw               # only draws it, from the figures that were measured last

It lives among the tests and not in ``scripts/``, because what it runs is nbcache's own code under stand-ins, which has
to be tried whenever that code changes. Time is simulated, so a busy machine changes no figure; a thousand hosts take
about a minute. ``--figures before`` keeps its figures as those that the others are compared with: run it with another
version of nbcache in ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nbsim import chart, hosts, servers

SIZES = (10, 30, 100, 300, 1000)
SPREAD = 2.0
"""Within which time all hosts start [s]."""
COLUMNS = {
    "compiled": lambda m: f"{m.compilations / m.keys:.1f}",
    "in vain": lambda m: f"{m.in_vain / m.keys:.1f}",
    "uploaded": lambda m: f"{m.puts / m.keys:.1f}",
    "asked": lambda m: f"{m.gets / m.keys / m.hosts:.2f}",
    "MB": lambda m: f"{m.megabytes:.0f}",
    "peak/s": lambda m: str(m.peak),
    "refused": lambda m: str(m.refused),
    "half [s]": lambda m: f"{m.median:.1f}",
    "last [s]": lambda m: f"{m.last:.1f}",
    "plain [s]": lambda m: f"{m.plain:.1f}",
    "waited [s]": lambda m: f"{m.waited:.2f}",
}
"""Of each key: how often it was compiled, how often while the server had it, how often uploaded, and asked for by each
host; then of all: what was moved, the most requests in a second, errors, when half of the hosts and when all had called
everything, when they would have had without a cache, and how long one waited in vain at most."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, action="append", help="may be repeated")
    parser.add_argument("--server", action="append", choices=list(servers.KINDS), help="may be repeated")
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", choices=chart.LABELS)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.figures:
        options.server = list(chart.SERVERS)
    measured = []
    if not options.draw:
        print(f"{'server':22} {'holds':8} {'hosts':>6} " + " ".join(f"{name:>10}" for name in COLUMNS))
        for server in options.server or servers.KINDS:
            for full in (False, True):
                for size in options.hosts or SIZES:
                    found = hosts.simulate(
                        servers.KINDS[server],
                        hosts=size,
                        keys=options.keys,
                        spread=SPREAD,
                        full=full,
                        seed=options.seed,
                    )
                    cells = " ".join(f"{shown(found):>10}" for shown in COLUMNS.values())
                    print(f"{server:22} {'all' if full else 'nothing':8} {size:6} {cells}", flush=True)
                    measured.append({"server": server, "full": full, **found._asdict()})
    if options.figures:
        chart.keep(options.figures, measured)
    if options.figures or options.draw:
        chart.draw()


if __name__ == "__main__":
    main()
