"""The catalogue: what it knows of a store, what it lets go, what it remembers."""

import os
import shutil
import time
from itertools import count
from types import SimpleNamespace

import pytest
from storekit import SECTIONS, header, key, open_store

from nbcache.daemon import catalogue as catalogues
from nbcache.daemon import history
from nbcache.daemon.catalogue import Catalogue
from nbcache.daemon.history import BUILT
from nbcache.store import layout

SOON = 600.0


def later():
    return time.monotonic() + SOON


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "store")


@pytest.fixture
def catalogue(tmp_path, store):
    opened = Catalogue(str(tmp_path / "state"), store)
    assert opened.problem is None
    yield opened
    opened.close()


def glance(catalogue, monkeypatch):
    """Recount for a moment that suffices for what was reported, and then for one step.

    By a clock by which a look at it takes a second: on a busy machine, any moment is over before it began.
    """
    clock = count()
    with monkeypatch.context() as patched:
        patched.setattr(catalogues, "time", SimpleNamespace(monotonic=lambda: next(clock), time=time.time))
        assert not catalogue.recount(1)


def publish(store, name, *, when=None, guard="", **fields):
    path = store.publish(header(name, guard=guard, **fields), SECTIONS, durable=False).path
    if when is not None:
        os.utime(path, (when, when))
    return path


def listed(store):
    """What a listing says: the truth the catalogue is compared with."""
    return sorted((info.key, info.slot, info.size, info.mtime) for info in store.scan())


def known(catalogue):
    return sorted((key, file.slot, file.size, file.mtime) for key, entry in catalogue.entries() for file in entry.files)


def entry(catalogue, name):
    return dict(catalogue.entries()).get(key(name))


def test_empty(catalogue):
    assert catalogue.totals() == catalogues.Totals(0, 0, 0.0, 0.0)
    assert catalogue.recount(later())
    assert catalogue.totals().counted > 0
    assert list(catalogue.entries()) == []


def test_counting_finds_what_is_there(catalogue, store):
    for number in range(50):
        publish(store, number, compile_seconds=0.5)
    publish(store, 0, guard="other")
    assert catalogue.recount(later())
    assert known(catalogue) == listed(store)
    found = entry(catalogue, 7).files[0]
    assert (found.compile_seconds, found.created) == (0.5, 1700000000.0)
    totals = catalogue.totals()
    assert (totals.entries, totals.size) == (51, sum(size for _, _, size, _ in listed(store)))
    assert totals.compile_seconds == pytest.approx(25.25)


def test_counting_again_reconciles(catalogue, store):
    for number in range(40):
        publish(store, number)
    catalogue.recount(later())
    for number in range(0, 40, 2):
        store.remove(layout.slot_path(store.path, key(number)))
    publish(store, 1, guard="more")
    publish(store, "new")
    os.utime(layout.slot_path(store.path, key(3)), (5, 5))
    assert catalogue.recount(later())
    assert known(catalogue) == listed(store)
    store.clear()
    assert catalogue.recount(later())
    assert catalogue.totals().entries == 0
    for shard in os.listdir(f"{store.path}/{layout.OBJECTS}"):
        os.rmdir(f"{store.path}/{layout.OBJECTS}/{shard}")
    publish(store, "last")
    assert catalogue.recount(later())
    assert known(catalogue) == listed(store)


def test_slices_go_on_where_they_stopped(catalogue, store):
    for number in range(60):
        publish(store, number)
    slices = 1
    # Each one is over before it began: a step at a time.
    while not catalogue.recount(0.0):
        slices += 1
        assert slices < 1000
    assert slices > 60
    assert known(catalogue) == listed(store)


def test_a_restart_goes_on_as_well(tmp_path, store):
    for number in range(60):
        publish(store, number)
    slices = 0
    done = False
    while not done:
        # Opened anew for every few slices; so a round of its own never ends, and yet all is counted in time.
        opened = Catalogue(str(tmp_path / "state"), store)
        for _ in range(5):
            done = opened.recount(0.0) or known(opened) == listed(store)
            slices += 1
        opened.close()
        assert slices < 2000


