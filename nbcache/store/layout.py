"""Names, paths and permissions in a store.

::

    $NBCACHE_DIR/CACHEDIR.TAG             "this is a cache": backup programs leave it out
    $NBCACHE_DIR/v1/objects/ab/<62 hex>.nbo     an entry, base slot
    $NBCACHE_DIR/v1/objects/ab/<62 hex>.1.nbo   further variants of the same key, .1 to .7
    $NBCACHE_DIR/v1/objects/ab/.<name>.tmp      being written; swept when older than an hour
    $NBCACHE_DIR/v1/names/<name>.json           what is published under a name; with ~<n>, the n-th version of it
    $NBCACHE_DIR/v1/files/ab/<62 hex>           a file of a publication, by its digest
    $NBCACHE_DIR/v1/requests  v1/answers  v1/failed  v1/leases  v1/usage  v1/trials  v1/daemon  v1/askers
    $NBCACHE_DIR/v1/profiles

Slots of one key are filled without gaps (removing one moves the last into its place), so that a reader may stop at the
first one that is missing.

A key is checked once, here, where it becomes part of a path: what passed can't contain a separator or ``..``.
"""

from __future__ import annotations

import functools
from typing import Final

from nbcache.passing_exceptions import errors
from nbcache.process import os

LAYOUT: Final = "v1"
OBJECTS: Final = f"{LAYOUT}/objects"
REQUESTS: Final = f"{LAYOUT}/requests"
ANSWERS: Final = f"{LAYOUT}/answers"
FAILED: Final = f"{LAYOUT}/failed"
LEASES: Final = f"{LAYOUT}/leases"
TRIALS: Final = f"{LAYOUT}/trials"
ASKERS: Final = f"{LAYOUT}/askers"
PROFILES: Final = f"{LAYOUT}/profiles"
USAGE: Final = f"{LAYOUT}/usage"
DAEMON: Final = f"{LAYOUT}/daemon"
NAMES: Final = f"{LAYOUT}/names"
FILES: Final = f"{LAYOUT}/files"
GROWING: Final = ".jsonl"
"""How the name of a record ends that its process adds lines to (:mod:`nbcache.store.usage`)."""
RECORD_VERSION: Final = 1
MAX_RECORD: Final = 1 << 20
"""The largest usage record that is written or read [bytes]."""
USAGE_TOTAL: Final = f"{LAYOUT}/usage.json"
"""The sum of folded usage records: beside ``usage/`` and not in it, because that one may be writable by anybody."""
STAMP: Final = f"{LAYOUT}/swept"
"""Its modification time is when somebody last swept."""
TAG: Final = "CACHEDIR.TAG"
TAG_TEXT: Final = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This directory holds code compiled by nbcache, which makes it again when it is missing.\n"
    b"# See https://bford.info/cachedir/\n"
)
MAX_SLOTS: Final = 8
"""Variants of one key that are kept side by side."""
SUFFIX: Final = ".nbo"
SUFFIXES: Final = (SUFFIX, *(f".{slot}{SUFFIX}" for slot in range(1, MAX_SLOTS)))
TEMPORARY: Final = ".tmp"
SHARD: Final = 2
"""Digits of a key that name its directory: 256 of them, so that none grows unwieldy on a network filesystem."""

MAX_NAME: Final = 100
"""The longest name of a publication [characters]: written with ``!`` before each, it still fits a file's name."""
NAME_SUFFIX: Final = ".json"

FILE_MODE: Final = 0o644
DIR_MODE: Final = 0o755
DROP_MODE: Final = 0o1777
"""For ``usage/`` and ``requests/``: whoever may read there may add a file, nobody may remove another's."""


class Umask:
    """The umask to write with. One for a process, as the kernel's is; None leaves it to that."""

    value: int | None = None


UMASK: Final = Umask()
"""NBCACHE_UMASK, as the store that was opened last has it."""


class Reader:
    """On whose behalf this process looks into stores: a uid, in a daemon's job. None for one's own."""

    uid: int | None = None
    aside: frozenset[str] = frozenset()
    """The digests of entries that this user passes over, told to a job, which can't see whose a file is."""


