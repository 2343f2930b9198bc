"""What may come into a store from elsewhere: entries with their signatures in the header.

What is guaranteed of an entry that is admitted:

- It is under the key that was asked for, in a slot that was asked for.
- It is encoded exactly as nbcache encodes it; so there is no second way to write the same thing.
- Programs of this host didn't crash with it.
- At least one signature by a trusted key, neither expired, is over every byte of it. Only signatures that were verified
  stay on it. Of those who signed what it says it was built beside, at least one is trusted for each. Without keys,
  where ``unsigned`` is the explicit word, it is marked as from elsewhere all the same, so that it counts only as long
  as that word is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache.errors import EntryError
from nbcache.remote import signing
from nbcache.store import entry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from nbcache.keyring import Keyring
    from nbcache.store.entry import Header, ParsedEntry

MAX_OBJECT: Final = 64 << 20
"""The largest entry that is taken or sent, and the largest object that holds one [bytes]."""
DAMAGED: Final = "it is damaged or was altered"
OTHER_VERSION: Final = "it is of another version of nbcache"
OTHER_KEY: Final = "it belongs under another key"
UNSIGNED: Final = "nobody signed it"
UNTRUSTED: Final = "nobody who is trusted signed it"
WRONG: Final = "its signature is wrong or has expired"
BESIDE_UNTRUSTED: Final = "it was built beside code that nobody who is trusted signed"
CRASHED: Final = "programs of this host crashed with it"


class Admitted(NamedTuple):
    """An entry that may go into the store."""

    header: Header
    sections: Mapping[str, bytes]


def admit(data: bytes, key: str, keyring: Keyring, condemned: AbstractSet[str] = frozenset()) -> Admitted | str:
    """Judge an entry that was found under a key; if it is refused, say why, as one of the words above.

    *condemned* are the digests of those that programs crashed with (:func:`nbcache.store.quarantine.condemned`).
    """
    found = _examined(data)
    if isinstance(found, str):
        return found
    if found.header.key != key:
        return OTHER_KEY
    signatures = found.header.signed or ()
    trusted = tuple(filter(keyring.trusted, signatures))
    if not trusted and not keyring.unsigned:
        # Before the whole of it is looked at, which takes time and memory.
        known = any((each.name, each.public) in keyring.keys for each in signatures)
        return WRONG if known else UNTRUSTED if signatures else UNSIGNED
    opened = _whole(found, data)
    if isinstance(opened, str):
        return opened
    right = signing.verified(*opened, trusted) if trusted else ()
    if not right and not keyring.unsigned:
        return WRONG
    admitted = opened._replace(header=opened.header._replace(signed=right))
    if not keyring.admits(right, admitted.header.extra.get(entry.BESIDE)):
        return BESIDE_UNTRUSTED
    # As it would lie in the store, where what is known of it is its digest.
    return CRASHED if condemned and entry.digest_of(*admitted) in condemned else admitted


def open_entry(data: bytes) -> Admitted | str:
    """Read an entry without judging who signed it; if it is none, say why."""
    found = _examined(data)
    return found if isinstance(found, str) else _whole(found, data)


def _examined(data: bytes) -> ParsedEntry | str:
    if len(data) > MAX_OBJECT:
        return DAMAGED
    found = entry.examine(data)
    if isinstance(found, str):
        return OTHER_VERSION if found == entry.OTHER_VERSION else DAMAGED
    return found


def _whole(found: ParsedEntry, data: bytes) -> Admitted | str:
    sections = {name: found.section(name) for name in found.section_sizes}
    whole = {name: content for name, content in sections.items() if content is not None}
    try:
        same = len(whole) == len(sections) and entry.encode(found.header, whole) == data
    except EntryError:
        # JSON has ways to say what nbcache never says: numbers that are none, say.
        return DAMAGED
    return Admitted(found.header, whole) if same else DAMAGED
