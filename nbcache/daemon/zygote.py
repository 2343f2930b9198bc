"""An interpreter with Numba imported and warm that forks a child for each job.

Started by :mod:`nbcache.daemon.interpreter_boot`, for :mod:`nbcache.daemon.supervisor`, with two channels
(:mod:`nbcache.daemon.channel`): one for orders, and one to ask and to hand in (:mod:`nbcache.daemon.job_side`). ::

    to it      {"job": n} + the job's own channel, a sealed file with the order, where its standard error goes
               {"kill": n}
    from it    {"ready": PROTOCOL_VERSION}
               {"ended": n, "status": wait status}
    an order   {"call": "module:function", "args": [...], "bytes": b, "asked": uid, "aside": [digests]}

A child runs one function, confined (:mod:`nbcache.daemon.confinement`), with a limit on its address space, and says
what it returned through its own channel. Whatever becomes of it costs this job alone: the zygote runs nothing of what a
job brings, has one thread, and ends when the daemon's end is closed. Nothing depends on it once a child runs: who
supervises it is the daemon.
"""

from __future__ import annotations

import atexit
import importlib
import json
import logging
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from nbcache import config, environ, importing
from nbcache.daemon import channel, confinement, job_side
from nbcache.daemon.channel import BadMessageError, Channel
from nbcache.passing_exceptions import suppressed
from nbcache.store import layout

if TYPE_CHECKING:
    from nbcache.glue.keys.key_maker import KeyMaker

PROTOCOL_VERSION: Final = 4
MAX_ORDER: Final = 64 << 20
MAX_RESULT: Final = channel.MAX_MESSAGE // 16
"""The longest text of a result [characters]; each may take twelve bytes."""
_EACH_JOB_NEEDS: Final = (
    "nbcache.daemon.job_functions",
    *("nbcache.client." + name for name in ("elsewhere", "recording", "saving")),
    *("nbcache.store." + name for name in ("locks", "slots")),
)
"""What a job would import, and a client only where it misses."""
_POLL_SECONDS: Final = 60.0


