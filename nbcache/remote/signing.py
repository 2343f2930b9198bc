"""Keys that sign entries, and what is signed: ed25519 by PyNaCl, which nothing else imports.

::

    file   = "nbcache-secret-key 1 " name ":" base64 [":" date] LF      ; the seed; only its owner may read it
    signed = "nbcache signature 1" LF "format " FORMAT_VERSION LF "key " key LF "blake2b-256 " digest LF
             "signer " name LF "not-after " seconds LF

The digest is over the whole entry as it is encoded without signatures; the digests in entries are shorter and only
notice damage. The key of the entry and the format's version stand beside it, so that a signature is of no use
elsewhere.
"""

from __future__ import annotations

import os
import stat
from binascii import b2a_base64
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache.errors import RemoteError
from nbcache.keyring import PUBLIC_SIZE, Signature, TrustedKey, end_of, is_name, unbase64
from nbcache.regular import open_to_read
from nbcache.secret import Secret
from nbcache.store import entry
from nbcache.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from nbcache.store.entry import Header

_MAGIC: Final = "nbcache-secret-key"
_VERSION: Final = "1"
_MAX_FILE: Final = 4096


class SecretKey(NamedTuple):
    """A key to sign with."""

    name: str
    seed: Secret[bytes]
    date: str
    """The last day on which it counts, YYYY-MM-DD; "" for ever."""

    @property
    def public(self) -> TrustedKey:
        """What others need to trust it."""
        public = bytes(_nacl().SigningKey(self.seed.reveal()).verify_key)
        return TrustedKey(self.name, _base64(public), end_of(self.date))


def generate(name: str, date: str = "") -> SecretKey:
    """Make a key. Raises RemoteError for what can't be its name or its last day."""
    if not is_name(name):
        raise RemoteError(f"not a name for a key: {name!r:.80} (letters, digits, '.', '_' and '-'; at most 64)")
    try:
        end_of(date)
    except ValueError as error:
        raise RemoteError(f"not a date: {date!r:.80} (such as 2031-12-31)") from error
    return SecretKey(name, Secret(bytes(_nacl().SigningKey.generate())), date)


def save(key: SecretKey, path: str) -> None:
    """Write a key into a file that isn't there yet and that only its owner can read. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        date = f":{key.date}" if key.date else ""
        file.write(f"{_MAGIC} {_VERSION} {key.name}:{_base64(key.seed.reveal())}{date}\n")


def read(path: Secret[str]) -> SecretKey:
    """Read a key. Raises RemoteError, also where others could have read or written the file."""
    try:
        fd = open_to_read(path.reveal())
    except OSError as error:
        advice = "`nbcache key generate NAME FILE` makes one"
        raise RemoteError(f"the signing key {path} can't be read: {error.strerror} ({advice})") from error
    try:
        status = os.fstat(fd)
        problem = Trust().file_problem(status, fd)
        if problem is None and stat.S_IMODE(status.st_mode) & 0o077:
            problem = "can be read by others (chmod 600)"
        if problem is not None:
            raise RemoteError(f"the signing key {path} is not used: it {problem}")
        return _parse(os.read(fd, _MAX_FILE), path)
    finally:
        os.close(fd)


def _parse(data: bytes, path: Secret[str]) -> SecretKey:
    magic, _, rest = data.decode("ascii", "replace").strip().partition(" ")
    version, _, text = rest.partition(" ")
    name, _, rest = text.partition(":")
    seed, _, date = rest.partition(":")
    try:
        if magic != _MAGIC:
            raise RemoteError(f"{path} is no signing key: `nbcache key generate NAME FILE` makes one")
        if version != _VERSION:
            raise RemoteError(f"{path} is a signing key of another version of nbcache ({version:.20})")
        end_of(date)
        if is_name(name) and len(unbase64(seed)) == PUBLIC_SIZE:
            return SecretKey(name, Secret(unbase64(seed)), date)
    except ValueError:
        pass
    raise RemoteError(f"the signing key {path} is damaged")


def sign(key: SecretKey, header: Header, sections: Mapping[str, bytes]) -> Signature:
    """Sign an entry. Raises EntryError."""
    public = key.public
    text = _text(header.key, _digest(header, sections), key.name, public.not_after)
    value = _nacl().SigningKey(key.seed.reveal()).sign(text).signature
    return Signature(key.name, public.public, public.not_after, _base64(value))


def verified(header: Header, sections: Mapping[str, bytes], signatures: tuple[Signature, ...]) -> tuple[Signature, ...]:
    """Return those of the signatures that are what their keys made of this entry, whoever trusts the keys."""
    digest = _digest(header, sections)
    return tuple(each for each in signatures if _is_right(each, header.key, digest))


def _is_right(signature: Signature, key: str, digest: str) -> bool:
    nacl = _nacl()
    try:
        value = unbase64(signature.value)
        text = _text(key, digest, signature.name, signature.not_after)
        nacl.VerifyKey(unbase64(signature.public)).verify(text, value)
    except Exception:  # noqa: BLE001  whatever is wrong with it, it is no signature
        return False
    return True


def _digest(header: Header, sections: Mapping[str, bytes]) -> str:
    data = entry.encode(header._replace(signed=None), sections)
    return blake2b(data, digest_size=32).hexdigest()


def _text(key: str, digest: str, name: str, not_after: int) -> bytes:
    return (
        f"nbcache signature 1\nformat {entry.FORMAT_VERSION}\nkey {key}\nblake2b-256 {digest}\n"
        f"signer {name}\nnot-after {not_after}\n"
    ).encode()


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def insist() -> None:
    """Raise RemoteError where nothing can be signed nor verified."""
    _nacl()


def _nacl() -> ModuleType:
    try:
        from nacl import signing
    except ImportError as error:
        raise RemoteError("PyNaCl is not installed: pip install nbcache[remote]") from error
    return signing  # type: ignore[no-any-return,unused-ignore]
