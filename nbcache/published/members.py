"""What loaded functions hold: their facts and their code, as long as they live, and what they can be carried by.

A loaded function is pickled with all of its publication, as bytes (:mod:`nbcache.protocol.blobs`). Who unpickles it
trusts the pickle with anything, and so nothing more is asked there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbcache.records import Record
from nbcache.store.content import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    from nbcache.keyring import Group
    from nbcache.protocol.manifests import Code, Function, Manifest
    from nbcache.signing_keys import SecretKey

    ObjectOf = Callable[[Manifest, Code], bytes]
    """Returns the object file of one of a manifest's codes. Raises PublicationError."""

    class Files(Protocol):
        """Files by digest (:class:`nbcache.store.publication_files.Files`): what is returned has that digest."""

        def read(self, digest: str, name: str) -> bytes:
            """Return what a file of the publication ``name`` holds. Raises PublicationError."""

        def opened(self, digest: str, name: str) -> tuple[str | None, bytes]:
            """Return where it lies, too; None if it is no file."""


class Source(Record):
    """What a publication was loaded from: enough to load it elsewhere."""

    raw: bytes
    """The manifest as it is stored."""
    manifest: Manifest
    files: Files
    object_of: ObjectOf
    restore: Callable[[bytes], Any]
    """Loads what :meth:`blob` returned."""
    signers: tuple[Group, ...]
    """One of each group signed it."""

    def blob(self, key: SecretKey | None = None, wanted: Collection[str] | None = None) -> bytes:
        """Return all of it as bytes, signed if there is a ``key``; of its parts those that are ``wanted``, or all.

        Raises PublicationError for a file or an entry that is gone, RemoteError where nothing can be signed.
        """
        from nbcache.protocol import blobs

        manifest = self.manifest
        parts = {digest: self.files.read(digest, manifest.name) for digest in manifest.needed}
        objects = [] if manifest.image is not None else [self.object_of(manifest, code) for code in manifest.codes]
        digests = tuple(map(digest_of, objects))
        parts.update(zip(digests, objects, strict=True))
        sizes = {digest: len(data) for digest, data in parts.items()}
        here = parts if wanted is None else {digest: parts[digest] for digest in parts.keys() & set(wanted)}
        raw, signed = self.raw, []
        if key is not None:
            from nbcache import signing_keys
            from nbcache.protocol import manifests

            if self.signers:
                # Nobody who stops trusting them runs their code because somebody else has signed it, too.
                raw = manifests.encode(manifest._replace(beside=(*manifest.beside, *self.signers)))
            about = blobs.Blob(raw, digests, sizes, {}, ())
            signed.append(signing_keys.sign(key, blobs.text_of(about.digest)))
        return blobs.encode(raw, digests, sizes, here, signed)

    def __reduce__(self) -> Any:
        """Return what loads it: who reads a pickle trusts it with anything."""
        return self.restore, (self.blob(),)


def function_of(loaded: Any, attribute: str) -> Any:
    """Return the function that a loaded publication has under an attribute; "": the one that it is."""
    if isinstance(loaded, Source):
        # A copy is made of the same parts as a pickle, which nobody has pickled.
        restore, data = loaded.__reduce__()
        loaded = restore(*data)
    return getattr(loaded, attribute) if attribute else loaded


class Carried:
    """Has a function of a loaded publication as its only attribute."""

    def __init__(self, loaded: Any, attribute: str, name: str) -> None:
        setattr(self, name, function_of(loaded, attribute))


class Member:
    """What a loaded function holds for as long as it lives: what its manifest says of it, and its code.

    C code has pointers to some of what is ``kept``, and to nothing that nobody keeps.
    """

    __slots__ = ("__weakref__", "address_of", "attribute", "function", "kept", "source")

    def __init__(
        self, function: Function, address_of: Callable[[str], int], source: Source | None = None, attribute: str = ""
    ) -> None:
        """``address_of`` says where the symbols lie, ``source`` what publication it is the ``attribute`` of."""
        self.function = function
        self.address_of = address_of
        self.source = source
        self.attribute = attribute
        self.kept: list[Any] = []

    def __reduce__(self) -> Any:
        """Return what has the same function as an attribute where the whole publication was carried to.

        Pickling a builtin function is pickling that it is an attribute, by its own name, of what it is a method of.
        """
        return Carried, (*self.portable(), self.function.name)

    def portable(self) -> tuple[Source, str]:
        """Return what names it anywhere. Raises TypeError for what can't leave this process."""
        if self.source is None:
            raise TypeError(f"{self.function.name} can't be pickled: import it from its package where it is needed")
        return self.source, self.attribute
