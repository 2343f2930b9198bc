"""Opening a store and reading what is in it: the directories are judged, then entries and names are found there.

A process that runs published functions needs no more of a store; all else is :mod:`nbcache.store.directory`, which says
what is guaranteed.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from nbcache.file_trust import Trust, strerror
from nbcache.passing_exceptions import errors, let_pass, suppressed
from nbcache.process import os
from nbcache.records import Record
from nbcache.store import layout
from nbcache.store.content import Inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Self

    from nbcache.config import Settings
    from nbcache.keyring import Group, Keyring
    from nbcache.secret import Secret
    from nbcache.store.entry import Entry, Header
    from nbcache.store.publication import Named


class Refusal(Record):
    """Why a store can't be used."""

    reason: str
    """One line for a person."""


class Opened:
    """A store that was opened, to be read: see :meth:`open`."""

    def __init__(
        self,
        path: str,
        trust: Trust,
        *,
        writable: bool,
        recache: bool = False,
        max_size: int = 0,
        layer: str = "",
        keyring: Keyring | None = None,
    ) -> None:
        """Use :meth:`open`, which checks what this one takes for granted."""
        self.path = path
        """Absolute and without symlinks."""
        self.writable = writable
        self.trust = trust
        self.layer = layer
        """The name of the layer that it is; "" for a store of its own (:mod:`nbcache.store.layers`)."""
        self.keyring = keyring
        """Whose signed entries count; None: nobody's."""
        self._recache = recache
        self._max_size = max_size
        self.inside = Inside(path, trust)
        self._named: Named | None = None

    @classmethod
    def open(cls, settings: Settings) -> Self | Refusal:
        """Open the store that settings name, making it if it doesn't exist. Never raises.

        Whoever may write objects gets ``writable``; with NBCACHE_READONLY, or without permission, the store is only
        read.
        """
        if settings.dir is None:
            return Refusal("NBCACHE_DIR is not set")
        trust = Trust(settings.trusted_uids)
        layout.UMASK.value = settings.umask
        try:
            path = real_path(settings.dir, trust)
            reason = prepare(path, settings.dir, trust, readonly=settings.readonly)
        except (OSError, ValueError) as error:
            let_pass(error)
            reason = f"NBCACHE_DIR={settings.dir} can't be used: {strerror(error)}"
        if reason is not None:
            return Refusal(reason)
        writable = not settings.readonly and may_write(path)
        return cls(
            path,
            trust,
            writable=writable,
            recache=settings.recache,
            max_size=settings.max_size,
            keyring=_keyring(settings.trusted_keys),
        )

    def find(
        self, key: str, reject: Callable[[str], None] = lambda _reason: None, *, uid: int | None = None
    ) -> Iterator[Entry]:
        """Yield each variant of a key that may be used, base slot first; then what lies in a user's room for it.

        The user is *uid*, or who this process looks for, who has none where he may write the store himself.
        ``reject`` is called with one of :data:`~nbcache.store.reasons.REJECTIONS` for each file that is passed over. A
        key that isn't there, or isn't a key, yields nothing. Never raises.
        """
        if not layout.is_key(key):
            return
        # Imported here: a process may need published names and no entry.
        from nbcache.store.found_entries import variants

        yield from variants(self, key, reject)
        if uid is None:
            uid = layout.READER.uid if self.writable else layout.reader()
        if uid is not None and not self.layer:
            yield from variants(self, layout.room(key, uid), reject)

    def admits(self, header: Header) -> bool:
        """Whether an entry may be used for who signed it: one that was built here needs nobody."""
        # nbcache.store.entry.BESIDE, whose module isn't imported for this: each hit is asked about.
        signed, beside = header.signed, header.extra.get("beside")
        if signed is None and beside is None:
            return True
        return self.keyring is not None and self.keyring.admits(signed, beside)

    def trusts(self, groups: Sequence[Group]) -> bool:
        """Whether of each group of signers one is trusted."""
        return not groups or (self.keyring is not None and self.keyring.trusts(groups))

    def object_of(self, key: str, digest: str, name: str) -> bytes:
        """Return the object file in the entry of this digest. Raises PublicationError, for the publication ``name``."""
        reasons: list[str] = []
        for entry in self.find(key, reasons.append):
            if entry.digest == digest:
                found = entry.section("object")
                if found is not None:
                    return found
                reasons.append("damaged")
        why = f" ({', '.join(reasons)})" if reasons else ""
        raise errors.PublicationError(
            name, f"its entry {key[:12]}… is not in {self.path} as it was{why}: publish it again"
        )

    @property
    def named(self) -> Named:
        """What is published by name, to be read."""
        from nbcache.store import publication  # many processes need entries alone

        if self._named is None:
            self._named = publication.Named(self.path, self.trust, self.inside)
        return self._named

    def trusts_shard(self, shard: str) -> bool:
        """Whether the directory is trusted in which the keys lie that begin so."""
        return self.inside.problem(f"{layout.OBJECTS}/{shard}") is None


