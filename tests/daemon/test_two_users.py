"""Two users at one daemon, who do whatever they can to each other: a random course of events, with real uids.

Each asked for some functions first. Whatever happens, those keys are theirs, and both get what they ask for.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from contextlib import suppress

import pytest
from nbtest import daemons, proc
from nbtest.spoiling import condemn
from nbtest.town import BOB, MALLORY, TRUSTED, Town, as_user, indented
from storekit import open_store

from nbcache.protocol import spool
from nbcache.store import entry, layout, quarantine

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes other users"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
USERS = {BOB: "bob", MALLORY: "mallory"}
EACH = 3
"""How many functions each of them asked for first."""
FUNCTIONS = "from numba import njit\n" + "".join(
    f"@njit\ndef f{number}(x):\n    return x * {number} + 1\n" for number in range(2 * EACH)
)
PROGRAM = f"import many\nfor number in range({2 * EACH}):\n    getattr(many, f'f{{number}}')(1)\n"
FORGING_ALL = """
import glob
from nbcache.daemon import job_side
from nbcache.store import entry
for path in glob.glob({copies!r} + "/*"):
    with open(path, "rb") as file:
        found = entry.parse(file.read())
    sections = {{name: found.section(name) for name in found.section_sizes}}
    for guard in (found.header.guard, "another"):
        forged = found.header._replace(build="forged", guard=guard)
        job_side.HandingStore({store!r}, job_side.rule(), writable=True).publish(forged, sections)
"""
FILLING = """
import os
from nbcache.daemon import job_side
from nbcache.store.entry import Header
for number in range(3):
    header = Header(os.urandom(32).hex(), "dispatcher", "big:g", "", "", 0.0, 0.0, "b" * 16, "", {{}})
    job_side.HandingStore({store!r}, job_side.rule(), writable=True).publish(header, {{"object": os.urandom(1 << 20)}})
"""
LIMIT = "6MB"


class Course:
    """What happens, and what has to hold all the time."""

    def __init__(self, town, seed, acting=frozenset(USERS)):
        """Of the users, only those that are *acting* do anything: the others' steps are left out."""
        self.town, self.random, self.steps = town, random.Random(seed), 0
        self.acting = acting
        self.store = open_store(town.store, trusted_uids=TRUSTED)
        self.counts, self.took, self.running = {}, {}, None
        copies = town.place / "copies"
        copies.mkdir()
        for uid, name in USERS.items():
            for folder, does in ((name, ""), (f"{name}-forges", FORGING_ALL), (f"{name}-fills", FILLING)):
                place = town.place / folder
                place.mkdir(exist_ok=True)
                text = does.format(copies=str(copies), store=str(town.store))
                # Only in a worker: programs of their users import it as well.
                guarded = "import sys\n" + (
                    f"if not sys.argv[0].endswith('main.py'):\n{indented(text)}" if does else ""
                )
                (place / "many.py").write_text(guarded + FUNCTIONS)
                for path in (place, place / "many.py"):
                    os.chown(path, uid, uid)
        main = town.place / "bob" / "main.py"
        main.write_text(PROGRAM)
        asked = [each for each in town.recorded(main) if each.function.startswith("many:f")]
        self.requests = sorted(asked, key=lambda each: each.function)
        self.first = {each.key: (BOB if number < EACH else MALLORY) for number, each in enumerate(self.requests)}
        self.copies = copies

    def start(self):
        self.running = self.town.start("--workers", "2", NBCACHE_MAX_SIZE=LIMIT)

    def begin(self):
        """Each asks for some functions first."""
        self.start()
        paths = [self.submit(self.first[each.key], each) for each in self.requests]
        self.answered(paths)
        for key in self.first:
            data = self.path(key).read_bytes()
            (self.copies / key).write_bytes(data)
        self.hold()

    def path(self, key):
        return self.town.store / os.path.relpath(layout.slot_path("/", key), "/")

    def submit(self, uid, request, how=""):
        """Have a user ask from an honest directory, or another one."""
        folder = f"{self.town.place}/{USERS[uid]}{how}"
        if how:
            # What it imports has another source: it is what the job runs before that is found out.
            request = request._replace(path=(folder, *request.path))
        return as_user(uid, lambda: spool.submit(str(self.town.store), request._replace(path=(folder,))))

    def answered(self, paths):
        daemons.wait_for(lambda: not any(map(os.path.exists, paths)), lambda: self.running.log[-3000:])

    def hold(self):
        """What each asked for first is theirs alone, and nobody finds what the other one forged."""
        for key, first in self.first.items():
            for suffix in layout.SUFFIXES:
                with suppress(FileNotFoundError):
                    path = self.path(key)
                    parsed = entry.parse(path.with_name(path.name.removesuffix(layout.SUFFIX) + suffix).read_bytes())
                    assert parsed.header.extra["asked"] == first, (self.steps, key)
            for uid in USERS:
                askers = {each.header.extra["asked"] for each in self.store.find(key, uid=uid)}
                assert askers <= {uid, first}, (self.steps, key, askers)

    # -- what they do ------------------------------------------------------------------------------

    def step(self):
        """Do something."""
        self.steps += 1
        uid, request = self.random.choice([*USERS]), self.random.choice(self.requests)
        kinds = {"ask": 10, "mark": 4, "forge": 4, "fill": 2, "get": 6, "gc": 1, "kill job": 1, "kill": 0.3}
        (kind,) = self.random.choices([*kinds], [*kinds.values()])
        if uid not in self.acting and kind not in {"gc", "kill job", "kill"}:
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "ask":
            self.submit(uid, request)
        elif kind in {"forge", "fill"}:
            self.submit(uid, request, f"-{kind}s")
        elif kind == "mark":
            self.mark(uid, request.key)
        elif kind == "get":
            self.get(uid, request)
        elif kind == "gc":
            self.store.gc(self.random.choice([1, 2 << 20]))
        elif kind == "kill job":
            self.kill_a_job()
        else:
            self.running.kill()
            self.start()
        self.hold()

    def mark(self, uid, key):
        """Say that something crashed, or that it is good."""
        found = [*self.store.find(key, uid=uid)]
        if found:
            one = self.random.choice(found)
            digest, of, deaths = one.digest, one.header.key, self.random.choice([1, 2])
            if self.random.random() < 0.2:
                as_user(uid, lambda: quarantine.vouch(str(self.town.store), [(digest, of)]))
            else:
                as_user(uid, lambda: condemn(str(self.town.store), digest, of, deaths))

    def kill_a_job(self):
        """End something that runs for the daemon, and isn't an interpreter: it has no child."""
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
                parents[int(pid)] = int(file.read().rpartition(b")")[2].split()[1])
        below = {self.running.process.pid}
        for _ in range(5):
            below |= {pid for pid, parent in parents.items() if parent in below}
        for pid in sorted(below - {parents.get(each) for each in below})[-1:]:
            if pid != self.running.process.pid:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def get(self, uid, request):
        """A user gets what he asks for, as soon as nothing is between asking and looking: that is, mostly at once."""
        began = time.monotonic()
        for _ in range(20):
            self.answered([self.submit(uid, request)])
            if self.store.holds(request.key, uid):
                break
            # It was evicted meanwhile, or removed by his own word, or a failure is remembered.
            for path in (self.town.store / "v1/failed").glob("*.json"):
                path.unlink(missing_ok=True)
        else:
            raise AssertionError((self.steps, uid, request.function, self.running.log[-3000:]))
        self.took.setdefault(uid, []).append(time.monotonic() - began)

    def figures(self):
        """What was done, and for each user how often he got something, and how long that took [s]: mean and median."""
        took = {
            USERS[uid]: (len(each), statistics.mean(each), statistics.median(each)) for uid, each in self.took.items()
        }
        return self.counts, took

    def end(self):
        """End the daemon."""
        if self.running is not None and self.running.process.poll() is None:
            self.running.kill()


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 40), pytest.param(2, 10_000, marks=[pytest.mark.long, pytest.mark.timeout(14_400)])]
)
def test_nobody_s_entries_are_replaced_and_both_get_what_they_ask_for(town, seed, steps):
    course = Course(town, seed)
    try:
        course.begin()
        for _ in range(steps):
            course.step()
        for uid in USERS:
            for request in course.requests:
                course.get(uid, request)
        course.hold()
        lines = course.town.audited()
        published = [line for line in lines if line["event"] == "published" and line["key"] in course.first]
        assert all(line["asked"] == course.first[line["key"]] for line in published)
    finally:
        course.end()


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("steps", [10_000])
def test_the_same_course_with_one_user_alone_beside_it(place, steps):
    """Prints how long Bob waits for what he gets, beside how long he does where Mallory does nothing."""
    python = proc.interpreter_for(BOB)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    courses = []
    try:
        for name, acting in (("both", frozenset(USERS)), ("alone", frozenset({BOB}))):
            (place / name).mkdir()
            courses.append(Course(Town(place / name, python), 3, acting))
            courses[-1].begin()
        for _ in range(steps):
            for course in courses:
                course.step()
            if courses[0].steps % 500 == 0:
                print(courses[0].steps, *(course.figures() for course in courses), flush=True)
    finally:
        for course in courses:
            course.end()