class Zygote:
    """The loop: takes orders, forks, tells how children ended."""

    def __init__(
        self, orders: Channel, link: job_side.Link, scratch: str, *, namespaces: bool, landlock: bool = False
    ) -> None:
        """Take *orders*; children get namespaces of their own, if they may, with a directory *scratch* to write to.

        With *landlock*, they get a directory in that one instead, and write nothing else.
        """
        self._orders = orders
        self._link = link
        self._scratch = scratch
        self._namespaces = namespaces
        self._landlock = landlock
        self._children: dict[int, int] = {}
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Run until the other end is closed. The children end with this process."""
        signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._orders.send({"ready": PROTOCOL_VERSION})
        poll = select.poll()
        poll.register(self._orders, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            for fd, _event in poll.poll(_POLL_SECONDS * 1000):
                if fd == self._ended:
                    with suppress(BlockingIOError):
                        os.read(fd, 1 << 16)
                elif not self._take():
                    return
            self._reap()

    def _take(self) -> bool:
        try:
            received = self._orders.receive()
        except (BadMessageError, OSError):
            return False
        if received is None:
            return False
        order, fds = received
        if "kill" in order:
            for pid in [pid for pid, job in self._children.items() if job == order["kill"]]:
                os.kill(pid, signal.SIGKILL)
        else:
            try:
                self._fork(int(order["job"]), *fds)
            finally:
                channel.close_all(fds)
        return True

    def _fork(self, number: int, end: int, order: int, errors: int) -> None:
        try:
            if self._landlock:
                os.mkdir(self._own(number), 0o700)
            pid = confinement.fork_job() if self._namespaces else os.fork()
        except OSError as error:
            Channel.of(os.dup(end)).send({"crash": f"no process could be made: {error.strerror}"})
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            self._orders.close()
            self._link.close()
            channel.close_all([self._ended, self._end])
            self._run(number, end, order, errors)
        self._children[pid] = number

    def _own(self, number: int) -> str:
        """The directory of a job."""
        return f"{self._scratch}/{number}"

    def _run(self, number: int, end: int, order: int, errors: int) -> NoReturn:
        """In the child: carry out an order and end."""
        status = 1
        try:
            link = job_side.connect(Channel.of(end))
            try:
                os.dup2(errors, 2)
            except OSError as error:
                link.say({"started": True})
                link.say({"crash": f"it can't begin: {error.strerror}"})
                os._exit(status)
            os.close(errors)
            # What the zygote ignores or handles is the job's again.
            for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(name, signal.SIG_DFL)
            link.say({"started": True})
            said = self._carried_out(number, order)
            link.say(said)
            atexit._run_exitfuncs()  # noqa: SLF001  leaves the usage record, which os._exit would not
            link.say({"done": True})
            status = 0
        finally:
            os._exit(status)

    def _carried_out(self, number: int, order: int) -> dict[str, Any]:
        os.setsid()
        try:
            if self._namespaces:
                confinement.settle_job(self._scratch)
            elif self._landlock:
                os.environ["TMPDIR"] = self._own(number)
                tempfile.tempdir = None
                confinement.settle_alone(self._own(number))
            else:
                confinement.settle_alone()
            asked = json.loads(channel.unsealed([order], MAX_ORDER))
            limit(int(asked["bytes"]))
            # What it uses meanwhile is what who asked would use.
            layout.READER.uid, layout.READER.aside = int(asked["asked"]), frozenset(asked["aside"])
        except (OSError, BadMessageError) as error:
            return {"crash": f"it can't be confined: {error}"}
        return _outcome(asked)

    def _reap(self) -> None:
        ended: list[int] = []
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self._children:
                    number = self._children.pop(pid)
                    ended.append(number)
                    self._orders.send({"ended": number, "status": status})
        if not self._namespaces:
            confinement.end_strays(set(self._children))
        for number in ended if self._landlock else ():
            shutil.rmtree(self._own(number), ignore_errors=True)


def _outcome(asked: dict[str, Any]) -> dict[str, Any]:
    module, _, name = str(asked["call"]).partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        result = function(*asked["args"])
        return {"result": result[:MAX_RESULT] if isinstance(result, str) else result}
    except MemoryError:
        return {"crash": f"it ran out of memory (the limit is {int(asked['bytes']) >> 20} MiB)"}
    except BaseException as error:  # noqa: BLE001  a job may raise what it likes
        return {"error": f"{type(error).__name__}: {error}"[:MAX_RESULT]}


def limit(size: int) -> None:
    """Give the address space *size* more than it has [bytes]; 0: no limit."""
    if size:
        with open("/proc/self/statm", "rb") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + size, now + size))
    # A crash is told by its signal; nobody reads the core.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _prepared(maker: KeyMaker) -> KeyMaker | None:
    """*maker*, which has read what is registered with Numba by now, so that not each job has to; None if it can't."""
    with suppressed(Exception):  # somebody's class may raise what it likes: each job says so of its own
        # And no more: what a job's module registers must not count as added late, which it isn't for a client.
        maker.extensions.refresh()
        return maker
    return None


def main(orders: int, asking: int, root: str, scratch: str, *, namespaces: bool) -> None:
    """Warm Numba up and take orders. Everything is imported as the rule of trust allows it."""
    given = environ.inherited(
        ("NBCACHE_LOG", "NBCACHE_UNVERIFIED", job_side.KERNELS_VARIABLE, job_side.LANDLOCK_VARIABLE)
    )
    link = job_side.connect(Channel.of(asking))
    trust = job_side.rule()
    importing.guard(trust)
    # Not from files: the daemon has read them.
    settings = config.Settings(
        namespace=config.namespace(),
        dir=root,
        on_miss="compile",
        trusted_uids=trust.uids,
        # What is asked for is to be in the store: that a layer has it as well is no reason not to build it.
        layers=None,
        unverified="NBCACHE_UNVERIFIED" in given,
        log=given["NBCACHE_LOG"],
        sources={"log": "the daemon"},
    )
    # The daemon gives lines without a date, of which it knows more than whoever wrote them, one.
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logging.getLogger("nbcache").addHandler(handler)
    from nbcache.client import activation
    from nbcache.glue import warmth

    job_side.store = job_side.HandingStore(root, trust, writable=True, keyring=job_side.keyring())
    activation.activate(settings, job_side.store)
    session = activation.session()
    warmth.warm(None if session is None else session.maker)
    if session is not None:
        job_side.maker = _prepared(session.maker)
        job_side.share = activation.share
    for name in _EACH_JOB_NEEDS:
        importlib.import_module(name)
    if job_side.KERNELS_VARIABLE in given:
        warmth.warm_for_kernels()
        activation.attend_kernels()
    landlock = job_side.LANDLOCK_VARIABLE in given
    Zygote(Channel.of(orders), link, scratch, namespaces=namespaces, landlock=landlock).serve()
    sys.exit(0)
