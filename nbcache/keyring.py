"""Whose signatures count: the trusted public keys, and the signatures that an entry carries.

::

    trusted = key | "unsigned"             ; NBCACHE_TRUSTED_KEYS, separated by spaces or commas
    key     = name ":" base64 [":" date]   ; a public key of ed25519, 32 bytes
    name    = letters, digits, ".", "_", "-", at most 64
    date    = YYYY-MM-DD                   ; the last day on which it counts, by UTC

An entry that came from somewhere else carries the signatures that were verified when it was taken in. It counts as
long as one of their keys is in the list: a key that is taken out makes at once unusable what it alone signed, and
nothing has to be looked for. ``unsigned`` is the explicit word of who takes entries that nobody signed.

What was built in a process that had loaded such an entry may have that one's code in it, linked or inlined, or be made
after what it said. So it names those keys as well (``beside``), counts only as long as the others do, and nobody's
signature over it changes that.

What is written down of a signature is no proof: who may write a store can write this as well, and could as well write
entries of his own. Proof is required where an entry comes in (:mod:`nbcache.remote.objects`).
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from typing import Final

from nbcache.process import time
from nbcache.records import Record
from nbcache.secret import MASK, Secret

UNSIGNED: Final = "unsigned"
PUBLIC_SIZE: Final = 32
"""Bytes of a public key, and of the seed of a secret one."""
MAX_NAME: Final = 64
_FOREVER: Final = 1 << 62
_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_NAME}}}", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class Signature(Record):
    """One signature of an entry."""

    name: str
    """What the key is called."""
    public: str
    """The public key, base64."""
    not_after: int
    """Until when it counts [Unix s]; 0 for ever."""
    value: str
    """The signature, base64."""


class TrustedKey(Record):
    """A public key."""

    name: str
    public: str
    """Base64."""
    not_after: int = 0
    """Until when it counts [Unix s]; 0 for ever."""

    def __str__(self) -> str:
        """Give it as it is written in the list."""
        date = time.strftime(":%Y-%m-%d", time.gmtime(self.not_after - 1)) if self.not_after else ""
        return f"{self.name}:{self.public}{date}"


class Keyring:
    """The keys that one process trusts."""

    __slots__ = ("keys", "unsigned")

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        """Read a list of keys. Raises ValueError."""
        words = set(trusted)
        self.unsigned = UNSIGNED in words
        """Whether what nobody signed counts as well."""
        # Of a key that is listed twice the earlier end counts, which somebody wrote down.
        keys = sorted(map(read_key, words - {UNSIGNED}), key=lambda key: key.not_after or _FOREVER, reverse=True)
        self.keys = {(key.name, key.public): key for key in keys}

    def __bool__(self) -> bool:
        """Whether anything from elsewhere may be taken at all."""
        return self.unsigned or bool(self.keys)

    @property
    def words(self) -> list[str]:
        """The list that it was read from, or one that says the same."""
        return [*map(str, self.keys.values()), *([UNSIGNED] if self.unsigned else [])]

    def trusted(self, signature: Signature) -> bool:
        """Whether a signature's key is in the list, and neither has expired."""
        key = self.keys.get((signature.name, signature.public))
        if key is None:
            return False
        now = time.time()
        return all(now < until for until in (key.not_after, signature.not_after) if until)

    def admits(self, signed: Sequence[Signature] | None, beside: object = None) -> bool:
        """Whether an entry that carries this may be used; None: it was built by who could write it into the store.

        *beside* is what its header says of those who signed what was loaded where it was built; None: nobody.
        """
        if self.unsigned:
            return True
        groups = groups_of(beside)
        if groups is None or (signed is not None and not any(map(self.trusted, signed))):
            return False
        return self.trusts(groups)

    def trusts(self, groups: Iterable[Group]) -> bool:
        """Whether of each group of signers one is trusted."""
        return self.unsigned or all(any(self.trusted(Signature(*each, "")) for each in group) for group in groups)


Group = tuple[tuple[str, str, int], ...]
"""Those who signed one entry, without their signatures: name, public key, not after."""


def group_of(signed: Iterable[Signature]) -> Group:
    """Return who signed an entry."""
    return tuple(sorted((each.name, each.public, each.not_after) for each in signed))


def groups_of(beside: object) -> list[Group] | None:
    """Read what a header says of those who signed what was loaded beside; None for what can't be that."""
    if beside is None:
        return []
    if not isinstance(beside, list) or not all(isinstance(group, list) for group in beside):
        return None
    if any(not isinstance(row, list) or list(map(type, row)) != [str, str, int] for group in beside for row in group):
        return None
    return [tuple((name, public, not_after) for name, public, not_after in group) for group in beside]


def read_list(words: Iterable[str]) -> tuple[Secret[str], ...]:
    """Read the setting. Raises ValueError."""
    listed = tuple(words)
    Keyring(listed)
    return tuple(Secret(word, _masked) for word in listed)


def _masked(word: str) -> str:
    """Return a key without its digits: nobody can tell a public key from a secret one, which is the same in length."""
    name, _, rest = word.partition(":")
    date = rest.partition(":")[2]
    return word if word == UNSIGNED else f"{name}:{MASK}{date and ':' + date}"


def read_key(text: str) -> TrustedKey:
    """Read one key of the list. Raises ValueError."""
    name, _, rest = text.partition(":")
    public, _, date = rest.partition(":")
    if not is_name(name) or len(unbase64(public)) != PUBLIC_SIZE:
        raise ValueError(text)
    return TrustedKey(name, public, end_of(date))


def unbase64(text: str) -> bytes:
    """Decode base64 that is written in the one way in which it can be written. Raises ValueError."""
    found = a2b_base64(text)
    if b2a_base64(found, newline=False) != text.encode("ascii"):
        raise ValueError(text)
    return found


def is_name(text: str) -> bool:
    """Whether a key can be called so."""
    return _NAME.fullmatch(text) is not None and text != UNSIGNED


def end_of(date: str) -> int:
    """Return when a day is over by UTC [Unix s]; 0 for no date. Raises ValueError."""
    if not date:
        return 0
    import datetime as dt  # most keys have none

    if _DATE.fullmatch(date) is None:
        raise ValueError(date)
    day = dt.datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=dt.timezone.utc)
    return int(day.timestamp()) + 86400
