"""The sides of a comparison: nbcache, Numba's own cache, plain Numba; each a way to run a child process."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nbtest import proc, programs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbbench.environments import Environments

CHILDREN = Path(__file__).resolve().parents[1] / "children"
NBCACHE, OWN, PLAIN = "nbcache", "Numba's cache", "plain Numba"
SIDES = (NBCACHE, OWN, PLAIN)


class Bench:
    """A folder with the children, their generated modules and the caches of each side."""

    def __init__(self, folder: Path, entries: int, environments: Environments | None = None) -> None:
        self.folder = folder
        self.entries = entries
        """How many a large store has."""
        self.environments = environments
        """Where extensions are measured; None: to be made."""
        self.store, self.own = folder / "store", folder / "own"
        shutil.copytree(CHILDREN, folder, dirs_exist_ok=True)
        shutil.copytree(Path(proc.__file__).parent, folder / "nbtest")
        self.site = proc.installed(folder / "site")

    def generate(self, functions: int) -> None:
        """Write module ``many`` with so many functions, and one more in ``first_one``."""
        decorator = "@njit(cache=os.environ.get('BENCH_CACHE') == '1')"
        (self.folder / "many.py").write_text("import os\n" + programs.functions(functions, decorator), encoding="utf-8")
        (self.folder / "first_one.py").write_text(
            f"import os\nfrom numba import njit\n{decorator}\ndef first(x):\n    return x - 41\n", encoding="utf-8"
        )

    def empty(self) -> None:
        """Forget what every side has cached.

        It isn't deleted: for a minute, ext4 looks for other room than that of files that were, which takes as long as
        making the new ones.
        """
        for cached in (self.store, self.own):
            if cached.exists():
                cached.rename(Path(tempfile.mkdtemp(dir=self.folder)) / cached.name)

    def run_at_once(self, child: str, count: int) -> None:
        """Run so many children side by side, with nbcache, to their ends."""
        extra = {"PYTHONPATH": proc.search_path(self.site)}
        started = [proc.start([self.folder / f"{child}.py"], self.store, extra, self.folder) for _ in range(count)]
        for outcome in [proc.finish(each) for each in started]:
            if outcome.status != 0 or outcome.stderr:
                raise RuntimeError(f"{child}: status {outcome.status}\n{outcome.stderr[-2000:]}")

    def run(
        self,
        side: str,
        child: str,
        *arguments: str,
        extra: Mapping[str, str] = MappingProxyType({}),
        python: str = sys.executable,
    ) -> dict[str, float]:
        """Run a child in a fresh process; return what it measured, and its whole time as ``process ms``."""
        path = {"PYTHONPATH": proc.search_path(self.site)}
        own = {"NUMBA_CACHE_DIR": str(self.own), "BENCH_CACHE": "1"} if side == OWN else {}
        outcome = proc.run(
            [self.folder / f"{child}.py", *arguments],
            self.store if side == NBCACHE else None,
            {**path, **own, **extra},
            cwd=self.folder,
            python=python,
        )
        if outcome.status != 0 or outcome.stderr:
            raise RuntimeError(f"{child} on the side of {side}: status {outcome.status}\n{outcome.stderr[-2000:]}")
        measured = json.loads(outcome.stdout.splitlines()[-1])
        return {**measured, "process ms": outcome.seconds * 1e3}
