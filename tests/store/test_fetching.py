"""Copying a publication to another store: whole, checked, and refused with a reason."""

import os
from pathlib import Path

import pytest
from storekit import SECTIONS, header, key, open_store

from nbcache.errors import NotPublishedError, PublicationError
from nbcache.store.fetching import fetch

MANIFEST = b'{"what":"njit"}'


@pytest.fixture
def source(tmp_path):
    store = open_store(tmp_path / "source")
    for guard in ("", "1"):
        assert store.publish(header("a", guard=guard), SECTIONS).ok
    digest = store.names.files.add(b"image" * 1000)
    store.names.write("fused", b"{}")
    store.names.write("fused", MANIFEST, [key("a")], [digest])
    return store


@pytest.fixture
def target(tmp_path):
    return open_store(tmp_path / "target")


def test_everything_arrives_as_it_was(source, target):
    done = fetch(source, target, "fused")
    there, here = target.names.read("fused"), source.names.read("fused")
    assert done.publication == there
    assert there.is_same(here)
    assert there.version == here.version
    assert there.version == 2
    assert [found.digest for found in target.find(key("a"))] == [found.digest for found in source.find(key("a"))]
    assert all(found.sections() for found in target.find(key("a")))
    assert target.names.files.read(here.files[0]) == b"image" * 1000
    assert done.size == len(MANIFEST) + 5000 + 2 * sum(map(len, SECTIONS.values()))


def test_what_was_fetched_is_not_fetched_again(source, target):
    fetch(source, target, "fused")
    stamps = target.names.stamp("fused"), target.stamp(key("a"))
    assert fetch(source, target, "fused").publication.version == 2
    assert (target.names.stamp("fused"), target.stamp(key("a"))) == stamps
    assert target.names.versions("fused") == [2]


def test_a_newer_version_takes_the_place_of_what_was_fetched(source, target):
    fetch(source, target, "fused")
    source.names.write("fused", b"3")
    fetch(source, target, "fused")
    assert target.names.read("fused").manifest == b"3"
    assert target.names.versions("fused") == [2, 3]


def test_another_build_in_the_other_store_makes_room(source, target):
    assert target.publish(header("a", build="c" * 16), SECTIONS).ok
    fetch(source, target, "fused")
    assert {found.digest for found in target.find(key("a"))} == {found.digest for found in source.find(key("a"))}


def test_a_name_that_is_not_there(source, target):
    with pytest.raises(NotPublishedError, match=r"did you mean fused\?"):
        fetch(source, target, "fuse")


def test_an_entry_that_is_gone_or_damaged(source, target):
    path = next(source.find(key("a"))).path
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0")
    with pytest.raises(PublicationError, match=r"fused: its entry .* is damaged or gone: publish it again"):
        fetch(source, target, "fused")
    Path(path).write_bytes(b"garbage")
    with pytest.raises(PublicationError, match=r"fused: its entry .* can't be used \(.*\): publish it again"):
        fetch(source, target, "fused")
    for found in Path(path).parent.iterdir():
        found.unlink()
    with pytest.raises(
        PublicationError, match=f"fused: its entry {key('a')} in {source.path} is gone: publish it again"
    ):
        fetch(source, target, "fused")
    assert target.names.known() == []


def test_a_file_that_is_truncated(source, target):
    path, data = source.names.files.opened(source.names.read("fused").files[0])
    Path(path).write_bytes(data[:4096])
    with pytest.raises(PublicationError, match=f"fused: its file {path} is damaged: publish it again"):
        fetch(source, target, "fused")
    assert target.names.known() == []


def test_a_store_that_may_only_be_read(source, target):
    reader = open_store(target.path, readonly=True)
    with pytest.raises(PublicationError, match=f"{target.path} is read-only for this process"):
        fetch(source, reader, "fused")


def test_what_was_fetched_stays(source, target):
    fetch(source, target, "fused")
    target.gc(1)
    assert target.exists(key("a"))
