"""The process that proves publications (:mod:`nbcache.published.proof`): no Numba, and a child for each of them.

What it is told comes by its standard input, a socket; what was found out it says there, line by line, so that a child
that crashes has said how far it came. It ends when the other side is gone, and when nobody asks for long.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import logging
import os
import select
import signal
import sys
from typing import IO, TYPE_CHECKING, Final, NoReturn

from nbcache.errors import NbcacheError, PublicationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec

    from nbcache.config import Settings
    from nbcache.protocol.manifests import Function, Manifest

IDLE_SECONDS: Final = 60.0
"""How long it waits for a further publication [s]: it holds as much memory as NumPy."""
_BLOCKED: Final = frozenset({"numba", "llvmlite"})
_NEEDED: Final = (
    "numpy",
    "nbcache.keyring",
    "nbcache.store.publication",
    *(f"nbcache.published.{name}" for name in ("load", "dispatch", "examples")),
)
_log = logging.getLogger("nbcache")


class _Blocker:
    """A finder that refuses Numba and llvmlite, however they are asked for."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in _BLOCKED:
            raise ImportError(f"{name} is not imported by a node")
        return None


def main() -> None:
    """Prove what the standard input says, one publication after the other."""
    # Whoever started this goes on being nobody's parent but that of his own processes.
    if os.fork():
        os._exit(0)
    sys.meta_path.insert(0, _Blocker)
    # What is called may print what it likes, and read what it likes.
    channel = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Before there is anything to read: who publishes is still compiling.
    for module in _NEEDED:
        importlib.import_module(module)
    # What is here by now isn't looked at again by children, whose own copy of it each look would make.
    gc.collect()
    gc.freeze()
    with open(channel, "rb", closefd=False) as asked, open(channel, "wb", closefd=False) as said:
        while select.select([channel], [], [], IDLE_SECONDS)[0]:
            request = asked.read(int.from_bytes(asked.read(8), "big"))
            if not request:
                return  # the other side is gone
            finished, ours = os.pipe()
            child = os.fork()
            if child == 0:
                _prove(said, request)
                _end()
            os.close(ours)
            # Its end is closed when it has ended.
            asking, _, _ = select.select([channel, finished], [], [])
            os.close(finished)
            if channel in asking and not _is_over(child):
                # Nobody asks before he has the answer: the other side is gone, and nobody waits for this one.
                os.kill(child, signal.SIGKILL)
                return
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.write(f'\n{{"ended": {status}}}\n'.encode())
            said.flush()


def _end() -> NoReturn:
    """End this child as a process ends, but for taking down what Python has imported, which takes longer than all else:
    each page of it is the other process's, and is copied when it is first written to.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  as Python does, and has no other name for it
    sys.stdout.flush()
    sys.stderr.flush()
    # With what libraries do at the end, those of threads among them.
    ctypes.CDLL(None).exit(0)
    os._exit(0)


def _is_over(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _prove(said: IO[bytes], request: bytes) -> None:
    line, _, manifest = request.partition(b"\n")
    from nbcache.config import Settings
    from nbcache.setting_syntax import read

    told = json.loads(line)
    keys = read("trusted_keys", told["keys"])
    settings = Settings(dir=told["store"], readonly=True, trusted_uids=frozenset(told["uids"]), trusted_keys=keys)
    for fact in _facts(manifest, settings):
        said.write(json.dumps(fact).encode() + b"\n")
        said.flush()  # the next one may end the process


def _facts(data: bytes, settings: Settings) -> Iterator[dict[str, str]]:
    from nbcache.protocol import manifests
    from nbcache.published import load, unpickling
    from nbcache.published.realize import realize

    try:
        manifest = manifests.decode(data)
        # Of a function that needs Numba there is nothing to prove.
        without = {name: each for name, each in manifest.functions.items() if each.what != "numba"}
        manifest = manifest._replace(functions=without)
        store = load.opened(settings)
        loaded = realize(load.stored(data, manifest, store))
    except NbcacheError as exc:
        yield {"problem": exc.reason if isinstance(exc, PublicationError) else str(exc)}
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
    from nbcache.published.manifest_names import named

    for name in manifest.imports:
        try:
            named(name)
        except Exception as exc:  # noqa: BLE001  somebody else's module
            why = f"which can't be imported without Numba ({exc}): define it in a module of its own"
            yield {"problem": f"it uses {name} when it runs, {why}"}


def _calls(function: Function) -> Iterator[tuple[str, list[object]]]:
    from nbcache.published.examples import CannotMakeUp, example

    for signature in function.signatures:
        try:
            args = [example(each) for each in signature.args if each["k"] != "omitted"]
        except CannotMakeUp:
            continue
        if function.star:
            args = [*args[:-1], *args[-1]]
        yield f"{function.name}({', '.join(each['k'] for each in signature.args)})", args
