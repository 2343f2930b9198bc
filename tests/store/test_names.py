"""Published names: grammar, versions, near names, trust, damage; pins against eviction, and files by digest."""

import errno
import os
import pickle
import re
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbtest import users
from storekit import SECTIONS, header, key, mode, open_store

from nbcache import process
from nbcache.errors import BadNameError, NotPublishedError, PublicationError
from nbcache.store import atomic, layout, name_listing, name_writing, pins, publication

STRANGER = 54321
MANIFEST = b'{"what":"njit"}'

# What a name is; `check_name` says it by hand.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*", re.ASCII)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "cache")


@pytest.fixture
def named(store):
    return store.names


def manifest_path(store, name="fused"):
    return Path(getattr(store, "path", None) or store.root, layout.NAMES, layout.name_file(name))


# Names


@pytest.mark.parametrize("name", ["f", "pricing.black_scholes", "q-0f", "_x", "Fuse.K2", "9", "a" * 100])
def test_what_can_be_a_name(named, name):
    named.write(name, MANIFEST)
    assert named.read(name).name == name
    assert named.known() == [name]


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "a..b", ".a", "a.", "a/b", "/etc/passwd", "../x", "a\\b", "-f", "a.-b", "a b", "a\n", "ä", "a~1", "a!b",
        "a\0b", "a" * 101, "a.json/..", None, 7, b"a",
    ],
)  # fmt: skip
def test_what_can_not_be_a_name_is_refused_in_one_line(store, named, name):
    for attempt in (named.read, named.remove, named.stamp, named.versions, lambda name: named.write(name, MANIFEST)):
        with pytest.raises(BadNameError) as raised:
            attempt(name)
        assert str(raised.value).startswith("not a name to publish under: ") and "\n" not in str(raised.value)
    assert not os.path.lexists(f"{store.path}/{layout.NAMES}")


def test_no_name_costs_more_for_there_being_others(named, monkeypatch):
    """A query service has a hundred thousand: nothing that is done for one of them lists them all."""
    names_there = Path(named.root, layout.NAMES)
    for number in range(2):
        named.write("fused", b'{"version":%d}' % number)
    for number in range(250):
        (names_there / layout.name_file(f"other{number}")).touch()
    listed = []
    original = name_listing.listed
    monkeypatch.setattr(name_listing, "listed", lambda root, most=None: listed.append(most) or original(root, most))
    for number in range(name_writing.KEPT + 2):
        named.write("fused", b'{"version":%d}' % number)
        named.write(f"first{number}", MANIFEST)
    assert named.read("fused").manifest == b'{"version":%d}' % (name_writing.KEPT + 1)
    assert named.versions("fused") == [4, 5, 6, 7]
    assert named.read("fused", 5).manifest == b'{"version":2}'
    assert named.stamp("missing") is None
    assert named.remove("fused") == 4
    assert listed == []
    with pytest.raises(NotPublishedError) as raised:
        named.read("first")
    assert raised.value.near == ()
    assert listed == [201]


def test_versions_of_a_name_that_an_older_nbcache_published(named):
    """Its files don't say which others there are."""
    for number in range(3):
        found = named.write("fused", b'{"version":%d}' % number)
    manifest_path(named).write_bytes(publication.encode(found._replace(older=None)))
    assert named.read("fused").older is None
    assert named.versions("fused") == [1, 2, 3]
    assert named.write("fused", MANIFEST).older == (1, 2, 3)
    assert named.remove("fused") == 4
    assert os.listdir(f"{named.root}/{layout.NAMES}") == []


def test_names_that_differ_in_capitals_are_two_names_where_files_do_not(store, named):
    named.write("Fuse", b'"large"')
    named.write("fuse", b'"small"')
    files = os.listdir(f"{store.path}/{layout.NAMES}")
    assert len({file.lower() for file in files}) == len(files) == 2
    assert (named.read("Fuse").manifest, named.read("fuse").manifest) == (b'"large"', b'"small"')
    assert named.known() == ["Fuse", "fuse"]


