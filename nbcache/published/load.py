"""Loading what is published under a name: the way in, from the name to something that can be called.

1. the publication is read, by the rule of trust (:mod:`nbcache.store.names`), in the store or else in the first layer
   named by settings that has one of this name, and its manifest decoded;
2. the host is compared with the one that it was built for (:mod:`~nbcache.published.hosts`);
3. its machine code is loaded (:mod:`~nbcache.published.machine_code`): its image is mapped
   (:mod:`~nbcache.published.images`), or else each entry that it refers to is taken out of the store, and its object
   code given to LLVM as it is (:mod:`~nbcache.published.engine`). Every symbol is bound that the code expects from
   elsewhere (:mod:`~nbcache.published.runtime`), and its environments are made
   (:mod:`~nbcache.published.environments`);
4. each function is made of its entry points (:mod:`~nbcache.published.callables`).

What was loaded stays for the life of the process, and is shared by all publications that refer to it.
"""

from __future__ import annotations

import functools
import os
from _thread import RLock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal

from nbcache.passing import errors
from nbcache.protocol import manifests
from nbcache.published import callables, hosts
from nbcache.published.machine_code import MachineCode
from nbcache.published.runtime import HELPERS
from nbcache.store.directory import Refusal, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbcache.config import Settings
    from nbcache.protocol.manifests import Function, Manifest
    from nbcache.store.layers import Place
    from nbcache.store.publication import Publication

WithNumba = Literal["forbid", "allow"]


