"""Simulate cold starts of programs that were recorded, on any number of processors.

    python tests/simulation/cold_starts.py            # prints what part of plain Numba's time each takes
    python tests/simulation/cold_starts.py --draw     # draws the picture of docs/cold-starts.md as well
    python tests/simulation/cold_starts.py --record NAME STORE   # takes the only profile of a store in

Time is simulated, so a busy machine changes no figure (`nbsim/lanes.py` says what is real).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nbsim import lanes, lanes_chart

from nbcache.file_trust import Trust
from nbcache.protocol import profiles


def record(name: str, store: str) -> None:
    """Take in the only profile of a store."""
    [head] = profiles.heads(store, Trust())
    profile = profiles.read(store, head.name, Trust())
    assert profile is not None
    known = lanes.recorded() if lanes.DATA.exists() else {}
    known[name] = [(round(unit.seconds, 3), list(unit.inside)) for unit in profile.units]
    rows = ",\n".join(f' "{each}": {json.dumps(known[each])}' for each in sorted(known))
    lanes.DATA.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--record", nargs=2, metavar=("NAME", "STORE"))
    options = parser.parse_args()
    if options.record:
        record(*options.record)
    found = lanes.shares()
    print(f"{'program':24} {'functions':>9} {'plain [s]':>9} " + " ".join(f"{count:>6}" for count in lanes.PROCESSORS))
    for name, row in found.items():
        profile = lanes.profile_of(lanes.recorded()[name])
        cells = " ".join(f"{share:6.2f}" for share in row.values())
        print(f"{name:24} {len(profile.units):9} {lanes.plain(profile):9.1f} {cells}")
    if options.draw:
        lanes_chart.CHART.write_text(lanes_chart.picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
