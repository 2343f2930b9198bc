"""Importing is not interrupted by the garbage collector, which takes what was made for old.

Each in a process of its own: whether anything is collected depends on all objects and all threads of a process.
"""

import pytest
from nbtest import proc

PROGRAM = """
import gc
import threading

from nbcache import process

collected = []  # the generations that are collected meanwhile


def note(phase, info):
    if phase == "start":
        collected.append(info["generation"])


def made_within(count, enabled=False):
    with process.nothing_collected():
        assert gc.isenabled() is enabled
        return [[] for _ in range(count)]


gc.collect()
gc.callbacks.append(note)
"""


def ends_well(lines):
    outcome = proc.run(["-c", PROGRAM + lines])
    assert outcome.status == 0, outcome.stderr


def test_many_objects_count_as_old_and_are_not_looked_at():
    ends_well("""
gc.set_threshold(1000, 1, 1)
begins_frozen = gc.get_freeze_count() > 0  # as Python 3.12 does; then what is young is looked at once
kept = made_within(5000)
assert collected[:1] == [0] * begins_frozen, collected
assert gc.isenabled()
assert gc.get_count()[0] < 1000
oldest = {*map(id, gc.get_objects(generation=2))}
assert begins_frozen or oldest.issuperset(map(id, kept))
""")


def test_what_is_frozen_stays_frozen():
    ends_well("""
gc.set_threshold(1000, 1, 1)
gc.freeze()
frozen = gc.get_freeze_count()
assert made_within(5000)
assert gc.get_freeze_count() == frozen
assert collected[:1] == [0], collected
""")


def test_few_objects_are_not_looked_at():
    ends_well("""
gc.set_threshold(100_000, 1, 1)
assert made_within(1000)
assert collected == []
""")


@pytest.mark.parametrize("off", ["gc.disable()", "gc.set_threshold(0)"])
def test_who_collects_nothing_has_nothing_collected(off):
    ends_well(f"""
gc.set_threshold(100, 1, 1)
{off}
enabled, already = gc.isenabled(), len(collected)
assert made_within(5000)
assert len(collected) == already
assert gc.isenabled() is enabled
""")


WHERE_YOUNG_ONLY = """
gc.set_threshold(100, 5, 5)
usual = gc.get_threshold()
with process.only_young_collected():
    kept = [[] for _ in range(5000)]
    meanwhile = set(collected)
    {}
"""


def test_only_young_objects_are_collected_and_the_rest_counts_as_old():
    ends_well(f"begins_frozen = gc.get_freeze_count() > 0  # as Python 3.12 does\n{WHERE_YOUNG_ONLY.format('')}" + """
assert meanwhile == {0}, meanwhile
assert gc.get_threshold() == usual
oldest = {*map(id, gc.get_objects(generation=2))}
assert begins_frozen or oldest.issuperset(map(id, kept[:4000]))
""")  # fmt: skip


def test_thresholds_that_were_set_meanwhile_stay():
    ends_well(WHERE_YOUNG_ONLY.format("gc.set_threshold(50, 7)") + "assert gc.get_threshold()[:2] == (50, 7)")


def test_what_is_frozen_stays_frozen_where_only_young_objects_are_collected():
    ends_well(f"gc.freeze()\nfrozen = gc.get_freeze_count()\n{WHERE_YOUNG_ONLY.format('')}"
              "assert gc.get_freeze_count() == frozen and gc.get_threshold() == usual")  # fmt: skip


WHERE_SELDOM = """
usual = gc.get_threshold()
with process.collected_seldom():
    with process.collected_seldom():
        within = gc.get_threshold()
        {}
    behind = gc.get_threshold()
"""


def test_while_functions_are_compiled_what_is_young_is_looked_at_seldom():
    lines = """
assert within[0] > 4 * usual[0] and within[1:] == usual[1:], within
assert behind == within
assert gc.get_threshold() == usual
"""
    ends_well(WHERE_SELDOM.format("") + lines)


@pytest.mark.parametrize("own", [(0, 10, 10), (50, 5, 5), (100_000, 10, 10)])
def test_thresholds_that_a_program_chose_count_while_functions_are_compiled(own):
    ends_well(f"gc.set_threshold(*{own})\n{WHERE_SELDOM.format('')}assert usual == within == gc.get_threshold()")


def test_thresholds_that_what_is_compiled_sets_stay():
    ends_well(WHERE_SELDOM.format("gc.set_threshold(50, 7)") + "assert gc.get_threshold()[:2] == (50, 7)")


def test_beside_another_thread_functions_are_compiled_with_the_usual_collections():
    ends_well(f"""
over = threading.Event()
beside = threading.Thread(target=over.wait)
beside.start()
{WHERE_SELDOM.format("")}
assert usual == within == gc.get_threshold()
over.set()
beside.join()
""")


def test_beside_another_thread_the_collector_is_left_alone():
    ends_well("""
gc.set_threshold(1000, 1, 1)
over = threading.Event()
beside = threading.Thread(target=over.wait)
beside.start()
assert made_within(5000, enabled=True)
assert collected, "nothing was collected"
assert gc.isenabled()
over.set()
beside.join()
""")


def test_what_is_out_of_the_way_is_above_what_programs_open_and_within_what_the_kernel_has_room_for():
    code = (
        "import os\nfrom nbcache import process\nfd = process.out_of_the_way(1)\n"
        "print(40 <= fd < 64, os.path.sameopenfile(fd, 1), os.get_inheritable(fd))"
    )
    assert proc.run(["-c", code]).stdout == "True True False\n"


def test_below_a_low_limit_of_descriptors_any_will_do():
    code = (
        "import os, resource\nfrom nbcache import process\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
        "print(3 <= process.out_of_the_way(1) < 20)"
    )
    assert proc.run(["-c", code]).stdout == "True\n"
