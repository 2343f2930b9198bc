"""Bytes that say what a publication is: what was mutated is refused, and whose they are counts."""

import hashlib
import random
import sys

import pytest
from nbtest.fuzzing import mutated

from nbcache import signing_keys
from nbcache.config import Settings
from nbcache.errors import ManifestError, PublicationError
from nbcache.protocol import blobs
from nbcache.published import as_bytes, received_parts
from nbcache.secret import Secret
from nbcache.store.content import digest_of

OURS, THEIRS = signing_keys.generate("ours"), signing_keys.generate("theirs")
MANIFEST = b'{"manifest":1}'
PARTS = {digest_of(data): data for data in (b"an image", b"an array" * 9, b"")}
SIZES = {digest: len(data) for digest, data in PARTS.items()}
OBJECTS = tuple(PARTS)[:1]


def trusting(*keys):
    return Settings(trusted_keys=tuple(Secret(str(key)) for key in keys))


def blob(*keys, here=PARTS, manifest=MANIFEST):
    about = blobs.Blob(manifest, OBJECTS, SIZES, {}, ())
    signed = [signing_keys.sign(key, blobs.text_of(about.digest)) for key in keys]
    return blobs.encode(manifest, OBJECTS, SIZES, here, signed)


def with_digest(data):
    """Have the digest right, as whoever alters bytes on purpose would."""
    head = data[48 : 48 + int.from_bytes(data[12:16], "little")]
    return data[:16] + hashlib.blake2b(head, digest_size=32).digest() + data[48:]


@pytest.fixture
def admitted(monkeypatch):
    """What would have been loaded."""
    found = []

    def note(one, _signers=()):
        received_parts._Parts("name", one)
        found.append(one)

    monkeypatch.setattr(as_bytes.manifests, "decode", lambda _data: type("Manifest", (), {"beside": ()}))
    monkeypatch.setattr(received_parts, "of_blob", note)
    return found


def test_they_come_back_as_they_were():
    found = blobs.parse(blob(OURS))
    assert (found.manifest, found.objects, found.parts) == (MANIFEST, OBJECTS, SIZES)
    assert {digest: bytes(data) for digest, data in found.here.items()} == PARTS
    assert [each.name for each in found.signed] == ["ours"]


@pytest.mark.parametrize("here", [{}, dict(list(PARTS.items())[1:2])], ids=["none", "one"])
def test_parts_that_are_left_out_change_no_signature(here, admitted):
    assert blobs.parse(blob(OURS, here=here)).digest == blobs.parse(blob(OURS)).digest
    assert set(as_bytes.missing(blob(here=here))) == PARTS.keys() - here.keys()
    with pytest.raises(PublicationError, match=r"did not come along: nbcache.missing\(\) says"):
        as_bytes.loads(blob(OURS, here=here), trusting(OURS.public))
    assert not admitted


def test_a_part_that_another_one_brought_along_is_not_missed(admitted):
    as_bytes.loads(blob(OURS), trusting(OURS.public))
    held = received_parts._Parts("name", admitted[0])
    assert as_bytes.missing(blob(here={})) == []
    del held
    assert as_bytes.missing(blob(here={})) == list(PARTS)


@pytest.mark.parametrize(
    ("data", "settings", "why"),
    [
        (blob(), trusting(), "nobody signed them"),
        (blob(), trusting(OURS.public), "nobody signed them"),
        (blob(), trusting("unsigned"), "nobody signed them"),
        (blob(THEIRS), trusting(OURS.public), "no key in NBCACHE_TRUSTED_KEYS signed them"),
        (blob(OURS), trusting(), "no key in NBCACHE_TRUSTED_KEYS signed them"),
        (blob(signing_keys.generate("ours", "2001-01-01")), trusting(OURS.public), "no key in NBCACHE_TRUSTED_KEYS"),
    ],
    ids=["unsigned", "unsigned-with-keys", "unsigned-word", "others", "no-keys", "another-of-this-name"],
)
def test_who_trusts_nobody_of_it_is_told_what_to_do(data, settings, why, admitted):
    with pytest.raises(PublicationError, match=why) as caught:
        as_bytes.loads(data, settings)
    assert "NBCACHE_SIGNING_KEY" in str(caught.value) and "trusted=True" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not admitted


@pytest.mark.parametrize("word", [1, "yes", "ours", object()])
def test_nothing_but_true_is_the_word_of_who_trusts_it(word, admitted):
    with pytest.raises(PublicationError, match="nobody signed"):
        as_bytes.loads(blob(), trusting(), trusted=word)
    assert not admitted


def test_a_signature_of_one_of_several_keys_will_do(admitted):
    as_bytes.loads(blob(THEIRS, OURS), trusting(OURS.public))
    as_bytes.loads(blob(), trusting(), trusted=True)
    assert len(admitted) == 2


def test_the_signature_of_other_bytes_is_refused(admitted):
    signed = blobs.parse(blob(OURS, manifest=b"another")).signed
    data = blobs.encode(MANIFEST, OBJECTS, SIZES, PARTS, signed)
    with pytest.raises(PublicationError, match="their signature is wrong: they were altered"):
        as_bytes.loads(data, trusting(OURS.public))
    assert not admitted