@given(
    st.from_regex(NAME, fullmatch=True).filter(lambda name: len(name) <= layout.MAX_NAME),
    st.none() | st.integers(1, 10**8),
)
def test_a_name_comes_back_from_its_file_name(name, version):
    file = layout.name_file(name, version)
    assert name_listing.read_file_name(file) == (name, version)
    assert file == file.lower() and "/" not in file and not file.startswith(".") and len(file) < 255


@given(st.text(max_size=30))
def test_other_files_are_no_names(text):
    found = name_listing.read_file_name(text)
    assert found is None or layout.name_file(*found) == text


@given(st.text("aB0_-.!/~é²", max_size=8) | st.text(max_size=8))
def test_what_is_no_name_is_refused(text):
    if NAME.fullmatch(text):
        assert layout.check_name(text) == text
    else:
        with pytest.raises(BadNameError):
            layout.check_name(text)


def test_a_name_that_is_not_there_says_which_are_near(named):
    for name in ("pricing.black_scholes", "pricing.heston", "Unrelated"):
        named.write(name, MANIFEST)
    with pytest.raises(NotPublishedError, match=r"did you mean pricing.black_scholes\?") as raised:
        named.read("pricing.black_shoals")
    assert raised.value.near == ("pricing.black_scholes",)
    with pytest.raises(NotPublishedError, match="did you mean Unrelated"):
        named.read("unrelated")
    with pytest.raises(NotPublishedError, match="`nbcache names` lists"):
        named.read("zzz")


def test_who_only_wants_to_know_that_a_name_is_not_there_does_not_pay_for_those_near(named, monkeypatch):
    """As a query service that publishes what nobody has published yet."""
    named.write("pricing", MANIFEST)
    looked = []
    monkeypatch.setattr(name_writing.Names, "near", lambda _self, name: looked.append(name) or ("pricing",))
    with pytest.raises(NotPublishedError) as raised:
        named.read("pricings")
    assert not looked
    sent = pickle.loads(pickle.dumps(raised.value))
    assert (str(sent), sent.near) == (str(raised.value), ("pricing",))
    assert looked == ["pricings"]


def test_nothing_is_published_in_an_empty_store(store, named):
    assert named.known() == []
    assert named.stamp("f") is None
    with pytest.raises(NotPublishedError, match=f"nothing is published as f in {store.path}"):
        named.read("f")
    with pytest.raises(NotPublishedError):
        named.remove("f")


# Versions


def test_the_newest_version_is_read_and_the_last_ones_are_kept(store, named):
    for number in range(1, 7):
        written = named.write("fused", b"%d" % number)
        assert written == named.read("fused") and written.version == number
    assert named.versions("fused") == [3, 4, 5, 6]
    assert [named.read("fused", version).manifest for version in (3, 4, 5, 6)] == [b"3", b"4", b"5", b"6"]
    with pytest.raises(PublicationError, match=r"fused: version 2 is not there \(there are: 3, 4, 5, 6\)"):
        named.read("fused", 2)
    assert named.known() == ["fused"]


def test_versions_of_one_name_are_not_those_of_another(named):
    for name in ("a", "a.b", "a", "A"):
        named.write(name, MANIFEST)
    assert (named.versions("a"), named.versions("a.b"), named.versions("A")) == ([1, 2], [1], [1])
    named.remove("a")
    assert named.known() == ["A", "a.b"]


def test_a_new_version_shows_in_one_stat(named):
    named.write("fused", MANIFEST)
    before = named.stamp("fused")
    assert before == named.stamp("fused")
    named.write("fused", MANIFEST)
    assert named.stamp("fused") != before


def test_taken_back_is_every_version(store, named):
    for _ in range(3):
        named.write("fused", MANIFEST)
    assert named.remove("fused") == 3
    assert os.listdir(f"{store.path}/{layout.NAMES}") == []
    with pytest.raises(NotPublishedError):
        named.read("fused", 2)
    assert named.write("fused", MANIFEST).version == 1


