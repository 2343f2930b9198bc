"""A Dask worker of somebody who reached the scheduler: nothing that it says is executed, or believed, at home."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
import time

import pytest
from nbtest import clusters, daemons, proc

clusters.needed()

from nbcache.daemon.cluster import ENVIRONMENT, Bridge  # noqa: E402  after what skips
from nbcache.daemon.job_run import Call  # noqa: E402
from nbcache.daemon.job_services import Services  # noqa: E402
from nbcache.daemon.publisher import Publisher, Ticket  # noqa: E402
from nbcache.dask import result_grammar  # noqa: E402
from nbcache.dask.result_grammar import BadResultError, Outcome  # noqa: E402
from nbcache.file_trust import Trust  # noqa: E402

EVIL = """
class Evil:
    def __init__(self, marker, also=""):
        self.marker = marker
    def __reduce__(self):
        # Only in the bridge: a worker unpickles what it raises itself, to see whether it can be.
        told = f"__import__('sys').argv[0] == '-c' and open({self.marker!r}, 'a').write('executed')"
        return eval, (told,)

class EvilError(Exception):
    def __init__(self, marker):
        super().__init__(marker)
        self.marker = marker
    __reduce__ = Evil.__reduce__
"""

WORKER = (
    EVIL
    + """
import asyncio, sys
import nbcache.dask.worker_jobs as node
from distributed import Worker

fitness, marker = node.fitness, sys.argv[2]

def what_it_is():
    return Evil(marker)

def raises(*_):
    raise EvilError(marker)

def carries_out(*_):
    return Evil(marker)

if sys.argv[3] == "what it is":
    node.fitness = node.describe = what_it_is
elif sys.argv[3] == "an exception":
    node.fitness = node.describe = raises
else:
    node.carry_out = {"a result": carries_out, "a job's exception": raises}[sys.argv[3]]

async def main():
    async with Worker(sys.argv[1], nthreads=1, host="127.0.0.1", dashboard_address=None) as worker:
        print(worker.address, flush=True)
        await asyncio.sleep(36000)

if __name__ == "__main__":
    sys.modules["evil"] = sys.modules["__main__"]
    asyncio.run(main())
"""
)
LIB = "from numba import njit\n@njit\ndef f(x):\n    return x * 3\n"


@pytest.mark.every(4)
@pytest.mark.parametrize("what", ["what it is", "an exception", "a result", "a job's exception"])
def test_a_pickle_of_a_worker_is_not_opened(place, what):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    (place / "worker.py").write_text(WORKER)
    marks = place / "marks"
    marks.mkdir()
    marks.chmod(0o1777)
    with clusters.cluster(place, 0) as cluster:
        worker = proc.start(
            [place / "worker.py", cluster.address, marks / "mark", what], None,
            {"DASK_TEMPORARY_DIRECTORY": str(place / "theirs")},
        )  # fmt: skip
        assert worker.stdout.readline()
        try:
            with daemons.daemon(place / "store", "--farm", cluster.address) as daemon:
                if what in {"what it is", "an exception"}:
                    daemons.wait_for(lambda: "the farm does without " in daemon.log)
                else:
                    daemons.wait_for(lambda: "can run 1 jobs at once" in daemon.log)
                assert proc.run([place / "main.py"], place / "store", daemons.WAITING).stdout == "3\n"
                assert "more than one thread" not in daemon.log
        finally:
            worker.kill()
            worker.communicate()
    assert not (marks / "mark").exists()


SEALED = (
    EVIL
    + """
import pickle, sys, _pickle, io
sys.modules["evil"] = sys.modules["__main__"]
from distributed.protocol import core
from distributed.protocol.serialize import ToPickle
from distributed.core import error_message
from distributed.protocol import to_serialize
marker = sys.argv[1]
evil = Evil(marker)
messages = [
    core.dumps({"x": to_serialize(evil)}),
    core.dumps({"x": to_serialize([evil, {"y": evil}])}),
    core.dumps({"x": ToPickle(evil)}),
    core.dumps(error_message(EvilError(marker))),
]
import cloudpickle
data = pickle.dumps(evil)
from nbcache.dask import result_grammar
result_grammar.seal()
for message in messages:
    for deserialize in (True, False):
        try:
            core.loads([bytes(each) for each in message], deserialize=deserialize)
        except Exception as error:
            assert "not unpickled" in str(error), error
for load in (pickle.loads, cloudpickle.loads, _pickle.loads, pickle._loads, lambda data: pickle.Unpickler(io.BytesIO(data)).load()):
    try:
        load(data)
    except Exception as error:
        assert "not unpickled" in str(error), error
    else:
        raise AssertionError(load)