def _keyring(trusted: tuple[Secret[str], ...]) -> Keyring | None:
    if not trusted:
        return None
    from nbcache.keyring import Keyring  # most have none

    return Keyring(key.reveal() for key in trusted)


def real_path(given: str, trust: Trust) -> str:
    """Return the path without links of a directory that somebody named, which needn't be there.

    Whoever made a link on the way says which directory it is, and even one that a trusted user owns may hold what
    others wrote: an archive of theirs that was unpacked there. So it has to be somebody's who is trusted. Raises
    OSError, ValueError: why not.
    """
    path = os.path.realpath(given)
    if path == given:
        return path
    from nbcache.importing import Paths  # there are seldom links

    return Paths(trust, absent=True).directory(os.path.join(os.getcwd(), given))


SHARED_PLACE: Final = (
    ". Others could put another store in its place: chmod +t on it prevents that, and so does mounting the store alone"
    " (subPath in Kubernetes); see docs/hpc.md and docs/containers.md"
)
"""What to do about a directory above a store that others may write, as project directories and volumes are."""


def prepare(path: str, given: str, trust: Trust, *, readonly: bool) -> str | None:
    """Make the store if need be and look at what is there; return what is wrong. May raise OSError."""
    name = f"NBCACHE_DIR={given}"
    made = False
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if readonly:
            return f"{name} does not exist and NBCACHE_READONLY is set"
        from nbcache.store import tree  # most processes make nothing

        made = tree.make_root(path)
        status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return f"{name} is not a directory"
    problem = trust.path_problem(path)
    if problem is not None:
        above = problem.startswith("lies in") and "is writable by" in problem
        return f"{name} {problem}{SHARED_PLACE if above else ''}"
    if not readonly and not os.path.isdir(f"{path}/{layout.OBJECTS}"):
        from nbcache.store import tree

        # A full or read-only disk doesn't keep anybody from reading what is there.
        with suppressed(OSError):
            tree.make_tree(path, tag_root=made)
    inner = inner_problem(path, trust)
    return inner and f"{name}: its {inner}"


def inner_problem(path: str, trust: Trust) -> str | None:
    """Say what is wrong with the directories between the root and the shards, those that exist."""
    for inner in (layout.LAYOUT, layout.OBJECTS):
        if os.path.lexists(f"{path}/{inner}"):
            problem = trust.directory_problem(f"{path}/{inner}")
            if problem is not None:
                return f"{inner} {problem}"
    return None


def may_write(path: str) -> bool:
    """Whether entries may be written: asked of the nearest directory that exists."""
    for name in (f"{path}/{layout.OBJECTS}", path):
        if os.path.isdir(name):
            effective = os.access in os.supports_effective_ids
            return os.access(name, os.W_OK | os.X_OK, effective_ids=effective)
    return False
