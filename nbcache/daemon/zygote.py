"""An interpreter with Numba imported and warm that forks a child for each job: ``… zygote FD STORE``.

Started by :mod:`nbcache.daemon.pool`, which it talks to over the socket *FD*, in messages of JSON::

    to the zygote    {"job": n, "call": "module:function", "args": [...], "seconds": s, "bytes": b}
                     {"cancel": n}
    from it          {"ready": PROTOCOL_VERSION, "pid": p}
                     {"job": n, "child": p}
                     {"job": n, "result": ...} | {"job": n, "error": text} | {"job": n, "crash": text}

A child runs one function, in a process group of its own, with limits on its time and its address space, and says what
it returned through a pipe. Whatever becomes of it costs this job alone: the zygote runs nothing of what a job brings,
has one thread, and ends when its socket does.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

import nbcache

PROTOCOL_VERSION: Final = 2
MAX_RESULT: Final = 1 << 20
_POLL_SECONDS: Final = 0.5
_GRACE: Final = 20
_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Child:
    job: int
    pid: int
    pipe: int
    deadline: float
    seconds: float
    said: bytearray = field(default_factory=bytearray)
    overdue: bool = False


class Zygote:
    """The loop: takes jobs, forks, collects."""

    def __init__(self, connection: Connection) -> None:
        """Serve whoever is at the other end of *connection*."""
        self._connection = connection
        self._children: dict[int, _Child] = {}

    def serve(self) -> None:
        """Run until the other end is closed; then end the children."""
        self._send({"ready": PROTOCOL_VERSION, "pid": os.getpid()})
        try:
            while self._turn():
                pass
        finally:
            for child in list(self._children.values()):
                self._kill(child)

    def _turn(self) -> bool:
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN)
        for pipe in self._children:
            poll.register(pipe, select.POLLIN)
        soonest = min((child.deadline for child in self._children.values()), default=_NEVER)
        patience = max(0.0, min(_POLL_SECONDS if self._children else 60.0, soonest - time.monotonic()))
        for fd, _event in poll.poll(patience * 1000):
            if fd in self._children:
                self._hear(self._children[fd])
            elif not self._take():
                return False
        for child in [child for child in self._children.values() if child.deadline <= time.monotonic()]:
            self._collect(child, overdue=True)
        return True

    def _take(self) -> bool:
        try:
            order = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            return False
        if "cancel" in order:
            for child in [child for child in self._children.values() if child.job == order["cancel"]]:
                self._collect(child, overdue=True)
        else:
            self._fork(order)
        return True

    def _fork(self, order: dict[str, Any]) -> None:
        reading, writing = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reading)
            os.close(writing)
            self._send({"job": order["job"], "crash": f"no process could be made: {error.strerror}"})
            return
        if pid == 0:
            os.close(reading)
            self._connection.close()
            for pipe in self._children:
                os.close(pipe)
            _run(order, writing)
        os.close(writing)
        # Both sides set it: whichever is first, a kill of the group finds it.
        with suppress(OSError):
            os.setpgid(pid, pid)
        self._send({"job": order["job"], "child": pid})
        seconds = float(order["seconds"])
        self._children[reading] = _Child(order["job"], pid, reading, time.monotonic() + seconds, seconds)

    def _hear(self, child: _Child) -> None:
        part = os.read(child.pipe, 1 << 16)
        child.said += part
        if not part or len(child.said) > MAX_RESULT:
            self._collect(child)

    def _collect(self, child: _Child, *, overdue: bool = False) -> None:
        """The child is through, or is made to be; pass on what it said."""
        child.overdue = overdue
        status = self._kill(child)
        # A result that was written is a result, whatever the child died of while it cleaned up.
        result: object = None
        with suppress(ValueError):
            result = json.loads(bytes(child.said))
        if isinstance(result, dict):
            self._send({"job": child.job, **result})
        elif child.overdue:
            self._send({"job": child.job, "crash": f"it took longer than {child.seconds:g} s"})
        else:
            self._send({"job": child.job, "crash": _ending(status)})

    def _kill(self, child: _Child) -> int:
        """End a child and all that it started; return its status."""
        del self._children[child.pipe]
        os.close(child.pipe)
        # The kernel closes the pipe of a process that ends just before its status can be had.
        for _ in range(0 if child.overdue else _GRACE):
            done, status = os.waitpid(child.pid, os.WNOHANG)
            if done:
                self._kill_group(child.pid)
                return status
            time.sleep(0.005)
        self._kill_group(child.pid)
        return os.waitpid(child.pid, 0)[1]

    @staticmethod
    def _kill_group(pid: int) -> None:
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._connection.send_bytes(json.dumps(message).encode())
        except OSError:
            sys.exit(0)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"it was killed by {signal.Signals(-code).name}"
    return f"it ended with status {code} and said nothing"


def _run(order: dict[str, Any], pipe: int) -> NoReturn:
    """In the child: carry out an order and end."""
    status = 1
    try:
        os.setpgid(0, 0)
        # What the zygote ignores or handles is the job's again.
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(nothing, fd)
        _limit(int(order["bytes"]))
        said = _outcome(order)
        rest = memoryview(json.dumps(said).encode())
        while rest:
            rest = rest[os.write(pipe, rest) :]
        status = 0
        # The pipe stays open meanwhile: the zygote kills what is left when it closes.
        atexit._run_exitfuncs()  # noqa: SLF001  leaves the usage record, which os._exit would not
    finally:
        os._exit(status)


def _outcome(order: dict[str, Any]) -> dict[str, Any]:
    module, _, name = str(order["call"]).partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        return {"result": function(*order["args"])}
    except MemoryError:
        return {"crash": f"it ran out of memory (the limit is {int(order['bytes']) >> 20} MiB)"}
    except BaseException as error:  # noqa: BLE001  a job may raise what it likes
        return {"error": f"{type(error).__name__}: {error}"}


def _limit(size: int) -> None:
    """Give the address space *size* more than it has [bytes]; 0: no limit."""
    if size:
        with open("/proc/self/statm", "rb") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + size, now + size))
    # A crash is told by its signal; nobody reads the core.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Warm Numba up and serve the socket that the command line names."""
    # The one who ends it is the pool, by closing the socket; a terminal's signals reach the whole group.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    # The hook may be on already, where its .pth file is installed.
    nbcache.enable(sys.argv[2])
    from nbcache.glue import warmth

    warmth.warm()
    Zygote(connection).serve()


if __name__ == "__main__":
    main()
