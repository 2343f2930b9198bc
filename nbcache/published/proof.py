"""Proving a publication before it gets its name: a process in which Numba can't be imported loads it and calls it.

A crash while a publication is loaded, or anything that needs Numba, is a reason not to publish. A crash, or no end, in
a call with arguments that were made up is not: no function owes anything to arguments that make no sense to it. What
the function prints is lost.

Starting Python and importing NumPy takes about as long as compiling a small function. So the process is started before
there is anything to prove, it imports while others compile, and it stays for further publications, as long as this
process goes on in the same circumstances (:func:`prepared`). Each is proved in a child of its own, which has loaded
nothing before (:mod:`nbcache.published.proving`).
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache import environ, memory_files, process
from nbcache.passing_exceptions import suppressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.store.directory import Store

SECONDS: Final = 60.0
"""How long a proof may take [s]: far more than starting Python and importing NumPy takes on a busy machine."""
_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from nbcache.published.proving import main; main()"
_ENDED: Final = b'{"ended": '
"""How the last line begins that is said of a publication."""
_LAST_WORDS: Final = 1 << 14


class Proof(NamedTuple):
    """What a process without Numba found out."""

    problem: str | None
    """Why the publication can't be used, in one line."""
    called: tuple[str, ...]
    """The functions that were called and came back, be it with an exception of their own."""
    doubtful: str | None
    """The call with made-up arguments from which the process didn't come back."""


class _Gone(Exception):  # noqa: N818  a fact, not a malfunction
    """The process has ended."""


class Prover:
    """A process without Numba that proves one publication after the other, until it is closed. One thread at a time.

    It is nobody's child, so no program's ``wait`` meets it, and it ends when this process does.
    """

    def __init__(self) -> None:
        """Start it. Never raises: what stands in the way is what :meth:`prove` finds."""
        self.circumstances = _circumstances()
        self.sound = False
        """Whether it has answered what it was asked last, and it was asked something."""
        self._start()

    def _start(self) -> None:
        self._problem: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        path, _directory, _environment = self.circumstances
        self._channel, theirs = socket.socketpair()
        self._errors = memory_files.memory_file("nbcache-proof")
        if process.is_frozen():
            self._problem = "a frozen program has no interpreter that could prove it"
            theirs.close()
            return
        try:
            # Isolated: environment that isn't heeded here (-I, -E, more rights than the caller's) isn't heeded there.
            command = [sys.executable, "-I", "-c", _PROGRAM, *path]
            self._process = subprocess.Popen(  # noqa: S603  this Python
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=self._errors
            )
        except OSError as exc:
            self._problem = f"no process can be started to prove it: {exc.strerror or exc}"
        finally:
            theirs.close()

    def close(self) -> None:
        """Have it end, which has nothing of its own to finish."""
        self._channel.close()
        os.close(self._errors)
        if self._process is not None:
            # What was started has ended by now, and left the one that it began; or it never will.
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Let go of it in a forked child: it is the parent's."""
        self._channel.close()
        os.close(self._errors)
        if self._process is not None:
            self._process.returncode = 0

    def prove(
        self, manifest: bytes, store: Store, meanwhile: Callable[[], None] = lambda: None, *, again: bool = True
    ) -> Proof:
        """Load a manifest there, and call what arguments can be made up for. Never raises for what it finds.

        ``meanwhile`` is called while that goes on, maybe twice; what it raises passes. If the process has gone, another
        one is asked ``again``.
        """
        if self._process is None:
            return Proof(self._problem, (), None)
        keys = [] if store.keyring is None else store.keyring.words
        told = json.dumps({"store": store.path, "uids": sorted(store.trust.uids), "keys": keys}).encode()
        request = told + b"\n" + manifest
        try:
            return self._asked(request, meanwhile)
        except _Gone:
            if not again:
                return Proof(f"the process that was to prove it ended{self._last_words()}", (), None)
        # Nobody asked it for long, maybe because this took long to compile; or it fails, as the next one will.
        self.close()
        self._start()
        return self.prove(manifest, store, meanwhile, again=False)

    def _asked(self, request: bytes, meanwhile: Callable[[], None]) -> Proof:
        """Ask, and wait for the answer. Raises _Gone if there is none."""
        os.ftruncate(self._errors, os.lseek(self._errors, 0, os.SEEK_SET))
        deadline, output = time.monotonic() + SECONDS, bytearray()
        self.sound = False
        try:
            self._channel.settimeout(SECONDS)
            self._channel.sendall(len(request).to_bytes(8, "big") + request)
        except TimeoutError:
            return _proof(b"", f"it had not begun after {SECONDS:.0f} s")
        except OSError:
            raise _Gone from None
        meanwhile()
        try:
            while not output.endswith(b"}\n") or not output[output.rfind(b"\n", 0, -1) + 1 :].startswith(_ENDED):
                self._channel.settimeout(max(deadline - time.monotonic(), 1e-3))
                part = self._channel.recv(1 << 16)
                if not part:
                    raise ConnectionResetError
                output += part
        except TimeoutError:
            return _proof(bytes(output), f"it had not ended after {SECONDS:.0f} s")
        except OSError:
            raise _Gone from None
        self.sound = True
        assert self._process is not None
        self._process.wait()
        status = json.loads(output[output.rfind(b"\n", 0, -1) + 1 :])["ended"]
        return _proof(bytes(output), f"the process ended with status {status}{self._last_words()}" if status else None)

    def _last_words(self) -> str:
        size = os.fstat(self._errors).st_size
        said = os.pread(self._errors, _LAST_WORDS, max(0, size - _LAST_WORDS)).decode(errors="replace").strip()
        last = said.rpartition("\n")[2]
        return f" ({last})" if last else ""


def _proof(output: bytes, ended: str | None) -> Proof:
    said = [json.loads(line) for line in output.splitlines() if line.endswith(b"}")]
    for each in said:
        if "problem" in each:
            return Proof(each["problem"], (), None)
    called = tuple(each["called"] for each in said if "called" in each)
    if ended is None:
        return Proof(None, called, None)
    calling = next((each["calling"] for each in reversed(said) if "calling" in each), None)
    if calling is None:
        return Proof(ended, (), None)
    return Proof(None, called, f"{calling}: {ended}")


# -- one for several publications ------------------------------------------------------------------

_kept: Final[list[Prover]] = []
"""The one that waits for a further publication, if any does."""


@contextmanager
def prepared() -> Iterator[Prover]:
    """Give one that nobody else uses: the one that is there, or a new one, which imports while others compile."""
    prover = _kept.pop() if _kept else None
    if prover is not None and prover.circumstances != _circumstances():
        prover.close()
        prover = None
    prover = Prover() if prover is None else prover
    try:
        yield prover
    finally:
        if prover.sound and not _kept:
            _kept.append(prover)
        else:
            prover.close()


def _circumstances() -> tuple[list[str], str, dict[str, str]]:
    """What a process has from the one that starts it: where modules lie, where it runs, and its environment."""
    # Modules are found as they are here, and by the names of files that don't depend on where it runs.
    path = [os.path.abspath(each) for each in sys.path if isinstance(each, str)]
    directory = ""
    with suppressed(OSError):
        directory = os.getcwd()
    return path, directory, environ.for_children()


@atexit.register
def _close() -> None:
    while _kept:
        _kept.pop().close()


def _forget() -> None:
    while _kept:
        _kept.pop().forget()


os.register_at_fork(after_in_child=_forget)