@pytest.mark.long
def test_twenty_thousand_entries_in_slices(catalogue, store, monkeypatch):
    """Names of one small file: what is tested is the walk, and 20,000 files take a minute to delete."""
    names = [key(number) for number in range(20_000)]
    with open(f"{store.path}/one", "wb") as file:
        file.write(b"x")
    for name in names:
        path = layout.slot_path(store.path, name)
        if not os.path.isdir(os.path.dirname(path)):
            os.mkdir(os.path.dirname(path))
        os.link(f"{store.path}/one", path)
    # A clock by which a look at it takes a second: what is bounded is the work between two looks.
    clock = count()
    with monkeypatch.context() as patched:
        patched.setattr(catalogues, "time", SimpleNamespace(monotonic=lambda: next(clock), time=time.time))
        slices = 1
        while not catalogue.recount(next(clock) + 100):
            slices += 1
    assert slices >= 20_000 / 100
    assert catalogue.totals().entries == 20_000
    assert sorted(name for name, _ in catalogue.entries()) == sorted(names)
    for name in names[:500]:
        os.unlink(layout.slot_path(store.path, name))
    assert catalogue.recount(later())
    assert catalogue.totals().entries == 19_500


def test_a_job_is_looked_at_before_the_round_gets_there(catalogue, store, monkeypatch):
    for number in range(30):
        publish(store, number)
    catalogue.recount(later())
    publish(store, "new")
    catalogue.job_done(key("new"), "mod:new", 1.5, BUILT)
    glance(catalogue, monkeypatch)
    assert entry(catalogue, "new").files[0].size > 0


def test_what_changes_behind_the_walk_is_not_undone_by_it(catalogue, store):
    """A shard is listed, then an entry is published into it and reported, then the walk of that shard ends."""
    first = key("first")
    publish(store, "first")
    sibling = next(n for n in range(100_000) if key(n)[:2] == first[:2])
    catalogue.recount(0.0)  # a step: the shard was listed
    publish(store, sibling)
    catalogue.job_done(key(sibling), "mod:sibling", 0.1, BUILT)
    assert catalogue.recount(later())
    assert known(catalogue) == listed(store)
    assert entry(catalogue, sibling) is not None


def test_a_store_that_cannot_be_listed_is_not_forgotten(catalogue, store):
    publish(store, 1)
    catalogue.recount(later())
    objects = f"{store.path}/{layout.OBJECTS}"
    os.rename(objects, objects + ".away")
    with open(objects, "w"):
        pass
    assert catalogue.recount(later())
    assert catalogue.totals().entries == 1
    os.unlink(objects)
    assert catalogue.recount(later())
    assert catalogue.totals().entries == 0


def test_damaged_entries_and_odd_names_are_listed_without_a_header(catalogue, store):
    path = publish(store, 1)
    os.truncate(path, 10)
    shard = os.path.dirname(path)
    os.mkfifo(f"{shard}/{'0' * 62}.nbo")
    os.symlink("/etc/passwd", f"{shard}/{'1' * 62}.nbo")
    with open(f"{shard}/unrelated", "w"):
        pass
    assert catalogue.recount(later())
    assert catalogue.totals().entries == 3
    assert entry(catalogue, 1).files[0].compile_seconds == 0


# Usage.


def use(store, hits, when=None):
    path = store.write_usage({"hits": hits})
    if when is not None:
        os.utime(path, (when, when))
    return path


def test_uses_are_counted_once(catalogue, store):
    publish(store, 1)
    publish(store, 2)
    catalogue.recount(later())
    now = time.time()
    use(store, {key(1): 3, key("unknown"): 1})
    use(store, {key(1): 2, key(2): 1}, when=now - 50)
    assert catalogue.fold_usage(later())
    assert catalogue.fold_usage(later())
    assert now - 30 < entry(catalogue, 1).last_use < time.time() + 30
    assert entry(catalogue, 2).last_use == pytest.approx(now - 50, abs=1)
    assert entry(catalogue, "unknown") is None
    use(store, {key(2): 1})
    catalogue.fold_usage(later())
    assert entry(catalogue, 2).last_use > now - 30


def test_uses_survive_counting_and_restarting(catalogue, store, tmp_path):
    publish(store, 1)
    catalogue.recount(later())
    use(store, {key(1): 3})
    catalogue.fold_usage(later())
    os.utime(layout.slot_path(store.path, key(1)), (9, 9))
    catalogue.recount(later())
    assert entry(catalogue, 1).files[0].mtime == 9.0
    assert entry(catalogue, 1).last_use > time.time() - 30
    catalogue.close()
    opened = Catalogue(str(tmp_path / "state"), store)
    opened.fold_usage(later())
    assert entry(opened, 1).last_use > time.time() - 30
    opened.close()


