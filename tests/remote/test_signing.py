"""Keys, signatures and admission: nothing comes in that a trusted key didn't sign, whatever was done to it."""

import random
from binascii import b2a_base64

import pytest
from storekit import SECTIONS, find, header, key, open_store

from nbcache import process, signing_keys
from nbcache.errors import EntryError, RemoteError
from nbcache.keyring import Keyring, Signature, read_key
from nbcache.remote import objects
from nbcache.secret import Secret
from nbcache.store import entry

MUTATIONS = [1_000, pytest.param(10_000, marks=pytest.mark.long)]
OURS = signing_keys.generate("ours")
THEIRS = signing_keys.generate("theirs")
RING = Keyring([str(OURS.public)])


def signed(name="a", *keys, sections=SECTIONS, **fields):
    made = header(name, **fields)
    return entry.encode(made._replace(signed=tuple(objects.sign(each, made, sections) for each in keys)), sections)


def test_what_a_trusted_key_signed_comes_in_as_it_was():
    admitted = objects.admit(signed("a", OURS), key("a"), RING)
    assert isinstance(admitted, objects.Admitted)
    assert admitted.sections == SECTIONS
    assert admitted.header._replace(signed=None) == header("a")
    assert [each.name for each in admitted.header.signed] == ["ours"]


def test_only_signatures_that_were_verified_stay_on_an_entry():
    both = objects.admit(signed("a", THEIRS, OURS), key("a"), RING)
    assert [each.name for each in both.header.signed] == ["ours"]
    every = Keyring([str(OURS.public), str(THEIRS.public)])
    assert len(objects.admit(signed("a", THEIRS, OURS), key("a"), every).header.signed) == 2


def mutated(rng):
    """An object that isn't one that `ours` signed for key("a"), and what was done to it."""
    data = signed("a", OURS)
    right = objects.open_entry(data)
    kind = rng.choice(
        [
            "flip",
            "cut",
            "grow",
            "section",
            "header",
            "swap",
            "unsigned",
            "wrong",
            "forged",
            "expired",
            "replayed",
            "late",
        ]
    )
    if kind == "flip":
        at = rng.randrange(len(data))
        return kind, data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == "cut":
        return kind, data[: rng.randrange(len(data))]
    if kind == "grow":
        return kind, data + rng.randbytes(rng.randrange(1, 50))
    # From here on, by somebody who knows the format: digests are right.
    if kind == "section":
        name = rng.choice(sorted(SECTIONS))
        content = bytearray(SECTIONS[name])
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        return kind, entry.encode(right.header, {**SECTIONS, name: bytes(content)})
    if kind == "header":
        changed = rng.choice([{"build": "c"}, {"guard": "x"}, {"function": "m:g"}, {"extra": {}}, {"created": 1.0}])
        return kind, entry.encode(right.header._replace(**changed), SECTIONS)
    if kind == "swap":
        other = {**SECTIONS, "object": rng.randbytes(100)}
        theirs = objects.open_entry(signed("b", OURS, sections=other))
        return kind, entry.encode(right.header._replace(signed=theirs.header.signed), rng.choice([SECTIONS, other]))
    if kind == "unsigned":
        return kind, entry.encode(right.header._replace(signed=rng.choice([None, ()])), SECTIONS)
    if kind == "wrong":
        return kind, signed("a", THEIRS)
    row = right.header.signed[0]
    if kind == "forged":
        value = b2a_base64(rng.randbytes(64), newline=False).decode()
        stranger = objects.sign(THEIRS, header("a"), SECTIONS)
        return kind, entry.encode(
            right.header._replace(
                signed=(rng.choice([row._replace(value=value), row._replace(value=stranger.value)]),)
            ),
            SECTIONS,
        )
    if kind == "expired":
        past = objects.sign(OURS._replace(date="2020-01-01"), header("a"), SECTIONS)
        return kind, entry.encode(right.header._replace(signed=(past,)), SECTIONS)
    if kind == "late":
        past = objects.sign(OURS._replace(date="2020-01-01"), header("a"), SECTIONS)
        longer = past._replace(not_after=rng.choice([0, 1 << 40]))
        return kind, entry.encode(right.header._replace(signed=(longer,)), SECTIONS)
    other = objects.open_entry(signed("b", OURS))
    return kind, rng.choice([signed("b", OURS), entry.encode(other.header._replace(key=key("a")), SECTIONS)])


def judged(data):
    """What becomes of an object."""
    found = objects.unpack(data)
    return found if isinstance(found, str) else objects.admit(found, key("a"), RING)


@pytest.mark.parametrize("mutations", MUTATIONS)
def test_nothing_that_was_tampered_with_comes_in(mutations):
    rng = random.Random(1)
    refused = {}
    for _ in range(mutations):
        kind, data = mutated(rng)
        verdict = objects.admit(data, key("a"), RING)
        assert isinstance(verdict, str), (kind, verdict)
        refused.setdefault(kind, set()).add(verdict)
        if entry.parse(data) is not None:
            assert judged(objects.pack(data)) == verdict
    assert len(refused) == 12
    assert refused["unsigned"] == {objects.UNSIGNED}
    assert refused["wrong"] == {objects.UNTRUSTED}
    assert refused["expired"] == refused["late"] == {objects.WRONG}


