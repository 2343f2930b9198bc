"""Running programs under ``NBCACHE_CHECK``: ``NBTEST_CHECK=all scripts/test tests/reach tests/traps``.

Then every hit is compiled all the same and compared, in each child that has a store. Tests that ask whether a warm
process compiles nothing ask instead whether something was different. With ``NBTEST_CHECK_TALLY=FILE``, what came of the
checks is added to a file, one JSON object a store: ``python -m nbtest.hitcheck FILE`` adds them up.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

from nbcache.store import reasons, usage

WANTED = os.environ.get("NBTEST_CHECK", "")
"""What children get as NBCACHE_CHECK; "" for the usual tests."""
_TALLY = os.environ.get("NBTEST_CHECK_TALLY")


def settings() -> dict[str, str]:
    """Return what a child's environment has besides, if it has a store."""
    return {"NBCACHE_CHECK": WANTED} if WANTED else {}


def problems(store: Path | str, label: str = "") -> list[str]:
    """Return what is wrong with what was checked in a store; empty if nothing is, or nothing was to be checked."""
    if not WANTED:
        return []
    checks = dict(usage.merge(usage.read(str(store)))["checks"])
    if _TALLY:
        with open(_TALLY, "a", encoding="utf-8") as file:
            file.write(json.dumps({"label": label, "checks": checks}) + "\n")
    different = checks.get(reasons.DIFFERENT, 0)
    return [f"{different} of {sum(checks.values())} hits are compiled to something else"] if different else []


def main() -> None:
    """Print the sums of a file."""
    total: Counter[str] = Counter()
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        total.update(said["checks"])
        if set(said["checks"]) - {reasons.SAME}:
            print(said)
    print(dict(total))


if __name__ == "__main__":
    main()
