"""Loading what is published under a name: the way in, from the name to something that can be called.

1. the publication is read, by the rule of trust (:mod:`nbcache.store.name_writing`), in the store, into which what
   remote tiers have of it comes first (:mod:`~nbcache.published.names_in_tiers`), or else in the first layer named by
   settings that has one of this name, and its manifest decoded;
2. the host is compared with the one that it was built for (:mod:`~nbcache.hosts`), here and below by
   :mod:`~nbcache.published.realize`;
3. its machine code is loaded: its image is mapped
   (:mod:`~nbcache.published.images`), or else each entry that it refers to is taken out of the store, and its object
   code given to LLVM as it is (:mod:`~nbcache.published.engine`). Every symbol is bound that the code expects from
   elsewhere, and its environments are made (:mod:`~nbcache.published.runtime`);
4. each function is made of its entry points (:mod:`~nbcache.published.members`).

What was loaded stays for the life of the process, and is shared by all publications that refer to it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nbcache.passing_exceptions import errors, suppressed
from nbcache.protocol import manifests
from nbcache.published.members import Source
from nbcache.published.realize import WithNumba, process, realize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbcache.config import Settings
    from nbcache.keyring import Group
    from nbcache.protocol.manifests import Code, Manifest
    from nbcache.store.directory import Store
    from nbcache.store.layers import Place
    from nbcache.store.opened import Opened, Refusal
    from nbcache.store.publication import Publication

    AnyStore = TypeVar("AnyStore", bound=Opened)

_stores: Final[dict[str, Opened]] = {}
_layers: Final[dict[tuple[str, tuple[str, ...] | None], list[Store]]] = {}


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
        stamps = tuple(store.named.stamp(name) for store in stores)
        asked = (paths, name, version, numba)
        return process.known(asked, stamps, lambda: _load(stores, name, version, numba)[1])
    if version is not None:
        raise ValueError(f"{name}: version {version} stays what it is: there is nothing to follow")
    from nbcache.published import following

    def stamp() -> tuple[object, ...] | None:
        _look(name, stores, settings)
        stamps = tuple(store.named.stamp(name) for store in stores)
        return stamps if any(stamps) else None

    newest = functools.partial(_load, stores, name, None, numba)
    return following.follow((*paths, name, numba), stamp, name, newest)


def exists(name: str, settings: Settings) -> bool:
    """Whether something is published under a name. Raises BadNameError and StoreRefusedError."""
    stores = searched(settings)
    _look(name, stores, settings)
    return any(store.named.stamp(name) is not None for store in stores)


def _look(name: str, stores: Sequence[Opened], settings: Settings) -> None:
    """Have the newest version that the remote tiers have put into the store, if there are any. Raises PublicationError
    where they may have one, and nothing else does.
    """
    if settings.remote and stores[0].writable:
        from nbcache.published import names_in_tiers

        is_here = any(store.named.stamp(name) is not None for store in stores)
        names_in_tiers.look(name, settings, is_here=is_here, since=lambda: _date(name, stores[1:]))


def _date(name: str, layers: Sequence[Opened]) -> float:
    """Return the date of what layers have under a name, which nothing older in the store is to hide; 0 for nothing."""
    with suppressed(errors.NbcacheError):
        return _found(layers, name, None)[1].created if layers else 0.0
    return 0.0


def known(settings: Settings) -> list[str]:
    """Return the names under which something is published, sorted. Raises StoreRefusedError."""
    return sorted({name for store in searched(settings) for name in store.named.known()})


def _load(stores: Sequence[Opened], name: str, version: int | None, numba: WithNumba) -> tuple[str, Any]:
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


def _found(stores: Sequence[Opened], name: str, version: int | None) -> tuple[Opened, Publication]:
    """Return the publication, and the first store that has one of this name. Raises as :func:`load`."""
    missing = []
    for store in stores:
        try:
            return store, store.named.read(name, version)
        except errors.NotPublishedError as error:
            missing.append(error)
    if len(missing) == 1:
        raise missing[0]

    def near() -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for error in missing for each in error.near))

    raise errors.NotPublishedError(name, ", ".join(store.path for store in stores), near)


def searched(settings: Settings) -> list[Opened]:
    """Where names are looked for, in this order: the store, and the :func:`layers` that settings name.

    Raises StoreRefusedError.
    """
    store = opened(settings)
    return [store, *layers(store, settings.layers)] if settings.layers else [store]


def layers(store: Opened, paths: tuple[str, ...] | None) -> list[Store]:
    """The layers that settings name, opened once.

    Those that packages declare aren't among them: finding those reads the metadata of all that is installed, and a
    package that brings published functions is a wheel of its own (:mod:`nbcache.wheels`).
    """
    from nbcache.store.layers import Place, open_under

    key = store.path, paths
    found = _layers.get(key)
    if found is None:
        places = [Place(path, path) for path in paths or ()]
        found = _layers[key] = list(open_under(store, places, _say_refused))
    return found


def _say_refused(place: Place, reason: str) -> None:
    import logging

    logging.getLogger("nbcache").warning("the layer %s is not used: %s", place.name, reason)


def opened(settings: Settings) -> Opened:
    """The store that settings name, opened once, to be read. Raises StoreRefusedError."""
    where = settings.dir or ""
    store = _stores.get(where)
    if store is None:
        from nbcache.store.opened import Opened  # bytes need none

        store = _stores[where] = _not_refused(Opened.open(settings), where)
    return store


def _not_refused(found: AnyStore | Refusal, where: str) -> AnyStore:
    from nbcache.store.opened import Refusal

    if isinstance(found, Refusal):
        raise errors.StoreRefusedError(where, found.reason)
    return found


def unpublish(name: str, settings: Settings) -> None:
    """Take back what is published under a name; see :func:`nbcache.unpublish`."""
    from nbcache.published import names_in_tiers
    from nbcache.store.directory import Store

    store = _not_refused(Store.open(settings), settings.dir or "")
    store.names.remove(name, remember=bool(settings.remote))
    names_in_tiers.publish(name, settings)


def stored(
    raw: bytes,
    manifest: Manifest,
    store: Opened,
    objects: Sequence[str] | None = None,
    signers: tuple[Group, ...] = (),
) -> Source:
    """Return what loads a manifest, ``raw`` as it is stored, with its code out of a store: of its entries, or of files
    with the digests ``objects``.
    """

    def object_of(manifest: Manifest, code: Code) -> bytes:
        if objects is not None:
            return store.named.files.read(objects[manifest.codes.index(code)], manifest.name)
        return store.object_of(code.key, code.entry, manifest.name)

    return Source(raw, manifest, store.named.files, object_of, restored, signers)


def restored(data: bytes) -> Any:
    """Return what bytes describe: pickles of loaded functions call this. Raises ManifestError and PublicationError."""
    from nbcache.published import received_parts

    return received_parts.restored(data)
