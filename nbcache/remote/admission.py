"""What may come into a store from elsewhere: objects, which are entries with their signatures in the header.

What is guaranteed of an entry that is admitted:

- It is under the key that was asked for, in a slot that was asked for.
- It is encoded exactly as nbcache encodes it; so there is no second way to write the same thing.
- At least one signature by a trusted key, neither expired, is over every byte of it. Only signatures that were verified
  stay on it. Without keys, where ``unsigned`` is the explicit word, it is marked as from elsewhere all the same, so
  that it counts only as long as that word is given.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache.remote import signing
from nbcache.store import entry, layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbcache.keyring import Keyring
    from nbcache.store.entry import Header

MAX_OBJECT: Final = 64 << 20
"""The largest object that is taken or sent [bytes]."""
DAMAGED: Final = "it is damaged or was altered"
OTHER_VERSION: Final = "it is of another version of nbcache"
OTHER_KEY: Final = "it belongs under another key"
UNSIGNED: Final = "nobody signed it"
UNTRUSTED: Final = "nobody who is trusted signed it"
WRONG: Final = "its signature is wrong or has expired"


class Admitted(NamedTuple):
    """An entry that may go into the store."""

    header: Header
    sections: Mapping[str, bytes]


def name_of(key: str, slot: int) -> str:
    """Return what the object in a slot of a key is called: 64 hex digits, which every server takes."""
    text = f"nbcache object\nformat {entry.FORMAT_VERSION}\nkey {layout.check_key(key)}\nslot {slot}\n"
    return blake2b(text.encode(), digest_size=32).hexdigest()


def admit(data: bytes, key: str, keyring: Keyring) -> Admitted | str:
    """Judge an object that was found under a key; if it is refused, say why, as one of the words above."""
    opened = open_object(data)
    if isinstance(opened, str):
        return opened
    header, sections = opened
    if header.key != key:
        return OTHER_KEY
    signatures = header.signed or ()
    trusted = tuple(filter(keyring.trusted, signatures))
    right = signing.verified(header, sections, trusted) if trusted else ()
    if right or keyring.unsigned:
        return Admitted(header._replace(signed=right), sections)
    if not signatures:
        return UNSIGNED
    return WRONG if any((each.name, each.public) in keyring.keys for each in signatures) else UNTRUSTED


def open_object(data: bytes) -> Admitted | str:
    """Read an object without judging who signed it; if it is none, say why."""
    if len(data) > MAX_OBJECT:
        return DAMAGED
    found = entry.examine(data)
    if isinstance(found, str):
        return OTHER_VERSION if found == entry.OTHER_VERSION else DAMAGED
    sections = {name: found.section(name) for name in found.section_sizes}
    whole = {name: content for name, content in sections.items() if content is not None}
    if len(whole) < len(sections) or entry.encode(found.header, whole) != data:
        return DAMAGED
    return Admitted(found.header, whole)
