"""The entry format: round trip, laziness, and that damage is a miss."""

import json
import os
import random
import struct
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storekit import SECTIONS, header

from nbcache import process
from nbcache.errors import EntryError
from nbcache.store import entry

MUTATIONS = 400
LONG_MUTATIONS = 10_000

texts = st.text(max_size=30)
headers = st.builds(
    header,
    st.integers(),
    guard=texts,
    kind=texts,
    function=texts,
    signature=texts,
    toolchain=texts,
    build=texts,
    compile_seconds=st.floats(0, 1e6),
    created=st.floats(0, 1e10),
    extra=st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts, max_size=3), max_size=4),
)
names = st.sampled_from([*entry.SECTION_ORDER, "other", "more"])
section_maps = st.dictionaries(names, st.binary(max_size=300), max_size=6)


def forge(table, body=b"", text=None):
    """An entry with a right header digest around anything."""
    fields = json.loads(entry.encode(header(), {})[32:])
    fields["sections"] = table
    text = json.dumps(fields).encode() if text is None else text
    fixed = struct.pack("<8sII", entry.MAGIC, entry.FORMAT_VERSION, len(text))
    return fixed + blake2b(fixed + text, digest_size=16).digest() + text + body


def mutate(data, rng):
    """One random flip, cut, extension, overwritten run, or removed run."""
    kind = rng.randrange(6)
    at = rng.randrange(len(data))
    if kind == 0:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data + rng.randbytes(rng.randrange(1, 100))
    if kind == 3:
        run = rng.randbytes(rng.randrange(1, 40))
        return data[:at] + run + data[at + len(run) :]
    if kind == 4:
        return data[:at] + data[at + rng.randrange(1, 40) :]
    return data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:]


def accepted(source, original):
    """Whether bytes that differ from an entry are taken for one, down to every section."""
    parsed = entry.parse(source)
    if parsed is None:
        return False
    return all(parsed.section(name) is not None for name in parsed.section_sizes)


@given(headers, section_maps)
def test_round_trip(head, sections):
    parsed = entry.parse(entry.encode(head, sections))
    assert parsed.header == head
    assert list(parsed.section_sizes) == entry.ordered(sections)
    assert {name: parsed.section(name) for name in sections} == sections
    assert parsed.section("absent") is None


@given(headers, section_maps, st.data())
def test_any_flip_is_noticed_where_it_is(head, sections, data):
    good = entry.encode(head, sections)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    parsed = entry.parse(bad)
    if parsed is not None:
        wrong = [name for name in sections if parsed.section(name) is None]
        assert len(wrong) == 1
        assert {name: parsed.section(name) for name in sections if name not in wrong} == {
            name: value for name, value in sections.items() if name not in wrong
        }


@given(headers, section_maps, st.binary(min_size=1, max_size=50), st.integers(0, 10**6))
def test_any_other_length_is_a_miss(head, sections, junk, cut):
    good = entry.encode(head, sections)
    assert entry.examine(good + junk) == entry.DAMAGED
    assert entry.examine(good[: cut % len(good)]) == entry.DAMAGED


@given(st.binary(max_size=200))
def test_anything_else_is_a_miss(data):
    assert entry.parse(data) is None
    assert entry.parse(entry.MAGIC + data) is None


def check_mutations(count, seed, tmp_path):
    rng = random.Random(seed)
    good = entry.encode(header(), SECTIONS)
    path = tmp_path / "entry"
    for _ in range(count):
        bad = mutate(good, rng)
        if bad == good:
            continue
        path.write_bytes(bad)
        with open(path, "rb") as file:
            assert not accepted(file.fileno(), good)
        assert not accepted(bad, good)


def test_mutated_files_are_misses(tmp_path):
    check_mutations(MUTATIONS, 1, tmp_path)


@pytest.mark.long
def test_ten_thousand_mutated_files_are_misses(tmp_path):
    check_mutations(LONG_MUTATIONS, 2, tmp_path)


def test_every_single_byte_is_covered():
    good = entry.encode(header(), {"meta": b"12", "object": b"345", "bitcode": b"6"})
    for at in range(len(good)):
        for flip in (1, 0x80, 0xFF):
            assert not accepted(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :], good), at


def test_other_version():
    data = bytearray(entry.encode(header(), SECTIONS))
    data[8:12] = struct.pack("<I", entry.FORMAT_VERSION + 1)
    assert entry.examine(bytes(data)) == entry.OTHER_VERSION