def test_nothing_is_learnt_before_the_first_count(catalogue, store):
    publish(store, 1)
    use(store, {key(1): 3})
    assert catalogue.fold_usage(later())
    catalogue.recount(later())
    catalogue.fold_usage(later())
    assert entry(catalogue, 1).last_use > time.time() - 30


def test_usage_in_slices(catalogue, store):
    for number in range(20):
        publish(store, number)
        use(store, {key(number): 1})
    catalogue.recount(later())
    slices = 1
    while not catalogue.fold_usage(0.0):
        slices += 1
    assert slices > 40
    assert all(found.last_use > time.time() - 60 for _, found in catalogue.entries())


def test_old_records_are_summed_up_and_the_sum_is_learnt(catalogue, store, tmp_path):
    publish(store, 1)
    catalogue.recount(later())
    when = time.time() - 7200
    use(store, {key(1): 3}, when=when)
    catalogue.fold_usage(later())
    assert os.listdir(f"{store.path}/{layout.USAGE}") == []
    assert entry(catalogue, 1).last_use == pytest.approx(when, abs=60)
    # A new daemon learns of it from the sum.
    opened = Catalogue(str(tmp_path / "other"), store)
    opened.recount(later())
    opened.fold_usage(later())
    assert entry(opened, 1).last_use == pytest.approx(when, abs=60)
    opened.close()


# Eviction.


def fill(store, count=10):
    size = 0
    for number in range(count):
        size = os.stat(publish(store, number, when=1000 + number)).st_size
    return size


def left(store, count=10):
    return [number for number in range(count) if store.exists(key(number))]


