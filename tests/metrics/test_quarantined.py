"""Entries that programs crashed in: counted while they are there."""

import os

from nbtest.spoiling import condemn
from storekit import SECTIONS, header, open_store

from nbcache.config import Settings
from nbcache.metrics.store_scan import Looker


def test_entries_are_counted_while_they_are_there_and_passed_over(tmp_path):
    store = open_store(tmp_path)
    for name in ("a", "b"):
        assert store.publish(header(name), SECTIONS).ok
    looker = Looker(lambda: Settings(dir=str(tmp_path)))
    (entry,) = store.find(header("a").key, lambda _: None)
    for crashes, counted in ((0, 0), (1, 0), (2, 1)):
        condemn(tmp_path, entry.digest, header("a").key, crashes)
        assert looker.look().quarantined == counted
    os.unlink(entry.path)
    assert looker.look().quarantined == 0
