"""Objects: compressed, of one version, bounded, and with a head that says what is behind it."""

import json
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storekit import SECTIONS, header, key

from nbcache import signing_keys
from nbcache.keyring import Keyring
from nbcache.remote import objects
from nbcache.store import entry

OURS = signing_keys.generate("ours")
RING = Keyring([str(OURS.public)])


def encoded(name="a", sections=SECTIONS, **fields):
    made = header(name, **fields)
    return entry.encode(made._replace(signed=(objects.sign(OURS, made, sections),)), sections)


def with_head(data, **changed):
    """An object whose head says something else."""
    length = int.from_bytes(data[12:16], "little")
    text = json.dumps({**json.loads(data[16 : 16 + length]), **changed}).encode()
    return data[:12] + len(text).to_bytes(4, "little") + text + data[16 + length :]


def test_what_is_packed_is_smaller_and_comes_out_as_it_was():
    data = encoded()
    packed = objects.pack(data)
    assert len(packed) < len(data) / 2
    assert objects.unpack(packed) == data
    assert objects.read_head(packed).codec == "zlib"


def test_what_compressing_makes_no_smaller_lies_there_as_it_is():
    data = encoded(sections={"object": random.Random(1).randbytes(1 << 16)})
    packed = objects.pack(data)
    assert objects.read_head(packed).codec == "none"
    assert packed.endswith(data) and objects.unpack(packed) == data


def test_the_beginning_says_which_variant_it_is_and_who_signed_it():
    data = encoded(guard="other")
    head = objects.read_head(objects.pack(data)[: objects.HEAD_BYTES])
    assert (head.guard, head.size, head.digest) == ("other", len(data), entry.parse(data).digest)
    assert [each.public for each in head.signed] == [OURS.public.public]
    # No object is shorter than what is asked for.
    assert len(objects.pack(encoded(sections={}, extra={}))) > objects.HEAD_BYTES


def test_a_head_that_does_not_fit_into_the_beginning_is_none_yet():
    made = header()
    keys = [signing_keys.generate(f"a-key-with-a-long-name-{n}") for n in range(8)]
    signed = tuple(objects.sign(each, made, SECTIONS) for each in keys)
    packed = objects.pack(entry.encode(made._replace(signed=signed), SECTIONS))
    assert objects.read_head(packed[: objects.HEAD_BYTES]) is None
    assert len(objects.read_head(packed).signed) == 8


@pytest.mark.parametrize(
    "data",
    [
        encoded(),
        objects.pack(encoded())[:8] + b"\x01\0\0\0" + objects.pack(encoded())[12:],
        objects.pack(encoded())[:8] + b"\x03\0\0\0" + objects.pack(encoded())[12:],
    ],
    ids=["an entry as it is", "1", "3"],
)
def test_what_another_version_wrote_is_known_as_that(data):
    assert objects.unpack(data) == objects.read_head(data) == objects.OTHER_VERSION


@pytest.mark.parametrize(
    "changed",
    [
        {"guard": "other"},
        {"digest": "0" * 32},
        {"signed": []},
        {"signed": [["ours", OURS.public.public, 1]]},
        {"size": 17},
        {"size": objects.MAX_OBJECT + 1},
        {"size": -1},
        {"size": True},
        {"codec": "none"},
        {"codec": "lzma"},
        {"codec": []},
        {"signed": [[]]},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_a_head_that_says_otherwise_is_damage(changed):
    assert objects.unpack(with_head(objects.pack(encoded()), **changed)) == objects.DAMAGED


def test_a_head_longer_than_any_is_not_read(monkeypatch):
    read = []
    monkeypatch.setattr(objects, "_HEAD", read.append)
    head = b"[" + b"0," * objects._MAX_HEAD + b"0]"
    assert (
        objects.unpack(objects._FIXED.pack(objects.MAGIC, objects.OBJECT_VERSION, len(head)) + head) == objects.DAMAGED
    )
    assert not read


def test_what_would_be_huge_is_inflated_no_farther_than_it_says():
    data = objects.pack(encoded())
    length = int.from_bytes(data[12:16], "little")
    bomb = data[: 16 + length] + zlib.compress(bytes(1 << 28), 9)
    assert objects.unpack(bomb) == objects.DAMAGED


@given(st.binary(max_size=200), st.integers(0, 40))
def test_any_bytes_are_a_reason_and_no_exception(content, kept):
    data = objects.pack(encoded())[:kept] + content
    assert isinstance(objects.unpack(data), str)
    objects.read_head(data)


def test_names_cover_both_versions(monkeypatch):
    names = {objects.name_of(key("a"), 0)}
    with monkeypatch.context() as patch:
        patch.setattr(objects, "OBJECT_VERSION", 3)
        names.add(objects.name_of(key("a"), 0))
    monkeypatch.setattr(entry, "FORMAT_VERSION", 9)
    names.add(objects.name_of(key("a"), 0))
    assert len(names) == 3