def test_the_least_recently_used_go(catalogue, store):
    size = fill(store)
    use(store, {key(0): 1})
    catalogue.recount(later())
    catalogue.fold_usage(later())
    done = catalogue.evict(5 * size + size // 2, SOON)
    assert (done.removed, done.freed, done.spared, done.left) == (6, 6 * size, 0, 0)
    assert left(store) == [0, 7, 8, 9]
    assert known(catalogue) == listed(store)
    assert catalogue.totals().size == 4 * size
    assert catalogue.evict(5 * size, SOON) == catalogues.Evicted(0, 0, 0, 0)


def test_no_limit_and_read_only(catalogue, store, tmp_path):
    fill(store)
    catalogue.recount(later())
    assert catalogue.evict(0, SOON).removed == 0
    reader = Catalogue(str(tmp_path / "reader"), open_store(store.path, readonly=True))
    reader.recount(later())
    reader.fold_usage(later())
    assert reader.totals().entries == 10
    assert reader.evict(1, SOON).removed == 0
    reader.close()
    assert left(store) == list(range(10))


def test_a_budget_bounds_it(catalogue, store):
    fill(store)
    catalogue.recount(later())
    assert catalogue.evict(1, -1.0).left == 10
    assert left(store) == list(range(10))
    assert catalogue.evict(1, SOON).removed == 10


def test_what_changed_since_is_looked_at_again(catalogue, store, monkeypatch):
    size = fill(store)
    catalogue.recount(later())
    os.utime(layout.slot_path(store.path, key(0)), (5000, 5000))
    done = catalogue.evict(9 * size, SOON)
    assert (done.removed, done.spared) == (1, 1)
    assert left(store) == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    glance(catalogue, monkeypatch)
    assert entry(catalogue, 0).files[0].mtime == 5000.0


def test_what_is_gone_already_counts_as_freed(catalogue, store):
    size = fill(store)
    catalogue.recount(later())
    for number in range(4):
        store.remove(layout.slot_path(store.path, key(number)))
    done = catalogue.evict(7 * size, SOON)
    assert (done.removed, done.freed) == (0, 4 * size)
    assert left(store) == [4, 5, 6, 7, 8, 9]
    assert known(catalogue) == listed(store)


def test_slots_move_up_in_the_catalogue_too(catalogue, store):
    for number in range(6):
        publish(store, "a", guard=f"g{number}", when=[5, 1, 9, 2, 8, 7][number])
    catalogue.recount(later())
    size = catalogue.totals().size // 6
    done = catalogue.evict(4 * size, SOON)
    assert done.removed == 3
    assert known(catalogue) == listed(store)
    assert sorted(file.mtime for file in entry(catalogue, "a").files) == [7.0, 8.0, 9.0]


def test_evicting_in_the_middle_of_a_round(catalogue, store):
    size = fill(store, 40)
    catalogue.recount(later())
    for _ in range(15):
        catalogue.recount(0.0)
    assert catalogue.evict(10 * size, SOON).removed == 31
    assert catalogue.recount(later())
    assert known(catalogue) == listed(store)


# History.


def test_jobs(catalogue):
    began = time.time()
    assert catalogue.recent_jobs() == []
    for number in range(30):
        catalogue.job_done(key(number), f"mod:f{number}", number / 10, BUILT if number % 2 else "refused")
    jobs = catalogue.recent_jobs(3)
    assert [job.what for job in jobs] == ["mod:f29", "mod:f28", "mod:f27"]
    assert (jobs[0].key, jobs[0].seconds, jobs[0].outcome) == (key(29), 2.9, BUILT)
    assert began - 1 <= jobs[0].when <= time.time() + 1
    assert len(catalogue.recent_jobs()) == 20
    assert len(catalogue.recent_jobs(10**9)) == 30
    assert catalogue.recent_jobs(0) == catalogue.recent_jobs(-5) == []


def test_jobs_are_bounded_and_survive(catalogue, store, tmp_path, monkeypatch):
    monkeypatch.setattr(history, "MAX_JOBS", 10)
    for number in range(25):
        catalogue.job_done("", f"f{number}", 0.1, "x" * 10**6)
    catalogue.close()
    opened = Catalogue(str(tmp_path / "state"), store)
    assert [job.what for job in opened.recent_jobs(100)] == [f"f{number}" for number in range(24, 14, -1)]
    assert len(opened.recent_jobs(1)[0].outcome) == history.MAX_TEXT
    opened.close()


def test_failures(catalogue, monkeypatch):
    catalogue.failure(key(1), "mod:f", "it crashed")
    catalogue.failure(key(1), "mod:f", "it hung")
    catalogue.failure(key(2), "mod:g", "it crashed")
    assert [(one.key, one.reason, one.count) for one in catalogue.failures()] == [
        (key(2), "it crashed", 1),
        (key(1), "it hung", 2),
    ]
    catalogue.job_done(key(1), "mod:f", 1.0, "refused")
    assert len(catalogue.failures()) == 2
    catalogue.job_done(key(1), "mod:f", 1.0, BUILT)
    assert [one.key for one in catalogue.failures()] == [key(2)]
    monkeypatch.setattr(history, "MAX_FAILURES", 5)
    for number in range(10):
        catalogue.failure(key(number), "", "")
    assert [one.key for one in catalogue.failures()] == [key(number) for number in range(9, 4, -1)]


# Faults.


def test_without_a_disk_all_of_it_works_in_memory(tmp_path, store):
    (tmp_path / "state").write_text("")
    catalogue = Catalogue(str(tmp_path / "state"), store)
    assert catalogue.problem
    size = fill(store)
    use(store, {key(0): 1})
    catalogue.recount(later())
    catalogue.fold_usage(later())
    catalogue.job_done(key(0), "f", 0.1, BUILT)
    catalogue.failure(key(1), "g", "no")
    assert catalogue.evict(5 * size, SOON).removed == 6
    assert known(catalogue) == listed(store)
    assert (len(catalogue.recent_jobs()), len(catalogue.failures())) == (1, 1)
    catalogue.close()


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], {"a": 1}, {"0" * 64: [1, 2]}, [[]], {"ab": [1, 2, 3, 4]}])
def test_values_of_another_shape_are_nothing(catalogue, store, value):
    fill(store)
    catalogue.recount(later())
    shards = [name for name, _ in catalogue.entries()]
    names = ["sums", "cursor", "counted", "usage", "jobs", "job/0", "failures", f"shard/{shards[0][:2]}"]
    catalogue._state.put(dict.fromkeys(names, value))
    catalogue.fold_usage(later())
    catalogue.recent_jobs(), catalogue.failures(), catalogue.totals(), list(catalogue.entries())
    catalogue.evict(1, 0.0)
    catalogue.failure("k", "", "")
    catalogue.job_done("k", "", 0.0, BUILT)
    assert catalogue.recount(later())
    assert known(catalogue) == listed(store)


def test_a_store_deleted_while_it_is_counted(catalogue, store):
    fill(store, 30)
    catalogue.recount(0.0)
    shutil.rmtree(store.path)
    catalogue.recount(later())
    assert catalogue.recount(later())
    assert catalogue.totals().entries == 0
    catalogue.fold_usage(later())
    assert catalogue.evict(1, SOON).removed == 0
