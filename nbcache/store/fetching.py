"""Copying a publication from one store to another: a node's own copy, or another fleet's.

What is copied is judged and checked as it is read, byte by byte, and is in the other store before the name is.
Interrupted, the other store holds entries and files that no name refers to, which are evicted and collected like all
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nbcache.errors import PublicationError
from nbcache.records import Record
from nbcache.store import pins
from nbcache.store.publication import failing

if TYPE_CHECKING:
    from nbcache.store.directory import Store
    from nbcache.store.entry import Entry
    from nbcache.store.publication import Publication

_ATTEMPTS: Final = 3


class Fetched(Record):
    """What was copied."""

    publication: Publication
    """As it is published in the other store."""
    size: int
    """Of its manifest, entries and files [bytes]."""


def fetch(source: Store, target: Store, name: str) -> Fetched:
    """Copy what is published under a name, with all that it refers to; return what was copied.

    What is there already isn't written again. Raises what :meth:`nbcache.store.name_writing.Names.read` and
    :meth:`~nbcache.store.name_writing.Names.write` do.
    """
    found = source.names.read(name)
    if not target.writable:
        raise PublicationError(name, f"{target.path} is read-only for this process: nothing can be put there")
    for _ in range(_ATTEMPTS - 1):
        try:
            return _copy(source, target, found)
        except pins.MissingError:
            # Evicted there before the name pinned it.
            continue
    return _copy(source, target, found)


def _copy(source: Store, target: Store, found: Publication) -> Fetched:
    name, size = found.name, len(found.manifest)
    for key in found.entries:
        size += _copy_entry(source, target, name, key)
    for digest in found.files:
        data = source.names.files.read(digest, name)
        with failing(name, f"{target.path} can't be written"):
            target.names.files.add(data, digest)
        size += len(data)
    return Fetched(target.names.adopt(found), size)


def _copy_entry(source: Store, target: Store, name: str, key: str) -> int:
    """Copy every variant of a key; return their size [bytes]. It isn't said which of them the publication means."""
    reasons: list[str] = []
    variants = list(source.find(key, reasons.append))
    size = sum(put(target, name, variant) for variant in variants)
    if not variants or reasons:
        why = f" can't be used ({', '.join(reasons)})" if reasons else " is gone"
        raise PublicationError(name, f"its entry {key} in {source.path}{why}: publish it again")
    return size


def put(target: Store, name: str, variant: Entry) -> int:
    """Put an entry of another store, or of a layer, into a store as it is, unless it is there; return its size [bytes].

    Raises PublicationError, for the publication ``name``.
    """
    sections, key = variant.sections(), variant.header.key
    if sections is None:
        raise PublicationError(name, f"its entry {variant.path} is damaged or gone: publish it again")
    if all(present.digest != variant.digest for present in target.find(key)):
        # The same variant may be there as another build, whose symbols have other names.
        done = target.publish(variant.header, sections, recache=True)
        if not done.ok:
            raise PublicationError(name, f"its entry {key} can't be put into {target.path}: {done.reason}")
        if all(present.digest != variant.digest for present in target.find(key)):
            raise PublicationError(name, f"its entry {key} did not arrive in {target.path} as it was: try again")
    return sum(map(len, sections.values()))