@pytest.mark.parametrize(
    "table",
    [
        None,
        {},
        [1],
        [["meta"]],
        [["meta", -1, "00"]],
        [["meta", 2.0, "00"]],
        [["meta", True, "00"]],
        [["meta", 10**30, "00"]],
        [["meta", 0, None]],
        [[None, 0, "00"]],
        [["meta", 0, "00"], ["meta", 0, "00"]],
    ],
)
def test_wrong_section_tables_behind_a_right_digest(table):
    assert entry.examine(forge(table)) == entry.DAMAGED


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"1", b"{", b"\xff", b'{"sections":[]}', b"[" * 200_000, b"1" * 10_000, b"NaN"]
)
def test_wrong_headers_behind_a_right_digest(text):
    assert entry.examine(forge([], text=text)) == entry.DAMAGED


@pytest.mark.parametrize("name", ["key", "kind", "guard", "compile_seconds", "created", "extra"])
@pytest.mark.parametrize("value", [None, [], b"\x01".decode(), True])
def test_wrong_types_behind_a_right_digest(name, value):
    fields = json.loads(entry.encode(header(), {})[32:])
    if isinstance(fields[name], type(value)):
        pytest.skip("that is its type")
    fields[name] = value
    assert entry.examine(forge([], text=json.dumps(fields).encode())) == entry.DAMAGED


def test_unknown_fields_are_ignored():
    fields = json.loads(entry.encode(header(), {})[32:])
    fields["new"] = [1]
    assert entry.parse(forge([], text=json.dumps(fields).encode())).header == header()


def test_a_huge_header_length_reads_nothing(tmp_path):
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.write(struct.pack("<8sII", entry.MAGIC, entry.FORMAT_VERSION, 2**32 - 1))
        file.truncate(1 << 40)
    with open(path, "rb") as file:
        assert entry.examine(file.fileno()) == entry.DAMAGED


def test_a_section_table_larger_than_the_file_reads_nothing(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(forge([["object", 1 << 29, "00" * 16]]))
    with open(path, "rb") as file:
        assert entry.examine(file.fileno()) == entry.DAMAGED


@pytest.mark.parametrize("size", [100, 60_000, 70_000, 300_000])
def test_one_read_brings_what_every_hit_needs(tmp_path, monkeypatch, size):
    sections = {"meta": b"m" * 100, "object": b"o" * size, "components": b"c" * 50_000, "bitcode": b"b" * 500_000}
    path = tmp_path / "entry"
    path.write_bytes(entry.encode(header(), sections))
    reads = []
    pread = os.pread
    monkeypatch.setattr(process.os, "pread", lambda fd, count, offset: reads.append(count) or pread(fd, count, offset))
    with open(path, "rb") as file:
        parsed = entry.parse(file.fileno())
        assert parsed.section("meta") == sections["meta"]
        assert parsed.section("object") == sections["object"]
        assert reads[0] == entry.FIRST_READ
        assert len(reads) == (1 if size < 64_000 else 2)
        assert sum(reads) <= max(entry.FIRST_READ, size + 2000)
        assert parsed.section("bitcode") == sections["bitcode"]


def test_a_file_that_shrinks_meanwhile_is_a_miss(tmp_path):
    path = tmp_path / "entry"
    path.write_bytes(entry.encode(header(), {**SECTIONS, "bitcode": b"b" * 100_000}))
    with open(path, "rb") as file:
        parsed = entry.parse(file.fileno())
        os.truncate(path, 70_000)
        assert parsed.section("bitcode") is None
        assert parsed.section("meta") == SECTIONS["meta"]


def test_what_is_not_a_file_is_unreadable(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert entry.examine(fd) == entry.UNREADABLE
    finally:
        os.close(fd)
    assert entry.examine(fd) == entry.UNREADABLE
    assert entry.examine(-1) == entry.UNREADABLE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extra": {"x": object()}}, "JSON"),
        ({"extra": {"x": "y" * (1 << 20)}}, "too large"),
        ({"compile_seconds": float("nan")}, "JSON"),
        ({"guard": None}, "wrong type"),
        ({"created": "now"}, "wrong type"),
    ],
)
def test_what_cannot_be_an_entry_is_refused(changes, message):
    with pytest.raises(EntryError, match=message):
        entry.encode(header(**changes), {})


def test_an_entry_has_a_largest_size(monkeypatch):
    monkeypatch.setattr(entry, "MAX_ENTRY", 1000)
    with pytest.raises(EntryError, match="too large"):
        entry.encode(header(), {"object": b"x" * 1000})