def test_it_is_remembered_for_so_long_that_a_name_was_taken_back(store, named, monkeypatch):
    for seconds, left in ((name_writing.REMEMBERED_SECONDS, ["fused"]), (-1.0, [])):
        monkeypatch.setattr(name_writing, "REMEMBERED_SECONDS", seconds)
        named.write("fused", MANIFEST)
        named.remove("fused", remember=True)
        assert named.known() == [] and named.withdrawn() == ["fused"]
        with pytest.raises(NotPublishedError):
            named.read("fused")
        with pins.held(store.lease, store.path, store.trust) as pinned:
            assert not pinned.entries and not pinned.files and pinned.problem is None
        assert named.withdrawn() == left
    # Of a name that isn't there, nothing is.
    with pytest.raises(NotPublishedError):
        named.remove("fused", remember=True)
    assert named.withdrawn() == []


def test_threads_that_publish_at_once_each_get_a_version(store):
    done = []

    def publish():
        done.append(open_store(store.path).names.write("fused", MANIFEST).version)

    threads = [threading.Thread(target=publish) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(1, 9))
    assert store.names.versions("fused") == [5, 6, 7, 8]


def test_what_is_written_is_json_with_the_usual_permissions(store, named):
    import json

    written = named.write("fused", MANIFEST, [], [])
    path = manifest_path(store)
    whole = json.loads(path.read_bytes())
    assert whole["manifest"] == {"what": "njit"} and whole["name"] == "fused" and whole["digest"] == written.digest
    assert mode(path) == 0o644 & ~_umask() and mode(path.parent) == 0o755 & ~_umask()


def _umask():
    now = os.umask(0)
    os.umask(now)
    return now


def made(name="fused", version=3, created=1.5, entries=(key("a"),), files=(key("b"),), manifest=MANIFEST):
    return publication.Publication(name, version, created, entries, files, manifest, "")


def test_a_manifest_of_several_lines_or_a_reference_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a publication"):
        publication.encode(made(manifest=b"{\n}"))
    with pytest.raises(ValueError, match="not a publication"):
        publication.encode(made(entries=("../../x",)))
    several = publication.encode(made()).replace(b'{"what"', b'{\n"what"').partition(b"\n")[2]
    first = publication.encode(made()).partition(b"\n")[0]
    right = first[: len(publication._FIRST)] + publication._digest(several).encode() + publication._FIRST_END
    assert publication.decode(right + several) == publication.DAMAGED


def test_what_refers_to_more_than_can_be_read_again_is_not_published(store, named, monkeypatch):
    monkeypatch.setattr(publication, "MAX_ABOUT", 100)
    with pytest.raises(PublicationError, match="is too large to be published"):
        named.write("a" * 99, MANIFEST)


@given(st.integers(1, 10**6), st.floats(0, 1e10), st.binary(max_size=100).filter(lambda data: b"\n" not in data))
def test_a_publication_comes_back_as_it_was(version, created, manifest):
    keys, digests = [key("b"), key("a")], [key("c")]
    data = publication.encode(made("a.b", version, created, (*keys,), (*digests,), manifest))
    found = publication.decode(data)
    assert found[:6] == ("a.b", version, created, tuple(sorted(keys)), tuple(digests), manifest)


@given(st.data())
def test_any_flip_or_truncation_is_noticed(data):
    whole = publication.encode(made())
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    for other in (bytes(flipped), whole[:place], whole + b"x"):
        assert publication.decode(other) in {publication.DAMAGED, publication.OTHER_VERSION}


@given(st.binary(max_size=200))
def test_bytes_at_random_are_damaged(data):
    assert publication.decode(data) in {publication.DAMAGED, publication.OTHER_VERSION}


# What is there and can't be used


def test_a_damaged_manifest_says_so_and_can_be_published_again(store, named):
    named.write("fused", MANIFEST)
    path = manifest_path(store)
    for damage in (b"", b"\0" * 300, path.read_bytes()[:-5], path.read_bytes().replace(b"njit", b"tijn")):
        path.write_bytes(damage)
        with pytest.raises(PublicationError, match=r"fused: .*fused.json is damaged: publish it again") as raised:
            named.read("fused")
        assert "\n" not in str(raised.value)
    assert named.write("fused", MANIFEST).version == 1
    assert named.read("fused").manifest == MANIFEST


