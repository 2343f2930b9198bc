"""What is signed of an entry.

::

    text = "nbcache signature 1" LF "format " FORMAT_VERSION LF "key " key LF "blake2b-256 " digest LF

The digest is over the whole entry as it is encoded without signatures; the digests in entries are shorter and only
notice damage. The key of the entry and the format's version stand beside it, so that a signature is of no use
elsewhere. What follows the text, :mod:`nbcache.signatures` says.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from nbcache import signatures
from nbcache.store import entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbcache.keyring import Signature
    from nbcache.signatures import SecretKey
    from nbcache.store.entry import Header


def sign(key: SecretKey, header: Header, sections: Mapping[str, bytes]) -> Signature:
    """Sign an entry. Raises EntryError."""
    return signatures.sign(key, _text(header, sections))


def verified(header: Header, sections: Mapping[str, bytes], signed: tuple[Signature, ...]) -> tuple[Signature, ...]:
    """Return those of the signatures that are what their keys made of this entry, whoever trusts the keys."""
    text = _text(header, sections)
    return tuple(each for each in signed if signatures.is_right(each, text))


def _text(header: Header, sections: Mapping[str, bytes]) -> bytes:
    data = entry.encode(header._replace(signed=None), sections)
    digest = blake2b(data, digest_size=32).hexdigest()
    text = f"nbcache signature 1\nformat {entry.FORMAT_VERSION}\nkey {header.key}\nblake2b-256 {digest}\n"
    return text.encode()