def test_the_signature_of_an_entry_is_none_of_bytes(admitted):
    digest = blobs.parse(blob()).digest
    text = f"nbcache signature 1\nblake2b-256 {digest}\n".encode()
    data = blobs.encode(MANIFEST, OBJECTS, SIZES, PARTS, [signing_keys.sign(OURS, text)])
    with pytest.raises(PublicationError, match="their signature is wrong"):
        as_bytes.loads(data, trusting(OURS.public))
    assert not admitted


def test_a_part_that_is_not_what_it_is_said_to_be_is_nobody_s():
    digest = OBJECTS[0]
    with pytest.raises(ManifestError, match="damaged or altered"):
        blobs.parse(blob(here={**PARTS, digest: PARTS[digest][::-1]}))
    assert digest in as_bytes.missing(blob(here={}))
    assert received_parts._Parts("name", blobs.parse(blob())).read(digest, "name") == PARTS[digest]


def test_another_manifest_than_the_head_says_is_refused():
    data = blob()
    assert data.count(MANIFEST) == 1
    with pytest.raises(ManifestError, match="damaged or altered"):
        blobs.parse(data.replace(MANIFEST, MANIFEST[::-1]))


@pytest.mark.parametrize("words", [(OURS.public,), (OURS.public, "unsigned")], ids=["keys", "and-unsigned"])
def test_what_took_part_in_their_code_is_to_be_trusted_by_key(words, admitted, monkeypatch):
    public = THEIRS.public
    beside = (((public.name, public.public, public.not_after),),)
    monkeypatch.setattr(as_bytes.manifests, "decode", lambda _data: type("Manifest", (), {"beside": beside}))
    with pytest.raises(PublicationError, match="code that no key in NBCACHE_TRUSTED_KEYS signed took part"):
        as_bytes.loads(blob(OURS), trusting(*words))
    assert not admitted
    as_bytes.loads(blob(OURS), trusting(*words, public))
    assert admitted


def test_without_pynacl_nothing_signed_is_loaded(admitted, monkeypatch):
    data, trusted = blob(OURS), trusting(OURS.public)
    monkeypatch.setitem(sys.modules, "nacl", None)
    with pytest.raises(PublicationError, match="can't be verified: PyNaCl is not installed"):
        as_bytes.loads(data, trusted)
    assert not admitted


@pytest.mark.parametrize("repaired", [False, True], ids=["as-it-is", "with-its-digest"])
def test_ten_thousand_mutations_are_refused(repaired, admitted):
    """With the digest put right, what passes says the same: JSON has more than one way to say it."""
    rng, whole, count = random.Random(1), blob(OURS), 10_000
    sound, settings, same, said = [whole, blob(OURS, here={})], trusting(OURS.public), 0, set()
    for _ in range(count):
        data = mutated(rng, sound)
        if data in sound:
            continue
        data = with_digest(data) if repaired and len(data) > 48 else data
        try:
            as_bytes.loads(data, settings)
        except PublicationError as error:
            said.add(str(error))
        else:
            same += 1
    assert len(said) > 1 and not any("\n" in each for each in said)
    assert all(each.digest == blobs.parse(whole).digest for each in admitted)
    assert len(admitted) == same <= (count / 10 if repaired else 0)


@pytest.mark.parametrize("data", [b"", b"\x89NBP\r\n\x1a\n", b"x" * 100, bytearray(b"no"), memoryview(b"no")])
def test_what_is_no_blob_at_all_is_refused(data):
    with pytest.raises(PublicationError, match="they are not what nbcache"):
        as_bytes.loads(data, trusting(), trusted=True)


def test_another_version_is_refused_by_its_number():
    data = blob()
    with pytest.raises(ManifestError, match="they are of version 9, and this nbcache reads version 2"):
        blobs.parse(data[:8] + (9).to_bytes(4, "little") + data[12:])


def test_text_is_no_bytes():
    with pytest.raises(TypeError, match="is bytes, not str"):
        as_bytes.loads("text", trusting())


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'"here":[0,1,2]', b'"here":[0,0,2]', "a part that follows"),
        (b'"here":[0,1,2]', b'"here":[0,1,9]', "a part that follows"),
        (b'"here":[0,1,2]', b'"here":[0,1,2],"more":1', "a mapping of"),
        (b'"signed":[]', b'"signed":[["a\\n","AA==",0,"AA=="]]', "a signature"),
        (b'"signed":[]', b'"signed":[["a","AA=",0,"AA=="]]', "a signature"),
        (b'"signed":[]', b'"signed":[["a","AA==",1e999,"AA=="]]', "a whole number"),
        (b'"objects":["', b'"objects":["' + b"0" * 64 + b'","', "one of the parts"),
    ],
)
def test_a_head_that_says_what_can_not_be_is_refused_whoever_signed_it(old, new, what):
    data = blob()
    length = int.from_bytes(data[12:16], "little")
    head = data[48 : 48 + length].replace(old, new)
    assert head != data[48 : 48 + length]
    with pytest.raises(ManifestError, match=what):
        blobs.parse(with_digest(data[:12] + len(head).to_bytes(4, "little") + data[16:48] + head + data[48 + length :]))
