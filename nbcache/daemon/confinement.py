"""What keeps a job from everything but its answer: users, namespaces, mounts.

Compiling for somebody means running code of theirs. It runs in a process that can read the filesystem and write nothing
of it, that sees no process but those it started, and that is all gone with its first one:

- **another uid**, where the daemon is root and so has uids to give: one for each interpreter that it starts, with no
  account and no file to its name;
- **namespaces** (users, mounts, processes, IPC, network: user_namespaces(7) lets anybody make them), where the kernel
  allows it: an interpreter has a set of its own, and each job in it another. All mounts are read-only, made so in a
  namespace of users above that of the interpreter, who can't undo it therefore (they are locked, mount_namespaces(7)).
  Neither can trace, or look into, what is not in its own. A job is process 1 of its PID namespace: when it ends, or is
  killed, the kernel kills everything in it, however it was started;
- **a filter** of system calls (seccomp(2)): no sockets but those of an empty network, since a socket with a path is not
  protected by read-only mounts, and a bus or a terminal multiplexer of the same user would do as told; no further
  namespaces of users, in which there would be rights again; no keyrings.

What a job may write is a small filesystem of its own in memory, ``TMPDIR``, and its channel to the daemon.

Where the kernel denies namespaces, there is **Landlock**, which needs no rights, and the same filter: a job changes no
file but those in a directory of its own and in /dev/shm, and signals nobody. What it starts is left to the interpreter
when it ends, and what an interpreter leaves to a *guard* outside, which has nothing else to do than to kill it.

Where neither is to be had, the uid is all that there is, or nothing: :class:`Confinement` says so, the daemon says it
once in its log, and `nbcache status` each time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nbcache.daemon import linux_calls

FIRST_UID: Final = 1_900_000_000
UIDS: Final = 10_000
"""What a daemon that is root gives its interpreters: systemd's list of uids has this range as free."""
ROOT_INSIDE: Final = FIRST_UID - 1
"""What root is called in namespaces of its interpreters, where these couldn't be given another uid."""
SCRATCH_BYTES: Final = 256 << 20
"""How much a job may write to its TMPDIR."""
_INTERPRETER: Final = (
    linux_calls.NEW_USER | linux_calls.NEW_MOUNT | linux_calls.NEW_PID | linux_calls.NEW_IPC | linux_calls.NEW_NET
)  # fmt: skip
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  that is where glibc has semaphores


@dataclass(frozen=True, slots=True)
class Confinement:
    """What an interpreter was given."""

    uid: int
    """Who it runs as."""
    namespaces: bool
    landlock: bool = False
    """Whether, without namespaces, Landlock keeps jobs from writing."""
    problem: str = ""
    """Why not more; "" if there is nothing to be said."""

    @property
    def summary(self) -> str:
        """In a few words, for `nbcache status`."""
        who = f"as uid {self.uid}" if self.uid != os.geteuid() else "as the daemon's uid"
        if self.namespaces:
            return f"{who}, in namespaces"
        return f"{who}, without namespaces{', under Landlock' if self.landlock else ''}"

    @property
    def complaint(self) -> str | None:
        """What an operator should know, in one line, for the log; None if all is well."""
        if self.namespaces and not self.problem:
            return None
        unkept = not self.namespaces and not self.landlock and self.uid == os.geteuid()
        kept = ": they can write all that the daemon can" if unkept else ""
        return f"jobs run {self.summary}{kept}{self.problem and f' ({self.problem})'}"