READER: Final = Reader()
MAX_HOST: Final = 64
KEY_SIZE: Final = 64
_DIGITS: Final = "0123456789abcdef"
_RESERVED: Final = "0" * 8
"""How reserved keys end; of other keys, one in 4,000 million does, and isn't taken from a job then."""


def host() -> str:
    """Return this host's name, reduced to characters that are safe in a file name."""
    # os.uname and not socket.gethostname: importing socket costs milliseconds.
    return _safe(os.uname().nodename)


@functools.lru_cache(maxsize=1)
def _safe(host: str) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c == "-") else "_" for c in host)
    return name[:MAX_HOST] or "unknown"


def unique() -> str:
    """Return a name no other process on any host will use: host, pid, random."""
    return f"{host()}-{os.getpid()}-{os.urandom(8).hex()}"


def is_key(name: object) -> bool:
    """Whether ``name`` is a key: 64 lowercase hexadecimal digits."""
    return isinstance(name, str) and len(name) == KEY_SIZE and not name.strip(_DIGITS)


def check_key(name: str) -> str:
    """Return ``name`` if it is a key; otherwise raise :class:`~nbcache.errors.BadKeyError`."""
    if not is_key(name):
        raise errors.BadKeyError(name)
    return name


def reader() -> int:
    """Return on whose behalf this process looks into stores."""
    return os.geteuid() if READER.uid is None else READER.uid


def room(key: str, uid: int) -> str:
    """Return the key under which one user alone looks for what stands for it (:mod:`nbcache.store.first_askers`)."""
    return reserved(f"{key} for {uid} alone")


def reserved(what: str) -> str:
    """Return a key for something that no job may claim or hand anything in for, by what it is."""
    from hashlib import blake2b  # most look-ups find something under the key itself

    return blake2b(what.encode("utf-8", "surrogatepass"), digest_size=28).hexdigest() + _RESERVED


def is_reserved(key: str) -> bool:
    """Whether a key is a `reserved` one, as those of a user's room are."""
    return key.endswith(_RESERVED)


def is_shard(name: str) -> bool:
    """Whether ``name`` is that of a directory of entries."""
    return len(name) == SHARD and not name.strip(_DIGITS)


def stem(root: str, key: str) -> str:
    """Return the path of a key's entries without :data:`SUFFIXES`. ``key`` must have been checked."""
    return f"{root}/{OBJECTS}/{key[:SHARD]}/{key[SHARD:]}"


def slot_paths(root: str, key: str) -> list[str]:
    """Return the paths of a key's slots, the base slot first. ``key`` must have been checked."""
    return [stem(root, key) + suffix for suffix in SUFFIXES]


def slot_path(root: str, key: str) -> str:
    """Return the path of the base slot of a key, which is checked here."""
    return stem(root, check_key(key)) + SUFFIX


def read_name(shard: str, name: str) -> tuple[str, int] | None:
    """Return the key and slot that a file name in a shard stands for; None for a name that isn't an entry's."""
    key, suffix = shard + name[: KEY_SIZE - SHARD], name[KEY_SIZE - SHARD :]
    if not is_shard(shard) or not is_key(key) or suffix not in SUFFIXES:
        return None
    return key, SUFFIXES.index(suffix)


def check_name(name: object) -> str:
    """Return a name; raise :class:`~nbcache.errors.BadNameError` for anything that is none."""
    if not isinstance(name, str) or len(name) > MAX_NAME or not is_name(name):
        raise errors.BadNameError(name)
    return name


def is_name(name: str) -> bool:
    """Whether text of any length may be the name of a publication."""
    # By hand: compiling an expression for it takes longer than all else that a node does with names.
    return name.isascii() and all(
        part and part[0] != "-" and part.replace("-", "_").replace("_", "a").isalnum() for part in name.split(".")
    )


def name_file(name: str, version: int | None = None) -> str:
    """Return the name of the file of a (checked) name: of the newest version, or the one that holds an older
    version.
    """
    escaped = "".join(f"!{letter.lower()}" if letter.isupper() else letter for letter in name)
    return f"{escaped}{NAME_SUFFIX}" if version is None else f"{escaped}~{version}{NAME_SUFFIX}"