@pytest.mark.parametrize("mutations", MUTATIONS)
def test_nothing_comes_out_of_an_object_that_was_tampered_with_but_what_was_in_it(mutations):
    rng = random.Random(2)
    packed, right, refused = objects.pack(signed("a", OURS)), judged(objects.pack(signed("a", OURS))), 0
    for _ in range(mutations):
        data, at = bytearray(packed), rng.randrange(len(packed))
        what = rng.randrange(4)
        if what == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            del data[at:]
        elif what == 2:
            data += rng.randbytes(rng.randrange(1, 50))
        else:
            data[at : at + rng.randrange(1, 40)] = rng.randbytes(rng.randrange(40))
        verdict = judged(bytes(data))
        refused += isinstance(verdict, str)
        # The last bits of what is compressed mean nothing.
        assert isinstance(verdict, str) or verdict == right
    assert refused > 0.99 * mutations


def test_unsigned_entries_come_in_by_an_explicit_word_alone_and_count_no_longer_than_that(tmp_path):
    data = entry.encode(header("a"), SECTIONS)
    assert objects.admit(data, key("a"), Keyring()) == objects.UNSIGNED
    admitted = objects.admit(data, key("a"), Keyring(["unsigned"]))
    assert admitted.header.signed == ()
    store = open_store(tmp_path, trusted_keys=("unsigned",))
    assert store.publish(admitted.header, admitted.sections).ok
    assert len(find(store)[0]) == 1
    assert find(open_store(tmp_path)) == ([], ["revoked"])


def test_a_revoked_key_makes_what_it_alone_signed_unusable_in_the_local_store_too(tmp_path):
    every = Keyring([str(OURS.public), str(THEIRS.public)])
    both = open_store(tmp_path, trusted_keys=(str(OURS.public), str(THEIRS.public)))
    for name, keys in (("a", [OURS]), ("b", [OURS, THEIRS])):
        admitted = objects.admit(signed(name, *keys), key(name), every)
        assert both.publish(admitted.header, admitted.sections).ok
    assert len(find(both, "a")[0]) == len(find(both, "b")[0]) == 1
    without = open_store(tmp_path, trusted_keys=(str(THEIRS.public),))
    assert find(without, "a") == ([], ["revoked"])
    assert len(find(without, "b")[0]) == 1
    # Nothing was lost, for whoever trusts it; and who doesn't puts his own in its place.
    assert len(find(both, "a")[0]) == 1
    assert without.publish(header("a"), SECTIONS).reason == "published"
    assert find(without, "a")[0][0].header.signed is None
    assert len(find(both, "a")[0]) == 1


def test_a_key_of_the_same_name_is_another_key():
    again = signing_keys.generate("ours")
    assert objects.admit(signed("a", again), key("a"), RING) == objects.UNTRUSTED


def test_a_key_in_the_list_counts_until_its_date(monkeypatch):
    until = Keyring([f"{OURS.public}:2030-06-01"])
    data = signed("a", OURS)
    noon = 1906545600.0  # 2030-06-01, 12:00 UTC
    monkeypatch.setattr(process.time, "time", lambda: noon)
    assert isinstance(objects.admit(data, key("a"), until), objects.Admitted)
    monkeypatch.setattr(process.time, "time", lambda: noon + 86400)
    assert isinstance(objects.admit(data, key("a"), until), str)


def test_of_a_key_that_is_listed_twice_the_earlier_end_counts():
    data = signed("a", OURS)
    for words in ([str(OURS.public), f"{OURS.public}:2020-01-01"], [f"{OURS.public}:2{n}20-01-01" for n in (9, 0)]):
        for order in (words, words[::-1]):
            assert objects.admit(data, key("a"), Keyring(order)) == objects.WRONG


def test_keys_are_read_as_they_are_written():
    dated = signing_keys.generate("x", "2031-12-31").public
    assert read_key(str(dated)) == dated
    assert str(dated).endswith(":2031-12-31")
    for wrong in ("", "x", "x:", ":AAAA", "x:AAAA", f"x y:{dated.public}", f"{dated}1", f"unsigned:{dated.public}"):
        with pytest.raises(ValueError):
            read_key(wrong)


def test_a_signing_key_is_a_file_for_its_owner_alone(tmp_path):
    path = tmp_path / "key"
    signing_keys.save(OURS, str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert signing_keys.read(Secret(str(path))) == OURS
    with pytest.raises(FileExistsError):
        signing_keys.save(THEIRS, str(path))
    path.chmod(0o640)
    with pytest.raises(RemoteError, match="can be read by others"):
        signing_keys.read(Secret(str(path)))
    path.chmod(0o600)
    path.write_text(path.read_text().replace("key 1 ", "key 2 "))
    with pytest.raises(RemoteError, match="another version"):
        signing_keys.read(Secret(str(path)))
    path.write_text("nonsense\n")
    with pytest.raises(RemoteError, match="no signing key"):
        signing_keys.read(Secret(str(path)))
    assert repr(OURS) == "SecretKey(name='ours', seed=***, date='')"


def test_names_of_objects_tell_keys_and_slots_apart():
    names = {objects.name_of(key(text), slot) for text in "abc" for slot in range(8)}
    assert len(names) == 24
    assert all(len(name) == 64 for name in names)


def test_rows_of_signatures_that_are_none_are_damage():
    row = Signature("n", "p", 0, "v")
    for wrong in ([], None):
        made = header("a")._replace(signed=(row,))
        data = entry.encode(made, SECTIONS)
        assert entry.parse(data).header.signed == (row,)
        with pytest.raises((EntryError, TypeError)):
            entry.encode(made._replace(signed=(wrong,)), SECTIONS)
