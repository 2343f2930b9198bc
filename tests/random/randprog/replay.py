"""From a kept difference to the shortest sequence that still shows it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from randprog.runners import Job, start_fresh

if TYPE_CHECKING:
    from pathlib import Path

    from nbtest.proc import Outcome


def _run(version: dict, workdir: Path, store: Path | None) -> Outcome:
    folder = workdir / "tree" / version["place"]
    shutil.rmtree(workdir / "tree", ignore_errors=True)
    for relative, text in version["files"].items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return start_fresh(Job(folder / "main.py", (folder / version["cwd"]).resolve(), version["env"]), store).result()


def replay(kept: Path, workdir: Path) -> str:
    """Look for the latest earlier version after which the last one differs, from an empty store; else use all versions.

    Leaves both versions as files under ``workdir`` and returns what to read.
    """
    versions = json.loads(kept.read_text(encoding="utf-8"))
    last = versions[-1]
    oracle = _run(last, workdir, None)
    candidates = [[last], [last, last], *([earlier, last] for earlier in reversed(versions[:-1])), versions]
    for sequence in candidates:
        shutil.rmtree(workdir / "store", ignore_errors=True)
        for version in sequence:
            outcome = _run(version, workdir, workdir / "store")
        if outcome.said != oracle.said:
            for index, version in enumerate(sequence[-2:]):
                for relative, text in version["files"].items():
                    path = workdir / f"version-{index}" / relative
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
            return (
                f"differs after {len(sequence)} of {len(versions)} versions; the last two are in {workdir}/version-*, last edit: "
                f"{last['edit']}, env {last['env']}\n--- plain\n{oracle.stdout}\n--- nbcache\n{outcome.stdout}\n{outcome.stderr[-2000:]}"
            )
    return "no sequence from an empty store shows it again"
