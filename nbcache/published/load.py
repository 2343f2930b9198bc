"""Loading what is published under a name: the way in, from the name to something that can be called.

1. the publication is read, by the rule of trust (:mod:`nbcache.store.names`), in the store, into which what remote
   tiers have of it comes first (:mod:`~nbcache.published.tiers`), or else in the first layer named by settings that has
   one of this name, and its manifest decoded;
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
from collections import OrderedDict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakValueDictionary

from nbcache.passing import errors, suppressed
from nbcache.protocol import manifests
from nbcache.published import callables, hosts
from nbcache.published.machine_code import MachineCode
from nbcache.published.members import Member, Source
from nbcache.published.runtime import HELPERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbcache.config import Settings
    from nbcache.keyring import Group
    from nbcache.protocol.blobs import Blob
    from nbcache.protocol.manifests import Code, Function, Manifest
    from nbcache.store.directory import Store
    from nbcache.store.layers import Place
    from nbcache.store.publication import Publication

WithNumba = Literal["forbid", "allow"]
MOST_KNOWN: Final = 1024
"""How many loaded publications a process keeps for who asks for them again."""


class _Process:
    """What this process has opened and loaded."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._code: dict[tuple[str, str], MachineCode] = {}
        self.stores: dict[str, Store] = {}
        self.layers: dict[tuple[str, tuple[str, ...]], list[Store]] = {}
        self._loaded: OrderedDict[tuple[object, ...], tuple[object, Any]] = OrderedDict()
        self.parts: WeakValueDictionary[str, _Part] = WeakValueDictionary()
        """What came along with publications that came as bytes, by digest, as long as somebody has one of these."""

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
    _look(name, stores, settings)
    if not follow:
        stamps = tuple(store.names.stamp(name) for store in stores)
        asked = (paths, name, version, numba)
        return _process.known(asked, stamps, lambda: _load(stores, name, version, numba)[1])
    if version is not None:
        raise ValueError(f"{name}: version {version} stays what it is: there is nothing to follow")
    from nbcache.published import following

    def stamp() -> tuple[object, ...] | None:
        _look(name, stores, settings)
        stamps = tuple(store.names.stamp(name) for store in stores)
        return stamps if any(stamps) else None

    newest = functools.partial(_load, stores, name, None, numba)
    return following.follow((*paths, name, numba), stamp, name, newest)


def exists(name: str, settings: Settings) -> bool:
    """Whether something is published under a name. Raises BadNameError and StoreRefusedError."""
    stores = searched(settings)
    _look(name, stores, settings)
    return any(store.names.stamp(name) is not None for store in stores)


def _look(name: str, stores: Sequence[Store], settings: Settings) -> None:
    """Have the newest version that the remote tiers have put into the store, if there are any. Raises PublicationError
    where they may have one, and nothing else does.
    """
    if settings.remote and stores[0].writable:
        from nbcache.published import tiers

        is_here = any(store.names.stamp(name) is not None for store in stores)
        tiers.look(name, settings, is_here=is_here, since=lambda: _date(name, stores[1:]))


def _date(name: str, layers: Sequence[Store]) -> float:
    """Return the date of what layers have under a name, which nothing older in the store is to hide; 0 for nothing."""
    with suppressed(errors.NbcacheError):
        return _found(layers, name, None)[1].created if layers else 0.0
    return 0.0


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
    signers: tuple[Group, ...] = ()
    if publication.signed is not None:
        from nbcache.keyring import Signature, group_of  # most are of this store

        signers = (group_of(Signature(*each) for each in publication.signed),)
    if not store.trusts((*manifest.beside, *signers)):
        raise errors.PublicationError(name, manifests.UNTRUSTED)
    source = stored(publication.manifest, manifest, store, publication.objects, signers)
    return publication.digest, realize(source, numba=numba)


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

    def near() -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for error in missing for each in error.near))

    raise errors.NotPublishedError(name, ", ".join(store.path for store in stores), near)


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
        from nbcache.store.directory import Refusal, Store  # bytes need none

        found = Store.open(settings)
        if isinstance(found, Refusal):
            raise errors.StoreRefusedError(where, found.reason)
        store = _process.stores[where] = found
    return store


def stored(
    raw: bytes,
    manifest: Manifest,
    store: Store,
    objects: Sequence[str] | None = None,
    signers: tuple[Group, ...] = (),
) -> Source:
    """Return what loads a manifest, ``raw`` as it is stored, with its code out of a store: of its entries, or of files
    with the digests ``objects``.
    """

    def object_of(manifest: Manifest, code: Code) -> bytes:
        if objects is not None:
            return store.names.files.read(objects[manifest.codes.index(code)], manifest.name)
        return store.object_of(code.key, code.entry, manifest.name)

    return Source(raw, manifest, store.names.files, object_of, restored, signers=signers)


# -- out of bytes ----------------------------------------------------------------------------------


class _Part:
    """Something that came along with bytes."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Parts:
    """The parts of a publication that came as bytes, and of others that this process has."""

    def __init__(self, name: str, blob: Blob) -> None:
        """Take those that are here. Raises PublicationError."""
        self._parts = {}
        for digest in blob.parts:
            part = _process.parts.get(digest)
            if part is None and digest in blob.here:
                part = _process.parts[digest] = _Part(bytes(blob.here[digest]))
            if part is None:
                why = "did not come along: nbcache.missing() says which parts a process needs"
                raise errors.PublicationError(name, f"its part {digest[:12]}… {why}")
            self._parts[digest] = part

    def read(self, digest: str, name: str) -> bytes:
        """Return a part. Raises PublicationError."""
        part = self._parts.get(digest)
        if part is None:
            raise errors.PublicationError(name, f"its part {digest[:12]}… is not among those that it is said to have")
        return part.data

    def opened(self, digest: str, name: str) -> tuple[None, bytes]:
        """Return a part, which is no file."""
        return None, self.read(digest, name)


def restored(data: bytes) -> Any:
    """Return what bytes describe, the same object where it was loaded before: whose they are, nobody asks.

    Pickles of loaded functions call this. Raises ManifestError and PublicationError.
    """
    from nbcache.protocol import blobs

    return of_blob(blobs.parse(data))


def of_blob(blob: Blob, signers: tuple[Group, ...] = ()) -> Any:
    """Return what a blob describes that is trusted, for its ``signers`` if any. Raises ManifestError and
    PublicationError.
    """

    def loaded() -> Any:
        manifest, objects = manifests.decode(blob.manifest), blob.objects
        with _process.lock:
            parts = _Parts(manifest.name, blob)

        def object_of(manifest: Manifest, code: Code) -> bytes:
            at = manifest.codes.index(code)
            if at >= len(objects):
                raise errors.PublicationError(manifest.name, "its object files are not among its parts")
            return parts.read(objects[at], manifest.name)

        return realize(Source(blob.manifest, manifest, parts, object_of, restored, signers=signers))

    return _process.known((blob.digest, signers), None, loaded)


def missing(blob: Blob) -> list[str]:
    """Return the digests of those parts of a blob that did not come along and that this process doesn't have."""
    return [digest for digest in blob.parts if digest not in blob.here and digest not in _process.parts]


# -- in this process -------------------------------------------------------------------------------


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
        with _process.lock:
            object_of = None if manifest.variants else source.object_of
            address_of = _process.code(manifest).load(manifest, source.files, object_of)
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
    from nbcache.published.named import named

    try:
        return named(function.source)
    except (ImportError, AttributeError) as exc:
        raise errors.PublicationError(manifest.name, f"{function.source} can't be imported instead: {exc}") from exc