def problem(scratch: str, hidden: str = "") -> str | None:
    """Say why interpreters and jobs can't have namespaces here; None if they can. Tries it, in children."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # Each of these returns twice.
            child = fork_interpreter(scratch, hidden) or fork_job()
            if not child:
                settle_job(scratch)
                os.write(writing, b"fine")
            else:
                os.waitpid(child, 0)
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        said = file.read().decode("utf-8", "replace")
    os.waitpid(pid, 0)
    return None if said == "fine" else said or "the process that tries is ended"


def fork_interpreter(scratch: str, hidden: str = "") -> int:
    """Fork into namespaces of an interpreter; return the child's pid, 0 in the child. Raises OSError.

    Everything is read-only there but the directory *scratch*, and the file *hidden* is empty. The child may make
    namespaces for its jobs, and not undo that.
    """
    _enter(hidden)
    pid = os.fork()
    if pid == 0:
        linux_calls.prctl(linux_calls.PARENT_DEATH_SIGNAL, signal.SIGKILL)
        _mount_own(scratch)
        linux_calls.refuse_ways_out()
    return pid


def _enter(hidden: str) -> None:
    """Twice: what the first namespace of users made read-only is locked in the second."""
    uid, gid = os.geteuid(), os.getegid()
    inside = uid or ROOT_INSIDE, gid or ROOT_INSIDE
    linux_calls.prctl(linux_calls.NO_NEW_PRIVILEGES, 1)
    # By this descriptor, what is in it can still be written.
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    linux_calls.unshare(linux_calls.NEW_USER | linux_calls.NEW_MOUNT)
    _map_ids(proc, inside, (uid, gid))
    flags = linux_calls.READ_ONLY | linux_calls.NO_SETUID
    if hidden and os.access(hidden, os.R_OK, effective_ids=True):
        linux_calls.bind(hidden, os.devnull)
    if uid == 0:
        # Root owns the disks' devices, which a read-only mount doesn't protect.
        devices = [path for path in _DEVICES if os.path.exists(path)]
        for path in devices:
            linux_calls.bind(path)
        linux_calls.set_mounts("/", flags | linux_calls.NO_DEVICES, propagation=linux_calls.SLAVE)
        for path in devices:
            linux_calls.set_mounts(path, 0, clear=linux_calls.NO_DEVICES, recursive=False)
    else:
        # Not private: what is mounted later (somebody's home, by an automounter) shall be seen by later jobs.
        linux_calls.set_mounts("/", flags, propagation=linux_calls.SLAVE)
    linux_calls.unshare(_INTERPRETER)
    _map_ids(proc, inside, inside)
    os.close(proc)


def fork_job() -> int:
    """Fork into a PID namespace of a job; return the child's pid, 0 in the child. Raises OSError."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        linux_calls.unshare(linux_calls.NEW_PID)
        try:
            # Python's, and so the C library's: what it tells others of a fork (OpenBLAS ends its threads) is needed.
            pid = os.fork()
        except OSError:
            linux_calls.enter(own, linux_calls.NEW_PID)
            raise
        if pid:
            linux_calls.enter(own, linux_calls.NEW_PID)
        return pid
    finally:
        os.close(own)


def settle_job(scratch: str) -> None:
    """In that child: have a process tree, a scratch directory and shared memory of its own. Raises OSError."""
    linux_calls.prctl(linux_calls.PARENT_DEATH_SIGNAL, signal.SIGKILL)
    linux_calls.unshare(linux_calls.NEW_MOUNT | linux_calls.NEW_IPC)
    # Once more, for what was mounted since; private, so that nothing appears meanwhile.
    linux_calls.set_mounts("/", linux_calls.READ_ONLY | linux_calls.NO_SETUID, propagation=linux_calls.PRIVATE)
    alone = _mount_own(scratch)
    linux_calls.drop_capabilities()
    if not alone:
        # No job may trace another one of its uid.
        linux_calls.prctl(linux_calls.DUMPABLE, 0)


def settle_alone(scratch: str | None = None) -> None:
    """The same where there are no namespaces: nobody else of the same uid may trace this process. Raises OSError.

    Where Landlock is to be had, it writes nothing but *scratch*, if that is given.
    """
    linux_calls.prctl(linux_calls.PARENT_DEATH_SIGNAL, signal.SIGKILL)
    linux_calls.prctl(linux_calls.NO_NEW_PRIVILEGES, 1)
    linux_calls.prctl(linux_calls.SUBREAPER, 1)
    if os.getuid():
        linux_calls.prctl(linux_calls.DUMPABLE, 0)
    if scratch is not None:
        places = [scratch, _SHARED_MEMORY, *_DEVICES]
        linux_calls.restrict(place for place in places if os.path.exists(place))
        linux_calls.refuse_ways_out(alone=False)
        linux_calls.drop_capabilities()


