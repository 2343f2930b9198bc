"""Published names in remote tiers, for processes without a shared directory.

::

    name's object = publication            ; nbcache.store.publication, with "signed", and without entries or "older"
    part          = zlib(file)             ; one of its files, once for all publications that have it
    text          = "nbcache name 1" LF "blake2b-256 " digest LF

What is signed is the text (:mod:`nbcache.signing_keys`); its digest is that of the publication without "signed". So the
signature covers name, version, dates and manifest, and of files the digests. A publication whose manifest is ``null``
says that nothing is published under the name any more; who had it remembers that.

Names are looked for in all tiers, and the newest publication counts: nobody goes back to an older one, whatever a tier
says and whatever else happens meanwhile. Who has none may be given an old one by who can write a tier, as long as a key
that signed it is trusted.

What is guaranteed of a publication that comes into the store: it is the one of the name that was asked for, encoded as
nbcache encodes it, signed as entries have to be (:mod:`nbcache.remote.objects`), not expired, newer than what was
there, and all its files came before it did. Its signatures stay with it: who stops trusting the keys loads it no more.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nbcache import signing_keys
from nbcache.errors import EntryError, ManifestError, NotPublishedError, PublicationError
from nbcache.keyring import Keyring, Signature
from nbcache.protocol import helper, manifests
from nbcache.protocol.helper import Answer
from nbcache.remote import objects
from nbcache.remote.reading import FETCH_SECONDS
from nbcache.remote.tiers import Tier
from nbcache.remote.uploading import LOOK_SECONDS
from nbcache.signing_keys import SecretKey
from nbcache.store import name_writing, publication
from nbcache.store.content import digest_of
from nbcache.store.directory import Store
from nbcache.store.publication import WITHDRAWN, Publication

LATEST: Final = 1 << 52
"""The latest date that is taken [Unix s]: whoever publishes the next one here needs one that is later."""
OTHER_NAME: Final = "it was published under another name"
EXPIRED: Final = "it has expired"
NEWER: Final = "it has one that is newer, by the clock of who published that, and keeps it"


def name_of(name: str) -> str:
    """Return what the object of a published name is called."""
    return digest_of(f"nbcache name 1\nformat {publication.FORMAT_VERSION}\nname {name}\n".encode())


def part_of(digest: str) -> str:
    """Return what the object of a file is called."""
    return digest_of(f"nbcache part 1\nblake2b-256 {digest}\n".encode())


def admit(data: bytes, name: str, keyring: Keyring) -> Publication | str:
    """Return what was found under a name, with the signatures that are right; or say why it is refused."""
    found = publication.decode(data) if len(data) <= publication.MAX_SIZE else publication.DAMAGED
    if isinstance(found, str):
        return objects.OTHER_VERSION if found == publication.OTHER_VERSION else objects.DAMAGED
    if found.entries or found.older is not None or found.created >= LATEST or publication.encode(found) != data:
        return objects.DAMAGED
    if found.name != name:
        return OTHER_NAME
    right = objects.trusted(tuple(Signature(*each) for each in found.signed or ()), keyring)
    if isinstance(right, tuple):
        text = _text(found)
        right = tuple(each for each in right if signing_keys.is_right(each, text))
        if not right and not keyring.unsigned:
            return objects.WRONG
    if isinstance(right, str):
        return right
    problem = "" if found.manifest == WITHDRAWN else _problem(found, keyring)
    return problem or found._replace(signed=right)


def _problem(found: Publication, keyring: Keyring) -> str:
    if found.expires is not None and found.expires < time.time():
        return EXPIRED
    try:
        manifest = manifests.decode(found.manifest)
    except ManifestError:
        return objects.OTHER_VERSION
    if not keyring.trusts(manifest.beside):
        return objects.BESIDE_UNTRUSTED
    wanted = {*manifest.needed, *(found.objects or ())}
    whole = len(found.objects or ()) == (0 if manifest.image is not None else len(manifest.codes))
    return "" if whole and wanted == set(found.files) else objects.DAMAGED


def _text(found: Publication) -> bytes:
    digest = digest_of(publication.encode(found._replace(signed=None)))
    return f"nbcache name 1\nblake2b-256 {digest}\n".encode()


@dataclass(frozen=True, slots=True)
class Publications:
    """The published names of one store. Threads may share it; nothing here raises.

    What it has is as in Reading and Uploading.
    """

    store: Store
    keyring: Keyring
    tiers: Sequence[Tier]
    key: SecretKey | None
    copy_back: Callable[[Tier, str, bytes], None]

    # -- to the store ------------------------------------------------------------------------------

    def load(self, name: str, seconds: float, since: float = 0.0) -> Answer:
        """Have the newest publication of a name in the store; :data:`~nbcache.protocol.helper.MISSING` says that the
        store has it already, or that there is none.

        *since* is the date of what who asks has elsewhere: no older one is to be found before that.
        """
        deadline = time.monotonic() + seconds
        newest, problem, refused = self._newest(name, deadline, patient=seconds > FETCH_SECONDS)
        if newest is None:
            state = helper.FAILED if problem else helper.REFUSED if refused else helper.MISSING
            return Answer(state, problem or refused)
        try:
            if newest.created <= since or not self.store.names.lacks(newest, self._counts):
                return Answer(helper.MISSING)
            for digest in newest.files:
                why = "" if self.store.names.files.has(digest) else self._fetch(digest, deadline)
                if why:
                    return Answer(helper.FAILED, why)
            taken = self.store.names.take(newest, self._counts)
        except (PublicationError, OSError) as error:
            return Answer(helper.FAILED, f"it can't be stored here: {error}")
        return Answer(helper.CAME if taken and newest.manifest != WITHDRAWN else helper.MISSING)

    def _counts(self, present: Publication) -> bool:
        """Whether what the store has may be loaded: what nobody who is trusted signed is in nobody's way."""
        signed = present.signed
        return self.keyring.admits(None if signed is None else [Signature(*each) for each in signed])

    def _newest(self, name: str, deadline: float, *, patient: bool) -> tuple[Publication | None, str, str]:
        """Return what the tiers have under a name, and why one of them has nothing that counts."""
        newest, problem, refused = None, "", ""
        for tier in self.tiers:
            got = tier.get(name_of(name), max(0.0, deadline - time.monotonic()), patient=patient, again=True)
            judged = admit(got.data, name, self.keyring) if got.data is not None else ""
            if isinstance(judged, Publication):
                if newest is None or judged.created > newest.created:
                    newest = judged
            elif judged and judged != EXPIRED:
                refused = refused or f"{tier.label}: {judged}"
            problem = problem or got.problem
        return newest, problem, refused

    def _fetch(self, digest: str, deadline: float) -> str:
        """Put a file into the store; return why it can't be. Raises OSError."""
        why = "one of its files is in no tier"
        lacking: list[Tier] = []
        for tier in self.tiers:
            got = tier.get(part_of(digest), max(0.0, deadline - time.monotonic()), patient=True)
            data = _inflated(got.data or b"")
            if digest_of(data) == digest:
                self.store.names.files.add(data, digest, durable=False)
                for each in lacking:
                    self.copy_back(each, part_of(digest), got.data or b"")
                return ""
            if got.data is None and not got.problem:
                lacking.append(tier)
            else:
                why = got.problem or f"{tier.label}: one of its files is damaged"
        return why

    def _present(self, name: str) -> Publication | None:
        """Return what the store has. Raises PublicationError for what can't be read."""
        try:
            return self.store.names.read(name)
        except NotPublishedError:
            return None

    # -- to the tiers ------------------------------------------------------------------------------

    def publish(self, name: str, *, whole: bool = False) -> Answer:
        """Have the tiers have what the store has under a name; or that this is nothing any more.

        With *whole*, what is there already is looked at as a whole.
        """
        tiers = [tier for tier in self.tiers if not tier.readonly]
        try:
            found, parts = self._packed(name)
        except (PublicationError, EntryError, OSError) as error:
            return Answer(helper.FAILED, str(error))
        if not found.signed and not self.keyring.unsigned:
            return Answer(helper.FAILED, "NBCACHE_SIGNING_KEY is not set: nobody would take what isn't signed")
        data = publication.encode(found)
        if max(map(len, (data, *parts.values()))) > objects.MAX_OBJECT:
            return Answer(helper.FAILED, f"a file of it is larger than {objects.MAX_OBJECT} bytes")
        problems = [self._put(tier, data, found, parts, whole=whole) for tier in tiers]
        why = next(filter(None, problems), "")
        return Answer(helper.FAILED, why) if why else Answer(helper.CAME)

    def _put(self, tier: Tier, data: bytes, found: Publication, parts: dict[str, bytes], *, whole: bool) -> str:
        """Put a publication into a tier, after its parts; return why it isn't there."""
        for digest, part in parts.items():
            there = (tier.get if whole else tier.head)(part_of(digest), LOOK_SECONDS, patient=True)
            if there.problem:
                return there.problem
            if there.data != (part if whole else part[: objects.HEAD_BYTES]):
                problem = tier.put(part_of(digest), part)
                if problem:
                    return problem
        got = tier.get(name_of(found.name), LOOK_SECONDS, patient=True, again=True)
        other = admit(got.data, found.name, self.keyring) if got.data is not None else ""
        if got.problem:
            return got.problem
        if isinstance(other, Publication) and other.created >= found.created:
            # Who sends a whole store has some that others replaced.
            return "" if whole or other.created == found.created else f"{tier.label}: {NEWER}"
        return tier.put(name_of(found.name), data)

    def _packed(self, name: str) -> tuple[Publication, dict[str, bytes]]:
        """Return what goes to the tiers, and its parts by digest. Raises PublicationError, RemoteError."""
        found = self._present(name) or self.store.names.withdrawal(name) or name_writing.withdrawal(name)
        if found.manifest == WITHDRAWN:
            return self._signed(found), {}
        manifest, files = manifests.decode(found.manifest), self.store.names.files
        parts = {digest: files.read(digest, name) for digest in manifest.needed}
        listed = found.objects
        if listed is None and manifest.image is None:
            codes = [self.store.object_of(code.key, code.entry, name) for code in manifest.codes]
            listed = tuple(map(digest_of, codes))
            parts.update(zip(listed, codes, strict=True))
        elif listed is not None:
            parts.update({digest: files.read(digest, name) for digest in listed})
        bare = found._replace(entries=(), files=tuple(sorted(parts)), objects=listed, older=None)
        if max(map(len, parts.values()), default=0) > objects.MAX_OBJECT:
            raise PublicationError(name, f"a file of it is larger than {objects.MAX_OBJECT} bytes")
        return self._signed(bare), {digest: zlib.compress(data) for digest, data in parts.items()}

    def _signed(self, bare: Publication) -> Publication:
        """Sign what is of this store. What came from elsewhere keeps its signatures, and gets no other. Raises
        PublicationError where these are not of what it is here.
        """
        if bare.signed is not None:
            text = _text(bare)
            if bare.signed and not any(signing_keys.is_right(Signature(*each), text) for each in bare.signed):
                raise PublicationError(bare.name, "it came signed as another version: push it from where it is from")
            return bare
        signed = () if self.key is None else (signing_keys.sign(self.key, _text(bare)),)
        return bare._replace(signed=signed)


def _inflated(data: bytes) -> bytes:
    """Return the file of a part; nothing for what is none."""
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(data, objects.MAX_OBJECT + 1)
    except zlib.error:
        return b""
    return found if inflate.eof and not inflate.unused_data else b""
