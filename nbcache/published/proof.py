"""Proving a publication before it gets its name: a process in which Numba can't be imported loads it and calls it.

:class:`Prover` starts that process, which runs :func:`main`. What it is told comes by its standard input; what it found
out it says line by line, so that one that crashes has said how far it came. A crash while a publication is loaded, or
anything that needs Numba, is a reason not to publish. A crash, or no end, in a call with arguments that were made up
is not: no function owes anything to arguments that make no sense to it. What the function prints is lost.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nbcache.errors import NbcacheError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec

    from nbcache.protocol.manifests import Function, Manifest
    from nbcache.store.directory import Store

SECONDS: Final = 60.0
"""How long a proof may take [s]: far more than starting Python and importing NumPy takes on a busy machine."""
_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from nbcache.published.proof import main; main()"
_BLOCKED: Final = frozenset({"numba", "llvmlite"})
_log = logging.getLogger("nbcache")


class Proof(NamedTuple):
    """What a process without Numba found out."""

    problem: str | None
    """Why the publication can't be used, in one line."""
    called: tuple[str, ...]
    """The functions that were called and came back, be it with an exception of their own."""
    doubtful: str | None
    """The call with made-up arguments from which the process didn't come back."""


# -- who publishes -------------------------------------------------------------------------------


class Prover:
    """A process without Numba that waits for a publication to prove, until it is closed.

    It is started before there is anything to prove: starting Python and importing NumPy takes about as long as
    compiling a small function, and who compiles meanwhile doesn't wait for it.
    """

    def __init__(self) -> None:
        """Start it. Never raises: what stands in the way is what :meth:`prove` finds."""
        # Its modules are found as they are here, and by the names of files that don't depend on where it runs.
        path = [os.path.abspath(each) for each in sys.path if isinstance(each, str)]
        pipe = subprocess.PIPE
        self._problem: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            # Isolated: environment that isn't heeded here (-I, -E, more rights than the caller's) isn't heeded there.
            command = [sys.executable, "-I", "-c", _PROGRAM, *path]
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603  this Python
        except OSError as exc:
            self._problem = f"no process can be started to prove it: {exc.strerror or exc}"

    def close(self) -> None:
        """End the process, which has nothing of its own to finish."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def prove(self, manifest: bytes, store: Store) -> Proof:
        """Load a manifest there, and call what arguments can be made up for; once. Never raises for what it finds."""
        process = self._process
        if process is None:
            return Proof(self._problem, (), None)
        told = json.dumps({"store": store.path, "uids": sorted(store.trust.uids)}).encode()
        try:
            output, said = process.communicate(told + b"\n" + manifest, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return _proof(process.communicate()[0], f"it had not ended after {SECONDS:.0f} s")
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        ended = f"the process ended with status {process.returncode}" + (f" ({last})" if last else "")
        return _proof(output, ended if process.returncode else None)


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


# -- the process without Numba -------------------------------------------------------------------


class _Blocker:
    """A finder that refuses Numba and llvmlite, however they are asked for."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in _BLOCKED:
            msg = f"{name} is not imported by a node"
            raise ImportError(msg)
        return None


def main() -> None:
    """Prove what the standard input says."""
    sys.meta_path.insert(0, _Blocker)
    # What is called may print what it likes.
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    # Before there is anything to read: who publishes is still compiling.
    for module in ("numpy", "nbcache.published.load", "nbcache.published.machine_code", "nbcache.published.dispatch"):
        importlib.import_module(module)
    line, _, manifest = sys.stdin.buffer.read().partition(b"\n")
    told = json.loads(line)
    for fact in _facts(manifest, told["store"], frozenset(told["uids"])):
        report.write(json.dumps(fact) + "\n")


def _facts(data: bytes, where: str, uids: frozenset[int]) -> Iterator[dict[str, str]]:
    from nbcache.config import Settings
    from nbcache.protocol import manifests
    from nbcache.published import load, unpickling

    try:
        manifest = manifests.decode(data)
        # Of a function that needs Numba there is nothing to prove.
        without = {name: each for name, each in manifest.functions.items() if each.what != "numba"}
        manifest = manifest._replace(functions=without)
        store = load.opened(Settings(dir=where, readonly=True, trusted_uids=uids))
        loaded = load.realize(manifest, store)
    except NbcacheError as exc:
        yield {"problem": str(exc)}
        return
    yield from _missing(manifest)
    for attribute, function in manifest.functions.items():
        found = getattr(loaded, attribute) if attribute else loaded
        for name, args in _calls(function):
            yield {"calling": name}
            try:
                found(*args)
            except Exception as exc:  # noqa: BLE001  the function's own business
                _log.debug("%s raised %r", name, exc)
            yield {"called": name}
    if unpickling.failures:
        yield {"problem": f"it needs what can't be had without Numba: {unpickling.failures[0]}"}


def _missing(manifest: Manifest) -> Iterator[dict[str, str]]:
    """Problems with what the code will import when it runs."""
    from nbcache.published.named import named

    for name in manifest.imports:
        try:
            named(name)
        except Exception as exc:  # noqa: BLE001  somebody else's module
            why = f"which can't be imported without Numba ({exc}): define it in a module of its own"
            yield {"problem": f"it uses {name} when it runs, {why}"}


def _calls(function: Function) -> Iterator[tuple[str, list[Any]]]:
    from nbcache.published.examples import CannotMakeUp, example

    for signature in function.signatures:
        try:
            args = [example(each) for each in signature.args if each["k"] != "omitted"]
        except CannotMakeUp:
            continue
        if function.star:
            args = [*args[:-1], *args[-1]]
        yield f"{function.name}({', '.join(each['k'] for each in signature.args)})", args
