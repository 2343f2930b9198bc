"""From a manifest to something that can be called, for all ways by which a manifest comes.

The host is compared with the one that it was built for (:mod:`~nbcache.published.hosts`), its machine code is loaded
(:mod:`~nbcache.published.machine_code`), and each function is made of its entry points
(:mod:`~nbcache.published.callables`). What was loaded is shared by all publications that refer to it.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections import OrderedDict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal

from nbcache.passing_exceptions import errors, suppressed
from nbcache.published import callables, hosts
from nbcache.published.machine_code import MachineCode
from nbcache.published.members import Member, Source
from nbcache.published.runtime import HELPERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbcache.protocol.manifests import Function, Manifest

WithNumba = Literal["forbid", "allow"]
MOST_KNOWN: Final = 1024
"""How many loaded publications a process keeps for who asks for them again."""


class Process:
    """What this process has loaded."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._code: dict[tuple[str, str], MachineCode] = {}
        self._loaded: OrderedDict[tuple[object, ...], tuple[object, Any]] = OrderedDict()

    def known(self, asked: tuple[object, ...], stamp: object, loaded: Callable[[], Any]) -> Any:
        """Return what was asked for before while the stamp was the same; or what is loaded now."""
        found = self._loaded.get(asked)
        if found is None or found[0] != stamp:
            found = self._loaded[asked] = stamp, loaded()
            while len(self._loaded) > MOST_KNOWN:
                self._loaded.popitem(last=False)
        with suppressed(KeyError):  # another thread has loaded that many
            self._loaded.move_to_end(asked)
        return found[1]

    def code(self, manifest: Manifest) -> MachineCode:
        """What has the code of Numba's version, and build, that a manifest is of: runtimes of two can't be mixed."""
        helpers = next((each.digest for each in manifest.extensions if each.module == HELPERS), "")
        found = self._code.get((manifest.numba, helpers))
        if found is None:
            found = self._code[manifest.numba, helpers] = MachineCode(manifest.numba)
        return found


process: Final = Process()
# Nothing is loaded while a process is copied: the child would have half of it, and locks that nobody gives back.
os.register_at_fork(
    before=process.lock.acquire, after_in_parent=process.lock.release, after_in_child=process.lock.release
)


def realize(source: Source, *, numba: WithNumba = "forbid") -> Any:
    """Return what is described where it is loaded from. Raises PublicationError."""
    manifest = source.manifest.fitting(hosts.features()) if source.manifest.variants else source.manifest
    problem = hosts.problem(manifest.host)
    if problem is not None:
        if numba == "forbid":
            raise errors.PublicationError(
                manifest.name, f"{problem}: publish it for this kind of host, or load it with numba='allow'"
            )
        return _shaped({attribute: _import(manifest, each) for attribute, each in manifest.functions.items()})
    try:
        with process.lock:
            object_of = None if manifest.variants else source.object_of
            address_of = process.code(manifest).load(manifest, source.files, object_of)
            return _shaped({name: _made(source, name, numba, address_of) for name in manifest.functions})
    except (errors.NbcacheError, MemoryError):
        raise
    except Exception as exc:
        raise errors.PublicationError(manifest.name, f"it can't be loaded: {exc}") from exc


def _shaped(functions: Mapping[str, Any]) -> Any:
    return functions[""] if functions.keys() == {""} else SimpleNamespace(**functions)


def _made(source: Source, attribute: str, numba: WithNumba, address_of: Callable[[str], int]) -> Any:
    manifest = source.manifest
    function = manifest.functions[attribute]
    if function.what == "numba":
        if numba == "forbid":
            reason = (
                f"{function.name} needs Numba: {function.reason}; load it with numba='allow' where Numba is installed"
            )
            raise errors.PublicationError(manifest.name, reason)
        return _import(manifest, function)
    return callables.make(Member(function, address_of, source, attribute))


def _import(manifest: Manifest, function: Function) -> Any:
    """The function itself, which Numba will compile."""
    if function.source is None:
        raise errors.PublicationError(
            manifest.name, f"{function.name} is no attribute of a module: Numba can't be used instead"
        )
    from nbcache.published.manifest_names import named

    try:
        return named(function.source)
    except (ImportError, AttributeError) as exc:
        raise errors.PublicationError(manifest.name, f"{function.source} can't be imported instead: {exc}") from exc
