"""Keys that sign, and signatures: ed25519 by PyNaCl, which nothing else imports.

::

    file   = "nbcache-secret-key 1 " name ":" base64 [":" date] LF      ; the seed; only its owner may read it
    signed = text "signer " name LF "not-after " seconds LF

The text begins with what it is a text of, as no other kind does, so that a signature is of no use elsewhere:
:mod:`nbcache.remote.objects` has that of entries, :mod:`nbcache.protocol.blobs` that of publications as bytes.
"""

from __future__ import annotations

import os
import stat
from binascii import b2a_base64
from types import ModuleType
from typing import Final, NamedTuple

from nbcache.errors import RemoteError
from nbcache.file_trust import Trust
from nbcache.keyring import PUBLIC_SIZE, Signature, TrustedKey, end_of, is_name, unbase64
from nbcache.process import closing
from nbcache.regular_files import open_to_read
from nbcache.secret import Secret

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
    with closing(fd):
        status = os.fstat(fd)
        problem = Trust().file_problem(status, fd)
        if problem is None and stat.S_IMODE(status.st_mode) & 0o077:
            problem = "can be read by others (chmod 600)"
        if problem is not None:
            raise RemoteError(f"the signing key {path} is not used: it {problem}")
        return _parse(os.read(fd, _MAX_FILE), path)


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


def sign(key: SecretKey, text: bytes) -> Signature:
    """Sign a text."""
    public = key.public
    signed = _signed(text, key.name, public.not_after)
    value = _nacl().SigningKey(key.seed.reveal()).sign(signed).signature
    return Signature(key.name, public.public, public.not_after, _base64(value))


def is_right(signature: Signature, text: bytes) -> bool:
    """Whether a signature is what its key made of a text, whoever trusts the key. Raises RemoteError without PyNaCl."""
    nacl = _nacl()
    try:
        value = unbase64(signature.value)
        signed = _signed(text, signature.name, signature.not_after)
        nacl.VerifyKey(unbase64(signature.public)).verify(signed, value)
    except Exception:  # noqa: BLE001  whatever is wrong with it, it is no signature
        return False
    return True


def _signed(text: bytes, name: str, not_after: int) -> bytes:
    return text + f"signer {name}\nnot-after {not_after}\n".encode()


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def insist() -> None:
    """Raise RemoteError where nothing can be signed nor verified."""
    _nacl()


def _nacl() -> ModuleType:
    try:
        from nacl import signing
    except ImportError as error:
        raise RemoteError("PyNaCl is not installed: pip install pynacl") from error
    return signing  # type: ignore[no-any-return,unused-ignore]
