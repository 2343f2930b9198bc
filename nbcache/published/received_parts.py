"""Publications that came as bytes: their parts, which this process may have of others, and what is loaded of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from nbcache.passing_exceptions import errors
from nbcache.protocol import blobs, manifests
from nbcache.published.members import Source
from nbcache.published.realize import process, realize

if TYPE_CHECKING:
    from nbcache.keyring import Group
    from nbcache.protocol.blobs import Blob
    from nbcache.protocol.manifests import Code, Manifest


class _Part:
    """Something that came along with bytes."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, came: memoryview) -> None:
        # What is most of what came is not copied, and so keeps all of that; mostly, nobody ever reads it.
        self.data = came if 2 * len(came) >= len(came.obj) else bytes(came)  # type: ignore[arg-type]  # it is of bytes


_known: Final[WeakValueDictionary[str, _Part]] = WeakValueDictionary()
"""What came along so far, by digest, as long as somebody has one of these publications."""


class _Parts:
    """The parts of a publication that came as bytes, and of others that this process has."""

    def __init__(self, name: str, blob: Blob) -> None:
        """Take those that are here. Raises PublicationError."""
        self._parts = {}
        for digest in blob.parts:
            part = _known.get(digest)
            if part is None and digest in blob.here:
                part = _known[digest] = _Part(blob.here[digest])
            if part is None:
                why = "did not come along: nbcache.missing() says which parts a process needs"
                raise errors.PublicationError(name, f"its part {digest[:12]}… {why}")
            self._parts[digest] = part

    def read(self, digest: str, name: str) -> bytes:
        """Return a part. Raises PublicationError."""
        part = self._parts.get(digest)
        if part is None:
            raise errors.PublicationError(name, f"its part {digest[:12]}… is not among those that it is said to have")
        return bytes(part.data)

    def opened(self, digest: str, name: str) -> tuple[None, bytes]:
        """Return a part, which is no file."""
        return None, self.read(digest, name)


def restored(data: bytes) -> Any:
    """Return what bytes describe, the same object where it was loaded before: whose they are, nobody asks.

    Pickles of loaded functions call this. Raises ManifestError and PublicationError.
    """
    return of_blob(blobs.parse(data))


def of_blob(blob: Blob, signers: tuple[Group, ...] = ()) -> Any:
    """Return what a blob describes that is trusted, for its ``signers`` if any. Raises ManifestError and
    PublicationError.
    """

    def loaded() -> Any:
        manifest, objects = manifests.decode(blob.manifest), blob.objects
        with process.lock:
            parts = _Parts(manifest.name, blob)

        def object_of(manifest: Manifest, code: Code) -> bytes:
            at = manifest.codes.index(code)
            if at >= len(objects):
                raise errors.PublicationError(manifest.name, "its object files are not among its parts")
            return parts.read(objects[at], manifest.name)

        return realize(Source(blob.manifest, manifest, parts, object_of, restored, signers))

    return process.known((blob.digest, signers), None, loaded)


def missing(blob: Blob) -> list[str]:
    """Return the digests of those parts of a blob that did not come along and that this process doesn't have."""
    return [digest for digest in blob.parts if digest not in blob.here and digest not in _known]
