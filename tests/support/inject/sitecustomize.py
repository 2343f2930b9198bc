"""What every child process of these suites runs first (its folder is on PYTHONPATH).

Arms nbcache as the wheel's .pth does (twice is harmless), and adds the instrumentation a test asked for:

NBTEST_FAKE_NUMBA=V   Numba claims to be version V, to its importers and to importlib.metadata.
NBTEST_EVENTS=FILE    one JSON line at exit: the functions whose Dispatcher started a compilation.
NBTEST_COMPILED=FILE  one JSON line at exit: how long dispatchers compiled [s].
NBTEST_STATS=FILE     one JSON line at exit: nbcache.stats().
NBTEST_PATIENT=1      nobody is given up who is only slow: a daemon, its interpreters, servers and helpers of remote caches;
                      and who tidies up at his end does all of it.
NBTEST_TURN=SECONDS   how often a daemon keeps house.
NBTEST_WITHOUT=NAME   there is no module of this name.
NBTEST_COLD=SECONDS   every program leaves a profile, and whatever is missing is worth asking others for; a helper that was
                      started for that ends when nothing was asked for in so long.
"""

import os
import sys


def _fake_numba_version(version):
    import importlib.metadata
    import types

    fake = types.ModuleType("numba._version")
    fake.get_versions = lambda: {"version": version, "full-revisionid": "0" * 40, "dirty": False, "error": None}
    sys.modules["numba._version"] = fake
    real = importlib.metadata.version
    importlib.metadata.version = lambda name: version if name == "numba" else real(name)


def _append(path, record):
    import json

    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _watch_compilations(path):
    import atexit

    from numba.core import event

    class Watch(event.Listener):
        names = []

        def on_start(self, event):
            function = event.data["dispatcher"].py_func
            self.names.append(f"{function.__module__}:{function.__qualname__}{event.data['args']}")

        def on_end(self, event):
            pass

    event.register("numba:compile", Watch())
    atexit.register(lambda: _append(path, {"pid": os.getpid(), "functions": Watch.names}))


def _time_compilations(path):
    import atexit

    from numba.core import event

    recorded = event.RecordingListener()
    event.register("numba:compile", recorded)

    def tell():
        seconds = depth = 0
        for at, each in recorded.buffer:
            seconds -= at if each.is_start and not depth else 0
            depth += 1 if each.is_start else -1
            seconds += 0 if each.is_start or depth else at
        _append(path, {"pid": os.getpid(), "seconds": seconds})

    atexit.register(tell)


def _dump_stats(path):
    import atexit

    import nbcache

    atexit.register(lambda: _append(path, nbcache.stats()))


def _keep_house_often(seconds):
    if "serve" in sys.orig_argv:
        from nbcache.daemon import housekeeping

        housekeeping.TURN_SECONDS = seconds


def _be_patient():
    from nbcache.client import elsewhere, remote
    from nbcache.protocol import heartbeats
    from nbcache.store.directory import Store

    heartbeats.DEAD_SECONDS = 600.0
    # An entry may be there before another one that the same job makes, without which it is of no use.
    elsewhere.UNANSWERED_SECONDS = 60.0
    # Else what a program does for its store at its end is left to the next one after a tenth of a second.
    Store.tidy.__defaults__ = (600.0,)
    if {"serve", "watch"} & set(sys.orig_argv):
        from nbcache.daemon import interpreters, presence, supervisor
        from nbcache.daemon import remote_builds as helpers

        supervisor.FORK_SECONDS = interpreters.SECONDS = supervisor.EXECUTE_SECONDS = supervisor.START_SECONDS = 600.0
        if "watch" in sys.orig_argv:
            # Where a machine is busy with other tests, what lets everything else go first goes never.
            presence.LOWEST = 0
        # A job that has answered writes down what it used; one that doesn't end is ended all the same.
        supervisor.GRACE_SECONDS = 60.0
        helpers.START_SECONDS = helpers.LOOK_SECONDS = 600.0
    remote.LOOKUP_SECONDS = remote.PROCESS_SECONDS = remote.NESTED_SECONDS = remote.NESTED_BUDGET = 300.0
    # Only who speaks to servers itself loads what does.
    if {"push", "pull"} & set(sys.orig_argv) or any("nbcache.remote.helper" in each for each in sys.orig_argv):
        from nbcache.remote import helper, reading, storage, tiers, uploading

        helper.QUESTION_SECONDS = uploading.LOOK_SECONDS = storage.GET_SECONDS = storage.PUT_SECONDS = (
            tiers.CONNECT_SECONDS
        ) = 200.0
        tiers.ANSWER_SECONDS = tiers.UPLOAD_SECONDS = 250.0
        reading.Reading.fetch.__defaults__ = (0, 280.0)
        # Bound when the function was made: how long a helper that ends goes on uploading.
        uploading.Uploading.drain.__defaults__ = (600.0,)


def _start_cold(seconds):
    from nbcache.client import cold_start, profiling

    profiling.LEAST_SECONDS = profiling.BY_VALUE_SECONDS = cold_start.LEAST_SECONDS = cold_start.WORTH_SECONDS = 0.0
    cold_start.IDLE_SECONDS = seconds


if os.environ.get("NBTEST_WITHOUT"):
    sys.modules[os.environ["NBTEST_WITHOUT"]] = None
if os.environ.get("NBTEST_FAKE_NUMBA"):
    _fake_numba_version(os.environ["NBTEST_FAKE_NUMBA"])
if os.environ.get("NBCACHE_DIR") or os.environ.get("NBCACHE_COUNT") or os.environ.get("NBCACHE_DISABLE_ALL"):
    from nbcache.client import hook

    hook.arm()
    if os.environ.get("NBTEST_STATS"):
        _dump_stats(os.environ["NBTEST_STATS"])
if os.environ.get("NBTEST_PATIENT"):
    _be_patient()
if os.environ.get("NBTEST_EVENTS"):
    _watch_compilations(os.environ["NBTEST_EVENTS"])
if os.environ.get("NBTEST_COMPILED"):
    _time_compilations(os.environ["NBTEST_COMPILED"])
if os.environ.get("NBTEST_COLD"):
    _start_cold(float(os.environ["NBTEST_COLD"]))
if os.environ.get("NBTEST_TURN"):
    _keep_house_often(float(os.environ["NBTEST_TURN"]))