@pytest.mark.long
def test_a_user_s_backlog_keeps_nobody_waiting(town, place):
    """What one gets is built within twice the time that it takes alone: no more than one job of another's is between."""
    body = "".join(f"@njit\ndef f{number:02}(x):\n    return x * {number} + 1\n" for number in range(20))
    for name, uid in (("bob", BOB), ("mallory", MALLORY)):
        module = place / name / "many.py"
        module.write_text(f"from numba import njit\n{body}")
        os.chown(module, uid, uid)
    main = place / "bob" / "main.py"
    main.write_text("import many\nfor n in range(20):\n    getattr(many, f'f{n:02}')(1)\n")
    asked = sorted(
        (each for each in town.recorded(main) if each.function.startswith("many:f")), key=lambda e: e.function
    )
    store, (his, hers) = str(town.store), (asked[:4], asked[4:])
    with town.daemon("--workers", "1") as daemon:

        def of(uid, each):
            return each._replace(path=(f"{place}/{USERS[uid]}",))

        def built():
            lines = town.audited() if [*place.glob("store-one.state/*/audit*.jsonl")] else []
            return [line["asked"] for line in lines if line["function"].startswith("many:f")]

        paths = as_user(MALLORY, lambda: [spool.submit(store, of(MALLORY, each)) for each in hers])
        daemons.wait_for(built)
        waited = []
        for each in his:
            before = built()
            path = as_user(BOB, lambda each=each: spool.submit(store, of(BOB, each)))
            daemons.wait_for(lambda path=path: not os.path.exists(path), lambda: daemon.log)
            waited.append(built()[len(before) :].index(BOB))
        daemons.wait_for(lambda: not any(map(os.path.exists, paths)), lambda: daemon.log)
        # Hers that ran as he asked, hers that was begun before his request was seen, and what was written down late.
        assert max(waited) <= 3, (waited, built())
        assert daemon.stop() == 0
