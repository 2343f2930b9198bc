"""Entries that programs crashed in: counted while they are there."""

import os
import time

from storekit import SECTIONS, header, open_store

from nbcache.config import Settings
from nbcache.metrics.looking import Looker
from nbcache.store import layout


def test_entries_are_counted_while_they_are_there_and_passed_over(tmp_path):
    store = open_store(tmp_path)
    for name in ("a", "b"):
        assert store.publish(header(name), SECTIONS).ok
    drop = tmp_path / layout.TRIALS / str(os.geteuid())
    drop.mkdir(parents=True, exist_ok=True)
    looker = Looker(lambda: Settings(dir=str(tmp_path)))
    (entry,) = store.find(header("a").key, lambda _: None)
    for crashes, counted in ((0, 0), (1, 0), (2, 1), (3, 1)):
        if crashes:
            (drop / f"p{crashes}.keys").write_text(f"{entry.digest} {header('a').key} {time.time():.3f} mod:a\n")
            (drop / f"p{crashes}.crash").write_text("Fatal Python error: Illegal instruction\n")
        assert looker.look().quarantined == counted
    os.unlink(entry.path)
    assert looker.look().quarantined == 0