class _Process:
    """What this process has opened and loaded."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._code: dict[tuple[str, str], MachineCode] = {}
        self.stores: dict[str, Store] = {}
        self.layers: dict[tuple[str, tuple[str, ...]], list[Store]] = {}
        self.loaded: dict[tuple[object, ...], tuple[tuple[object, ...], Any]] = {}
        """What was loaded under a name, and what told that it is the newest."""

    def code(self, manifest: Manifest) -> MachineCode:
        """What has the code of Numba's version, and build, that a manifest is of: runtimes of two can't be mixed."""
        helpers = next((each.digest for each in manifest.extensions if each.module == HELPERS), "")
        found = self._code.get((manifest.numba, helpers))
        if found is None:
            found = self._code[manifest.numba, helpers] = MachineCode(manifest.numba)
        return found


_process: Final = _Process()
# Nothing is loaded while a process is copied: the child would have half of it, and locks that nobody gives back.
os.register_at_fork(
    before=_process.lock.acquire, after_in_parent=_process.lock.release, after_in_child=_process.lock.release
)


def load(
    name: str, settings: Settings, *, numba: WithNumba = "forbid", version: int | None = None, follow: bool = False
) -> Any:
    """Return what is published under a name: a function, or a namespace of functions.

    That is the newest version, or the given one, and the same object until another version is published. With
    ``follow``, what is returned calls the newest version from then on (:mod:`nbcache.published.following`).

    With ``numba="allow"``, Numba is imported where the published code is of no use: for a function that can't go
    without it, and on a host that the code wasn't built for. Raises :class:`~nbcache.errors.NotPublishedError`,
    :class:`~nbcache.errors.BadNameError`, and :class:`~nbcache.errors.PublicationError` for everything else that
    stands in the way, :class:`~nbcache.errors.StoreRefusedError` where there is no store.
    """
    stores = searched(settings)
    paths = (*(store.path for store in stores),)
    if not follow:
        stamps = tuple(store.names.stamp(name) for store in stores)
        asked = (paths, name, version, numba)
        known = _process.loaded.get(asked)
        if known is None or known[0] != stamps:
            known = _process.loaded[asked] = stamps, _load(stores, name, version, numba)[1]
        return known[1]
    if version is not None:
        raise ValueError(f"{name}: version {version} stays what it is: there is nothing to follow")
    from nbcache.published import following

    def stamp() -> tuple[object, ...] | None:
        stamps = tuple(store.names.stamp(name) for store in stores)
        return stamps if any(stamps) else None

    newest = functools.partial(_load, stores, name, None, numba)
    return following.follow((*paths, name, numba), stamp, name, newest)


def exists(name: str, settings: Settings) -> bool:
    """Whether something is published under a name. Raises BadNameError and StoreRefusedError."""
    return any(store.names.stamp(name) is not None for store in searched(settings))


def known(settings: Settings) -> list[str]:
    """Return the names under which something is published, sorted. Raises StoreRefusedError."""
    return sorted({name for store in searched(settings) for name in store.names.known()})


def _load(stores: Sequence[Store], name: str, version: int | None, numba: WithNumba) -> tuple[str, Any]:
    """Return the digest of a publication, and what it describes."""
    store, publication = _found(stores, name, version)
    try:
        manifest = manifests.decode(publication.manifest)
    except errors.ManifestError as exc:
        raise errors.PublicationError(name, f"its manifest can't be used: {exc}") from exc
    if not store.trusts(manifest.beside):
        raise errors.PublicationError(name, manifests.UNTRUSTED)
    return publication.digest, realize(manifest, store, numba=numba)


def _found(stores: Sequence[Store], name: str, version: int | None) -> tuple[Store, Publication]:
    """Return the publication, and the first store that has one of this name. Raises as :func:`load`."""
    missing = []
    for store in stores:
        try:
            return store, store.names.read(name, version)
        except errors.NotPublishedError as error:
            missing.append(error)
    if len(missing) == 1:
        raise missing[0]
    near = dict.fromkeys(each for error in missing for each in error.near)
    raise errors.NotPublishedError(name, ", ".join(store.path for store in stores), tuple(near))


def searched(settings: Settings) -> list[Store]:
    """Where names are looked for, in this order: the store, and the layers that settings name, opened once.

    Layers that packages declare aren't among them: finding those reads the metadata of all that is installed, and a
    package that brings published functions is a wheel of its own (:mod:`nbcache.wheels`). Raises StoreRefusedError.
    """
    store = opened(settings)
    if not settings.layers:
        return [store]
    key = (store.path, settings.layers)
    found = _process.layers.get(key)
    if found is None:
        from nbcache.store.layers import Place, open_under

        places = [Place(path, path) for path in settings.layers]
        found = _process.layers[key] = list(open_under(store, places, _say_refused))
    return [store, *found]


def _say_refused(place: Place, reason: str) -> None:
    import logging

    logging.getLogger("nbcache").warning("the layer %s is not used: %s", place.name, reason)


def opened(settings: Settings) -> Store:
    """The store that settings name, opened once. Raises StoreRefusedError."""
    where = settings.dir or ""
    store = _process.stores.get(where)
    if store is None:
        found = Store.open(settings)
        if isinstance(found, Refusal):
            raise errors.StoreRefusedError(where, found.reason)
        store = _process.stores[where] = found
    return store


def realize(manifest: Manifest, store: Store, *, numba: WithNumba = "forbid") -> Any:
    """Return what a manifest describes, with its code out of a store. Raises PublicationError."""
    problem = hosts.problem(manifest.host)
    if problem is not None:
        if numba == "forbid":
            raise errors.PublicationError(
                manifest.name, f"{problem}: publish it for this kind of host, or load it with numba='allow'"
            )
        return _shaped({attribute: _import(manifest, each) for attribute, each in manifest.functions.items()})
    try:
        with _process.lock:
            address_of = _process.code(manifest).load(manifest, store.names.files, store)
            return _shaped(
                {name: _made(manifest, each, numba, address_of) for name, each in manifest.functions.items()}
            )
    except (errors.NbcacheError, MemoryError):
        raise
    except Exception as exc:
        raise errors.PublicationError(manifest.name, f"it can't be loaded: {exc}") from exc


def _shaped(functions: Mapping[str, Any]) -> Any:
    return functions[""] if functions.keys() == {""} else SimpleNamespace(**functions)


def _made(manifest: Manifest, function: Function, numba: WithNumba, address_of: Callable[[str], int]) -> Any:
    if function.what == "numba":
        if numba == "forbid":
            reason = (
                f"{function.name} needs Numba: {function.reason}; load it with numba='allow' where Numba is installed"
            )
            raise errors.PublicationError(manifest.name, reason)
        return _import(manifest, function)
    return callables.make(function, address_of)


def _import(manifest: Manifest, function: Function) -> Any:
    """The function itself, which Numba will compile."""
    if function.source is None:
        raise errors.PublicationError(
            manifest.name, f"{function.name} is no attribute of a module: Numba can't be used instead"
        )
    from nbcache.published.named import named

    try:
        return named(function.source)
    except (ImportError, AttributeError) as exc:
        raise errors.PublicationError(manifest.name, f"{function.source} can't be imported instead: {exc}") from exc