def settle_speaker(readable: Iterable[str]) -> None:
    """Leave this process the network, the descriptors that it has, and reading what is beneath these places.

    It can't be taken back, and holds for all its threads to come. Raises OSError.
    """
    linux_calls.prctl(linux_calls.NO_NEW_PRIVILEGES, 1)
    if os.getuid():
        linux_calls.prctl(linux_calls.DUMPABLE, 0)
    linux_calls.drop_capabilities()
    try:
        linux_calls.restrict([], reading=readable, tcp=True)
    finally:
        linux_calls.refuse_ways_out(alone=False)


def fork_guarded() -> None:
    """Fork; return in the child. The parent stays until that ends, or is told to end, and kills all that is left.

    All but what became somebody else's child is left to it: it is the subreaper of everything below.
    """
    linux_calls.prctl(linux_calls.SUBREAPER, 1)
    heard = {signal.SIGTERM, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    guarded = os.fork()
    if guarded == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    # In place of SIGKILL, when who started it ends.
    linux_calls.prctl(linux_calls.PARENT_DEATH_SIGNAL, signal.SIGTERM)
    ended = False
    while not ended and signal.sigwait(heard) == signal.SIGCHLD:
        with suppress(ChildProcessError):
            while not ended and (pid := os.waitpid(-1, os.WNOHANG)[0]):
                ended = pid == guarded
    end_strays(set())
    os._exit(0)


def _map_ids(proc: int, inside: tuple[int, int], outside: tuple[int, int]) -> None:
    # Before anything else: who has no number owns nothing. Root is called otherwise inside, or it couldn't be given a
    # number without a capability in the namespace above (user_namespaces(7), since Linux 5.12).
    for name, text in (
        (b"self/setgroups", b"deny"),
        (b"self/uid_map", b"%d %d 1" % (inside[0], outside[0])),
        (b"self/gid_map", b"%d %d 1" % (inside[1], outside[1])),
    ):
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(fd, text)
        finally:
            os.close(fd)


def _mount_own(scratch: str) -> bool:
    """Mount what this process alone writes, and its own process tree; return whether that is what /proc shows now."""
    options = linux_calls.NO_SETUID | linux_calls.NO_DEVICES
    for path in (scratch, _SHARED_MEMORY):
        if os.path.isdir(path):
            linux_calls.mount("tmpfs", path, options, f"mode=700,size={SCRATCH_BYTES}")
    try:
        # Read-only: the kernel lets root change its settings there, in whatever namespace.
        linux_calls.mount("proc", "/proc", options | linux_calls.NO_EXECUTING | linux_calls.READ_ONLY)
    except OSError:
        # Denied where parts of the old one are hidden (systemd's ProtectKernelLogs=, containers). That shows the pids
        # of others, and nothing else of them: who is in a namespace of users above is not to be looked into.
        return False
    return True


class Uids:
    """Uids for interpreters. None twice, as long as there are any."""

    def __init__(self, given: range | None = None) -> None:
        """Give these; or from :data:`FIRST_UID` on, those that no account has."""
        self._uids = range(FIRST_UID, FIRST_UID + UIDS) if given is None else given
        self._chosen = given is not None
        self._next = 0

    def give(self) -> int | None:
        """Return the next one; None if this process can't become another user."""
        import pwd

        if os.geteuid() != 0:
            return None
        for _ in self._uids:
            uid = self._uids[self._next % len(self._uids)]
            self._next += 1
            try:
                pwd.getpwuid(uid)
            except KeyError:
                return uid
            if self._chosen:
                return uid
        return None


def end_strays(mine: set[int]) -> None:
    """Kill the children of this process that aren't *mine*: what jobs started, and left to it as their subreaper."""
    for _ in range(100):
        try:
            with open("/proc/thread-self/children", "rb") as file:
                found = set(map(int, file.read().split()))
        except (OSError, ValueError):
            return
        strays = found - mine
        if not strays:
            return
        for pid in strays:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                os.waitpid(pid, 0)
