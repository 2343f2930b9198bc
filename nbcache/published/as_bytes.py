"""Published functions as bytes: whose are loaded, and how loaded ones are written again.

Loading bytes is executing them. So they are loaded only if

- a key in ``NBCACHE_TRUSTED_KEYS`` signed them, which this process verifies before it looks at anything but their head,
  and for each signed entry that took part in their code, one of its keys is in that list, too; or
- the caller says ``trusted=True``: he knows where they come from.

That ``NBCACHE_TRUSTED_KEYS`` has ``unsigned`` is no such word, neither for the bytes nor for what they were built
beside: it is about a remote cache, whose address the same settings have, and these bytes may come from anywhere.

What is guaranteed: of bytes that are not trusted, nothing is imported, unpickled, mapped or written to a file.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import errors
from nbcache.protocol import blobs, manifests
from nbcache.published import received_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from nbcache.config import Settings
    from nbcache.keyring import Group
    from nbcache.protocol.blobs import Blob
    from nbcache.secret import Secret

_BYTES: Final = "bytes"
"""What errors are about as long as nobody knows a name."""
_WHAT_TO_DO: Final = (
    "have them signed where they are made (NBCACHE_SIGNING_KEY) and list that key here (NBCACHE_TRUSTED_KEYS), or pass "
    "trusted=True if you know where they come from"
)
_NOT_WHOLE: Final = (
    "what was loaded is written again as a whole: give all that nbcache.load or nbcache.loads returned, as it was, or "
    "pickle the function"
)


def loads(data: bytes, settings: Settings | None, *, trusted: bool = False) -> Any:
    """Return what bytes describe; see :func:`nbcache.loads`. Raises PublicationError for everything that is wrong.

    Without settings, no key is trusted.
    """
    blob = _parsed(data)
    signers: tuple[Group, ...] = ()
    try:
        if trusted is not True:
            signers = (_judge(blob, () if settings is None else settings.trusted_keys),)
        return received_parts.of_blob(blob, signers)
    except errors.ManifestError as error:
        raise errors.PublicationError(_BYTES, f"their manifest can't be used: {error}") from error


def missing(data: bytes) -> list[str]:
    """Return which parts are needed that did not come along; see :func:`nbcache.missing`. Raises PublicationError."""
    return received_parts.missing(_parsed(data))


def dumps(loaded: Any, settings: Settings, wanted: Collection[str] | None) -> bytes | None:
    """Return a loaded function or namespace as bytes; None for what wasn't loaded. Raises PublicationError."""
    from nbcache.published import introspection  # who loads asks nothing

    several = vars(loaded) if isinstance(loaded, SimpleNamespace) else loaded
    functions = several if isinstance(several, dict) else {"": loaded}
    members = {name: introspection.member_of(each) for name, each in functions.items()}
    sources = [member.source for member in members.values() if member is not None]
    if not sources:
        return None
    source = sources[0]
    if source is None:
        raise errors.PublicationError(_BYTES, "a function of a wheel is in its package: install that elsewhere")
    whole = {name: (source, name) for name in source.manifest.functions}
    if {name: member and (member.source, member.attribute) for name, member in members.items()} != whole:
        raise errors.PublicationError(_BYTES, _NOT_WHOLE)
    return source.blob(signing_key(settings), wanted)


def signing_key(settings: Settings) -> Any:
    """Return the key that settings name to sign with; None for none. Raises RemoteError if it can't be used."""
    if settings.signing_key is None:
        return None
    from nbcache import signing_keys

    return signing_keys.read(settings.signing_key)


def _parsed(data: bytes) -> Blob:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"what nbcache.dumps returned is bytes, not {type(data).__name__}")
    try:
        # Others may write to what isn't bytes while it is looked at.
        return blobs.parse(bytes(data))
    except errors.ManifestError as error:
        raise errors.PublicationError(_BYTES, str(error)) from error


def _judge(blob: Blob, trusted_keys: Iterable[Secret[str]]) -> Group:
    """See that a trusted key signed it; return which did. Raises PublicationError and ManifestError."""
    from nbcache.keyring import UNSIGNED, Keyring, group_of  # who trusts the bytes asks for no signature
    from nbcache.secret import revealed

    keyring = Keyring(word for word in revealed(trusted_keys) if word != UNSIGNED)
    listed = [each for each in blob.signed if keyring.trusted(each)]
    if not listed:
        who = "no key in NBCACHE_TRUSTED_KEYS signed them" if blob.signed else "nobody signed them"
        raise errors.PublicationError(_BYTES, f"{who}, and loading them is executing them: {_WHAT_TO_DO}")
    from nbcache import signing_keys

    text = blobs.text_of(blob.digest)
    try:
        right = [each for each in listed if signing_keys.is_right(each, text)]
    except errors.RemoteError as error:
        raise errors.PublicationError(_BYTES, f"their signature can't be verified: {error}") from error
    if not right:
        raise errors.PublicationError(_BYTES, "their signature is wrong: they were altered")
    if not keyring.trusts(manifests.decode(blob.manifest).beside):
        raise errors.PublicationError(_BYTES, manifests.UNTRUSTED)
    return group_of(right)