"""
)


def test_no_pickle_names_anything(place):
    (place / "sealing.py").write_text(SEALED)
    outcome = proc.run([place / "sealing.py", place / "mark"], None)
    assert outcome.status == 0, outcome.stderr
    assert not (place / "mark").exists()


CONFINED = """
import os, signal, socket, subprocess, sys
from nbcache.dask import bridge
store, port, uid = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if uid:
    assert bridge.become(int(uid)) == "", bridge.become(int(uid))
bridge.confine()

def refused(name, work):
    try:
        work()
    except PermissionError:
        return
    print(name, "was possible")

refused("reading the store", lambda: open(store + "/secret").read())
refused("listing it", lambda: os.listdir(store))
refused("writing it", lambda: open(store + "/new", "w"))
refused("removing", lambda: os.unlink(store + "/secret"))
refused("modes", lambda: os.chmod(store, 0o777))
refused("writing elsewhere", lambda: open("/dev/shm/nbcache-test", "w"))
refused("starting something", lambda: os.execv("/bin/sh", ["sh", "-c", "echo started"]))
refused("a signal", lambda: os.kill(os.getppid(), signal.SIGCONT))
refused("another's memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
refused("another's environment", lambda: open(f"/proc/{os.getppid()}/environ", "rb").read())
refused("a socket with a path", lambda: socket.socket(socket.AF_UNIX))
socket.create_connection(("127.0.0.1", port)).close()
print("done")
"""


@pytest.mark.parametrize("uid", [None, 54321, "becomes"])
def test_the_bridge_has_the_network_and_nothing_else(place, uid):
    import socket

    if uid is not None and os.getuid() != 0:
        pytest.skip("needs root: becomes another user")
    python = sys.executable if uid is None else proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    store = place / "store"
    store.mkdir(mode=0o777)
    store.chmod(0o777)
    (store / "secret").write_text("secret")
    (store / "secret").chmod(0o666)
    (place / "confined.py").write_text(textwrap.dedent(CONFINED))
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [
            python,
            place / "confined.py",
            store,
            str(server.getsockname()[1]),
            "54321" if uid == "becomes" else "",
        ]
        user = uid if isinstance(uid, int) else None
        done = subprocess.run(
            command, capture_output=True, text=True, cwd="/", check=False, user=user, group=user,
            extra_groups=None if user is None else [], env={**proc.environment(None), **proc.packages(), **ENVIRONMENT},
        )  # fmt: skip
    assert (done.stdout, done.stderr) == ("done\n", "")


BRIDGE = """
import json, socket, sys
orders = socket.socket(fileno=int(sys.argv[1]))
orders.send(json.dumps({"ready": 4}).encode())
for each in json.loads(sys.argv[2]):
    orders.send(each.encode())
orders.recv(1)
"""


def bridge_that_says(*messages):
    """The daemon's side of a bridge, once it has heard what one says of itself."""
    command = [sys.executable, "-c", BRIDGE]
    services = Services(Trust(), Publisher(lambda: None), -1, lambda _each: None)

    def start(orders, _asking, errors):
        return subprocess.Popen(
            [*command, str(orders), json.dumps(messages)], pass_fds=[orders], stdout=errors, stderr=errors
        )

    bridge = Bridge(start, services, lambda: None, lambda _why: None)
    heard = time.monotonic() + daemons.MUCH
    while not bridge.dead and bridge.slots != 3 and time.monotonic() < heard:
        for handle in list(bridge.handlers.values()):
            handle()
        time.sleep(0.01)
    bridge.process.kill()
    bridge.process.wait()
    return bridge


@pytest.mark.parametrize(
    "message",
    [
        '{"slots": -5}', '{"slots": 1e308}', '{"slots": NaN}', '{"slots": Infinity}', '{"slots": true}',
        '{"slots": "3"}', '{"slots": 1000000}', '{"slots": [3]}', '{"slots": null}', '{"slots": 2.5}',
        '{"ended": Infinity, "status": 1}', '{"ended": 1, "status": -1e999}', '{"ended": {}, "status": 0}',
        '{"ended": 1, "status": 99999999999999999999}', "[]", '"slots"', "\x00", '{"slots": ' + "[" * 20_000,
    ],
)  # fmt: skip
def test_what_a_bridge_says_of_itself_is_checked(message):
    bridge = bridge_that_says(message, '{"slots": 3}')
    assert bridge.dead
    assert bridge.slots == 0
    bridge.cancel("over")


def test_what_a_bridge_may_say_of_itself(caplog):
    bridge = bridge_that_says('{"refused": "one\\u001b[2J\\n two"}', '{"unconfined": "no"}', '{"slots": 3}')
    assert not bridge.dead
    assert bridge.slots == 3
    assert "\\x1b[2J\\n two" in caplog.text
    bridge.cancel("over")


@pytest.mark.parametrize(
    "message",
    [
        {"worked": float("nan")}, {"worked": -1.0}, {"worked": float("inf")}, {"worked": "1"}, {"worked": True},
        {"host": "x" * 101}, {"host": ""}, {"host": "a\nb"}, {"host": ["x"]}, {"host": "\x1b[2J"}, {"host": 5},
    ],
)  # fmt: skip
def test_what_a_bridge_says_of_a_job_is_checked(message):
    from concurrent.futures import Future

    from nbcache.daemon.channel import Channel

    bridge = bridge_that_says('{"slots": 3}')
    call = Call(1, Future(), b"{}", Ticket(), "f")
    left, right = Channel.pair()
    job = type("Job", (), {"call": call, "channel": left, "messages": 0, "begun": True, "said": None, "gone": False})()
    ended = []
    bridge._forsake = lambda _job, error: ended.append(error)
    with right:
        right.send(json.dumps(message).encode())
        bridge._listen(job)
    assert len(ended) == 1
    assert bridge.worked(1) is None
    assert call.ticket.host == ""
    left.close()
    bridge.cancel("over")


def test_a_result_comes_back_as_it_was():
    given = Outcome({"result": [1, "x"]}, "host", [b"one", b"", b"three"], [b"{}"])
    back = result_grammar.outcome(result_grammar.encoded(given))
    assert (back.said, back.host, list(back.entries), list(back.usage)) == tuple(given)
    assert result_grammar.outcome(result_grammar.encoded(Outcome({"crash": "c", "to blame": "environment"}))).said[
        "to blame"
    ]
    assert result_grammar.outcome(result_grammar.encoded(Outcome({"crash": "c", "to blame": "farm"}))).said == {
        "crash": "c"
    }
    assert result_grammar.description(result_grammar.described([("a", "b")])) == {"a": "b"}


GOOD = result_grammar.encoded(Outcome({"result": "x"}, "host", [b"entry"], [b"{}"]))


@pytest.mark.parametrize(
    "content",
    [
        None, 5, {"said": {}}, b"", b"nbcache farm 1\n", b"nbcache farm 1\n{}\n", GOOD[:-1], GOOD + b"x",
        GOOD.replace(b"[5]", b"[-5]"), GOOD.replace(b"[5]", b"[1e308]"), GOOD.replace(b"[5]", b"[NaN]"),
        GOOD.replace(b"[5]", b"[true]"), GOOD.replace(b"[5]", b'["5"]'), GOOD.replace(b"[5]", b"[99999999999]"),
        GOOD.replace(b"[5]", b"5"), GOOD.replace(b"[2]", b"[1, 1]"), GOOD.replace(b'"host": "host"', b'"host": 7'),
        GOOD.replace(b'"host": "host"', b'"host": "' + b"h" * 101 + b'"'), GOOD.replace(b'{"result": "x"}', b"{}"),
        GOOD.replace(b'{"result": "x"}', b'{"error": 5}'), GOOD.replace(b'{"result": "x"}', b'{"started": true}'),
        GOOD.replace(b'"x"', b"[" * 50_000 + b"]" * 50_000), GOOD.replace(b'"x"', b'"' + b"x" * 70_000 + b'"'),
        GOOD.replace(b"farm 1", b"farm 2"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused(content):
    with pytest.raises(BadResultError):
        result_grammar.outcome(content)


def test_no_change_of_a_byte_raises_anything_else():
    for at in range(len(GOOD)):
        for changed in (GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :], GOOD[:at]):
            with contextlib.suppress(BadResultError):
                result_grammar.outcome(changed)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'[["a"]]', b'[["a", 1]]', b"[1]", b"[NaN]", b"[" * 9999, ["a"]])
def test_what_is_no_description_is_refused(content):
    with pytest.raises(BadResultError):
        result_grammar.description(content)


def test_workers_with_impossible_threads_are_passed_over():
    from nbcache.dask.bridge import _workers

    said = {str(number): {"nthreads": threads} for number, threads in enumerate([2, -5, 1e308, 0, True, "3", 10**9])}
    assert _workers({"workers": said}) == {"0": 2}