def test_a_manifest_of_another_version_says_so(store, named):
    named.write("fused", MANIFEST)
    path = manifest_path(store)
    path.write_bytes(path.read_bytes().replace(b'{"nbcache-name":1,', b'{"nbcache-name":2,'))
    with pytest.raises(PublicationError, match="is of another version of nbcache: publish it again with this one, or"):
        named.read("fused")


def test_a_manifest_under_another_name_says_so(store, named):
    named.write("fused", MANIFEST)
    manifest_path(store).rename(manifest_path(store, "other"))
    with pytest.raises(PublicationError, match=r"other\.json was published as fused"):
        named.read("other")


def test_a_manifest_that_others_may_write_is_refused(store, named):
    named.write("fused", MANIFEST)
    manifest_path(store).chmod(0o646)
    with pytest.raises(PublicationError, match=r"is writable by others \(mode 0646\)"):
        named.read("fused")


def test_a_directory_that_others_may_write_is_refused(store, named):
    named.write("fused", MANIFEST)
    manifest_path(store).parent.chmod(0o777)
    fresh = open_store(store.path).names
    for attempt in (lambda: fresh.read("fused"), lambda: fresh.write("fused", MANIFEST), lambda: fresh.remove("fused")):
        with pytest.raises(PublicationError, match=r"v1/names, which is writable by others"):
            attempt()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_stranger_s_manifest_is_refused(store, named):
    named.write("fused", MANIFEST)
    os.chown(manifest_path(store), STRANGER, -1)
    with pytest.raises(PublicationError, match=f"is owned by uid {STRANGER}, who isn't trusted"):
        named.read("fused")


def test_what_is_no_regular_file_is_refused_without_waiting(store, named):
    named.write("fused", MANIFEST)
    path = manifest_path(store)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with pytest.raises(PublicationError, match="is a symbolic link"):
        named.read("fused")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(PublicationError, match="is not a regular file"):
        named.read("fused")


def test_a_link_in_place_of_the_directory_is_not_followed(store, named, tmp_path):
    named.write("fused", MANIFEST)
    directory = manifest_path(store).parent
    directory.rename(tmp_path / "elsewhere")
    directory.symlink_to(tmp_path / "elsewhere")
    fresh = open_store(store.path).names
    with pytest.raises(PublicationError, match="v1/names, which is not a directory"):
        fresh.read("fused")
    assert fresh.known() == []


def test_who_may_only_read_publishes_nothing(store, named):
    named.write("fused", MANIFEST)
    reader = open_store(store.path, readonly=True).names
    assert reader.read("fused").manifest == MANIFEST
    for attempt in (lambda: reader.write("fused", MANIFEST), lambda: reader.remove("fused")):
        with pytest.raises(PublicationError, match="is read-only for this process"):
            attempt()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_who_has_no_permission_is_told(place):
    store = open_store(place / "cache")
    store.names.write("fused", MANIFEST)
    manifest_path(store).chmod(0o600)

    def read():
        try:
            store.names.read("fused")
        except PublicationError as error:
            return str(error)

    store.trust.uids |= {0, STRANGER}
    assert "can't be read: Permission denied" in users.become(read, STRANGER, STRANGER)


# Pins


def test_what_is_not_there_can_not_be_published(store, named):
    with pytest.raises(pins.MissingError, match=f"its entry {key('a')} is not in") as raised:
        named.write("fused", MANIFEST, [key("a")])
    assert raised.value.keys == (key("a"),)
    with pytest.raises(pins.MissingError, match=f"its file {key('b')} is not in") as raised:
        named.write("fused", MANIFEST, [], [key("b")])
    assert raised.value.digests == (key("b"),)
    assert named.known() == []


def test_every_version_pins_what_it_refers_to(store, named):
    for name in "abcdef":
        store.publish(header(name), SECTIONS)
    digest = named.files.add(b"image")
    for name in "abcdef":
        named.write("fused", MANIFEST, [key(name)], [digest])
    pinned = pins.read(store.path, store.trust)
    assert pinned[:3] == ({key(name) for name in "cdef"}, {digest}, None)
    named.remove("fused")
    assert pins.read(store.path, store.trust) == pins.Pins()


# Files by digest


def test_a_file_is_read_as_it_was_added(store, named):
    digest = named.files.add(b"image")
    assert named.files.read(digest) == b"image"
    path, data = named.files.opened(digest)
    assert Path(path).read_bytes() == data == b"image"
    assert named.files.add(b"image") == digest


def test_a_file_is_flushed_with_its_directory_when_that_is_asked_for(named, monkeypatch):
    flushed, fsync = [], atomic.SYS.fsync

    def noted(fd):
        flushed.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(atomic.SYS, "fsync", noted, raising=False)
    digests = [named.files.add(data, durable=False) for data in (b"image", b"array")]
    assert flushed == []
    named.files.flush(digests)
    paths = [named.files.opened(digest)[0] for digest in digests]
    assert sorted(flushed) == sorted({*paths, *map(os.path.dirname, paths)})
    with pytest.raises(FileNotFoundError):
        named.files.flush([key("gone")])


def test_a_file_that_is_gone_damaged_or_truncated_says_so(store, named):
    digest = named.files.add(b"image" * 1000)
    path = Path(named.files.opened(digest)[0])
    for damage in (b"image" * 999, b"Image" + b"image" * 999, b""):
        path.write_bytes(damage)
        with pytest.raises(PublicationError, match=f"fused: its file {path} is damaged: publish it again"):
            named.files.read(digest, "fused")
    assert named.files.add(b"image" * 1000) == digest
    assert named.files.read(digest) == b"image" * 1000
    path.unlink()
    with pytest.raises(PublicationError, match=f"fused: its file {path} is gone: publish it again"):
        named.files.read(digest, "fused")


def test_a_file_that_others_may_write_is_refused(store, named):
    digest = named.files.add(b"image")
    path = Path(named.files.opened(digest)[0])
    path.chmod(path.stat().st_mode | stat.S_IWOTH)
    with pytest.raises(PublicationError, match="is writable by others"):
        named.files.read(digest)
    path.chmod(0o644)
    path.parent.chmod(0o777)
    with pytest.raises(PublicationError, match=f"lies in {path.parent}, which is writable by others"):
        open_store(store.path).names.files.read(digest)


def test_files_that_nobody_refers_to_are_collected_when_they_are_old(store, named):
    kept, lost, young = named.files.add(b"kept"), named.files.add(b"lost"), named.files.add(b"young")
    named.write("fused", MANIFEST, [], [kept])
    for digest in (kept, lost):
        os.utime(named.files.opened(digest)[0], (1, 1))
    assert pins.collect(store.path, pins.read(store.path, store.trust)) == (1, 4)
    assert (named.files.read(kept), named.files.read(young)) == (b"kept", b"young")
    with pytest.raises(PublicationError, match="is gone"):
        named.files.read(lost)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_file_that_another_trusted_user_added_is_not_added_again(place):
    store = open_store(place / "cache")
    store.names.files.add(b"image")
    store.trust.uids |= {0, STRANGER}
    assert users.become(lambda: store.names.files.add(b"image"), STRANGER, STRANGER) == store.names.files.add(b"image")


def test_adding_a_file_again_makes_it_young(store, named):
    digest = named.files.add(b"image")
    os.utime(named.files.opened(digest)[0], (1, 1))
    named.files.add(b"image")
    assert pins.collect(store.path, pins.read(store.path, store.trust)) == (0, 0)


def test_what_can_not_be_read_for_the_moment_is_not_replaced(store, named, monkeypatch):
    """Its number would be given to something else, and who follows the name would see nothing new."""
    named.write("fused", b"one", [], [])
    real, path = os.open, str(manifest_path(store))

    def opened(name, *args, **more):
        if name == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(name, *args, **more)

    with monkeypatch.context() as broken:
        broken.setattr(process.os, "open", opened)
        with pytest.raises(PublicationError, match="can't be read: Input/output error"):
            named.write("fused", b"two", [], [])
    assert named.write("fused", b"three", [], []).version == 2
